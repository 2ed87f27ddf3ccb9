//! The reasons for which a request is refused, and what the client is told.
//!
//! A [`Refusal`] is a small `Copy` word that already names the reply: its status and one sentence.
//! The rooms that find a fault return it; [`Refusals`] holds the replies, precomputed.

use std::rc::Rc;

use crate::head::{Body, Field, Response, Status};

/// Why a request is not answered with what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not HTTP/1 at all: request line or a field line breaks the grammar (RFC 9112 §2.2).
    Malformed,
    /// HTTP/1.1 without `Host` (RFC 9112 §3.2).
    HostMissing,
    /// More than one `Host` line (RFC 9112 §3.2).
    HostRepeated,
    /// A `Host` that is no `uri-host [":" port]` (RFC 9110 §7.2).
    HostInvalid,
    /// `Content-Length` is no number, or two of them disagree (RFC 9112 §6.3).
    LengthInvalid,
    /// `Content-Length` and `Transfer-Encoding` together (RFC 9112 §6.1).
    FramingAmbiguous,
    /// `Transfer-Encoding` in HTTP/1.0, or `chunked` not last (RFC 9112 §6.1, §6.3).
    CodingMisplaced,
    /// A transfer coding other than chunked (RFC 9112 §6.1).
    CodingUnknown,
    /// A chunked body that breaks the grammar (RFC 9112 §7.1).
    ChunkMalformed,
    /// A chunked body beyond what is skipped for a client.
    BodyTooLarge,
    /// A target that is no form of RFC 9112 §3.2, or with a bad percent-encoding.
    TargetInvalid,
    /// The file or a directory on the way may not be read.
    Forbidden,
    /// Nothing of that name is served.
    NotFound,
    /// Only GET, HEAD and OPTIONS (RFC 9110 §15.5.6).
    MethodNotAllowed,
    /// The rest of a request did not come in time (RFC 9110 §15.5.9).
    TimedOut,
    /// A condition of the request does not hold (RFC 9110 §15.5.13).
    PreconditionFailed,
    /// A target longer than [`crate::request::TARGET_MAX`].
    TargetTooLong,
    /// An expectation other than 100-continue (RFC 9110 §15.5.18).
    ExpectationFailed,
    /// A head longer than [`crate::request::HEAD_MAX`] or with too many fields (RFC 6585 §5).
    HeadTooLarge,
    /// The file is there, but reading it failed.
    Unreadable,
    /// No descriptor or memory is free to open the file just now.
    Overloaded,
    /// A major version other than 1 (RFC 9110 §15.6.6).
    VersionUnsupported,
}

/// The methods that a file understands.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Every refusal with its status and its sentence, in the order of the enum.
const TABLE: [(Refusal, Status, &str); 22] = {
    use Refusal::*;
    [
        (Malformed, Status(400), "The request line or a field line breaks the grammar of HTTP/1.1."),
        (HostMissing, Status(400), "An HTTP/1.1 request needs a Host field."),
        (HostRepeated, Status(400), "There is more than one Host field."),
        (HostInvalid, Status(400), "The Host field is no host with an optional port."),
        (LengthInvalid, Status(400), "Content-Length is no number, or given twice with different values."),
        (FramingAmbiguous, Status(400), "Content-Length and Transfer-Encoding exclude each other."),
        (CodingMisplaced, Status(400), "Transfer-Encoding needs HTTP/1.1 and chunked as its last coding."),
        (CodingUnknown, Status(501), "The only transfer coding understood here is chunked."),
        (ChunkMalformed, Status(400), "The chunked body breaks the grammar of HTTP/1.1."),
        (BodyTooLarge, Status(413), "The request body is larger than what is skipped here."),
        (TargetInvalid, Status(400), "The request target is no valid path."),
        (Forbidden, Status(403), "This may not be read."),
        (NotFound, Status(404), "There is nothing here under this name."),
        (MethodNotAllowed, Status(405), "Only GET, HEAD and OPTIONS are answered here."),
        (TimedOut, Status(408), "The rest of the request did not come in time."),
        (PreconditionFailed, Status(412), "A condition of the request does not hold: this has changed."),
        (TargetTooLong, Status(414), "The request target is longer than 8 KiB."),
        (ExpectationFailed, Status(417), "The only expectation met here is 100-continue."),
        (HeadTooLarge, Status(431), "The request head is larger than 16 KiB or has more than 100 fields."),
        (Unreadable, Status(500), "The file could not be read."),
        (Overloaded, Status(503), "There is no room to open the file just now; try again soon."),
        (VersionUnsupported, Status(505), "Only HTTP/1.0 and HTTP/1.1 are spoken here."),
    ]
};

// A refusal is the index of its own row.
const _: () = {
    let mut row = 0;
    while row < TABLE.len() {
        assert!(TABLE[row].0 as usize == row);
        row += 1;
    }
};

impl Refusal {
    /// The status that goes with it.
    pub fn status(self) -> Status {
        TABLE[self as usize].1
    }
}

/// The replies to all refusals, built once at start.
#[derive(Debug)]
pub struct Refusals {
    replies: Vec<Rc<Response>>,
    always: Vec<Field>,
    varies_by_accept: bool,
}

impl Refusals {
    /// Builds a reply for each refusal: a short HTML page saying the status in words and the cause.
    /// `always` are fields of every response; `varies_by_accept` says that clients who ask for HTML are
    /// answered where others are told that there is nothing.
    pub fn new(always: Vec<Field>, varies_by_accept: bool) -> Self {
        let mut refusals = Self { replies: Vec::new(), always, varies_by_accept };
        refusals.replies = TABLE
            .iter()
            .map(|&(refusal, status, sentence)| {
                let body = Body::Bytes(page(status, sentence));
                Rc::new(refusals.render(refusal, vec![html()], body))
            })
            .collect();
        refusals
    }

    /// The reply to `refusal`.
    pub fn reply(&self, refusal: Refusal) -> &Rc<Response> {
        &self.replies[refusal as usize]
    }

    /// A reply to `refusal` with this body, of which `content` says what it is.
    pub fn render(&self, refusal: Refusal, content: Vec<Field>, body: Body) -> Response {
        let mut fields = vec![Field::new("Server", "tared")];
        fields.extend(content);
        if refusal == Refusal::MethodNotAllowed {
            fields.push(Field::new("Allow", ALLOW));
        }
        if refusal == Refusal::NotFound && self.varies_by_accept {
            fields.push(Field::new("Vary", "Accept"));
        }
        fields.extend_from_slice(&self.always);
        Response::new(refusal.status(), &fields, body)
    }
}

/// The type of [`page`].
pub(crate) fn html() -> Field {
    Field::new("Content-Type", "text/html; charset=utf-8")
}

/// A short plain page that says `status` in words. `sentence` must be free of markup.
pub(crate) fn page(status: Status, sentence: &str) -> Vec<u8> {
    let (code, reason) = (status.0, status.reason());
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{code} {reason}</title>\n\
         <h1>{code} {reason}</h1>\n<p>{sentence}</p>\n</html>\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_names_its_status_in_words() {
        let refusals = Refusals::new(Vec::new(), false);
        for (refusal, status, sentence) in TABLE {
            let text = String::from_utf8(refusals.reply(refusal).template(true).whole().to_vec()).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {} {}\r\n", status.0, status.reason())), "{text}");
            assert!(!status.reason().is_empty());
            assert!(text.contains(sentence), "{text}");
            // RFC 9110 §15.5.6: the origin server MUST generate Allow in a 405.
            assert_eq!(status.0 == 405, text.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{text}");
        }
    }
}
