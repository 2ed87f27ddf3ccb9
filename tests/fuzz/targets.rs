//! What must hold whatever the bytes: one function per target, which panics where it does not.
//!
//! A fuzzer calls them (`libfuzzer/`), and so does `cargo test` (`main.rs`). Where the rule is small
//! enough to be said a second time in another way, the code is held against that; where it is not,
//! against itself: cut shorter, followed by something else, or arriving in other pieces.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tared::clock::{Clock, imf_fixdate, parse_http_date};
use tared::conn::{Conn, Next, Shared, Socket};
use tared::framing::{BODY_MAX, Framing, Skip, Skipped};
use tared::head::{Body, INLINE_MAX, Response, Status};
use tared::outbox::Sink;
use tared::plan::{self, ETag, Plan, Validators};
use tared::policy::Policy;
use tared::range::{RANGES_MAX, Wanted, wanted};
use tared::refusal::Refusal;
use tared::request::{
    self, Expectation, Fields, HEAD_MAX, Method, Parsed, Recent, Request, TARGET_MAX, parse,
};
use tared::site::Site;
use tared::target::{directory_location, resolve};

/// The bytes are what has arrived of a request head, and what may stand behind it; see [`grown`].
pub fn request(data: &[u8]) {
    let data = &grown(data)[..];
    check_recent(data);
    match parse(data) {
        Parsed::Complete(request, len) => {
            assert!(len <= data.len() && len <= HEAD_MAX && request.target.len() <= TARGET_MAX);
            let head = &data[..len];
            assert_eq!(parse(head), Parsed::Complete(request, len), "whatever follows it");
            assert_eq!(parse(&followed(head)), Parsed::Complete(request, len), "whatever follows it");
            for cut in cuts(len) {
                assert_eq!(parse(&head[..cut]), Parsed::Partial, "cut at {cut}");
            }
            check_fields(&request, head);
        }
        Parsed::Partial => {
            assert!(data.len() < HEAD_MAX, "a head that has no end");
            for cut in cuts(data.len()) {
                assert_eq!(parse(&data[..cut]), Parsed::Partial, "cut at {cut}");
            }
        }
        Parsed::HigherMinor(at) => {
            assert!(data[..at].ends_with(b" HTTP/1.") && (b'2'..=b'9').contains(&data[at]));
            for cut in cuts(at) {
                assert_eq!(parse(&data[..cut]), Parsed::Partial, "cut at {cut}");
            }
            let mut lowered = data.to_vec();
            lowered[at] = b'1';
            assert!(!matches!(parse(&lowered), Parsed::HigherMinor(_)), "once is enough");
        }
        Parsed::Refused(refusal) => {
            assert_eq!(parse(&followed(data)), Parsed::Refused(refusal), "whatever follows it");
            for cut in cuts(data.len()) {
                let earlier = parse(&data[..cut]);
                assert!(
                    matches!(earlier, Parsed::Partial) || earlier == Parsed::Refused(refusal),
                    "{refusal:?}, but cut at {cut} {earlier:?}"
                );
            }
        }
    }
}

/// Whatever it remembers, it says the same as if it remembered nothing.
fn check_recent(data: &[u8]) {
    let followed = followed(data);
    let mut changed = data.to_vec();
    if let Some(byte) = changed.get_mut(data.len() / 2) {
        *byte ^= 1;
    }
    let mut recent = Recent::default();
    for bytes in [data, data, &followed, &changed, data, &data[..data.len().saturating_sub(1)], &changed, b""]
    {
        assert_eq!(recent.parse(bytes), parse(bytes));
    }
}

/// `data` with 4,096 or 256 `x` for two bytes that UTF-8 does not have, so that small inputs reach what
/// is too long; at most 48 KiB, which is more than twice a slot.
fn grown(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &byte in data {
        let (byte, count) = match byte {
            0xfe => (b'x', 4096),
            0xfd => (b'x', 256),
            byte => (byte, 1),
        };
        bytes.resize((bytes.len() + count).min(48 * 1024), byte);
    }
    bytes
}

/// Holds what was found out on the way through the head against a second look at its lines.
fn check_fields(request: &Request<'_>, head: &[u8]) {
    assert!(head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n"));
    assert!(!head.contains(&0));
    let text_end = |at: usize| head.get(at + 1) == Some(&b'\n');
    assert!(head.iter().enumerate().all(|(at, &byte)| byte != b'\r' || text_end(at)), "a bare CR");
    let fields = Fields::of_head(head);
    assert!(fields.values("host").count() <= 1);
    match request.framing {
        Framing::Chunked => {
            assert!(fields.has("transfer-encoding") && !fields.has("content-length"));
        }
        Framing::Length(length) => {
            assert!(!fields.has("transfer-encoding"));
            assert!(length == 0 || fields.has("content-length"));
            for value in fields.values("content-length") {
                assert_eq!(std::str::from_utf8(value).unwrap().parse(), Ok(length));
            }
        }
    }
    let is_asked = |option: &[u8]| {
        fields.values("connection").any(|value| {
            value.split(|&b| b == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(option))
        })
    };
    // RFC 9112 §9.3
    let is_persistent = !request_line(head).ends_with(b" HTTP/1.0") || is_asked(b"keep-alive");
    assert_eq!(request.keep_alive, is_persistent && !is_asked(b"close"));
    let names =
        ["range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
    assert_eq!(request.is_conditional, names.iter().any(|name| fields.has(name)));
    if request.is_conditional {
        check_plan(fields);
    }
}

/// The first line that is not empty, without its end.
fn request_line(head: &[u8]) -> &[u8] {
    head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).find(|line| !line.is_empty()).unwrap_or(b"")
}

fn check_plan(fields: Fields<'_>) {
    let etag = ETag { opaque: "5-1994".to_owned(), is_weak: false };
    let modified = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
    let validators = Validators { etag, modified, is_date_strong: true };
    let get = plan::decide(fields, true, &validators, 1000, 2026);
    let head = plan::decide(fields, false, &validators, 1000, 2026);
    match get {
        // RFC 9110 §14.2: HEAD has no ranges, §9.3.2: and is like GET in all else.
        Plan::Parts(_) | Plan::NotSatisfiable => {
            assert!(fields.has("range"));
            assert_eq!(head, Plan::Whole);
        }
        get => assert_eq!(head, get),
    }
}

/// `bytes` with the beginning of another request behind them.
fn followed(bytes: &[u8]) -> Vec<u8> {
    [bytes, b"GET /next HTTP/1.1\r\nHost: b\r\n\r\n"].concat()
}

/// Places below `len` to cut at: all of the last and the first few, and some between.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    let step = len / 32 + 1;
    (0..len).filter(move |&cut| cut < 16 || len - cut <= 16 || cut % step == 0)
}

/// The bytes are a length in decimal, a space, and the text of a Range field.
pub fn range(data: &[u8]) {
    let space = data.iter().position(|&byte| byte == b' ').unwrap_or(0);
    let (length, text) = data.split_at(space);
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let given = std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok()).unwrap_or(1000);
    // No file is longer than an off_t can say.
    for len in [given, 0, 1, 8, 10_000, i64::MAX as u64].map(|len| len.min(i64::MAX as u64)) {
        check_range(text, len);
    }
}

fn check_range(text: &[u8], len: u64) {
    let found = wanted(text, len);
    if let Wanted::Spans(spans) = &found {
        let spans = spans.as_slice();
        assert!((1..=RANGES_MAX).contains(&spans.len()));
        assert!(spans.iter().all(|span| span.start < span.end && span.end <= len));
        for (at, a) in spans.iter().enumerate() {
            assert!(spans[..at].iter().all(|b| a.end < b.start || b.end < a.start), "{spans:?} touch");
        }
        assert!(spans.iter().map(|span| span.end - span.start).sum::<u64>() <= len);
    }
    // The same by another road: closed intervals of wide numbers, sorted and then joined.
    let Some(specs) = specs_of(text) else { return assert_eq!(found, Wanted::Whole) };
    let len = u128::from(len);
    if specs.is_empty() || specs.len() > RANGES_MAX || (len == 0 && specs.iter().any(is_suffix_of_some)) {
        return assert_eq!(found, Wanted::Whole);
    }
    let asked: Vec<(u128, u128)> = specs
        .iter()
        .filter_map(|&spec| match spec {
            (None, n) => (n > 0 && len > 0).then(|| (len.saturating_sub(n), len - 1)),
            (Some(first), last) => (first < len).then(|| (first, last.min(len - 1))),
        })
        .collect();
    if asked.iter().map(|(first, last)| last - first + 1).sum::<u128>() > len {
        return assert_eq!(found, Wanted::Whole);
    }
    let Wanted::Spans(spans) = found else {
        assert!(asked.is_empty() && found == Wanted::Nothing);
        return;
    };
    let sorted = |mut list: Vec<(u128, u128)>| {
        list.sort_unstable();
        list
    };
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for (first, last) in sorted(asked.clone()) {
        match joined.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    let spans: Vec<(u128, u128)> =
        spans.as_slice().iter().map(|span| (span.start.into(), u128::from(span.end) - 1)).collect();
    assert_eq!(sorted(spans.clone()), joined);
    // RFC 9110 §15.3.7.2: in the order in which they were asked for.
    let first_asked =
        |span: &(u128, u128)| asked.iter().position(|part| span.0 <= part.0 && part.1 <= span.1);
    assert!(spans.is_sorted_by_key(first_asked), "{spans:?} for {asked:?}");
}

/// First and last position, or `None` and a suffix length (RFC 9110 §14.1.1), numbers beyond 64 bits
/// being all alike; `None` for what breaks the grammar.
fn specs_of(text: &[u8]) -> Option<Vec<(Option<u128>, u128)>> {
    let text = std::str::from_utf8(text).ok()?;
    let (unit, set) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().unwrap_or(u64::MAX).into())
    };
    let elements = set.split(',').map(|element| element.trim_matches([' ', '\t']));
    elements
        .filter(|element| !element.is_empty())
        .map(|element| match element.split_once('-')? {
            ("", n) => Some((None, number(n)?)),
            (first, "") => Some((Some(number(first)?), u128::MAX)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some((Some(first), last))
            }
        })
        .collect()
}

fn is_suffix_of_some(&(first, n): &(Option<u128>, u128)) -> bool {
    first.is_none() && n > 0
}

/// The bytes are a request target.
pub fn target(data: &[u8]) {
    let Ok(target) = std::str::from_utf8(data) else { return };
    let mut path = b"left over".to_vec();
    let found = resolve(target.as_bytes(), &mut path);
    if target.starts_with('/') {
        assert_eq!(found.ok().map(|_| &path), path_of(target).as_ref(), "by another road");
    } else if found.is_ok() {
        let (_, rest) = target.split_once("://").expect("an absolute-form");
        let rest = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let mut same = Vec::new();
        assert_eq!(resolve(rest.as_bytes(), &mut same), found, "the authority is of no account");
        assert_eq!(same, path);
    }
    let Ok(query) = found else { return };

    assert!(path.len() < target.len());
    assert!(!path.starts_with(b"/") && !path.contains(&0));
    let names = path.strip_suffix(b"/").unwrap_or(&path);
    let is_name = |name: &[u8]| !name.is_empty() && (!name.starts_with(b".") || name == b".well-known");
    assert!(path.is_empty() || names.split(|&byte| byte == b'/').all(is_name));
    assert!(query.is_none_or(|query| target.ends_with(&format!("?{query}"))));

    // Written into a URL and asked for again, it is the same directory, and written alike.
    let location = directory_location(&path, query);
    let mut again = Vec::new();
    let query_again = resolve(location.as_bytes(), &mut again).unwrap_or_else(|_| panic!("{location:?}"));
    let is_directory = path.is_empty() || path.ends_with(b"/");
    assert_eq!(again, if is_directory { path.clone() } else { [&path[..], b"/"].concat() }, "{location:?}");
    assert_eq!(directory_location(&path, query_again), location);
    assert_eq!(query_again.is_some(), query.is_some());
    // RFC 3986 §2: nothing that ends a field or a URL in it.
    assert!(location.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte)));
    assert!(location.starts_with('/'));
    assert!(is_directory || !location.starts_with("//"), "{location:?} names a host");
}

/// The path that an origin-form target asks for: a list of names that grows and shrinks.
fn path_of(target: &str) -> Option<Vec<u8>> {
    if target.contains('#') {
        return None;
    }
    let path = target.split('?').next()?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut is_directory = true;
    for segment in path[1..].split('/') {
        let name = decoded(segment.as_bytes())?;
        is_directory = false;
        match &name[..] {
            b"" | b"." => is_directory = true,
            b".." => {
                names.pop()?;
                is_directory = true;
            }
            hidden if hidden[0] == b'.' && hidden != b".well-known" => return None,
            name if name.contains(&b'/') || name.contains(&0) => return None,
            _ => names.push(name),
        }
    }
    let mut path = names.join(&b'/');
    if is_directory && !path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

fn decoded(segment: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = segment;
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            rest = after;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            (digit(digits[0])? * 16 + digit(digits[1])?) as u8
        } else {
            *first
        });
    }
    Some(bytes)
}

/// The bytes are the text of a date, and the first five of them a time.
pub fn date(data: &[u8]) {
    for this_year in [1970, 1999, 2026, 2049, 2050, 9999] {
        // As a field brings it: without blanks around it, and without control characters.
        let text = data.trim_ascii();
        if !text.iter().any(u8::is_ascii_control)
            && let Some(time) = parse_http_date(text, this_year)
        {
            assert!(forms_of(time, this_year).iter().any(|form| form.as_bytes() == text), "{time:?}");
        }
        let seconds = data.iter().take(5).fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        for form in forms_of(time, this_year) {
            assert_eq!(parse_http_date(form.as_bytes(), this_year), Some(time), "{form}");
        }
    }
}

/// All ways to write `time` (RFC 9110 §5.6.7): without the two-digit year where that would mean
/// another, and with the two of asctime's day, `SP 1DIGIT` and `2DIGIT`.
fn forms_of(time: SystemTime, this_year: u16) -> Vec<String> {
    let Some(imf) = imf_fixdate(time) else { return Vec::new() };
    let imf = std::str::from_utf8(&imf).unwrap();
    assert_eq!(parse_http_date(imf.as_bytes(), this_year), Some(time));
    let [weekday, day, month, year, clock, "GMT"] = imf.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{imf:?} is no IMF-fixdate")
    };
    let short = weekday.trim_end_matches(',');
    let mut forms = vec![imf.to_owned(), format!("{short} {month} {day} {clock} {year}")];
    if let Some(digit) = day.strip_prefix('0') {
        forms.push(format!("{short} {month}  {digit} {clock} {year}"));
    }
    // Two digits mean this century, or the last where that is more than 50 years ahead.
    let year: u16 = year.parse().unwrap();
    let is_meant = if year / 100 == this_year / 100 {
        year <= this_year + 50
    } else {
        year / 100 + 1 == this_year / 100 && year + 100 > this_year + 50
    };
    if is_meant {
        let long = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
            .into_iter()
            .find(|long| long.starts_with(short))
            .unwrap();
        forms.push(format!("{long}, {day}-{month}-{:02} {clock} GMT", year % 100));
    }
    forms
}

/// The first byte says how the rest, which begins with a chunked body, is cut in pieces: of so many
/// bytes each; with its high bit, behind a chunk that brings the body near its bound.
pub fn framing(data: &[u8]) {
    let Some((&shape, body)) = data.split_first() else { return };
    let mut start = Skip::new(Framing::Chunked);
    if shape & 0x80 != 0 {
        skip_chunk(&mut start, BODY_MAX - 64);
    }
    let whole = skipped(start, [body]);
    let piece_len = usize::from(shape & 0x7f) + 1;
    assert_eq!(skipped(start, body.chunks(piece_len)), whole, "in pieces of {piece_len}");
    for cut in cuts(body.len()) {
        let (head, tail) = body.split_at(cut);
        assert_eq!(skipped(start, [head, tail]), whole, "cut at {cut}");
    }
    let is_bounded = whole == Skipped::Refused(Refusal::BodyTooLarge);
    match (whole, chunked_len(body)) {
        (Skipped::Ended(n), len) => assert_eq!(len, Some(n), "by another road"),
        (_, Some(len)) => assert!(is_bounded, "{len} bytes were not seen as a body"),
        _ => {}
    }
    if let Skipped::Ended(n) = whole {
        assert_eq!(skipped(start, [&body[..n]]), whole, "whatever follows it");
        assert!(cuts(n).all(|cut| skipped(start, [&body[..cut]]) == Skipped::All));
    }

    // A counted body of the same bytes, and of one more and one less than there are.
    for length in [0, body.len().saturating_sub(1), body.len(), body.len() + 1] {
        let start = Skip::new(Framing::Length(length as u64));
        let whole = skipped(start, [body]);
        assert_eq!(whole, if length > body.len() { Skipped::All } else { Skipped::Ended(length) });
        assert_eq!(skipped(start, body.chunks(piece_len)), whole);
    }
}

/// The verdict on the body that `skip` is in and that goes on with `pieces`.
fn skipped<'b>(mut skip: Skip, pieces: impl IntoIterator<Item = &'b [u8]>) -> Skipped {
    let mut before = 0;
    for piece in pieces {
        match skip.feed(piece) {
            Skipped::All => before += piece.len(),
            Skipped::Ended(n) => {
                assert!(n <= piece.len());
                return Skipped::Ended(before + n);
            }
            refused => return refused,
        }
    }
    // What has ended with its last byte, or before its first, says so when asked.
    match skip.feed(b"") {
        Skipped::Ended(0) => Skipped::Ended(before),
        verdict => verdict,
    }
}

/// Feeds `skip` one chunk of `size` bytes.
fn skip_chunk(skip: &mut Skip, size: u64) {
    static BLANK: [u8; 64 * 1024] = [0; 64 * 1024];
    assert_eq!(skip.feed(format!("{size:x}\r\n").as_bytes()), Skipped::All);
    let mut left = size as usize;
    while left > 0 {
        let n = left.min(BLANK.len());
        assert_eq!(skip.feed(&BLANK[..n]), Skipped::All);
        left -= n;
    }
    assert_eq!(skip.feed(b"\r\n"), Skipped::All);
}

/// Bytes of the whole chunked body that `bytes` begin with, line by line (RFC 9112 §7.1); without
/// bounds.
fn chunked_len(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    loop {
        let size_line = text_line(&mut rest)?;
        let digits = size_line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, extensions) = size_line.split_at(digits);
        if digits.is_empty() || !is_extensions(extensions) {
            return None;
        }
        match u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? {
            0 => break,
            size => {
                let after = rest.get(usize::try_from(size).ok()?..)?;
                rest = after.strip_prefix(b"\r\n")?;
            }
        }
    }
    loop {
        match text_line(&mut rest)? {
            b"" => return Some(bytes.len() - rest.len()),
            line if matches!(after_token(line), Some([b':', ..])) => {}
            _ => return None,
        }
    }
}

/// `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112 §7.1.1).
fn is_extensions(mut text: &[u8]) -> bool {
    fn after_bws(text: &[u8]) -> &[u8] {
        let len = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &text[len..]
    }
    fn after_quoted(mut text: &[u8]) -> Option<&[u8]> {
        loop {
            text = match text {
                [b'"', after @ ..] => return Some(after),
                [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
                [] => return None,
            }
        }
    }
    fn after_extension(text: &[u8]) -> Option<&[u8]> {
        let name = after_bws(after_bws(text).strip_prefix(b";")?);
        let after_name = after_token(name)?;
        match after_bws(after_name).strip_prefix(b"=").map(after_bws) {
            Some([b'"', quoted @ ..]) => after_quoted(quoted),
            Some(value) => after_token(value),
            None => Some(after_name),
        }
    }
    while !text.is_empty() {
        let Some(rest) = after_extension(text) else { return false };
        text = rest;
    }
    true
}

/// What follows the token (RFC 9110 §5.6.2) that `text` begins with.
fn after_token(text: &[u8]) -> Option<&[u8]> {
    let is_tchar = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
    let len = text.iter().take_while(|byte| is_tchar(byte)).count();
    (len > 0).then(|| &text[len..])
}

/// Takes a line of text off `rest`; its end is CR LF, which is not returned.
fn text_line<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let end = rest.iter().position(|byte| byte.is_ascii_control() && *byte != b'\t')?;
    let (line, after) = rest.split_at(end);
    *rest = after.strip_prefix(b"\r\n")?;
    Some(line)
}

/// The first bytes say how the others, all that a client sends, arrive; see [`Shape`] and [`grown`].
pub fn connection(data: &[u8]) {
    let Some((bytes, stream)) = data.split_first_chunk() else { return };
    let shape = Shape::new(bytes);
    let stream = &grown(stream)[..];
    let mut shared = shared(if shape.is_large { LARGE } else { SMALL });
    let in_one = Shape { sizes: [usize::MAX; 4], room: usize::MAX, ..shape };
    let (whole, _) = run(stream, &in_one, &mut shared);
    check_answers(&whole, &expected(stream), shape.is_large);
    // So that no input takes millions of calls.
    let sizes = shape.sizes.map(|size| size.max(stream.len() / 128));
    let shape = Shape { sizes, room: shape.room.max(whole.len() / 2048), ..shape };
    let (output, calls) = run(stream, &shape, &mut shared);
    if output != whole {
        let at = output.iter().zip(&whole).take_while(|(a, b)| a == b).count();
        let text = |bytes: &[u8]| bytes[at.saturating_sub(40)..].escape_ascii().to_string();
        panic!("from {at}:\n{}\nin one piece:\n{}", text(&output), text(&whole));
    }
    let pieces = stream.len() / (shape.sizes.iter().sum::<usize>() / 4) + 4;
    let calls_max = 64 + 8 * (pieces + output.len() / shape.room.min(1024) + stream.len() / 1024);
    assert!(calls <= calls_max, "{calls} calls of the socket, {calls_max} at most");
}

/// How input arrives and output leaves.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Bytes that arrive at once, in turn.
    sizes: [usize; 4],
    /// Bytes that the socket takes before it blocks.
    room: usize,
    /// The client closes its side behind its last byte, at once with it.
    is_ended: bool,
    /// Input arrives although output is blocked.
    is_input_first: bool,
    /// Every third call is interrupted.
    is_interrupted: bool,
    /// The body that is served stands behind its head as a piece of its own.
    is_large: bool,
}

impl Shape {
    fn new(bytes: &[u8; 6]) -> Self {
        let size = |at: usize| match usize::from(bytes[at]) {
            small @ ..0xc0 => small + 1,
            large => (large - 0xbf) * 512,
        };
        let has = |bit: u8| bytes[5] & bit != 0;
        Self {
            sizes: [size(0), size(1), size(2), size(3)],
            room: size(4),
            is_ended: has(1),
            is_input_first: has(2),
            is_interrupted: has(4),
            is_large: has(8),
        }
    }
}

/// A socket whose other side is the fuzzer, and which is as edge-triggered as the server's.
struct Fake {
    arrived: Vec<u8>,
    is_ended: bool,
    room: usize,
    /// The last write was short: the next ones block until there is room again.
    is_blocked: bool,
    is_interrupted: bool,
    calls: usize,
    output: Vec<u8>,
}

impl Fake {
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        match self.is_interrupted && self.calls.is_multiple_of(3) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

impl Read for Fake {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.call()?;
        if self.arrived.is_empty() && !self.is_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = self.arrived.len().min(space.len());
        space[..n].copy_from_slice(&self.arrived[..n]);
        self.arrived.drain(..n);
        Ok(n)
    }
}

impl Write for Fake {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.call()?;
        if self.is_blocked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut left = self.room;
        for slice in slices {
            let n = slice.len().min(left);
            self.output.extend_from_slice(&slice[..n]);
            left -= n;
            self.is_blocked = n < slice.len();
            if self.is_blocked {
                break;
            }
        }
        Ok(self.room - left)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Fake {
    fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn write_file(&mut self, _: &File, _: u64, _: usize) -> io::Result<usize> {
        unreachable!("the fixed response is no file")
    }
}

impl Socket for Fake {
    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets a connection live through `stream`; what it has sent, and the calls that took.
fn run(stream: &[u8], shape: &Shape, shared: &mut Shared) -> (Vec<u8>, usize) {
    let mut conn = Conn::new(Fake {
        arrived: Vec::new(),
        is_ended: false,
        room: shape.room,
        is_blocked: false,
        is_interrupted: shape.is_interrupted,
        calls: 0,
        output: Vec::new(),
    });
    let mut to_come = stream;
    let mut sizes = shape.sizes.iter().cycle();
    loop {
        let calls = conn.socket_mut().calls;
        let may_have_ended = conn.socket_mut().is_ended;
        let next = conn.ready(may_have_ended, shared);
        let socket = conn.socket_mut();
        match next {
            Next::Close(_) => break,
            Next::Again | Next::NotYet => assert!(socket.calls > calls, "it spins"),
            Next::Linger => {}
            Next::Wait => {
                let is_drained = socket.arrived.is_empty() && !socket.is_ended;
                assert!(socket.is_blocked || is_drained, "it waits, but no event will come");
                if socket.is_blocked && (to_come.is_empty() || !shape.is_input_first) {
                    socket.is_blocked = false;
                } else if !to_come.is_empty() {
                    let piece = to_come.split_off(..to_come.len().min(*sizes.next().unwrap())).unwrap();
                    socket.arrived.extend_from_slice(piece);
                    socket.is_ended = to_come.is_empty() && shape.is_ended;
                } else if shape.is_ended && !socket.is_ended {
                    socket.is_ended = true;
                } else {
                    break;
                }
            }
        }
    }
    let socket = conn.socket_mut();
    (std::mem::take(&mut socket.output), socket.calls)
}

const SMALL: &[u8] = b"Hello World\n";
const LARGE: &[u8] = &[b'L'; INLINE_MAX + 1];

fn shared(body: &[u8]) -> Shared {
    let site = Site::fixed(Response::new(Status(200), &[], Body::Bytes(body.to_vec())), Policy::default());
    Shared::new(site, Clock::start())
}

/// What one request of a stream comes to.
#[derive(Debug)]
struct Expected {
    status: u16,
    is_kept: bool,
    has_body: bool,
}

/// The answers to `stream`, read from its beginning to its end as if all of it were there at once:
/// where one request ends and the next begins must not depend on anything else.
fn expected(stream: &[u8]) -> Vec<Expected> {
    let mut stream = stream.to_vec();
    let mut answers = Vec::new();
    let mut at = 0;
    while answers.last().is_none_or(|last: &Expected| last.is_kept) {
        let refused = |refusal: Refusal| {
            let has_body = !request::is_head(&stream[at..]);
            Expected { status: refusal.status().0, is_kept: false, has_body }
        };
        let (request, head_len) = match parse(&stream[at..]) {
            Parsed::Partial => break,
            Parsed::HigherMinor(minor) => {
                stream[at + minor] = b'1';
                continue;
            }
            Parsed::Refused(refusal) => {
                answers.push(refused(refusal));
                break;
            }
            Parsed::Complete(request, len) => (request, len),
        };
        let has_content = request.framing != Framing::Length(0);
        let is_large = matches!(request.framing, Framing::Length(n) if n > BODY_MAX);
        let is_early = has_content && (is_large || request.expectation != Expectation::None);
        let body_len = match Skip::new(request.framing).feed(&stream[at + head_len..]) {
            _ if is_early => 0,
            Skipped::Ended(n) => n,
            Skipped::All => break,
            Skipped::Refused(refusal) => {
                answers.push(refused(refusal));
                break;
            }
        };
        let status = match (request.expectation, request.method) {
            (Expectation::Unknown, _) => 417,
            (_, Method::Connect | Method::Trace) => 405,
            _ => 200,
        };
        let (is_kept, has_body) = (request.keep_alive && !is_early, request.method != Method::Head);
        at += head_len + body_len;
        answers.push(Expected { status, is_kept, has_body });
    }
    answers
}

/// Reads `output` as a client would, and finds these answers in it and nothing else.
fn check_answers(output: &[u8], answers: &[Expected], is_large: bool) {
    let mut rest = output;
    for answer in answers {
        let head_len = rest.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let (head, after) = rest.split_at(head_len);
        let head = std::str::from_utf8(head).unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {} ", answer.status)), "{answer:?} but {head}");
        let connection = if answer.is_kept { "keep-alive" } else { "close" };
        assert!(head.ends_with(&format!("\r\nConnection: {connection}\r\n\r\n")), "{answer:?} but {head}");
        let (_, length) = head.split_once("\r\nContent-Length: ").expect("a length");
        let length: usize = length.split_once('\r').unwrap().0.parse().unwrap();
        let (body, after) = after.split_at(if answer.has_body { length } else { 0 });
        if answer.status == 200 {
            let served = if is_large { LARGE } else { SMALL };
            assert_eq!(length, served.len());
            assert!(body.is_empty() || body == served);
        }
        rest = after;
    }
    assert_eq!(rest.escape_ascii().to_string(), "", "behind the last answer");
}
