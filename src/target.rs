//! Request target → a decoded path beneath the root, or a refusal. Pure; the file system is not asked.
//!
//! What comes out never begins with a slash, has no empty, `.` or `..` segment and no NUL, is decoded
//! exactly once and is never longer than what came in. It ends in a slash, or is empty, where a
//! directory is meant.

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode, percent_encode, utf8_percent_encode,
};

use crate::refusal::Refusal;
use crate::request::is_authority;

/// The one name with a leading dot that is served (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// What stays as it is when a segment of a path is written into a URL: `unreserved` (RFC 3986 §2.3).
pub(crate) const SEGMENT_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same for a path.
const PATH_ENCODED: &AsciiSet = &SEGMENT_ENCODED.remove(b'/');

/// What no query may hold as it is: all but `pchar / "/" / "?"` (RFC 3986 §3.4). The percent sign is
/// seen to on its own.
const QUERY_ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Writes the path that `target` asks for into `path`; returns the query, its `?` not included.
///
/// # Errors
/// [`Refusal::TargetInvalid`] for a target that is neither in origin-form nor in absolute-form
/// (RFC 9112 §3.2), has a percent sign without two hexadecimal digits (RFC 3986 §2.1), an encoded
/// NUL, or more `..` than directories. [`Refusal::NotFound`] for what cannot be or is not served:
/// names with a slash in them and names that begin with a dot.
#[inline]
pub fn resolve<'t>(target: &'t [u8], path: &mut Vec<u8>) -> Result<Option<&'t str>, Refusal> {
    path.clear();
    if is_plain(target) {
        path.extend_from_slice(&target[1..]);
        return Ok(None);
    }
    normalize(target, path)
}

/// [`resolve`] for a target that is not its own path.
fn normalize<'t>(target: &'t [u8], path: &mut Vec<u8>) -> Result<Option<&'t str>, Refusal> {
    let target = str::from_utf8(target).map_err(|_| Refusal::TargetInvalid)?;
    let target = if target.starts_with('/') { target } else { after_authority(target)? };
    // No form of RFC 9112 §3.2 has a fragment.
    if target.contains('#') {
        return Err(Refusal::TargetInvalid);
    }
    let (raw_path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut segments = raw_path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let start = path.len();
        decode(segment, path)?;
        let is_last = segments.peek().is_none();
        match &path[start..] {
            b"" => {}
            b"." => path.truncate(start),
            b".." => {
                path.truncate(start);
                // The path so far ends in the slash of the directory to be left.
                let parent = path.split_last().ok_or(Refusal::TargetInvalid)?.1;
                let kept = parent.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
                path.truncate(kept);
            }
            name if is_hidden(name) => return Err(Refusal::NotFound),
            name if name.contains(&b'/') => return Err(Refusal::NotFound),
            _ if is_last => {}
            _ => path.push(b'/'),
        }
    }
    Ok(query)
}

/// Whether nothing of this name, a segment of a path, is served.
pub fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") && name != WELL_KNOWN
}

/// Whether `target` is its own path, as most are: origin-form, nothing encoded, no query, and no segment
/// that is empty or begins with a dot.
fn is_plain(target: &[u8]) -> bool {
    let mut before = b' ';
    for &byte in target {
        let is_special = match byte {
            b'%' | b'?' | b'#' | 0 => true,
            b'/' | b'.' => before == b'/',
            _ => false,
        };
        if is_special {
            return false;
        }
        before = byte;
    }
    target.first() == Some(&b'/')
}

/// The URL path of the directory `path`, to be redirected to. It begins with exactly one slash, so
/// that it cannot name a host, and all that is special in a URL or a field is percent-encoded.
pub fn directory_location(path: &[u8], query: Option<&str>) -> String {
    let mut location = format!("/{}/", percent_encode(path, PATH_ENCODED));
    if let Some(query) = query {
        location.push('?');
        // What was encoded by the client stays as it is; a percent sign of its own is encoded.
        let mut parts = query.split('%');
        location
            .extend(parts.next().map(|part| utf8_percent_encode(part, QUERY_ENCODED)).into_iter().flatten());
        for part in parts {
            location.push_str(if is_escape(part) { "%" } else { "%25" });
            location.extend(utf8_percent_encode(part, QUERY_ENCODED));
        }
    }
    location
}

/// Whether the two hexadecimal digits that belong behind a percent sign begin `text`.
fn is_escape(text: &str) -> bool {
    text.len() >= 2 && text.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit)
}

/// What follows the authority of an absolute-form target (RFC 9112 §3.2.2); the scheme's case does
/// not matter (RFC 3986 §3.1) and an empty path is `/` (RFC 9110 §4.2.3).
fn after_authority(target: &str) -> Result<&str, Refusal> {
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| {
            let (head, rest) = target.split_at_checked(scheme.len())?;
            head.eq_ignore_ascii_case(scheme).then_some(rest)
        })
        .ok_or(Refusal::TargetInvalid)?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !is_authority(authority.as_bytes()) {
        return Err(Refusal::TargetInvalid);
    }
    Ok(rest)
}

fn decode(segment: &str, path: &mut Vec<u8>) -> Result<(), Refusal> {
    let start = path.len();
    if segment.contains('%') {
        if !segment.split('%').skip(1).all(is_escape) {
            return Err(Refusal::TargetInvalid);
        }
        path.extend(percent_decode(segment.as_bytes()));
    } else {
        path.extend_from_slice(segment.as_bytes());
    }
    // No name holds a NUL.
    if path[start..].contains(&0) {
        return Err(Refusal::TargetInvalid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Refusal::{NotFound, TargetInvalid};

    fn resolved(target: &str) -> Result<(Vec<u8>, Option<&str>), Refusal> {
        let mut path = b"left over".to_vec();
        resolve(target.as_bytes(), &mut path).map(|query| (path, query))
    }

    #[track_caller]
    fn check(target: &str, path: &[u8]) {
        assert_eq!(resolved(target), Ok((path.to_vec(), None)), "{target:?}");
    }

    #[track_caller]
    fn check_refused(target: &str, refusal: Refusal) {
        assert_eq!(resolved(target), Err(refusal), "{target:?}");
    }

    #[test]
    fn paths() {
        check("/", b"");
        check("/a", b"a");
        check("/a/", b"a/");
        check("/a/b.txt", b"a/b.txt");
        check("//a", b"a");
        check("/a//b", b"a/b");
        check("/a//", b"a/");
        check("/a+b", b"a+b");
        check("/a\\..\\b", b"a\\..\\b");
        check("/grüße", "grüße".as_bytes());
    }

    #[test]
    fn dot_segments_are_removed_and_never_climb_out() {
        // RFC 3986 §5.2.4, §6.2.2.3
        check("/.", b"");
        check("/./a", b"a");
        check("/a/.", b"a/");
        check("/a/./b", b"a/b");
        check("/a/..", b"");
        check("/a/../b", b"b");
        check("/a/b/../../c", b"c");
        check("/a/b/..", b"a/");
        check("/a//../b", b"b");
        check("/a/%2e%2E/b", b"b");
        for target in ["/..", "/../a", "/a/../..", "/%2e%2e/a", "/.%2E/a", "//../a", "/./../a"] {
            check_refused(target, TargetInvalid);
        }
    }

    #[test]
    fn decoding_happens_once() {
        check("/%41%7a", b"Az");
        check("/%2541", b"%41");
        check("/%252e%252e/a", b"%2e%2e/a");
        check("/a%20b%23%3F%25", b"a b#?%");
        check("/%ff%FE", b"\xff\xfe");
        check("/%c0%ae%c0%ae/", b"\xc0\xae\xc0\xae/");
        for target in ["/%", "/%4", "/%zz", "/a%4/b", "/%%41", "/a\0b", "/%e", "/a%00", "/%00/b", "/%\u{e9}"]
        {
            check_refused(target, TargetInvalid);
        }
        for target in ["/a%2fb", "/..%2fa", "/%2e%2e%2fa", "/%2f"] {
            check_refused(target, NotFound);
        }
    }

    #[test]
    fn hidden_names() {
        for target in
            ["/.git", "/.git/config", "/a/.b", "/...", "/.%41", "/%2egit", "/.well-knownx", "/.well-know"]
        {
            check_refused(target, NotFound);
        }
        check("/.well-known/security.txt", b".well-known/security.txt");
        check("/.well-known", b".well-known");
        check("/%2ewell-known/", b".well-known/");
    }

    #[test]
    fn forms_and_queries() {
        // RFC 9112 §3.2
        check("http://host/a", b"a");
        check("HTTP://host:80", b"");
        check("https://host", b"");
        check("http://[::1]:80/a", b"a");
        for target in [
            "*",
            "a",
            "host:80",
            "http:/a",
            "http://",
            "http:///a",
            "http://u@host/a",
            "http://[::1/a",
            "http://h:x/",
            "http://:80/a",
            "http://a%zz/",
            "http://[zz]/",
            "/a?b#c",
            "ftp://host/a",
            "",
            "?a",
            "/a#b",
            "/#",
        ] {
            check_refused(target, TargetInvalid);
        }
        assert_eq!(resolved("/a?b/../c%zz?d"), Ok((b"a".to_vec(), Some("b/../c%zz?d"))));
        assert_eq!(resolved("/a/?"), Ok((b"a/".to_vec(), Some(""))));
        assert_eq!(resolved("http://host?q"), Ok((b"".to_vec(), Some("q"))));
    }

    /// All targets of up to five pieces over an alphabet of what is special in a path.
    #[test]
    fn what_comes_out_is_always_beneath_the_root() {
        const PIECES: [&str; 9] = ["/", ".", "..", "a", "%2e", "%2f", "%00", "\\", "%25"];
        let mut path = Vec::new();
        for len in 0..=5u32 {
            for number in 0..PIECES.len().pow(len) {
                let mut target = "/".to_owned();
                let mut rest = number;
                for _ in 0..len {
                    target.push_str(PIECES[rest % PIECES.len()]);
                    rest /= PIECES.len();
                }
                let resolved = resolve(target.as_bytes(), &mut path).map(|query| query.map(str::to_owned));
                // An absolute target takes the long way, and comes to the same.
                let mut long_way = Vec::new();
                let absolute = format!("http://a{target}");
                let by_long_way =
                    resolve(absolute.as_bytes(), &mut long_way).map(|query| query.map(str::to_owned));
                assert_eq!(resolved, by_long_way, "{target:?}");
                if resolved.is_ok() {
                    assert_eq!(path, long_way, "{target:?}");
                    assert!(path.len() < target.len(), "{target:?} grew");
                    assert!(!path.starts_with(b"/") && !path.contains(&0), "{target:?}");
                    let trimmed = path.strip_suffix(b"/").unwrap_or(&path);
                    let hidden = |name: &[u8]| name.is_empty() || name.starts_with(b".");
                    assert!(trimmed.is_empty() || !trimmed.split(|&b| b == b'/').any(hidden), "{target:?}");
                }
            }
        }
    }

    #[test]
    fn a_location_names_no_host_and_injects_nothing() {
        assert_eq!(directory_location(b"a b", None), "/a%20b/");
        assert_eq!(directory_location(b"a", Some("x=1")), "/a/?x=1");
        assert_eq!(directory_location("ü/c".as_bytes(), Some("")), "/%C3%BC/c/?");
        assert_eq!(directory_location(b"\\evil", None), "/%5Cevil/");
        // RFC 9110 §10.2.2: Location is a URI-reference, whatever the query looked like.
        assert_eq!(
            directory_location(b"a", Some("b=%41&c/?:@!$'()*+,;=-._~")),
            "/a/?b=%41&c/?:@!$'()*+,;=-._~"
        );
        assert_eq!(directory_location(b"a", Some("%zz%4%")), "/a/?%25zz%254%25");
        assert_eq!(
            directory_location(b"a", Some("\"<>\\^`{|}[]ü")),
            "/a/?%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D%C3%BC"
        );
        assert_eq!(directory_location(b"a\r\nX: y", None), "/a%0D%0AX%3A%20y/");
    }
}
