//! What is to be served → the site, with everything opened that it needs, or a sentence why not.

use std::fs;
use std::io;
use std::path::Path;

use memmap2::MmapMut;

use crate::beneath::Root;
use crate::cli::{BodySource, Serve, Settings};
use crate::clock::Clock;
use crate::directory::Directories;
use crate::failure::{Failure, cause, one_line};
use crate::files::Files;
use crate::head::{Body, Field, Response};
use crate::pages::Pages;
use crate::site::{Manner, Site};
use crate::tally::Tally;

/// Opens the site, and says in a few words what it does.
///
/// # Errors
/// A sentence naming the directory or file, what the system said, and what to try.
pub fn site(settings: &Settings, clock: &Clock) -> Result<(Site, String), Failure> {
    match &settings.serve {
        Serve::Directory(directory) => {
            let path = &directory.path;
            let root =
                Root::open(path).map_err(|error| Failure::refused(directory_sentence(path, &error)))?;
            let rules = &directory.rules;
            let mut files = Files::new(root, rules.clone(), settings.keeping, clock.now());
            let pages = Pages::new(directory.pages.clone());
            pages.check(&mut files, clock, &mut Tally::default())?;
            let directories = directory
                .is_listed
                .then(|| Directories::new(rules.policy.clone(), settings.keeping, clock.now()));
            let manner = Manner { policy: rules.policy.clone(), pages, is_spa: rules.is_spa, directories };
            Ok((Site::files(files, manner), one_line(&format!("serving {}", path.display()))))
        }
        Serve::Fixed { status, content_type, body } => {
            let body = fixed_body(body)?;
            let summary = format!("answering {}, {} bytes,", status.0, body.len());
            let mut defaults = vec![Field::new("Server", "tared")];
            defaults.extend(content_type.as_ref().map(|value| Field::new("Content-Type", value.as_str())));
            let fields = settings.policy.fixed(defaults);
            let response = Response::new(*status, &fields, body);
            Ok((Site::fixed(response, settings.policy.clone()), summary))
        }
    }
}

/// Reads the body of a fixed response, if it stands in a file, so that nobody has to read it again.
///
/// # Errors
/// A sentence naming the file, what the system said, and what to try.
pub fn read_body(mut settings: Settings) -> Result<Settings, Failure> {
    if let Serve::Fixed { body, .. } = &mut settings.serve
        && let BodySource::File(path) = body
    {
        let bytes = read(path)?;
        *body = BodySource::Text(bytes);
    }
    Ok(settings)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        let path = path.display();
        Failure::refused(format!("cannot read --body '@{path}': {} (try another file)", cause(&error)))
    })
}

fn fixed_body(source: &BodySource) -> Result<Body, Failure> {
    match source {
        BodySource::Text(text) => Ok(Body::Bytes(text.clone())),
        BodySource::File(path) => read(path).map(Body::Bytes),
        BodySource::Zeros { len: 0, .. } => Ok(Body::None),
        BodySource::Zeros { len, typed } => zeros(*len).map(Body::Zeros).map_err(|error| {
            Failure::refused(format!(
                "cannot have a body of --size '{typed}': {} (try a smaller one)",
                cause(&error)
            ))
        }),
    }
}

/// Anonymous pages that are never written to: all of them are the kernel's one page of zeros.
fn zeros(n: u64) -> io::Result<memmap2::Mmap> {
    let len = usize::try_from(n).map_err(|_| io::ErrorKind::FileTooLarge)?;
    MmapMut::map_anon(len)?.make_read_only()
}

fn directory_sentence(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "name one that is there, as in tared public/",
        io::ErrorKind::NotADirectory => "name the directory that it is in",
        io::ErrorKind::PermissionDenied => "let the user who runs tared read it",
        _ => "try another directory",
    };
    format!("cannot serve DIR '{}': {} ({advice})", path.display(), cause(error))
}
