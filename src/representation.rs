//! One state of a file as HTTP tells of it: its validators, and the answers made of them.
//!
//! 200 and 304 are rendered when the entry is filled. A 206 is written into the outbox as it is asked
//! for: its heads are a few integers around lines that are rendered too, and its bytes come from the
//! body that the 200 has.

use std::io::Write;
use std::rc::Rc;

use crate::clock::Dates;
use crate::coding::Coding;
use crate::head::{Body, Field, Lines, Response, Status};
use crate::outbox::Outbox;
use crate::plan::Validators;
use crate::range::Span;
use crate::refusal;

/// The fields that a 304 repeats because a cache updates them (RFC 9110 §15.4.5); Date is in every
/// head, and ETag is ours. The last two decide about a response whoever may read it (Fetch §3.2).
const KEPT_BY_CACHES: [&str; 6] = [
    "Cache-Control",
    "Content-Location",
    "Expires",
    "Vary",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
];

/// A file's representation.
#[derive(Debug)]
pub struct Representation {
    /// What conditions are held against.
    pub validators: Validators,
    /// The answer with all of it.
    pub whole: Rc<Response>,
    /// The answer that a client's copy is still good.
    pub not_modified: Rc<Response>,
    content_type: String,
    content_encoding: Option<Field>,
    /// All field lines of the 200 but Content-Type.
    part_lines: Lines,
    len: u64,
    /// The same with a content coding.
    coded: Vec<(Coding, Rc<Representation>)>,
}

impl Representation {
    /// Renders what is said of `body`: `fields` for all, the validators' own fields added.
    pub fn new(fields: &[Field], validators: Validators, last_modified: Option<String>, body: Body) -> Self {
        let len = body.len();
        let mut all = fields.to_vec();
        let quoted = format!("\"{}\"", validators.etag.opaque);
        let etag = if validators.etag.is_weak { format!("W/{quoted}") } else { quoted };
        all.extend(last_modified.map(|date| Field::new("Last-Modified", date)));
        all.push(Field::new("ETag", &*etag));
        all.push(Field::new("Accept-Ranges", "bytes"));

        let is_named = |field: &Field, name: &str| field.name.eq_ignore_ascii_case(name);
        let is_kept = |field: &Field| {
            is_named(field, "Server")
                || is_named(field, "ETag")
                || KEPT_BY_CACHES.iter().any(|name| is_named(field, name))
        };
        let kept: Vec<Field> = all.iter().filter(|field| is_kept(field)).cloned().collect();
        let of_parts = all.iter().filter(|field| !is_named(field, "Content-Type"));
        let content_type = all.iter().find(|field| is_named(field, "Content-Type"));
        Self {
            validators,
            not_modified: Rc::new(Response::new(Status(304), &kept, Body::None)),
            content_type: content_type.map(|field| field.value.clone()).unwrap_or_default(),
            content_encoding: all.iter().find(|field| is_named(field, "Content-Encoding")).cloned(),
            part_lines: Lines::new(of_parts),
            len,
            coded: Vec::new(),
            whole: Rc::new(Response::new(Status(200), &all, body)),
        }
    }

    /// With these forms of it, each with its content coding.
    pub fn with_coded(self, coded: Vec<(Coding, Rc<Representation>)>) -> Self {
        Self { coded, ..self }
    }

    /// The forms of it that have a content coding.
    pub fn coded(&self) -> &[(Coding, Rc<Representation>)] {
        &self.coded
    }

    /// Files that are read while it is sent, in any form.
    pub fn open_files(&self) -> usize {
        let of_forms: usize = self.coded.iter().map(|(_, form)| form.open_files()).sum();
        of_forms + usize::from(self.whole.body().file().is_some())
    }

    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What its fields say of its type and coding.
    pub fn content(&self) -> Vec<Field> {
        let content_type = Field::new("Content-Type", &*self.content_type);
        [content_type].into_iter().chain(self.content_encoding.clone()).collect()
    }

    /// 416 (RFC 9110 §15.5.17), with fields of every response and with a page of the site's own, if there
    /// is one.
    pub fn not_satisfiable(&self, always: &[Field], page: Option<(Vec<Field>, Body)>) -> Response {
        let status = Status(416);
        let sentence = format!("No byte of the range is among the {} bytes there are.", self.len);
        let (content, body) =
            page.unwrap_or_else(|| (vec![refusal::html()], Body::Bytes(refusal::page(status, &sentence))));
        let mut fields = vec![Field::new("Server", "tared")];
        fields.extend(content);
        fields.push(Field::new("Content-Range", format!("bytes */{}", self.len)));
        fields.extend_from_slice(always);
        Response::new(status, &fields, body)
    }

    /// Puts a 206 with `spans` into `outbox` (RFC 9110 §15.3.7). It has all the fields of the 200,
    /// also after If-Range, where §15.3.7 would have fewer: clients are known to read the type anew.
    pub fn push_parts(
        &self,
        spans: &[Span],
        keep_alive: bool,
        dates: &Dates,
        boundary: &str,
        outbox: &mut Outbox,
    ) {
        match spans {
            [span] => {
                let lines = |out: &mut Vec<u8>| {
                    put(out, format_args!("Content-Type: {}\r\n", self.content_type));
                    self.put_content_range(out, span);
                };
                outbox.push_own(|out| self.put_head(out, dates, lines, span.end - span.start, keep_alive));
                outbox.push_span(&self.whole, span.clone());
            }
            spans => {
                let part_head = |out: &mut Vec<u8>, span: &Span, is_first: bool| {
                    put(out, format_args!("{}--{boundary}\r\n", if is_first { "" } else { "\r\n" }));
                    put(out, format_args!("Content-Type: {}\r\n", self.content_type));
                    self.put_content_range(out, span);
                    out.extend_from_slice(b"\r\n");
                };
                let close = |out: &mut Vec<u8>| put(out, format_args!("\r\n--{boundary}--\r\n"));
                let body_len = |out: &mut Vec<u8>| {
                    let start = out.len();
                    for (at, span) in spans.iter().enumerate() {
                        part_head(out, span, at == 0);
                    }
                    close(out);
                    let frame_len = out.len() - start;
                    out.truncate(start);
                    frame_len as u64 + spans.iter().map(|span| span.end - span.start).sum::<u64>()
                };
                let lines = |out: &mut Vec<u8>| {
                    put(out, format_args!("Content-Type: multipart/byteranges; boundary={boundary}\r\n"));
                };
                outbox.push_own(|out| {
                    let body_len = body_len(out);
                    self.put_head(out, dates, lines, body_len, keep_alive);
                });
                for (at, span) in spans.iter().enumerate() {
                    outbox.push_own(|out| part_head(out, span, at == 0));
                    outbox.push_span(&self.whole, span.clone());
                }
                outbox.push_own(close);
            }
        }
    }

    fn put_head(
        &self,
        out: &mut Vec<u8>,
        dates: &Dates,
        lines: impl Fn(&mut Vec<u8>),
        len: u64,
        keep_alive: bool,
    ) {
        out.extend_from_slice(b"HTTP/1.1 206 Partial Content\r\nDate: ");
        out.extend_from_slice(&dates.date);
        out.extend_from_slice(b"\r\n");
        self.part_lines.stamp(dates, out);
        lines(out);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        put(out, format_args!("Content-Length: {len}\r\nConnection: {connection}\r\n\r\n"));
    }

    fn put_content_range(&self, out: &mut Vec<u8>, span: &Span) {
        put(out, format_args!("Content-Range: bytes {}-{}/{}\r\n", span.start, span.end - 1, self.len));
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec never fails.
    let _ = out.write_fmt(text);
}

/// A boundary that nobody can know before this process has chosen it, so that no file holds it: its
/// bytes are not looked through (RFC 2046 §5.1.1).
pub fn boundary() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Sent;
    use crate::outbox::fake::Taker;
    use crate::plan::ETag;
    use crate::range::{Wanted, wanted};
    use crate::tally::Tally;

    const DATES: &Dates =
        &Dates { date: *b"Sun, 06 Nov 1994 08:49:37 GMT", expires: *b"Mon, 07 Nov 1994 08:49:37 GMT" };

    fn representation(body: &[u8]) -> Representation {
        let fields = [
            Field::new("Server", "tared"),
            Field::new("Content-Type", "text/plain"),
            Field::new("Cache-Control", "no-cache"),
            Field::new("X-Own", "y"),
        ];
        let etag = ETag { opaque: "tag".to_owned(), is_weak: false };
        let validators = Validators { etag, modified: None, is_date_strong: false };
        Representation::new(&fields, validators, Some("then".to_owned()), Body::Bytes(body.to_vec()))
    }

    fn whole(response: &Response) -> String {
        String::from_utf8(response.template(true).whole().to_vec()).unwrap()
    }

    fn parts(representation: &Representation, range: &str) -> String {
        let Wanted::Spans(spans) = wanted(range.as_bytes(), representation.len()) else { panic!("{range}") };
        let mut outbox = Outbox::default();
        representation.push_parts(&spans, true, DATES, "BOUNDARY", &mut outbox);
        let mut socket = Taker::wide();
        assert_eq!(outbox.send(&mut socket, &mut Tally::default()), Sent::All);
        String::from_utf8(socket.taken).unwrap()
    }

    #[test]
    fn what_a_200_and_a_304_say() {
        let representation = representation(b"0123456789");
        let text = whole(&representation.whole);
        for line in
            ["ETag: \"tag\"", "Last-Modified: then", "Accept-Ranges: bytes", "X-Own: y", "Content-Length: 10"]
        {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
        // RFC 9110 §15.4.5: ETag, Date, Cache-Control and their like, and no other metadata.
        let text = whole(&representation.not_modified);
        let names: Vec<_> = text.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(names, ["Date", "Server", "Cache-Control", "ETag", "Connection"]);
    }

    #[test]
    fn one_part() {
        let expected = "HTTP/1.1 206 Partial Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: tared\r\n\
            Cache-Control: no-cache\r\nX-Own: y\r\nLast-Modified: then\r\nETag: \"tag\"\r\nAccept-Ranges: bytes\r\n\
            Content-Type: text/plain\r\nContent-Range: bytes 2-4/10\r\nContent-Length: 3\r\n\
            Connection: keep-alive\r\n\r\n234";
        assert_eq!(parts(&representation(b"0123456789"), "bytes=2-4"), expected);
    }

    /// RFC 9110 §14.6, §15.3.7.2: parts with a type and a range each, none in the head.
    #[test]
    fn several_parts() {
        for len in [10usize, 10_000] {
            let body: Vec<u8> = (b'0'..=b'9').cycle().take(len).collect();
            let text = parts(&representation(&body), "bytes=7-8,0-0,-1");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let part = |range: &str, bytes: &str| {
                format!(
                    "--BOUNDARY\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/{len}\r\n\r\n{bytes}\r\n"
                )
            };
            let last = len - 1;
            let expected = match len {
                10 => part("7-9", "789") + &part("0-0", "0"),
                _ => part("7-8", "78") + &part("0-0", "0") + &part(&format!("{last}-{last}"), "9"),
            };
            assert_eq!(body, expected + "--BOUNDARY--\r\n");
            assert!(head.contains("\r\nContent-Type: multipart/byteranges; boundary=BOUNDARY\r\n"), "{head}");
            assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
            assert!(!head.contains("Content-Range"), "{head}");
        }
    }

    #[test]
    fn a_416_says_how_long_it_is() {
        let text = whole(&representation(b"0123456789").not_satisfiable(&[], None));
        assert!(text.starts_with("HTTP/1.1 416 Range Not Satisfiable\r\n"));
        assert!(text.contains("\r\nContent-Range: bytes */10\r\n"));
    }

    #[test]
    fn boundaries_are_not_to_be_guessed() {
        assert_ne!(boundary(), boundary());
        assert_eq!(boundary().len(), 32);
    }
}
