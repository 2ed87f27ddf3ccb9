//! Bytes → the few facts about a request that change the answer. The only room that names httparse.
//!
//! In come the unread bytes of a connection; out comes a whole [`Request`] and the length of its
//! head, or that more bytes are needed, or why the request is refused. After a refusal from here
//! the framing is lost, so the connection closes with it (RFC 9112 §2.2, §9.3).

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Error, Header, ParserConfig, Status};

use crate::framing::Framing;
use crate::refusal::Refusal;

/// Bytes of the longest head that is read. Browsers send up to 4 KiB of cookies a site; nginx
/// allows 32 KiB in all, Apache 8 KiB a line. 16 KiB is between them, and arbitrary.
pub const HEAD_MAX: usize = 16 * 1024;

/// Field lines of the longest head that is read, as many as Apache's default.
const FIELDS_MAX: usize = 100;

/// Bytes of the longest target: RFC 9112 §3 recommends to support 8000 octets of request line.
pub const TARGET_MAX: usize = 8 * 1024;

/// What is asked for, as far as answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET (RFC 9110 §9.3.1)
    Get,
    /// HEAD (RFC 9110 §9.3.2)
    Head,
    /// OPTIONS (RFC 9110 §9.3.7)
    Options,
    /// CONNECT (RFC 9110 §9.3.6), of which a success would end HTTP on this connection
    Connect,
    /// TRACE (RFC 9110 §9.3.8), of which a success would send back the request
    Trace,
    /// Any other token
    Other,
}

/// The facts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// The method.
    pub method: Method,
    /// The target as it was sent (RFC 9112 §3.2).
    pub target: &'b [u8],
    /// Whether the client wants the connection to stay open (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// What follows the head.
    pub framing: Framing,
    /// What the client expects (RFC 9110 §10.1.1).
    pub expectation: Expectation,
    /// How it is said.
    pub dialect: Dialect,
    /// Whether a field line is a condition or a range (RFC 9110 §13, §14).
    pub is_conditional: bool,
}

impl Request<'_> {
    /// The facts that most requests share: no body, no conditions, nothing expected.
    const PLAIN: Self = Request {
        method: Method::Get,
        target: b"",
        keep_alive: true,
        framing: Framing::Length(0),
        expectation: Expectation::None,
        dialect: Dialect(0),
        is_conditional: false,
    };
}

/// How a request is said: what differs between clients and changes no answer by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect(u8);

impl Dialect {
    /// HTTP/1.0, and not HTTP/1.1.
    pub const HTTP_1_0: Self = Self(1);
    /// `Connection: keep-alive`.
    pub const KEEP_ALIVE: Self = Self(2);
    /// `Connection: close`.
    pub const CLOSE: Self = Self(4);
    /// No `Host`.
    pub const HOSTLESS: Self = Self(8);
    /// `Expect: 100-continue`.
    pub const EXPECT: Self = Self(16);

    /// How many there are.
    pub const COUNT: usize = 32;

    /// All of them, in the order of their [`Dialect::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// Below [`Dialect::COUNT`].
    pub fn index(self) -> usize {
        usize::from(self.0) % Self::COUNT
    }

    /// Whether it has what `other` has.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn of(minor: u8, connection: &ConnectionOptions, has_host: bool, expectation: Expectation) -> Self {
        let parts = [
            (minor == 0, Self::HTTP_1_0),
            (connection.keep_alive, Self::KEEP_ALIVE),
            (connection.close, Self::CLOSE),
            (!has_host, Self::HOSTLESS),
            (expectation == Expectation::Continue, Self::EXPECT),
        ];
        Self(parts.into_iter().filter(|&(is_so, _)| is_so).fold(0, |bits, (_, part)| bits | part.0))
    }
}

/// What a client waits for before it sends a body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expectation {
    /// Nothing
    None,
    /// `100-continue`
    Continue,
    /// What no server knows
    Unknown,
}

/// The field lines of a head whose grammar has been checked, to be searched by those few requests
/// that are not answered without them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    /// The field lines of `head`, in which a request line comes first.
    pub fn of_head(head: &'b [u8]) -> Self {
        let start = empty_lines_len(head);
        let line_len = head[start..].iter().position(|&byte| byte == b'\n').unwrap_or(head.len() - start);
        Self(&head[start + line_len..])
    }

    /// The values of all lines with the field name `name`, given in lower case.
    pub fn values(self, name: &'static str) -> impl DoubleEndedIterator<Item = &'b [u8]> {
        self.0.split(|&byte| byte == b'\n').filter_map(move |line| {
            let (own, rest) = line.split_at_checked(name.len())?;
            let value = rest.strip_prefix(b":")?;
            let is_it = own.eq_ignore_ascii_case(name.as_bytes());
            is_it.then(|| trim_ows(value.strip_suffix(b"\r").unwrap_or(value)))
        })
    }

    /// Whether there is such a line.
    pub fn has(self, name: &'static str) -> bool {
        self.values(name).next().is_some()
    }

    /// The value of a field that is no list: there is none where it is repeated (RFC 9110 §5.3).
    pub fn only(self, name: &'static str) -> Option<&'b [u8]> {
        let mut values = self.values(name);
        values.next().filter(|_| values.next().is_none())
    }
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fields").field(&String::from_utf8_lossy(self.0)).finish()
    }
}

/// What the bytes hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// A whole head of this many bytes.
    Complete(Request<'b>, usize),
    /// The beginning of one.
    Partial,
    /// The minor version, the byte at this index, is above 1. RFC 9110 §2.5: read it as the highest
    /// one understood, so put `1` in its place and parse again.
    HigherMinor(usize),
    /// Something that is refused, with the connection.
    Refused(Refusal),
}

/// Reads one request head from the start of `bytes`. What is said does not depend on how much follows:
/// nothing beyond [`HEAD_MAX`] is looked at.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let bytes = &bytes[..bytes.len().min(HEAD_MAX)];
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let parsed =
        match ParserConfig::default().parse_request_with_uninit_headers(&mut head, bytes, &mut fields) {
            Ok(Status::Complete(len)) => match facts(&head) {
                Ok(request) => Parsed::Complete(request, len),
                Err(refusal) => Parsed::Refused(refusal),
            },
            Ok(Status::Partial) => Parsed::Partial,
            Err(Error::TooManyHeaders) => Parsed::Refused(oversize(bytes)),
            Err(Error::Version) => other_version(bytes),
            Err(_) => Parsed::Refused(Refusal::Malformed),
        };
    match parsed {
        Parsed::Partial if bytes.len() == HEAD_MAX => Parsed::Refused(oversize(bytes)),
        parsed => parsed,
    }
}

/// Whether the request at the start of `bytes` says that it is HEAD, be it whole or not.
pub fn is_head(bytes: &[u8]) -> bool {
    bytes[empty_lines_len(bytes)..].starts_with(b"HEAD ")
}

/// The request line at the start of `bytes`, be it whole or well formed or not.
pub fn line(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[empty_lines_len(bytes)..];
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether `bytes` are more than the empty lines before a request line.
pub fn has_begun(bytes: &[u8]) -> bool {
    !matches!(bytes[empty_lines_len(bytes)..], [] | [b'\r'])
}

/// Bytes of the empty lines before a request line, which are ignored (RFC 9112 §2.2).
fn empty_lines_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    loop {
        match bytes[len..] {
            [b'\n', ..] => len += 1,
            [b'\r', b'\n', ..] => len += 2,
            _ => return len,
        }
    }
}

/// The head that was parsed last, and what it said.
///
/// Load tools, proxies and health checks send the same head again and again, on one connection and on
/// all of them. The facts are a function of the head's bytes alone, so where these are the same, blank
/// line included, comparing them replaces parsing them.
#[derive(Debug, Default)]
pub struct Recent {
    head: Vec<u8>,
    target: Range<usize>,
    method: Option<Method>,
    keep_alive: bool,
    dialect: Dialect,
}

impl Recent {
    /// As [`parse`].
    pub fn parse<'b>(&mut self, bytes: &'b [u8]) -> Parsed<'b> {
        if let Some(method) = self.method
            && bytes.starts_with(&self.head)
        {
            let target = &bytes[self.target.clone()];
            let (keep_alive, dialect) = (self.keep_alive, self.dialect);
            let request = Request { method, target, keep_alive, dialect, ..Request::PLAIN };
            return Parsed::Complete(request, self.head.len());
        }
        let parsed = parse(bytes);
        if let Parsed::Complete(request, len) = &parsed {
            self.remember(request, &bytes[..*len]);
        }
        parsed
    }

    fn remember(&mut self, request: &Request<'_>, head: &[u8]) {
        let Request { method, target, keep_alive, dialect, .. } = *request;
        let is_plain = *request == (Request { method, target, keep_alive, dialect, ..Request::PLAIN });
        // The target is what stands between the first two spaces.
        let mut spaces = head.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
        let (Some(first), Some(second), true) = (spaces.next(), spaces.next(), is_plain) else { return };
        self.head.clear();
        self.head.extend_from_slice(head);
        self.target = first + 1..second;
        (self.method, self.keep_alive, self.dialect) = (Some(method), keep_alive, dialect);
    }

    /// Who sent it, as far as it says so (RFC 9110 §10.1.5).
    pub fn user_agent(&self) -> Option<&[u8]> {
        Fields::of_head(&self.head).only("user-agent")
    }
}

fn facts<'b>(head: &httparse::Request<'_, 'b>) -> Result<Request<'b>, Refusal> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Refusal::Malformed);
    };
    if target.len() > TARGET_MAX {
        return Err(Refusal::TargetTooLong);
    }
    let mut host = None;
    let mut hosts = 0;
    let mut length = None;
    let mut chunked = false;
    let mut coded = false;
    let mut connection = ConnectionOptions::default();
    let mut expectation = Expectation::None;
    let mut is_conditional = false;
    for field in head.headers.iter() {
        match Known::of(field.name) {
            Known::Other => {}
            Known::Host => {
                hosts += 1;
                host = Some(field.value);
            }
            Known::Connection => connection.add(field.value),
            Known::Condition => is_conditional = true,
            Known::Expect => expectation = expectation.max(expected(field.value)),
            Known::ContentLength => {
                let value = content_length(field.value)?;
                if length.replace(value).is_some_and(|earlier| earlier != value) {
                    return Err(Refusal::LengthInvalid);
                }
            }
            Known::TransferEncoding => {
                // §6.3: chunked must be the last coding, and is applied once (§6.1).
                if chunked {
                    return Err(Refusal::CodingMisplaced);
                }
                coded = true;
                chunked = transfer_coding(field.value)?;
            }
        }
    }
    match host {
        Some(_) if hosts > 1 => return Err(Refusal::HostRepeated),
        Some(value) if !is_host(value) => return Err(Refusal::HostInvalid),
        None if minor == 1 => return Err(Refusal::HostMissing),
        _ => {}
    }
    let framing = match (coded, length) {
        (true, Some(_)) => return Err(Refusal::FramingAmbiguous),
        (true, None) if minor == 0 || !chunked => return Err(Refusal::CodingMisplaced),
        (true, None) => Framing::Chunked,
        (false, Some(n)) => Framing::Length(n),
        (false, None) => Framing::Length(0),
    };
    // RFC 9110 §10.1.1: an expectation in an HTTP/1.0 request is ignored.
    let expectation = if minor == 1 { expectation } else { Expectation::None };
    Ok(Request {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            "CONNECT" => Method::Connect,
            "TRACE" => Method::Trace,
            _ => Method::Other,
        },
        target: target.as_bytes(),
        // RFC 9112 §9.3
        keep_alive: !connection.close && (minor == 1 || connection.keep_alive),
        framing,
        expectation,
        dialect: Dialect::of(minor, &connection, host.is_some(), expectation),
        is_conditional,
    })
}

/// The fields that change the answer.
enum Known {
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Expect,
    /// A precondition or a range: they are looked at again when there is something to hold them against.
    Condition,
    Other,
}

impl Known {
    /// Which field `name` is. Its length and first letter leave one candidate or none, which most
    /// clients spell as the RFC does.
    fn of(name: &str) -> Self {
        let is = |known: &str| name == known || name.eq_ignore_ascii_case(known);
        let Some(first) = name.bytes().next() else { return Known::Other };
        match (name.len(), first | 0x20) {
            (4, b'h') if is("Host") => Known::Host,
            (10, b'c') if is("Connection") => Known::Connection,
            (14, b'c') if is("Content-Length") => Known::ContentLength,
            (17, b't') if is("Transfer-Encoding") => Known::TransferEncoding,
            (6, b'e') if is("Expect") => Known::Expect,
            (5, b'r') if is("Range") => Known::Condition,
            (8, b'i') if is("If-Match") || is("If-Range") => Known::Condition,
            (13, b'i') if is("If-None-Match") => Known::Condition,
            (17, b'i') if is("If-Modified-Since") => Known::Condition,
            (19, b'i') if is("If-Unmodified-Since") => Known::Condition,
            _ => Known::Other,
        }
    }
}

/// The connection options that matter here (RFC 9110 §7.6.1).
#[derive(Default)]
struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
}

impl ConnectionOptions {
    fn add(&mut self, value: &[u8]) {
        match value {
            // As nearly all clients write them.
            b"keep-alive" | b"Keep-Alive" => self.keep_alive = true,
            b"close" => self.close = true,
            list => self.add_list(list),
        }
    }

    fn add_list(&mut self, list: &[u8]) {
        for option in list.split(|&byte| byte == b',') {
            match trim_ows(option) {
                option if option.eq_ignore_ascii_case(b"close") => self.close = true,
                option if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                _ => {}
            }
        }
    }
}

/// `Content-Length = 1*DIGIT` (RFC 9110 §8.6).
fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() {
        return Err(Refusal::LengthInvalid);
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Refusal::LengthInvalid);
        }
        length.checked_mul(10).and_then(|l| l.checked_add(digit.into())).ok_or(Refusal::LengthInvalid)
    })
}

/// The most demanding member of the list (RFC 9110 §10.1.1).
fn expected(value: &[u8]) -> Expectation {
    let members = value.split(|&byte| byte == b',').map(|member| match trim_ows(member) {
        b"" => Expectation::None,
        member if member.eq_ignore_ascii_case(b"100-continue") => Expectation::Continue,
        _ => Expectation::Unknown,
    });
    members.max().unwrap_or(Expectation::None)
}

/// Whether the codings listed end in chunked; unknown ones are refused.
fn transfer_coding(value: &[u8]) -> Result<bool, Refusal> {
    let mut chunked = false;
    for coding in value.split(|&byte| byte == b',') {
        let coding = trim_ows(coding);
        if coding.is_empty() {
            continue;
        }
        if chunked {
            return Err(Refusal::CodingMisplaced);
        }
        if !coding.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::CodingUnknown);
        }
        chunked = true;
    }
    Ok(chunked)
}

/// Whether `value` is `uri-host [":" port]` (RFC 9110 §7.2), or empty, which is what a client sends
/// for a target without an authority.
fn is_host(value: &[u8]) -> bool {
    let host_len = match value.first() {
        Some(b'[') => value.iter().position(|&byte| byte == b']').map_or(0, |end| end + 1),
        _ => value.iter().position(|&byte| !HOST_BYTE[usize::from(byte)]).unwrap_or(value.len()),
    };
    let (host, rest) = value.split_at(host_len);
    let is_port = |rest: &[u8]| matches!(rest, [b':', port @ ..] if port.iter().all(u8::is_ascii_digit));
    (rest.is_empty() || is_port(rest)) && (is_plain_name(host) || is_uri_host(host))
}

/// Whether `value` is the authority of an `http` URI: a host that is not empty, without userinfo
/// (RFC 9110 §4.2.1, §4.2.4).
pub(crate) fn is_authority(value: &[u8]) -> bool {
    is_host(value) && !matches!(value.first(), None | Some(b':'))
}

/// Whether there is nothing in the name that would have to be looked at again.
fn is_plain_name(host: &[u8]) -> bool {
    !host.contains(&b'%') && host.first() != Some(&b'[')
}

/// `IP-literal / IPv4address / reg-name` (RFC 3986 §3.2.2); a reg-name may be empty.
fn is_uri_host(host: &[u8]) -> bool {
    if let Some(literal) = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")) {
        let is_v6 = std::str::from_utf8(literal).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
        return is_v6 || is_future_literal(literal);
    }
    let is_encoded = |escape: &[u8]| escape.len() >= 2 && escape[..2].iter().all(u8::is_ascii_hexdigit);
    host.iter().all(|&byte| HOST_BYTE[usize::from(byte)])
        && (!host.contains(&b'%') || host.split(|&byte| byte == b'%').skip(1).all(is_encoded))
}

/// `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`
fn is_future_literal(literal: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = literal else { return false };
    let Some(dot) = rest.iter().position(|&byte| byte == b'.') else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    let is_address_byte = |byte: &u8| *byte == b':' || (*byte != b'%' && HOST_BYTE[usize::from(*byte)]);
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(is_address_byte)
}

/// `unreserved / sub-delims / "%"` (RFC 3986 §2).
const HOST_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let rest = b"-._~!$&'()*+,;=%";
    let mut at = 0;
    while at < rest.len() {
        table[rest[at] as usize] = true;
        at += 1;
    }
    table
};

/// Cuts optional white space (RFC 9110 §5.6.3) from both ends.
pub(crate) fn trim_ows(bytes: &[u8]) -> &[u8] {
    let is_ows = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(|byte| !is_ows(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_ows(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

/// A head that is too large: is it for its target, or for its fields?
fn oversize(bytes: &[u8]) -> Refusal {
    let line = bytes[empty_lines_len(bytes)..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    match line.split(|&byte| byte == b' ').nth(1) {
        Some(target) if target.len() > TARGET_MAX => Refusal::TargetTooLong,
        _ => Refusal::HeadTooLarge,
    }
}

/// What to do about a version that is neither HTTP/1.0 nor HTTP/1.1.
fn other_version(bytes: &[u8]) -> Parsed<'_> {
    let line_start = empty_lines_len(bytes);
    let mut spaces = (line_start..bytes.len()).filter(|&at| bytes[at] == b' ');
    let Some(before_version) = spaces.nth(1) else { return Parsed::Refused(Refusal::Malformed) };
    let at = before_version + 1;
    // HTTP-version = HTTP-name "/" DIGIT "." DIGIT (RFC 9112 §2.3)
    let text = &bytes[at..bytes.len().min(at + 8)];
    let is_version_so_far = text.iter().zip(b"HTTP/0.0").all(|(byte, expected)| match expected {
        b'0' => byte.is_ascii_digit(),
        _ => byte == expected,
    });
    match text {
        _ if !is_version_so_far => Parsed::Refused(Refusal::Malformed),
        [.., b'1', b'.', b'2'..=b'9'] if text.len() == 8 => Parsed::HigherMinor(at + 7),
        _ if text.len() == 8 => Parsed::Refused(Refusal::VersionUnsupported),
        _ => Parsed::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> Request<'_> {
        match parse(bytes) {
            Parsed::Complete(request, len) if len == bytes.len() => request,
            other => panic!("{:?}: {other:?}", String::from_utf8_lossy(bytes)),
        }
    }

    #[track_caller]
    fn check_refused(head: &str, refusal: Refusal) {
        assert_eq!(parse(head.as_bytes()), Parsed::Refused(refusal), "{head:?}");
    }

    const AB: &str = "GET /0k.txt HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: 127.0.0.1:8080\r\n\
                      User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n";
    const WRK: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const CURL: &str = "\r\nPUT /a?b=c HTTP/1.1\r\nhost:[::1]:80\r\nExpect: 100-continue\r\n\
                        CONTENT-LENGTH: 5 \r\nTransfer-Encodings: x\r\n\r\n";
    const CHUNKED: &str = "HEAD * HTTP/1.1\r\nHost:\r\nTransfer-Encoding:\tChunked\r\n\r\n";

    /// Each head cut at every byte is Partial; whole, it is the same Complete whatever follows.
    #[test]
    fn a_head_is_whole_or_partial_wherever_it_is_cut() {
        for head in [AB, WRK, CURL, CHUNKED] {
            for cut in 0..head.len() {
                assert_eq!(parse(&head.as_bytes()[..cut]), Parsed::Partial, "{:?}", &head[..cut]);
            }
            let followed = format!("{head}GET /next");
            assert_eq!(parse(followed.as_bytes()), Parsed::Complete(request(head.as_bytes()), head.len()));
        }
    }

    #[test]
    fn the_facts_of_each_head() {
        let none = Framing::Length(0);
        let base = Request {
            method: Method::Get,
            target: b"/0k.txt",
            keep_alive: true,
            framing: none,
            expectation: Expectation::None,
            dialect: Dialect::default(),
            is_conditional: false,
        };
        let of_ab = Dialect(Dialect::HTTP_1_0.0 | Dialect::KEEP_ALIVE.0);
        assert_eq!(request(AB.as_bytes()), Request { dialect: of_ab, ..base });
        assert_eq!(request(WRK.as_bytes()), Request { target: b"/", ..base });
        assert_eq!(
            request(CURL.as_bytes()),
            Request {
                method: Method::Other,
                target: b"/a?b=c",
                framing: Framing::Length(5),
                expectation: Expectation::Continue,
                dialect: Dialect::EXPECT,
                ..base
            }
        );
        assert_eq!(
            request(CHUNKED.as_bytes()),
            Request { method: Method::Head, target: b"*", framing: Framing::Chunked, ..base }
        );
    }

    #[test]
    fn the_dialect_of_each_head() {
        use Dialect as D;
        for (head, parts) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", vec![]),
            ("GET / HTTP/1.0\r\n\r\n", vec![D::HTTP_1_0, D::HOSTLESS]),
            ("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", vec![D::HTTP_1_0, D::KEEP_ALIVE]),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n", vec![D::CLOSE]),
            ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", vec![D::EXPECT]),
            // An expectation in HTTP/1.0 is ignored, and one that nobody knows is another matter.
            ("PUT / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", vec![D::HTTP_1_0]),
            ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", vec![]),
        ] {
            let dialect = request(head.as_bytes()).dialect;
            for part in [D::HTTP_1_0, D::KEEP_ALIVE, D::CLOSE, D::HOSTLESS, D::EXPECT] {
                assert_eq!(dialect.has(part), parts.contains(&part), "{head:?} {part:?}");
            }
        }
    }

    /// What was parsed before makes no difference.
    #[test]
    fn a_recent_head_is_read_as_it_is_parsed() {
        let heads = [
            AB,
            WRK,
            CURL,
            CHUNKED,
            "GET /a HTTP/1.1\r\nHost: a\r\nRange: x\r\n\r\n",
            "\r\nHEAD /b HTTP/1.0\r\n\r\n",
        ];
        let mut recent = Recent::default();
        for first in heads {
            for second in heads {
                for head in
                    [first, first, second, first, &second[..second.len() - 1], &first[1..], "bad\r\n\r\n"]
                {
                    for follows in ["", "GET /"] {
                        let bytes = format!("{head}{follows}");
                        assert_eq!(recent.parse(bytes.as_bytes()), parse(bytes.as_bytes()), "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn methods_are_case_sensitive() {
        // RFC 9110 §9.1
        for (text, method) in [
            ("GET", Method::Get),
            ("HEAD", Method::Head),
            ("OPTIONS", Method::Options),
            ("CONNECT", Method::Connect),
            ("TRACE", Method::Trace),
            ("get", Method::Other),
            ("GETS", Method::Other),
            ("POST", Method::Other),
        ] {
            let head = format!("{text} / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(request(head.as_bytes()).method, method, "{text}");
        }
    }

    /// RFC 9112 §9.3, line by line.
    #[test]
    fn persistence() {
        for (version, connection, keep_alive) in [
            ("1.1", None, true),
            ("1.1", Some("keep-alive"), true),
            ("1.1", Some("close"), false),
            ("1.1", Some("CLOSE"), false),
            ("1.1", Some("close, keep-alive"), false),
            ("1.1", Some("foo,close"), false),
            ("1.1", Some("foo ,\tclose ,"), false),
            ("1.1", Some("closed"), true),
            ("1.1", Some("keep-alive\r\nConnection: close"), false),
            ("1.0", None, false),
            ("1.0", Some("keep-alive"), true),
            ("1.0", Some("Keep-Alive"), true),
            ("1.0", Some("foo, Keep-Alive"), true),
            ("1.0", Some("keep-alive, close"), false),
            ("1.0", Some("close"), false),
            ("1.0", Some("keep-alives"), false),
        ] {
            let line = connection.map(|value| format!("Connection: {value}\r\n")).unwrap_or_default();
            let head = format!("GET / HTTP/{version}\r\nHost: a\r\n{line}\r\n");
            assert_eq!(request(head.as_bytes()).keep_alive, keep_alive, "{head:?}");
        }
    }

    #[test]
    fn versions() {
        // RFC 9110 §2.5, §15.6.6; RFC 9112 §2.3
        let head = |version: &str| format!("GET / {version}\r\nHost: a\r\n\r\n");
        for version in ["HTTP/1.2", "HTTP/1.9"] {
            let mut bytes = head(version).into_bytes();
            assert_eq!(parse(&bytes), Parsed::HigherMinor(13));
            bytes[13] = b'1';
            assert!(request(&bytes).keep_alive);
        }
        for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/9.9"] {
            check_refused(&head(version), Refusal::VersionUnsupported);
        }
        for version in
            ["HTTP/1", "HTTP/1.10", "HTTP/11.1", "http/1.1", "HTTP/1.1x", "HTP/1.1", "HTTP/-1.1", "HTTP/ 1.1"]
        {
            check_refused(&head(version), Refusal::Malformed);
        }
        check_refused("GET /\r\nHost: a\r\n\r\n", Refusal::Malformed);
        check_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refusal::VersionUnsupported);
    }

    #[test]
    fn hosts() {
        // RFC 9112 §3.2, RFC 9110 §7.2, RFC 3986 §3.2.2
        for host in [
            "a",
            "a:80",
            "a:",
            "",
            ":80",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "[::ffff:1.2.3.4]",
            "[v1.x:y]",
            "a-b_c.d~e",
            "%41",
            "a%e9.b",
            "!$&'()*+,;=",
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            request(head.as_bytes());
            assert_eq!(is_authority(host.as_bytes()), !host.is_empty() && host != ":80", "{host}");
        }
        for host in [
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "u@a",
            "a:b",
            "a:80:80",
            "[::1",
            "[]",
            "[::1]x",
            "[::1]]",
            "x[::1]",
            "[g/]",
            "[zz]",
            "[:]",
            "[1]",
            "[::1%25eth0]",
            "[v.x]",
            "[v1.]",
            "[v1]",
            "[vg.x]",
            "[v1.%41]",
            "::1",
            "a\"b",
            "a\\b",
            "a%zz",
            "a%",
            "a%4",
            "%%41",
            "\u{e9}",
        ] {
            check_refused(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), Refusal::HostInvalid);
            check_refused(&format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"), Refusal::HostInvalid);
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
        check_refused("GET / HTTP/1.1\r\n\r\n", Refusal::HostMissing);
        check_refused("GET http://a/ HTTP/1.1\r\n\r\n", Refusal::HostMissing);
        check_refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Refusal::HostRepeated);
        check_refused("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Refusal::HostRepeated);
        request(b"GET / HTTP/1.0\r\n\r\n");
    }

    /// RFC 9112 §6.1, §6.3: what the head says about the body behind it.
    #[test]
    fn framing() {
        use Refusal::*;
        let max = u64::MAX.to_string();
        for (version, fields, expected) in [
            ("1.1", "", Ok(Framing::Length(0))),
            ("1.1", "Content-Length: 0", Ok(Framing::Length(0))),
            ("1.1", "Content-Length: 0005", Ok(Framing::Length(5))),
            ("1.1", &format!("Content-Length: {max}"), Ok(Framing::Length(u64::MAX))),
            ("1.1", "Content-Length: 5\r\nContent-Length: 5", Ok(Framing::Length(5))),
            ("1.1", "Content-Length: 5\r\nContent-Length: 6", Err(LengthInvalid)),
            ("1.1", "Content-Length: 5, 6", Err(LengthInvalid)),
            ("1.1", "Content-Length: +5", Err(LengthInvalid)),
            ("1.1", "Content-Length: -5", Err(LengthInvalid)),
            ("1.1", "Content-Length: 0x5", Err(LengthInvalid)),
            ("1.1", "Content-Length: 5x", Err(LengthInvalid)),
            ("1.1", "Content-Length: 5 5", Err(LengthInvalid)),
            ("1.1", "Content-Length: 5.0", Err(LengthInvalid)),
            ("1.1", "Content-Length:", Err(LengthInvalid)),
            ("1.1", &format!("Content-Length: {max}0"), Err(LengthInvalid)),
            ("1.1", "Content-Length: 18446744073709551621", Err(LengthInvalid)),
            ("1.1", "Transfer-Encoding: chunked", Ok(Framing::Chunked)),
            ("1.1", "Transfer-Encoding: , ChunkeD ,", Ok(Framing::Chunked)),
            ("1.1", "Transfer-Encoding: ,chunked", Ok(Framing::Chunked)),
            ("1.1", "Transfer-Encoding: gzip", Err(CodingUnknown)),
            ("1.1", "Transfer-Encoding: gzip, chunked", Err(CodingUnknown)),
            ("1.1", "Transfer-Encoding: identity", Err(CodingUnknown)),
            ("1.1", "Transfer-Encoding: xchunked", Err(CodingUnknown)),
            ("1.1", "Transfer-Encoding: \"chunked\"", Err(CodingUnknown)),
            ("1.1", "Transfer-Encoding: chunked, gzip", Err(CodingMisplaced)),
            ("1.1", "Transfer-Encoding: chunked, chunked", Err(CodingMisplaced)),
            ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Err(CodingMisplaced)),
            ("1.1", "Transfer-Encoding:", Err(CodingMisplaced)),
            ("1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked", Err(FramingAmbiguous)),
            ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5", Err(FramingAmbiguous)),
            ("1.1", "Transfer-Encoding:\r\nContent-Length: 5", Err(FramingAmbiguous)),
            ("1.0", "Transfer-Encoding: chunked", Err(CodingMisplaced)),
        ] {
            let head = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n\r\n");
            let head = head.replace("\r\n\r\n\r\n", "\r\n\r\n");
            match expected {
                Ok(framing) => assert_eq!(request(head.as_bytes()).framing, framing, "{head:?}"),
                Err(refusal) => check_refused(&head, refusal),
            }
        }
    }

    #[test]
    fn what_breaks_the_grammar() {
        // RFC 9112 §2.2, §3, §5.1, §5.2; RFC 9110 §5.5, §5.6.2
        for head in [
            "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
            " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\u{0} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\rHost: a HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{0}b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n(x): y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nx\u{e9}: y\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            "\r\rHEAD / HTTP/1.1\r\n",
        ] {
            check_refused(head, Refusal::Malformed);
        }
        let mut ows = b"GET / HTTP/1.1\r\nHost:\t a \t\r\nX:\r\nY: ".to_vec();
        ows.extend_from_slice(b"\xff\xfe\r\nEveryTchar!#$%&'*+-.^_`|~09: z\r\n\r\n");
        request(&ows);
    }

    #[test]
    fn expectations() {
        // RFC 9110 §10.1.1, §5.6.1.2
        for (value, expectation) in [
            ("100-continue", Expectation::Continue),
            ("100-Continue", Expectation::Continue),
            ("100-continue, ,100-continue,", Expectation::Continue),
            ("", Expectation::None),
            ("100-continue=x", Expectation::Unknown),
            ("100-continue, x", Expectation::Unknown),
            ("x\r\nExpect: 100-continue", Expectation::Unknown),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nExpect: {value}\r\n\r\n");
            assert_eq!(request(head.as_bytes()).expectation, expectation, "{value:?}");
            let old = head.replace("HTTP/1.1", "HTTP/1.0");
            assert_eq!(request(old.as_bytes()).expectation, Expectation::None, "{value:?}");
        }
    }

    #[test]
    fn a_head_is_known_by_its_line() {
        for (bytes, is_it) in [
            ("HEAD / HTTP/1.1", true),
            ("\r\n\nHEAD /", true),
            ("HEAD", false),
            ("HEADS /", false),
            ("head /", false),
            ("\rHEAD /", false),
            ("\r\r\nHEAD /", false),
            ("", false),
        ] {
            assert_eq!(is_head(bytes.as_bytes()), is_it, "{bytes:?}");
        }
    }

    #[test]
    fn limits() {
        let target = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(len - 1));
        request(target(TARGET_MAX).as_bytes());
        check_refused(&target(TARGET_MAX + 1), Refusal::TargetTooLong);
        check_refused(&format!("GET /{}", "x".repeat(HEAD_MAX)), Refusal::TargetTooLong);

        let fields = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(n - 1));
        request(fields(FIELDS_MAX).as_bytes());
        check_refused(&fields(FIELDS_MAX + 1), Refusal::HeadTooLarge);

        let frame = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
        let head =
            |len: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(len - frame));
        request(head(HEAD_MAX).as_bytes());
        check_refused(&head(HEAD_MAX + 1), Refusal::HeadTooLarge);
        check_refused(&head(HEAD_MAX + 2)[..HEAD_MAX], Refusal::HeadTooLarge);
        check_refused(&"\r\n".repeat(HEAD_MAX / 2), Refusal::HeadTooLarge);
        // What is refused is the same however much has arrived.
        let long_target = format!("{}X: {}", target(TARGET_MAX + 1).trim_end(), "y".repeat(HEAD_MAX));
        check_refused(&long_target, Refusal::TargetTooLong);
        check_refused(&long_target[..HEAD_MAX], Refusal::TargetTooLong);
        let bad_behind = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\nY : z", "y".repeat(HEAD_MAX));
        check_refused(&bad_behind, Refusal::HeadTooLarge);
        check_refused(
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "X: y\r\n".repeat(200)),
            Refusal::HeadTooLarge,
        );
        let many_and_long = format!("{}\r\n{}", target(TARGET_MAX + 1).trim_end(), "X: y\r\n".repeat(200));
        check_refused(&many_and_long, Refusal::TargetTooLong);
    }
}
