//! Precomputed responses: heads with holes for dates, and the bodies behind them.
//!
//! In come a status, fields and a body, once, at start or when a cached entry is filled; out goes an
//! immutable [`Response`] that is shared by everyone who is sent it. A request then costs one copy
//! of its template and 29 bytes of Date: nothing is formatted and nothing is allocated.
//!
//! ```text
//! HTTP/1.1 200 OK\r\nDate: .............................\r\nServer: tared\r\n … Connection: keep-alive\r\n\r\n body
//!                          └ date_at, DATE_LEN bytes ──┘                                    head_len ┘ small bodies only
//! ```
//! The answer to HEAD is the same template cut at `head_len`.

use std::fs::File;
use std::io::{BufRead, IoSlice};
use std::ops::Range;
use std::rc::Rc;

use memmap2::Mmap;

use crate::clock::{DATE_LEN, Dates};
use crate::sys;
use crate::tally::{Call, Calls};

/// Bodies up to this size (bytes) stand behind their head in the template, so that head and body
/// leave as one copy and one piece. Beyond it a second piece costs less than copying.
pub const INLINE_MAX: usize = 2 * 1024;

/// A final HTTP status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// The reason phrase that IANA's registry of HTTP status codes gives, or nothing.
    pub fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            203 => "Non-Authoritative Information",
            204 => "No Content",
            205 => "Reset Content",
            206 => "Partial Content",
            207 => "Multi-Status",
            208 => "Already Reported",
            226 => "IM Used",
            300 => "Multiple Choices",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            304 => "Not Modified",
            305 => "Use Proxy",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            402 => "Payment Required",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            407 => "Proxy Authentication Required",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
            422 => "Unprocessable Content",
            423 => "Locked",
            424 => "Failed Dependency",
            425 => "Too Early",
            426 => "Upgrade Required",
            428 => "Precondition Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            451 => "Unavailable For Legal Reasons",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            506 => "Variant Also Negotiates",
            507 => "Insufficient Storage",
            508 => "Loop Detected",
            511 => "Network Authentication Required",
            _ => "",
        }
    }

    /// Its class (RFC 9110 §15), counted from 2xx on.
    pub fn class(self) -> usize {
        usize::from(self.0 / 100 - 2)
    }

    /// Whether a response with this status never has a body (RFC 9110 §15.3.5, §15.4.5).
    pub fn is_bodiless(self) -> bool {
        matches!(self.0, 204 | 304)
    }
}

/// A response field line. Whoever makes one has checked that the value holds no line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Field name, a token (RFC 9110 §5.1).
    pub name: String,
    /// Field value (RFC 9110 §5.5).
    pub value: String,
}

impl Field {
    /// A field `name: value`.
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }

    /// `Expires` (RFC 9111 §5.3), whose date is stamped in as the head leaves.
    pub fn expires() -> Self {
        Self::new("Expires", HOLE)
    }

    /// `defaults` less those that `own` names too, then all of `own`.
    pub fn merged(defaults: Vec<Field>, own: &[Field]) -> Vec<Field> {
        let named = |field: &Field| own.iter().any(|other| other.name.eq_ignore_ascii_case(&field.name));
        let mut fields: Vec<Field> = defaults.into_iter().filter(|field| !named(field)).collect();
        fields.extend_from_slice(own);
        fields
    }
}

/// The value of a field into which a date is stamped. No field that was typed has it: its value has no
/// blank at its ends.
const HOLE: &str = match str::from_utf8(&[b' '; DATE_LEN]) {
    Ok(hole) => hole,
    Err(_) => unreachable!(),
};

/// Field lines, rendered.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    expires_at: Option<usize>,
}

impl Lines {
    /// Renders `fields` in their order.
    pub fn new<'f>(fields: impl IntoIterator<Item = &'f Field>) -> Self {
        let mut lines = Self::default();
        for Field { name, value } in fields {
            if value == HOLE {
                lines.expires_at = Some(lines.bytes.len() + name.len() + ": ".len());
            }
            lines.bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        lines
    }

    /// Appends them to `out`, with Expires in its hole.
    pub(crate) fn stamp(&self, dates: &Dates, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(at) = self.expires_at {
            out[start + at..start + at + DATE_LEN].copy_from_slice(&dates.expires);
        }
    }
}

/// What follows a head.
///
/// The bytes of a mapping are only ever handed to the kernel: a load from a page whose file was
/// truncated would be SIGBUS, while a send from it is EFAULT. That is why a [`Mapping`] keeps them to
/// this room, which gives them out as [`IoSlice`]s for a write and in no other way.
#[derive(Debug)]
pub enum Body {
    /// Nothing, or it stands in the template.
    None,
    /// Our own memory.
    Bytes(Vec<u8>),
    /// Anonymous pages of zeros, which take no memory.
    Zeros(Mmap),
    /// A mapped file.
    Mapped(Mapping),
    /// The first `len` bytes of a file, which the kernel sends by itself (sendfile(2)).
    File {
        /// The file.
        file: Rc<File>,
        /// Bytes of it.
        len: u64,
    },
}

/// A whole file's mapping, and its descriptor, by which its size is checked while it is being sent.
#[derive(Debug)]
pub struct Mapping {
    map: Mmap,
    file: Rc<File>,
}

impl Mapping {
    /// Maps the first `len` bytes of `file`.
    ///
    /// # Errors
    /// The file, if it cannot be mapped.
    pub fn new(file: File, len: usize) -> Result<Self, File> {
        match sys::map(&file, len) {
            Ok(map) => Ok(Self { map, file: Rc::new(file) }),
            Err(_) => Err(file),
        }
    }
}

/// A span of a body, for the kernel to read.
pub(crate) enum Source<'b> {
    /// From memory.
    Memory(IoSlice<'b>),
    /// `len` bytes of a file from `offset` on.
    File { file: &'b File, offset: u64, len: usize },
}

impl Source<'_> {
    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::Memory(slice) => slice.len() as u64,
            Source::File { len, .. } => *len as u64,
        }
    }
}

impl Body {
    /// Bytes of it.
    pub fn len(&self) -> u64 {
        match self {
            Body::None => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Zeros(map) | Body::Mapped(Mapping { map, .. }) => map.len() as u64,
            Body::File { len, .. } => *len,
        }
    }

    /// Whether nothing follows the template.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `span` of it.
    pub(crate) fn source(&self, span: Range<u64>) -> Source<'_> {
        let within = span.start as usize..span.end as usize;
        match self {
            Body::None => Source::Memory(IoSlice::new(&[])),
            Body::Bytes(bytes) => Source::Memory(IoSlice::new(&bytes[within])),
            Body::Zeros(map) | Body::Mapped(Mapping { map, .. }) => {
                Source::Memory(IoSlice::new(&map[within]))
            }
            Body::File { file, .. } => Source::File { file, offset: span.start, len: within.len() },
        }
    }

    /// The file that is read while the body is sent.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Body::Mapped(Mapping { file, .. }) | Body::File { file, .. } => Some(file),
            Body::None | Body::Bytes(_) | Body::Zeros(_) => None,
        }
    }

    /// Whether the bytes before `end` are still there: false once a mapped file was cut shorter. A file
    /// that the kernel sends ends by itself.
    pub(crate) fn reaches(&self, end: u64, calls: &mut Calls) -> bool {
        match self {
            Body::Mapped(Mapping { file, .. }) => {
                calls.count(Call::Statx);
                file.metadata().is_ok_and(|metadata| metadata.len() >= end)
            }
            _ => true,
        }
    }
}

/// The three digits of the status in a response that begins with its head.
pub(crate) fn status_of(response: &[u8]) -> &[u8] {
    &response["HTTP/1.1 ".len()..][..3]
}

/// Bytes of the head that a response begins with, its blank line included.
pub(crate) fn len_of(response: &[u8]) -> usize {
    let mut rest = response;
    // Bytes of a line; reading memory does not fail.
    while let Ok(3..) = rest.skip_until(b'\n') {}
    response.len() - rest.len()
}

/// One precomputed head, with a small body behind it.
#[derive(Debug)]
pub struct Template {
    bytes: Box<[u8]>,
    head_len: usize,
    date_at: usize,
    expires_at: Option<usize>,
}

impl Template {
    /// Head and inlined body; the dates within are blank.
    pub fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the template to `out` with `dates` in their holes; the head alone unless `with_body`.
    pub(crate) fn stamp(&self, with_body: bool, dates: &Dates, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(if with_body { &self.bytes } else { &self.bytes[..self.head_len] });
        let date_at = start + self.date_at;
        out[date_at..date_at + DATE_LEN].copy_from_slice(&dates.date);
        if let Some(at) = self.expires_at {
            out[start + at..start + at + DATE_LEN].copy_from_slice(&dates.expires);
        }
    }
}

/// A precomputed response in both of its forms, keep-alive and close.
#[derive(Debug)]
pub struct Response {
    keep_alive: Template,
    close: Template,
    body: Body,
    class: usize,
}

impl Response {
    /// Renders the heads of a response. `fields` are written in their order, between Date and
    /// Content-Length, which is computed; `body` must be empty where the status forbids one.
    pub fn new(status: Status, fields: &[Field], body: Body) -> Self {
        assert!(!status.is_bodiless() || body.is_empty());
        let (body, inline) = match body {
            Body::Bytes(bytes) if bytes.len() <= INLINE_MAX => (Body::None, bytes),
            other => (other, Vec::new()),
        };
        let body_len = body.len() + inline.len() as u64;
        let template = |connection: &str| {
            let mut head = format!("HTTP/1.1 {} {}\r\nDate: ", status.0, status.reason()).into_bytes();
            let date_at = head.len();
            head.extend_from_slice(&[b' '; DATE_LEN]);
            head.extend_from_slice(b"\r\n");
            let lines = Lines::new(fields);
            let expires_at = lines.expires_at.map(|at| head.len() + at);
            head.extend_from_slice(&lines.bytes);
            if !status.is_bodiless() {
                head.extend_from_slice(format!("Content-Length: {body_len}\r\n").as_bytes());
            }
            head.extend_from_slice(format!("Connection: {connection}\r\n\r\n").as_bytes());
            let head_len = head.len();
            head.extend_from_slice(&inline);
            Template { bytes: head.into_boxed_slice(), head_len, date_at, expires_at }
        };
        Self { keep_alive: template("keep-alive"), close: template("close"), body, class: status.class() }
    }

    /// Its [`Status::class`].
    pub fn class(&self) -> usize {
        self.class
    }

    /// The template that says whether the connection stays open.
    pub fn template(&self, keep_alive: bool) -> &Template {
        if keep_alive { &self.keep_alive } else { &self.close }
    }

    /// What follows the template.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The same body for another head; one that is a file is the same open file.
    pub fn share_body(&self) -> Body {
        match &self.body {
            Body::None => Body::Bytes(self.inlined().to_vec()),
            Body::Bytes(bytes) => Body::Bytes(bytes.clone()),
            Body::Zeros(map) => Body::Bytes(map.to_vec()),
            Body::Mapped(Mapping { file, map }) => {
                Body::File { file: Rc::clone(file), len: map.len() as u64 }
            }
            Body::File { file, len } => Body::File { file: Rc::clone(file), len: *len },
        }
    }

    /// The body, where it stands in the template.
    pub(crate) fn inlined(&self) -> &[u8] {
        &self.keep_alive.bytes[self.keep_alive.head_len..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: &Dates =
        &Dates { date: *b"Sun, 06 Nov 1994 08:49:37 GMT", expires: *b"Mon, 07 Nov 1994 08:49:37 GMT" };

    fn stamped(response: &Response, keep_alive: bool, with_body: bool) -> String {
        let mut out = b"before".to_vec();
        response.template(keep_alive).stamp(with_body, DATES, &mut out);
        String::from_utf8(out).unwrap().strip_prefix("before").unwrap().to_owned()
    }

    #[test]
    fn a_small_body_stands_behind_each_head() {
        let fields = [Field::new("Server", "tared")];
        let response = Response::new(Status(200), &fields, Body::Bytes(b"Hello World\n".to_vec()));
        let head = |connection: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: tared\r\n\
                 Content-Length: 12\r\nConnection: {connection}\r\n\r\n"
            )
        };
        assert_eq!(stamped(&response, true, true), head("keep-alive") + "Hello World\n");
        assert_eq!(stamped(&response, false, true), head("close") + "Hello World\n");
        // RFC 9110 §9.3.2: the same fields as for GET, and no content.
        assert_eq!(stamped(&response, true, false), head("keep-alive"));
        assert!(response.body().is_empty());
    }

    #[test]
    fn a_larger_body_follows_as_a_piece_of_its_own() {
        let response = Response::new(Status(200), &[], Body::Bytes(vec![b'x'; INLINE_MAX + 1]));
        assert_eq!(response.body().len(), INLINE_MAX as u64 + 1);
        assert!(stamped(&response, true, true).ends_with("\r\n\r\n"));
        assert!(stamped(&response, true, true).contains(&format!("Content-Length: {}\r\n", INLINE_MAX + 1)));
    }

    #[test]
    fn a_bodiless_status_has_no_content_length() {
        // RFC 9110 §8.6: MUST NOT send Content-Length in a 204.
        for code in [204, 304] {
            let response = Response::new(Status(code), &[], Body::None);
            assert!(!stamped(&response, true, true).contains("Content-Length"));
        }
    }

    #[test]
    fn both_dates_are_stamped_where_both_are() {
        let fields = [Field::new("Server", "tared"), Field::expires(), Field::new("X", "y")];
        let response = Response::new(Status(200), &fields, Body::Bytes(b"Hi".to_vec()));
        assert_eq!(
            stamped(&response, true, true),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: tared\r\n\
             Expires: Mon, 07 Nov 1994 08:49:37 GMT\r\nX: y\r\nContent-Length: 2\r\n\
             Connection: keep-alive\r\n\r\nHi"
        );
    }

    #[test]
    fn own_fields_replace_defaults_of_the_same_name_and_may_repeat() {
        let defaults = vec![Field::new("Server", "tared"), Field::new("Content-Type", "text/html")];
        let own = [Field::new("server", "x"), Field::new("Link", "a"), Field::new("Link", "b")];
        let merged = Field::merged(defaults, &own);
        let text: Vec<_> = merged.iter().map(|field| format!("{}: {}", field.name, field.value)).collect();
        assert_eq!(text, ["Content-Type: text/html", "server: x", "Link: a", "Link: b"]);
    }
}
