//! What is served: one precomputed response, or a directory. Request → what it is answered with.
//!
//! `--fixed` answers every request alike. A directory takes the longer road: target → path →
//! representation → plan, or a refusal.

use std::rc::Rc;
use std::time::Instant;

use crate::accept;
use crate::clock::Clock;
use crate::coding;
use crate::directory::{Directories, Found};
use crate::files::{Files, Miss};
use crate::head::{Body, Field, Response, Status};
use crate::listing::Wish;
use crate::pages::Pages;
use crate::plan::{self, Plan};
use crate::policy::Policy;
use crate::range::Span;
use crate::refusal::{self, Refusal, Refusals};
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
    /// It is being made: ask again in the next turn of the loop.
    NotYet,
}

/// What is said beside the files of a directory.
#[derive(Debug, Default)]
pub struct Manner {
    /// What goes with which response.
    pub policy: Policy,
    /// The site's own pages for refusals.
    pub pages: Pages,
    /// Whether clients that want HTML get the root's index where there is nothing.
    pub is_spa: bool,
    /// Listings of directories without an index, if there are any.
    pub directories: Option<Directories>,
}

/// A site, with the room in which it decodes a path.
#[derive(Debug)]
pub struct Site {
    content: Content,
    refusals: Refusals,
    always: Vec<Field>,
    is_shared: bool,
    options: Rc<Response>,
    pages: Pages,
    is_spa: bool,
    directories: Option<Directories>,
    boundary: String,
    path: Vec<u8>,
    recent: coding::Recent,
}

impl Site {
    /// Answers every request with `response`, and refuses by `policy`.
    pub fn fixed(response: Response, policy: Policy) -> Self {
        Self::new(Content::Fixed(Rc::new(response)), Manner { policy, ..Manner::default() })
    }

    /// Answers with the files of a directory.
    pub fn files(files: Files, manner: Manner) -> Self {
        Self::new(Content::Files(Box::new(files)), manner)
    }

    fn new(content: Content, manner: Manner) -> Self {
        let Manner { policy, pages, is_spa, directories } = manner;
        Self {
            content,
            refusals: Refusals::new(policy.always(), is_spa),
            always: policy.always(),
            is_shared: policy.is_shared,
            // RFC 9110 §9.3.7
            options: Rc::new(Response::new(Status(204), &policy.options(), Body::None)),
            pages,
            is_spa,
            directories,
            boundary: boundary(),
            path: Vec::new(),
            recent: coding::Recent::default(),
        }
    }

    /// What `request` is answered with. Those few who need more of it than its facts find it in `head`, from
    /// which it was read.
    pub fn answer(&mut self, request: &Request<'_>, head: &[u8], clock: &Clock, tally: &mut Tally) -> Answer {
        match self.answer_unless_refused(request, head, clock, tally) {
            Ok(answer) => answer,
            // A preflight is to succeed where the request itself is answered (Fetch §4.8).
            Err(Refusal::NotFound) if request.method == Method::Options && self.is_shared => {
                Answer::Whole(Rc::clone(&self.options))
            }
            Err(refusal) => Answer::Whole(self.refusal(refusal, clock, tally)),
        }
    }

    fn answer_unless_refused(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        clock: &Clock,
        tally: &mut Tally,
    ) -> Result<Answer, Refusal> {
        if request.expectation == Expectation::Unknown {
            return Err(Refusal::ExpectationFailed);
        }
        let files = match &mut self.content {
            // A 2xx to CONNECT would make the connection a tunnel, and one to TRACE must send back the
            // request (RFC 9110 §9.3.6, §9.3.8).
            Content::Fixed(_) if matches!(request.method, Method::Connect | Method::Trace) => {
                return Err(Refusal::MethodNotAllowed);
            }
            Content::Fixed(response) => return Ok(Answer::Whole(Rc::clone(response))),
            Content::Files(files) => files,
        };
        match (request.method, request.target) {
            (Method::Connect | Method::Trace, _) => return Err(Refusal::MethodNotAllowed),
            (Method::Options, b"*") => return Ok(Answer::Whole(Rc::clone(&self.options))),
            _ => {}
        }
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let (query, is_named) = match target::resolve(request.target, &mut self.path) {
            Ok(query) => (query, true),
            // No file has such a name, but a script may well know it: the index is for that.
            Err(Refusal::NotFound) if self.is_spa && is_read && wants_html(head) => {
                self.path.clear();
                (None, false)
            }
            Err(refusal) => return Err(refusal),
        };
        if let Some(directories) = &self.directories
            && directories.is_resting(&self.path, || Wish::of(query, head), clock.now())
        {
            return Ok(Answer::NotYet);
        }
        let mut found = files.representation(&self.path, clock, tally);
        if let Some(directories) = &mut self.directories
            && matches!(found, Err(Miss::Refused(Refusal::NotFound)))
            && is_named
            && (self.path.is_empty() || self.path.ends_with(b"/"))
        {
            let wish = Wish::of(query, head);
            found = match directories.listing(files.root(), &self.path, wish, clock, tally) {
                Found::Listing(listing) => Ok(listing),
                Found::NotYet => return Ok(Answer::NotYet),
                Found::Refused(refusal) => Err(Miss::Refused(refusal)),
            };
        }
        if self.is_spa
            && is_read
            && matches!(found, Err(Miss::Refused(Refusal::NotFound)))
            && wants_html(head)
        {
            found = files.representation(b"", clock, tally);
        }
        match (request.method, found) {
            (_, Err(Miss::Refused(refusal))) => Err(refusal),
            (Method::Options, _) => Ok(Answer::Whole(Rc::clone(&self.options))),
            (_, Err(Miss::Directory)) if is_read => {
                let location = target::directory_location(&self.path, query);
                Ok(Answer::Whole(Rc::new(redirect(&location, &self.always))))
            }
            (_, Ok(found)) if is_read && !request.is_conditional && found.coded().is_empty() => {
                Ok(Answer::Whole(Rc::clone(&found.whole)))
            }
            (_, Ok(found)) if is_read => self.conditional(request, head, found, clock, tally),
            // RFC 9110 §15.5.6, with Allow. A method that nobody knows is answered alike, as nginx does.
            _ => Err(Refusal::MethodNotAllowed),
        }
    }

    /// GET or HEAD, with conditions or a range, of what was found or of another form of it.
    fn conditional(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        found: Rc<Representation>,
        clock: &Clock,
        tally: &mut Tally,
    ) -> Result<Answer, Refusal> {
        let fields = Fields::of_head(head);
        // RFC 9110 §14.2: it is of no account in any other method.
        let has_range = request.is_conditional && request.method == Method::Get && fields.has("range");
        let (found, is_ranged) = if found.coded().is_empty() {
            (found, true)
        } else {
            coding::select(&found, self.recent.wishes(head), fields, has_range)
        };
        if !request.is_conditional {
            return Ok(Answer::Whole(Rc::clone(&found.whole)));
        }
        let is_get = is_ranged && request.method == Method::Get;
        Ok(Answer::Whole(match plan::decide(fields, is_get, &found.validators, found.len(), clock.year()) {
            Plan::Whole => Rc::clone(&found.whole),
            Plan::Parts(spans) => return Ok(Answer::Parts(found, spans)),
            Plan::NotModified => Rc::clone(&found.not_modified),
            Plan::PreconditionFailed => return Err(Refusal::PreconditionFailed),
            Plan::NotSatisfiable => {
                let Content::Files(files) = &mut self.content else { unreachable!("it is a file's") };
                let page = self.pages.page(Status(416), files, clock, tally);
                let page = page.as_ref().map(|page| (page.content(), page.whole.share_body()));
                Rc::new(found.not_satisfiable(&self.always, page))
            }
        }))
    }

    /// What parts the parts of a 206.
    pub fn boundary(&self) -> &str {
        &self.boundary
    }

    /// The reply to a request that is refused.
    pub fn refusal(&mut self, refusal: Refusal, clock: &Clock, tally: &mut Tally) -> Rc<Response> {
        let own = match &mut self.content {
            Content::Files(files) => self.pages.reply(refusal, &self.refusals, files, clock, tally),
            Content::Fixed(_) => None,
        };
        own.unwrap_or_else(|| Rc::clone(self.refusals.reply(refusal)))
    }

    /// Drops what nobody has asked for in a while.
    pub fn sweep(&mut self, now: Instant) {
        if let Content::Files(files) = &mut self.content {
            files.sweep(now);
        }
        if let Some(directories) = &mut self.directories {
            directories.sweep(now);
        }
    }

    /// When [`Site::sweep`] has something to do next.
    pub fn next_sweep(&self) -> Option<Instant> {
        let of_files = match &self.content {
            Content::Fixed(_) => None,
            Content::Files(files) => files.next_sweep(),
        };
        let of_directories = self.directories.as_ref().and_then(Directories::next_sweep);
        of_files.into_iter().chain(of_directories).min()
    }
}

/// Whether a client says that it wants HTML, as browsers do for what they show: by name, not by a wildcard.
fn wants_html(head: &[u8]) -> bool {
    let accept = || Fields::of_head(head).values("accept");
    accept::names_type(accept(), "text/html") || accept::names_type(accept(), "application/xhtml+xml")
}

/// 301 to a directory's own path (RFC 9110 §15.4.2), so that relative links in it lead on.
fn redirect(location: &str, always: &[Field]) -> Response {
    let mut fields = vec![
        Field::new("Server", "tared"),
        Field::new("Location", location),
        Field::new("Content-Type", "text/html; charset=utf-8"),
    ];
    fields.extend_from_slice(always);
    let status = Status(301);
    Response::new(
        status,
        &fields,
        Body::Bytes(refusal::page(status, "This directory's address ends in a slash.")),
    )
}
