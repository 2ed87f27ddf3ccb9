//! Content codings: which form of a file a client gets, where there are several (RFC 9110 §8.4.1, §12.5.3).

use std::rc::Rc;

use crate::accept::weighted;
use crate::plan;
use crate::representation::Representation;
use crate::request::Fields;

/// A content coding for which a file may have a sibling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878
    Zstd,
    /// RFC 7932
    Brotli,
    /// RFC 1952
    Gzip,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Its name in HTTP (RFC 9110 §16.6.1).
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// What stands behind a file's name in that of its sibling.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// The form of `found` that a client with these `wishes` and `fields`, a Range among them or not, gets, and
/// whether a range of it is given. `found` is the one without a coding, and has others.
///
/// What is wanted most comes first; of several the shortest. Without a coding a file comes to those who want
/// that more than any coding there is, who want none of these, or who ask for a range: bytes are counted in
/// what everybody sees. But whoever goes on with a coded form (If-Range, If-Match) gets the rest of that.
pub fn select(
    found: &Rc<Representation>,
    wishes: Wishes,
    fields: Fields<'_>,
    has_range: bool,
) -> (Rc<Representation>, bool) {
    let acceptable = found.coded().iter().map(|(coding, form)| (wishes.weight(*coding), form));
    let acceptable = acceptable.filter(|(weight, _)| *weight > 0);
    if has_range {
        let goes_on = |form: &&Rc<Representation>| plan::continues(fields, &form.validators);
        if let Some(form) = acceptable.clone().map(|(_, form)| form).find(goes_on) {
            return (Rc::clone(form), true);
        }
        if wishes.identity > 0 {
            return (Rc::clone(found), true);
        }
    }
    let best = acceptable.max_by_key(|(weight, form)| (*weight, std::cmp::Reverse(form.len())));
    match best {
        Some((weight, form)) if weight >= wishes.identity => (Rc::clone(form), false),
        // Also where nothing that there is was wanted.
        _ => (Rc::clone(found), true),
    }
}

/// The wishes that were read last: where heads repeat (see [`crate::request::Recent`]) they are not read again.
#[derive(Debug, Default)]
pub struct Recent {
    head: Vec<u8>,
    wishes: Option<Wishes>,
}

impl Recent {
    /// What `head` wishes.
    pub fn wishes(&mut self, head: &[u8]) -> Wishes {
        match self.wishes {
            Some(wishes) if self.head == head => wishes,
            _ => {
                self.head.clear();
                self.head.extend_from_slice(head);
                *self.wishes.insert(Wishes::of(Fields::of_head(head)))
            }
        }
    }
}

/// The weights of an Accept-Encoding field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    codings: [u16; Coding::ALL.len()],
    identity: u16,
}

impl Wishes {
    fn of(fields: Fields<'_>) -> Self {
        let mut codings = [None; Coding::ALL.len()];
        let (mut identity, mut others) = (None, None);
        for (name, weight) in weighted(fields.values("accept-encoding")) {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            // RFC 9110 §8.4.1.3: x-gzip is the same as gzip.
            let coding = Coding::ALL.iter().position(|coding| is(coding.name()));
            let coding = coding.or(is("x-gzip").then_some(Coding::Gzip as usize));
            let wish = match coding {
                Some(coding) => &mut codings[coding],
                None if is("identity") => &mut identity,
                None if name == b"*" => &mut others,
                None => continue,
            };
            *wish = Some(weight);
        }
        Self {
            codings: codings.map(|weight| weight.or(others).unwrap_or(0)),
            // Acceptable unless it is excluded, and wanted least unless it is said otherwise.
            identity: identity.or(others).unwrap_or(1),
        }
    }

    fn weight(&self, coding: Coding) -> u16 {
        self.codings[coding as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Body, Field};
    use crate::plan::{ETag, Validators};

    fn form(name: &str, len: usize) -> Representation {
        let etag = ETag { opaque: name.to_owned(), is_weak: false };
        let validators = Validators { etag, modified: None, is_date_strong: false };
        Representation::new(&[Field::new("Server", "tared")], validators, None, Body::Bytes(vec![b'x'; len]))
    }

    /// A file of 100 bytes, of which there are `forms`.
    fn found(forms: &[(Coding, usize)]) -> Rc<Representation> {
        let coded = forms.iter().map(|&(coding, len)| (coding, Rc::new(form(coding.name(), len)))).collect();
        Rc::new(form("identity", 100).with_coded(coded))
    }

    /// Which form it is, and whether with a range.
    fn selected(found: &Rc<Representation>, fields: &str) -> (String, bool) {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let wishes = Recent::default().wishes(head.as_bytes());
        let fields = Fields::of_head(head.as_bytes());
        let (form, is_ranged) = select(found, wishes, fields, fields.has("range"));
        (form.validators.etag.opaque.clone(), is_ranged)
    }

    /// RFC 9110 §12.5.3, its examples among them.
    #[test]
    fn the_form_that_is_wanted_most() {
        let all = found(&[(Coding::Zstd, 30), (Coding::Brotli, 20), (Coding::Gzip, 40)]);
        let gzip = found(&[(Coding::Gzip, 40)]);
        for (value, of_all, of_gzip) in [
            (None, "identity", "identity"),
            (Some(""), "identity", "identity"),
            (Some("compress, gzip"), "gzip", "gzip"),
            (Some("*"), "br", "gzip"),
            (Some("compress;q=0.5, gzip;q=1.0"), "gzip", "gzip"),
            (Some("gzip;q=1.0, identity; q=0.5, *;q=0"), "gzip", "gzip"),
            (Some("gzip, deflate, br, zstd"), "br", "gzip"),
            (Some("zstd, gzip"), "zstd", "gzip"),
            (Some("br;q=0.5, gzip;q=0.8"), "gzip", "gzip"),
            (Some("GZIP"), "gzip", "gzip"),
            (Some("x-gzip"), "gzip", "gzip"),
            (Some("gzip;q=0"), "identity", "identity"),
            (Some("gzip;q=0, *"), "br", "identity"),
            (Some("gzip;q=0.001"), "gzip", "gzip"),
            (Some("identity"), "identity", "identity"),
            (Some("identity, gzip;q=0.9"), "identity", "identity"),
            (Some("identity;q=0.5, gzip;q=0.5"), "gzip", "gzip"),
            (Some("identity;q=0"), "identity", "identity"),
            (Some("identity;q=0, gzip;q=0.1"), "gzip", "gzip"),
            (Some("*;q=0"), "identity", "identity"),
            (Some("br, *;q=0"), "br", "identity"),
            (Some("gzip;q=7"), "identity", "identity"),
            (Some("gzip\r\nAccept-Encoding: br"), "br", "gzip"),
        ] {
            let fields = value.map(|value| format!("Accept-Encoding: {value}\r\n")).unwrap_or_default();
            assert_eq!(selected(&all, &fields).0, of_all, "{value:?}");
            assert_eq!(selected(&gzip, &fields).0, of_gzip, "{value:?}");
        }
    }

    #[test]
    fn a_range_is_one_of_bytes_that_everybody_sees_unless_it_goes_on() {
        let gzip = found(&[(Coding::Gzip, 40)]);
        for (fields, form, is_ranged) in [
            ("Range: bytes=0-1\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-Range: \"gzip\"\r\n", "gzip", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-Range: \"identity\"\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-Range: W/\"gzip\"\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip;q=0\r\nIf-Range: \"gzip\"\r\n", "identity", true),
            ("Range: bytes=0-1\r\nIf-Range: \"gzip\"\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-Match: \"x\", \"gzip\"\r\n", "gzip", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-None-Match: W/\"gzip\"\r\n", "gzip", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\nIf-Match: *\r\n", "identity", true),
            ("Range: bytes=0-1\r\nAccept-Encoding: gzip, identity;q=0\r\n", "gzip", false),
        ] {
            assert_eq!(selected(&gzip, fields), (form.to_owned(), is_ranged), "{fields}");
        }
    }
}
