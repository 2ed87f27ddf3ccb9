//! The site's own pages for refusals: status → a file of the site, as the body of that status.

use std::rc::Rc;

use crate::clock::Clock;
use crate::failure::Failure;
use crate::files::Files;
use crate::head::{Response, Status};
use crate::refusal::{Refusal, Refusals};
use crate::representation::Representation;
use crate::tally::Tally;
use crate::target;

/// Which file is the body of which statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    statuses: Vec<Status>,
    path: Vec<u8>,
    typed: String,
}

impl Page {
    /// Reads `text`, such as `404=/404.html` or `500,503=/50x.html`.
    ///
    /// # Errors
    /// A sentence naming the option, the value, the cause and what to try.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let refuse = |cause: &str| {
            Failure::usage(format!("--error-page '{text}': {cause} (try --error-page 404=/404.html)"))
        };
        let (codes, target) = text.split_once('=').ok_or_else(|| refuse("there is no equals sign"))?;
        let status = |code: &str| match code.parse() {
            Ok(status @ 400..=599) if code.len() == 3 => Ok(Status(status)),
            _ => Err(refuse("what stands before the equals sign is no list of statuses from 400 to 599")),
        };
        let statuses = codes.split(',').map(status).collect::<Result<_, _>>()?;
        let mut path = Vec::new();
        match target::resolve(target.as_bytes(), &mut path) {
            Ok(None) if target.starts_with('/') => Ok(Self { statuses, path, typed: text.to_owned() }),
            _ => Err(refuse("what stands behind the equals sign is no path that is served")),
        }
    }

    /// The first status that `pages` have twice.
    pub fn repeated(pages: &[Self]) -> Option<u16> {
        let mut statuses: Vec<u16> =
            pages.iter().flat_map(|page| &page.statuses).map(|status| status.0).collect();
        statuses.sort_unstable();
        statuses.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

/// A reply that has been rendered, and what it was rendered from.
#[derive(Debug)]
struct Rendered {
    refusal: Refusal,
    from: Rc<Representation>,
    reply: Rc<Response>,
}

/// The pages, and the replies that have been made of them.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    rendered: Vec<Rendered>,
}

impl Pages {
    /// None but `pages`.
    pub fn new(pages: Vec<Page>) -> Self {
        Self { pages, rendered: Vec::new() }
    }

    /// Looks whether each page is there.
    ///
    /// # Errors
    /// A sentence about the first that is not.
    pub fn check(&self, files: &mut Files, clock: &Clock, tally: &mut Tally) -> Result<(), Failure> {
        for page in &self.pages {
            if files.representation(&page.path, clock, tally).is_err() {
                return Err(Failure::usage(format!(
                    "--error-page '{}': there is no such file to be served (name one by its path from DIR)",
                    page.typed
                )));
            }
        }
        Ok(())
    }

    /// The page for `status`, if it has one and that can be had.
    pub fn page(
        &self,
        status: Status,
        files: &mut Files,
        clock: &Clock,
        tally: &mut Tally,
    ) -> Option<Rc<Representation>> {
        let page = self.pages.iter().find(|page| page.statuses.contains(&status))?;
        files.representation(&page.path, clock, tally).ok()
    }

    /// The reply to `refusal`, if it has a page and that can be had. It is rendered anew when the page has
    /// changed.
    pub fn reply(
        &mut self,
        refusal: Refusal,
        refusals: &Refusals,
        files: &mut Files,
        clock: &Clock,
        tally: &mut Tally,
    ) -> Option<Rc<Response>> {
        let from = self.page(refusal.status(), files, clock, tally)?;
        let earlier = self.rendered.iter().position(|rendered| rendered.refusal == refusal);
        if let Some(at) = earlier
            && Rc::ptr_eq(&self.rendered[at].from, &from)
        {
            return Some(Rc::clone(&self.rendered[at].reply));
        }
        let body = from.whole.share_body();
        let reply = Rc::new(refusals.render(refusal, from.content(), body));
        earlier.map(|at| self.rendered.swap_remove(at));
        self.rendered.push(Rendered { refusal, from, reply: Rc::clone(&reply) });
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_for_a_page() {
        let page = Page::parse("500,502=/a%20b/50x.html").unwrap();
        assert_eq!((page.statuses, page.path), (vec![Status(500), Status(502)], b"a b/50x.html".to_vec()));
        for text in [
            "",
            "404",
            "=/a",
            "404=",
            "404=a.html",
            "40=/a",
            "200=/a",
            "600=/a",
            "+404=/a",
            "404,=/a",
            "404 ,500=/a",
            "404=/.git",
            "404=/a?b",
            "404=/%zz",
            "404=http://host/a",
        ] {
            let sentence = Page::parse(text).unwrap_err().to_string();
            assert!(sentence.starts_with(&format!("tared: --error-page '{text}': ")), "{sentence}");
        }
    }

    #[test]
    fn a_status_has_one_page() {
        let pages = |texts: &[&str]| texts.iter().map(|text| Page::parse(text).unwrap()).collect::<Vec<_>>();
        assert_eq!(Page::repeated(&pages(&["404=/a", "500,503=/b"])), None);
        assert_eq!(Page::repeated(&pages(&["404=/a", "503,404=/b"])), Some(404));
    }
}
