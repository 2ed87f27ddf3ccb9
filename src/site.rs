//! What is served: one precomputed response, or a directory. Request → what it is answered with.
//!
//! `--fixed` answers every request alike. A directory takes the longer road: target → path →
//! representation → plan, or a refusal.

use std::rc::Rc;
use std::time::Instant;

use crate::clock::Clock;
use crate::files::{Files, Miss};
use crate::head::{Body, Field, Response, Status};
use crate::plan::{self, Plan};
use crate::range::Span;
use crate::refusal::{self, ALLOW, Refusal, Refusals};
use crate::representation::{Representation, boundary};
use crate::request::{Expectation, Fields, Method, Request};
use crate::tally::Tally;
use crate::target;

/// What answers.
#[derive(Debug)]
enum Content {
    Fixed(Rc<Response>),
    Files(Box<Files>),
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answer {
    /// A response, whole but for a body that HEAD does not want.
    Whole(Rc<Response>),
    /// 206 with these spans.
    Parts(Rc<Representation>, Vec<Span>),
}

/// A site, with the room in which it decodes a path.
#[derive(Debug)]
pub struct Site {
    content: Content,
    refusals: Refusals,
    options: Rc<Response>,
    boundary: String,
    path: Vec<u8>,
}

impl Site {
    /// Answers every request with `response`.
    pub fn fixed(response: Response) -> Self {
        Self::new(Content::Fixed(Rc::new(response)))
    }

    /// Answers with the files of a directory; `own_fields` are added to the success of OPTIONS.
    pub fn files(files: Files, own_fields: &[Field]) -> Self {
        Self { options: options(own_fields), ..Self::new(Content::Files(Box::new(files))) }
    }

    fn new(content: Content) -> Self {
        Self {
            content,
            refusals: Refusals::new(),
            options: options(&[]),
            boundary: boundary(),
            path: Vec::new(),
        }
    }

    /// What `request` is answered with. Those few who need more of it than its facts find it in `head`, from
    /// which it was read.
    pub fn answer(&mut self, request: &Request<'_>, head: &[u8], clock: &Clock, tally: &mut Tally) -> Answer {
        if request.expectation == Expectation::Unknown {
            return Answer::Whole(self.refusal(Refusal::ExpectationFailed));
        }
        let files = match &mut self.content {
            // A 2xx to CONNECT would make the connection a tunnel, and one to TRACE must send back the
            // request (RFC 9110 §9.3.6, §9.3.8).
            Content::Fixed(_) if matches!(request.method, Method::Connect | Method::Trace) => {
                return Answer::Whole(self.refusal(Refusal::MethodNotAllowed));
            }
            Content::Fixed(response) => return Answer::Whole(Rc::clone(response)),
            Content::Files(files) => files,
        };
        match (request.method, request.target) {
            (Method::Connect | Method::Trace, _) => {
                return Answer::Whole(self.refusal(Refusal::MethodNotAllowed));
            }
            (Method::Options, b"*") => return Answer::Whole(Rc::clone(&self.options)),
            _ => {}
        }
        let query = match target::resolve(request.target, &mut self.path) {
            Ok(query) => query,
            Err(refusal) => return Answer::Whole(self.refusal(refusal)),
        };
        let found = files.representation(&self.path, clock, tally);
        Answer::Whole(match (request.method, found) {
            (_, Err(Miss::Refused(refusal))) => self.refusal(refusal),
            (Method::Options, _) => Rc::clone(&self.options),
            (Method::Get | Method::Head, Err(Miss::Directory)) => {
                Rc::new(redirect(&target::directory_location(&self.path, query)))
            }
            (Method::Get | Method::Head, Ok(found)) => return self.conditional(request, head, found, clock),
            // RFC 9110 §15.5.6, with Allow. A method that nobody knows is answered alike, as nginx does.
            _ => self.refusal(Refusal::MethodNotAllowed),
        })
    }

    /// GET or HEAD of what was found.
    fn conditional(
        &self,
        request: &Request<'_>,
        head: &[u8],
        found: Rc<Representation>,
        clock: &Clock,
    ) -> Answer {
        if !request.is_conditional {
            return Answer::Whole(Rc::clone(&found.whole));
        }
        let (fields, is_get) = (Fields::of_head(head), request.method == Method::Get);
        Answer::Whole(match plan::decide(fields, is_get, &found.validators, found.len(), clock.year()) {
            Plan::Whole => Rc::clone(&found.whole),
            Plan::Parts(spans) => return Answer::Parts(found, spans),
            Plan::NotModified => Rc::clone(&found.not_modified),
            Plan::PreconditionFailed => self.refusal(Refusal::PreconditionFailed),
            Plan::NotSatisfiable => Rc::new(found.not_satisfiable()),
        })
    }

    /// What parts the parts of a 206.
    pub fn boundary(&self) -> &str {
        &self.boundary
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

/// 204 to OPTIONS (RFC 9110 §9.3.7).
fn options(own_fields: &[Field]) -> Rc<Response> {
    let defaults = vec![Field::new("Server", "tared"), Field::new("Allow", ALLOW)];
    Rc::new(Response::new(Status(204), &Field::merged(defaults, own_fields), Body::None))
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
