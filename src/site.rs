//! What is served: one precomputed response, or a directory. Request → the response that answers it.
//!
//! `--fixed` answers every request alike. A directory takes the longer road: target → path → entry,
//! or a refusal.

use std::rc::Rc;
use std::time::Instant;

use crate::clock::Clock;
use crate::files::{Files, Miss};
use crate::head::{Body, Field, Response, Status};
use crate::refusal::{self, Refusal, Refusals};
use crate::request::{Method, Request};
use crate::target;

/// What answers.
#[derive(Debug)]
enum Content {
    Fixed(Rc<Response>),
    Files(Box<Files>),
}

/// A site, with the room in which it decodes a path.
#[derive(Debug)]
pub struct Site {
    content: Content,
    refusals: Refusals,
    path: Vec<u8>,
}

impl Site {
    /// Answers every request with `response`.
    pub fn fixed(response: Response) -> Self {
        Self::new(Content::Fixed(Rc::new(response)))
    }

    /// Answers with the files of a directory.
    pub fn files(files: Files) -> Self {
        Self::new(Content::Files(Box::new(files)))
    }

    fn new(content: Content) -> Self {
        Self { content, refusals: Refusals::new(), path: Vec::new() }
    }

    /// The response to `request`.
    pub fn response(&mut self, request: &Request<'_>, clock: &Clock) -> Rc<Response> {
        let files = match &mut self.content {
            // A 2xx to CONNECT would make the connection a tunnel (RFC 9110 §9.3.6).
            Content::Fixed(_) if request.method == Method::Connect => {
                return self.refusal(Refusal::MethodNotAllowed);
            }
            Content::Fixed(response) => return Rc::clone(response),
            Content::Files(files) => files,
        };
        let query = match target::resolve(request.target, &mut self.path) {
            Ok(query) => query,
            Err(refusal) => return self.refusal(refusal),
        };
        let found = files.response(&self.path, clock);
        let is_read = matches!(request.method, Method::Get | Method::Head);
        match found {
            Ok(response) if is_read => response,
            Err(Miss::Directory) if is_read => {
                Rc::new(redirect(&target::directory_location(&self.path, query)))
            }
            // RFC 9110 §15.5.6: known to the origin server, but not supported by the resource.
            Ok(_) | Err(Miss::Directory) => self.refusal(Refusal::MethodNotAllowed),
            Err(Miss::Refused(refusal)) => self.refusal(refusal),
        }
    }

    /// The reply to a request that is refused before anybody asked for something.
    pub fn refusal(&self, refusal: Refusal) -> Rc<Response> {
        Rc::clone(self.refusals.reply(refusal))
    }

    /// Drops what nobody has asked for in a while.
    pub fn sweep(&mut self, now: Instant) {
        if let Content::Files(files) = &mut self.content {
            files.sweep(now);
        }
    }

    /// When [`Site::sweep`] has something to do next.
    pub fn next_sweep(&self) -> Option<Instant> {
        match &self.content {
            Content::Fixed(_) => None,
            Content::Files(files) => files.next_sweep(),
        }
    }
}

/// 301 to a directory's own path (RFC 9110 §15.4.2), so that relative links in it lead on.
fn redirect(location: &str) -> Response {
    let fields = [
        Field::new("Server", "tared"),
        Field::new("Location", location),
        Field::new("Content-Type", "text/html; charset=utf-8"),
    ];
    let status = Status(301);
    Response::new(
        status,
        &fields,
        Body::Bytes(refusal::page(status, "This directory's address ends in a slash.")),
    )
}
