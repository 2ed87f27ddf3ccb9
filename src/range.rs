//! `Range` × length → spans (RFC 9110 §14). Pure.
//!
//! In come the text of a Range field and the length of what it is asked of; out comes what of it to
//! send: all of it, nothing, or spans that do not touch one another.

use std::ops::Range;

use crate::request::trim_ows;

/// Ranges that are asked for at once, at the most; beyond it the whole is sent, which RFC 9110
/// §14.2 allows for what looks like an attack (§17.15). Arbitrary; PDF readers ask for a handful.
pub const RANGES_MAX: usize = 16;

/// Bytes of a representation; `end` is exclusive.
pub type Span = Range<u64>;

/// What a Range field comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The field is of no account: the whole.
    Whole,
    /// These parts, from one to [`RANGES_MAX`], in the order in which they were asked for; none touches
    /// another.
    Spans(Vec<Span>),
    /// None of what was asked for is there (RFC 9110 §15.5.17).
    Nothing,
}

/// Puts `span` in. Where it overlaps or adjoins others (RFC 9110 §15.3.7.2) they become one, in the
/// place of the first.
fn merge(spans: &mut Vec<Span>, span: Span) {
    let mut merged = span;
    let mut place = spans.len();
    while let Some(at) = spans.iter().position(|s| s.start <= merged.end && merged.start <= s.end) {
        let other = spans.remove(at);
        merged = merged.start.min(other.start)..merged.end.max(other.end);
        place = place.min(at);
    }
    spans.insert(place, merged);
}

/// One range-spec (RFC 9110 §14.1.1).
#[derive(Clone, Copy)]
enum Spec {
    /// `first-last` or `first-`; `last` is inclusive.
    From { first: u64, last: u64 },
    /// `-n`: the last n bytes.
    Suffix(u64),
}

/// What the field value `text` asks of `len` bytes.
///
/// A field with another unit than bytes, or that breaks the grammar of RFC 9110 §14.1.1 anywhere, is
/// of no account (§14.2).
pub fn wanted(text: &[u8], len: u64) -> Wanted {
    let Some(set) = after_unit(text) else { return Wanted::Whole };
    let mut spans = Vec::new();
    let mut specs = 0;
    let mut total: u64 = 0;
    for element in set.split(|&byte| byte == b',') {
        let element = trim_ows(element);
        // RFC 9110 §5.6.1.2: empty list elements are ignored.
        if element.is_empty() {
            continue;
        }
        let Some(spec) = parse_spec(element) else { return Wanted::Whole };
        specs += 1;
        if specs > RANGES_MAX {
            return Wanted::Whole;
        }
        let span = match spec {
            Spec::From { first, last } => first..last.saturating_add(1).min(len),
            // §14.1.3 calls this satisfiable, but no Content-Range can say it: the whole, which is empty.
            Spec::Suffix(1..) if len == 0 => return Wanted::Whole,
            Spec::Suffix(n) => len.saturating_sub(n)..len,
        };
        if span.start < span.end {
            total += span.end - span.start;
            merge(&mut spans, span);
        }
        // Overlaps that add up to more than all there is are not worth their parts.
        if total > len {
            return Wanted::Whole;
        }
    }
    match (specs, spans.len()) {
        (0, _) => Wanted::Whole,
        (_, 0) => Wanted::Nothing,
        _ => Wanted::Spans(spans),
    }
}

/// `ranges-specifier = range-unit "=" range-set`; the unit's case does not matter (§14.1).
fn after_unit(text: &[u8]) -> Option<&[u8]> {
    let (unit, set) = text.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

fn parse_spec(text: &[u8]) -> Option<Spec> {
    let dash = text.iter().position(|&byte| byte == b'-')?;
    match (&text[..dash], &text[dash + 1..]) {
        (b"", n) => Some(Spec::Suffix(number(n)?)),
        (first, b"") => Some(Spec::From { first: number(first)?, last: u64::MAX }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::From { first, last })
        }
    }
}

/// `1*DIGIT`; a number that is too large for us is as large as any.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(text: &str, len: u64) -> Option<Vec<Span>> {
        match wanted(text.as_bytes(), len) {
            Wanted::Spans(spans) => Some(spans),
            Wanted::Nothing => Some(Vec::new()),
            Wanted::Whole => None,
        }
    }

    #[track_caller]
    fn check(text: &str, len: u64, expected: &[Span]) {
        assert_eq!(spans(text, len).as_deref(), Some(expected), "{text:?} of {len}");
    }

    #[track_caller]
    fn check_whole(text: &str, len: u64) {
        assert_eq!(wanted(text.as_bytes(), len), Wanted::Whole, "{text:?} of {len}");
    }

    /// The examples of RFC 9110 §14.1.2, of a representation of 10,000 bytes.
    #[test]
    fn the_examples_of_the_rfc() {
        check("bytes=0-499", 10_000, &[0..500]);
        check("bytes=500-999", 10_000, &[500..1000]);
        check("bytes=-500", 10_000, &[9500..10_000]);
        check("bytes=9500-", 10_000, &[9500..10_000]);
        check("bytes=0-0,-1", 10_000, &[0..1, 9999..10_000]);
        check("bytes= 0-999, 4500-5499, -1000", 10_000, &[0..1000, 4500..5500, 9000..10_000]);
        check("bytes=500-600,601-999", 10_000, &[500..1000]);
        check("bytes=500-700,601-999", 10_000, &[500..1000]);
    }

    /// Every single range over lengths up to 8, against the set of bytes that §14.1.2 describes.
    #[test]
    fn every_small_range_against_a_set_of_bytes() {
        let expect = |bytes: Vec<u64>, text: &str, len| match (bytes.first(), bytes.last()) {
            (Some(&first), Some(&last)) => {
                assert_eq!(bytes.len() as u64, last - first + 1);
                check(text, len, &[first..last + 1]);
            }
            _ => check(text, len, &[]),
        };
        for len in 0..=8u64 {
            for first in 0..=9u64 {
                expect((0..len).filter(|&at| at >= first).collect(), &format!("bytes={first}-"), len);
                for last in first..=9 {
                    let bytes = (0..len).filter(|&at| first <= at && at <= last).collect();
                    expect(bytes, &format!("bytes={first}-{last}"), len);
                }
                for last in 0..first {
                    check_whole(&format!("bytes={first}-{last}"), len);
                }
            }
            for suffix in 0..=9u64 {
                let text = format!("bytes=-{suffix}");
                match len {
                    0 if suffix > 0 => check_whole(&text, 0),
                    _ => expect((0..len).filter(|&at| at + suffix >= len).collect(), &text, len),
                }
            }
        }
    }

    /// All sets of three small ranges: the bytes are those asked for, and no two parts touch.
    #[test]
    fn sets_of_ranges_cover_what_was_asked_for_and_touch_nowhere() {
        const LEN: u64 = 7;
        let singles: Vec<(String, Vec<u64>)> = (0..LEN + 1)
            .flat_map(|first| (first..LEN + 1).map(move |last| (first, last)))
            .map(|(first, last)| (format!("{first}-{last}"), (first..=last).filter(|&at| at < LEN).collect()))
            .chain((0..3).map(|n| (format!("-{n}"), (LEN - n..LEN).collect())))
            .collect();
        for (a, a_bytes) in &singles {
            for (b, b_bytes) in &singles {
                for (c, c_bytes) in &singles {
                    let text = format!("bytes={a},{b} , {c}");
                    let total = a_bytes.len() + b_bytes.len() + c_bytes.len();
                    let Some(found) = spans(&text, LEN) else {
                        assert!(total > LEN as usize, "{text}");
                        continue;
                    };
                    assert!(total <= LEN as usize, "{text}");
                    let mut asked: Vec<u64> =
                        [a_bytes, b_bytes, c_bytes].into_iter().flatten().copied().collect();
                    asked.sort_unstable();
                    asked.dedup();
                    let mut got: Vec<u64> = found.iter().cloned().flatten().collect();
                    got.sort_unstable();
                    assert_eq!(got, asked, "{text}");
                    let mut sorted = found.clone();
                    sorted.sort_unstable_by_key(|span| span.start);
                    assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].start), "{text}: {found:?}");
                    // §15.3.7.2: in the order in which they were asked for.
                    let first_asked = [a_bytes, b_bytes, c_bytes].into_iter().flatten().next();
                    assert!(first_asked.is_none_or(|at| found[0].contains(at)), "{text}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_beyond_64_bits_do_not_wrap() {
        check("bytes=0-18446744073709551615", 10, &[0..10]);
        check("bytes=0-99999999999999999999999999", 10, &[0..10]);
        check("bytes=-99999999999999999999999999", 10, &[0..10]);
        check("bytes=18446744073709551616-", 10, &[]);
        check("bytes=18446744073709551622-18446744073709551624", 10, &[]);
        check("bytes=4294967296-4294967297", 1 << 33, &[1 << 32..(1 << 32) + 2]);
    }

    #[test]
    fn what_breaks_the_grammar_is_of_no_account() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes= ",
            "bytes=,",
            "bytes=abc",
            "bytes=1",
            "bytes=-",
            "bytes=--5",
            "bytes=1-2-3",
            "bytes 0-4",
            "0-4",
            "bytes=+1-2",
            "bytes=0x0-0x4",
            "bytes=1-a",
            "bytes=1 - 2",
            "bytes=0-1;2-3",
            "bytes=0-1,x",
            "bytes=x,0-1",
            "items=0-4",
            "byte=0-4",
            "bytes =0-4",
            "bytes=5-4",
            "bytes=0-1,5-4",
            "\u{ff}ytes=0-1",
        ] {
            check_whole(text, 10);
        }
        check("BYTES=0-4", 10, &[0..5]);
        check("bytes=,, 0-4 ,\t,6-6,", 10, &[0..5, 6..7]);
    }

    #[test]
    fn the_number_of_ranges_and_their_total_are_bounded() {
        let list = |n: usize| (0..n).map(|at| format!("{}-{}", 2 * at, 2 * at)).collect::<Vec<_>>().join(",");
        assert_eq!(spans(&format!("bytes={}", list(RANGES_MAX)), 100).unwrap().len(), RANGES_MAX);
        check_whole(&format!("bytes={}", list(RANGES_MAX + 1)), 100);
        check_whole("bytes=0-,0-", 10);
        check("bytes=0-4,0-4", 10, &[0..5]);
        check("bytes=20-,0-1,30-", 10, &[0..2]);
    }
}
