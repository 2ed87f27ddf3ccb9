//! What a client would rather have: the weighted lists of Accept and its like (RFC 9110 §12.4.2, §12.5).

/// The weight of what is wanted most, in thousandths (RFC 9110 §12.4.2).
pub const WEIGHT_MAX: u16 = 1000;

/// The members of a list in all of its lines, in order, each with its weight; parameters other than the
/// weight are left aside, and a member whose weight is none does not count.
pub fn weighted<'b>(lines: impl Iterator<Item = &'b [u8]>) -> impl Iterator<Item = (&'b [u8], u16)> {
    let members = lines.flat_map(|line| line.split(|&byte| byte == b','));
    members.filter_map(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', b'=', weight @ ..] => Some(weight),
            _ => None,
        });
        Some((name, weight.map_or(Some(WEIGHT_MAX), self::weight)?))
    })
}

/// `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`, in thousandths.
fn weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let digit = |at: usize| match decimals.get(at) {
        None => Some(0),
        Some(digit @ b'0'..=b'9') => Some(u16::from(digit - b'0')),
        Some(_) => None,
    };
    let thousandths = digit(0)? * 100 + digit(1)? * 10 + digit(2)?;
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(WEIGHT_MAX),
        _ => None,
    }
}

/// The weight of the media type `kind "/" subtype` in an Accept field: that of the range which is closest to
/// it (RFC 9110 §12.5.1). Without a field everything is wanted alike.
pub fn of_type<'b>(lines: impl Iterator<Item = &'b [u8]>, kind: &str, subtype: &str) -> u16 {
    let mut closest = None;
    let mut is_empty = true;
    for (range, weight) in weighted(lines) {
        is_empty = false;
        let closeness = match range.iter().position(|&byte| byte == b'/').map(|at| range.split_at(at)) {
            Some((of_kind, of_subtype)) if of_kind.eq_ignore_ascii_case(kind.as_bytes()) => {
                match &of_subtype[1..] {
                    b"*" => 1,
                    of_subtype if of_subtype.eq_ignore_ascii_case(subtype.as_bytes()) => 2,
                    _ => continue,
                }
            }
            Some((b"*", b"/*")) => 0,
            _ => continue,
        };
        closest = closest.max(Some((closeness, weight)));
    }
    if is_empty { WEIGHT_MAX } else { closest.map_or(0, |(_, weight)| weight) }
}

/// Whether the media type `name` is wanted by name, and not by a wildcard alone.
pub fn names_type<'b>(lines: impl Iterator<Item = &'b [u8]>, name: &str) -> bool {
    weighted(lines).any(|(range, weight)| weight > 0 && range.eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> impl Iterator<Item = &'static [u8]> {
        text.split('\n').map(str::as_bytes).filter(|line| !line.is_empty())
    }

    #[test]
    fn what_is_a_weight() {
        for (text, thousandths) in [
            ("0", Some(0)),
            ("0.", Some(0)),
            ("0.5", Some(500)),
            ("0.123", Some(123)),
            ("1", Some(1000)),
            ("1.000", Some(1000)),
            ("1.001", None),
            ("0.1234", None),
            ("2", None),
            ("", None),
            (".5", None),
            ("0,5", None),
            ("0.x", None),
            ("-1", None),
        ] {
            assert_eq!(weight(text.as_bytes()), thousandths, "{text:?}");
        }
    }

    #[test]
    fn members_and_their_weights() {
        let all: Vec<_> = weighted(lines("gzip;q=0.5 , br\n;q=1,, *;Q=0, x;q=7, a;level=1; q=0.3")).collect();
        let expected: [(&[u8], u16); 4] = [(b"gzip", 500), (b"br", 1000), (b"*", 0), (b"a", 300)];
        assert_eq!(all, expected);
    }

    /// RFC 9110 §12.5.1, the examples among them.
    #[test]
    fn the_closest_range_counts() {
        for (accept, of_json, of_html) in [
            ("", 1000, 1000),
            ("*/*", 1000, 1000),
            ("application/json", 1000, 0),
            ("text/html, application/json;q=0.9", 900, 1000),
            ("text/*;q=0.3, text/html;q=0.7, */*;q=0.5", 500, 700),
            ("application/*, application/json;q=0", 0, 0),
            ("TEXT/HTML", 0, 1000),
            ("image/png", 0, 0),
            ("text", 0, 0),
        ] {
            assert_eq!(of_type(lines(accept), "application", "json"), of_json, "{accept}");
            assert_eq!(of_type(lines(accept), "text", "html"), of_html, "{accept}");
        }
    }

    #[test]
    fn what_is_wanted_by_name() {
        for (accept, is_named) in [
            ("text/html", true),
            ("*/*", false),
            ("text/*", false),
            ("text/html;q=0", false),
            ("a/b, Text/Html;q=0.1", true),
        ] {
            assert_eq!(names_type(lines(accept), "text/html"), is_named, "{accept}");
        }
    }
}
