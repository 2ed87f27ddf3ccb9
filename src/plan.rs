//! The decision: which of a representation's answers a conditional request gets, in the order of
//! RFC 9110 §13.2.2. Pure: facts about the request and the representation in, a [`Plan`] out.

use std::time::SystemTime;

use crate::clock::parse_http_date;
use crate::range::{self, Span, Wanted};
use crate::request::Fields;

/// What tells one state of a representation from another (RFC 9110 §8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// Its entity tag.
    pub etag: ETag,
    /// Last-Modified, in whole seconds; `None` where it has none.
    pub modified: Option<SystemTime>,
    /// Whether no two states of it can have had this date (RFC 9110 §8.8.2.2).
    pub is_date_strong: bool,
}

/// An entity tag (RFC 9110 §8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ETag {
    /// What stands between the quotes.
    pub opaque: String,
    /// Whether it is a weak validator.
    pub is_weak: bool,
}

/// How a request for an existing representation is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// 200 with all of it
    Whole,
    /// 206 with these spans of it
    Parts(Vec<Span>),
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
    /// 416
    NotSatisfiable,
}

/// Decides for a GET (or, unless `is_get`, a HEAD) with `fields` on a representation of `len` bytes.
/// `this_year` is what two-digit years are measured from.
pub fn decide(fields: Fields<'_>, is_get: bool, validators: &Validators, len: u64, this_year: u16) -> Plan {
    let date = |name| parse_http_date(fields.only(name)?, this_year);
    let Validators { etag, modified, .. } = validators;

    // Steps 1 and 2
    if fields.has("if-match") {
        if !fields.values("if-match").any(|list| lists(list, |tag| tag.is_strongly(etag))) {
            return Plan::PreconditionFailed;
        }
    } else if let (Some(date), Some(modified)) = (date("if-unmodified-since"), modified)
        && *modified > date
    {
        return Plan::PreconditionFailed;
    }
    // Steps 3 and 4
    if fields.has("if-none-match") {
        if fields.values("if-none-match").any(|list| lists(list, |tag| tag.is_weakly(etag))) {
            return Plan::NotModified;
        }
    } else if let (Some(date), Some(modified)) = (date("if-modified-since"), modified)
        && *modified <= date
    {
        return Plan::NotModified;
    }
    // Step 5; §14.2: a Range is defined for GET only.
    match fields.only("range") {
        Some(text) if is_get && if_range(fields, validators, this_year) => match range::wanted(text, len) {
            Wanted::Whole => Plan::Whole,
            Wanted::Spans(spans) => Plan::Parts(spans),
            Wanted::Nothing => Plan::NotSatisfiable,
        },
        _ => Plan::Whole,
    }
}

/// Whether If-Range lets a Range count: it is absent, or it is the current strong validator
/// (RFC 9110 §13.1.5). A date must be the very one that was sent.
fn if_range(fields: Fields<'_>, validators: &Validators, this_year: u16) -> bool {
    if !fields.has("if-range") {
        return true;
    }
    let Some(text) = fields.only("if-range") else { return false };
    if let Some((tag, b"")) = Tag::split(text) {
        return tag.is_strongly(&validators.etag);
    }
    let date = parse_http_date(text, this_year);
    validators.is_date_strong && date.is_some() && date == validators.modified
}

/// Whether a condition names this state by its entity tag, so that a range goes on with it.
pub fn continues(fields: Fields<'_>, validators: &Validators) -> bool {
    let etag = &validators.etag;
    let is_named = |name, is_it: fn(Tag<'_>, &ETag) -> bool| {
        fields.values(name).any(|list| list != b"*" && lists(list, |tag| is_it(tag, etag)))
    };
    is_named("if-range", |tag, etag| tag.is_strongly(etag))
        || is_named("if-match", |tag, etag| tag.is_strongly(etag))
        || is_named("if-none-match", |tag, etag| tag.is_weakly(etag))
}

/// An entity tag in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag<'b> {
    opaque: &'b [u8],
    is_weak: bool,
}

impl<'b> Tag<'b> {
    /// The entity tag at the start of `text`, and what follows it.
    fn split(text: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let (is_weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let len = inner.iter().position(|&byte| byte == b'"')?;
        // etagc = %x21 / %x23-7E / obs-text (§8.8.3)
        let (opaque, rest) = (&inner[..len], &inner[len + 1..]);
        opaque.iter().all(|&byte| byte > b' ' && byte != 0x7f).then_some((Self { opaque, is_weak }, rest))
    }

    /// Strong comparison (§8.8.3.2).
    fn is_strongly(self, etag: &ETag) -> bool {
        !self.is_weak && !etag.is_weak && self.is_weakly(etag)
    }

    /// Weak comparison (§8.8.3.2).
    fn is_weakly(self, etag: &ETag) -> bool {
        self.opaque == etag.opaque.as_bytes()
    }
}

/// Whether `list`, `"*" / #entity-tag`, names a tag that `is_it`. What follows the first fault in it
/// names none.
fn lists(list: &[u8], is_it: impl Fn(Tag<'_>) -> bool) -> bool {
    if list == b"*" {
        return true;
    }
    let mut rest = list;
    loop {
        // §5.6.1.2: empty elements are ignored.
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','));
        let Some((tag, after)) = start.and_then(|start| Tag::split(&rest[start..])) else { return false };
        let end = after.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
        if end.is_some_and(|end| after[end] != b',') {
            return false;
        }
        if is_it(tag) {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example.
    const MODIFIED_S: u64 = 784_111_777;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators(is_weak: bool) -> Validators {
        Validators {
            etag: ETag { opaque: "tag".to_owned(), is_weak },
            modified: Some(UNIX_EPOCH + Duration::from_secs(MODIFIED_S)),
            is_date_strong: true,
        }
    }

    fn plan_with(validators: &Validators, is_get: bool, lines: &[&str]) -> Plan {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        decide(Fields::of_head(head.as_bytes()), is_get, validators, 10, 2026)
    }

    fn plan(lines: &[&str]) -> Plan {
        plan_with(&validators(false), true, lines)
    }

    fn is_parts(plan: &Plan) -> bool {
        matches!(plan, Plan::Parts(spans) if spans == &[0..5])
    }

    /// RFC 9110 §13.2.2 as a truth table: every combination of the conditions, each absent, true or
    /// false, against the steps as the RFC words them.
    #[test]
    fn every_combination_of_conditions() {
        let if_match = [None, Some((true, "If-Match: \"tag\"")), Some((false, "If-Match: \"no\""))];
        let unmodified = [SAME, BEFORE].map(|date| format!("If-Unmodified-Since: {date}"));
        let if_unmodified =
            [None, Some((true, unmodified[0].as_str())), Some((false, unmodified[1].as_str()))];
        let if_none_match =
            [None, Some((true, "If-None-Match: \"no\"")), Some((false, "If-None-Match: \"tag\""))];
        let modified = [BEFORE, SAME].map(|date| format!("If-Modified-Since: {date}"));
        let if_modified = [None, Some((true, modified[0].as_str())), Some((false, modified[1].as_str()))];
        let if_range = [None, Some((true, "If-Range: \"tag\"")), Some((false, "If-Range: \"no\""))];
        let range = [None, Some((true, "Range: bytes=0-4"))];
        let mut cases = 0;
        for a in if_match {
            for b in if_unmodified {
                for c in if_none_match {
                    for d in if_modified {
                        for e in if_range {
                            for f in range {
                                for is_get in [true, false] {
                                    let lines: Vec<&str> = [a, b, c, d, e, f]
                                        .into_iter()
                                        .flatten()
                                        .map(|(_, line)| line)
                                        .collect();
                                    let found = plan_with(&validators(false), is_get, &lines);
                                    let holds =
                                        |condition: Option<(bool, &str)>| condition.map(|(holds, _)| holds);
                                    let expected = match (holds(a), holds(b), holds(c), holds(d)) {
                                        (Some(false), ..) | (None, Some(false), ..) => "412",
                                        (_, _, Some(false), _) | (_, _, None, Some(false)) => "304",
                                        _ if is_get && f.is_some() && holds(e) != Some(false) => "206",
                                        _ => "200",
                                    };
                                    let found_code = match &found {
                                        Plan::PreconditionFailed => "412",
                                        Plan::NotModified => "304",
                                        plan if is_parts(plan) => "206",
                                        Plan::Whole => "200",
                                        _ => panic!("{found:?}"),
                                    };
                                    assert_eq!(found_code, expected, "{lines:?} GET {is_get}");
                                    cases += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(cases, 3 * 3 * 3 * 3 * 3 * 2 * 2);
    }

    /// RFC 9110 §8.8.3.2: strong for If-Match and If-Range, weak for If-None-Match.
    #[test]
    fn comparisons() {
        for (ours_is_weak, theirs, is_strong, is_weak) in [
            (false, "\"tag\"", true, true),
            (false, "W/\"tag\"", false, true),
            (true, "\"tag\"", false, true),
            (true, "W/\"tag\"", false, true),
            (false, "\"tag2\"", false, false),
            (false, "W/\"tag2\"", false, false),
        ] {
            let validators = validators(ours_is_weak);
            let if_match = plan_with(&validators, true, &[&format!("If-Match: {theirs}")]);
            assert_eq!(if_match == Plan::Whole, is_strong, "{theirs} and {ours_is_weak}");
            let if_none_match = plan_with(&validators, true, &[&format!("If-None-Match: {theirs}")]);
            assert_eq!(if_none_match == Plan::NotModified, is_weak, "{theirs} and {ours_is_weak}");
            let if_range =
                plan_with(&validators, true, &["Range: bytes=0-4", &format!("If-Range: {theirs}")]);
            assert_eq!(is_parts(&if_range), is_strong, "{theirs} and {ours_is_weak}");
        }
    }

    #[test]
    fn lists_of_tags() {
        for (list, is_listed) in [
            ("\"tag\"", true),
            ("*", true),
            ("\"a\", \"tag\"", true),
            ("\"a\",W/\"tag\" , \"b\"", true),
            (",, \"tag\",", true),
            ("\"a,\\\", \"tag\"", true),
            ("\"a, tag\"", false),
            ("\"a,\"tag\",b\"", false),
            ("tag", false),
            ("\"ta\"", false),
            ("\"tags\"", false),
            ("\"tag", false),
            ("w/\"tag\"", false),
            ("W/ \"tag\"", false),
            ("\"a\" \"tag\"", false),
            ("x, \"tag\"", false),
            ("*, \"a\"", false),
            ("\"\"", false),
            ("", false),
        ] {
            let plan = plan(&[&format!("If-None-Match: {list}")]);
            assert_eq!(plan == Plan::NotModified, is_listed, "{list}");
        }
        // RFC 9110 §5.3: several lines are one list.
        assert_eq!(plan(&["If-None-Match: \"a\"", "if-none-match: \"tag\""]), Plan::NotModified);
        assert_eq!(plan(&["If-Match: \"a\"", "IF-MATCH: \"tag\""]), Plan::Whole);
        assert_eq!(plan(&["If-Match: tag"]), Plan::PreconditionFailed);
    }

    /// RFC 9110 §13.1.3, §13.1.4, in the three forms of §5.6.7; what is no date is ignored.
    #[test]
    fn dates() {
        for (date, since, unmodified) in [
            (SAME, Plan::NotModified, Plan::Whole),
            (AFTER, Plan::NotModified, Plan::Whole),
            (BEFORE, Plan::Whole, Plan::PreconditionFailed),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Plan::NotModified, Plan::Whole),
            ("Sunday, 06-Nov-94 08:49:36 GMT", Plan::Whole, Plan::PreconditionFailed),
            ("Sun Nov  6 08:49:37 1994", Plan::NotModified, Plan::Whole),
            ("Sun Nov  6 08:49:36 1994", Plan::Whole, Plan::PreconditionFailed),
            ("yesterday", Plan::Whole, Plan::Whole),
            ("", Plan::Whole, Plan::Whole),
            ("Thu, 31 Feb 2030 08:49:37 GMT", Plan::Whole, Plan::Whole),
            ("Sun, 06 Nov 1994 24:00:00 GMT", Plan::Whole, Plan::Whole),
        ] {
            assert_eq!(plan(&[&format!("If-Modified-Since: {date}")]), since, "{date}");
            assert_eq!(plan(&[&format!("If-Unmodified-Since: {date}")]), unmodified, "{date}");
        }
        let twice = format!("If-Modified-Since: {SAME}");
        assert_eq!(plan(&[&twice, &twice]), Plan::Whole, "no list, so two lines are no date");
        let undated = Validators { modified: None, ..validators(false) };
        assert_eq!(plan_with(&undated, true, &[&twice]), Plan::Whole);
        assert_eq!(plan_with(&undated, true, &[&format!("If-Unmodified-Since: {BEFORE}")]), Plan::Whole);
    }

    /// RFC 9110 §13.1.5
    #[test]
    fn if_range_with_dates_and_nonsense() {
        let range = "Range: bytes=0-4";
        for (value, counts) in
            [(SAME, true), (BEFORE, false), (AFTER, false), ("nonsense", false), ("*", false), ("", false)]
        {
            assert_eq!(is_parts(&plan(&[range, &format!("If-Range: {value}")])), counts, "{value}");
        }
        for list in ["If-Range: \"tag\", \"b\"", "If-Range: \"tag\"\r\nIf-Range: \"tag\""] {
            assert_eq!(plan(&[range, list]), Plan::Whole, "no list is allowed");
        }
        let weak_date = Validators { is_date_strong: false, ..validators(false) };
        assert_eq!(plan_with(&weak_date, true, &[range, &format!("If-Range: {SAME}")]), Plan::Whole);
        let undated = Validators { modified: None, ..validators(false) };
        assert_eq!(plan_with(&undated, true, &[range, "If-Range: nonsense"]), Plan::Whole);
        assert_eq!(plan(&["If-Range: \"no\""]), Plan::Whole);
    }

    #[test]
    fn ranges() {
        assert!(is_parts(&plan(&["range: bytes=0-4"])));
        assert_eq!(plan(&["Range: bytes=10-"]), Plan::NotSatisfiable);
        assert_eq!(plan(&["Range: lines=0-4"]), Plan::Whole);
        assert_eq!(plan(&["Range: bytes=0-4", "Range: bytes=0-4"]), Plan::Whole, "no list of fields");
        assert_eq!(
            plan_with(&validators(false), false, &["Range: bytes=10-"]),
            Plan::Whole,
            "HEAD ignores it"
        );
    }
}
