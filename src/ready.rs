//! Telling that connections are accepted: a line for each place for people, and one in all for scripts.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Serve;
use crate::failure::{Failure, cause, one_line};
use crate::output;
use crate::sys;

/// What is served, and where.
#[derive(Debug)]
pub struct Ready<'r> {
    /// In a few words.
    pub summary: &'r str,
    /// Where it listens, for people.
    pub names: &'r [String],
    /// The URLs that reach those of these places that are every address.
    pub urls: &'r [String],
    /// The first of these places that is an address, with the real port.
    pub address: Option<SocketAddr>,
    /// What is served.
    pub serve: &'r Serve,
}

/// As scripts are told of it.
#[derive(Serialize)]
struct Line<'l> {
    address: Option<String>,
    port: Option<u16>,
    listen: &'l [String],
    pid: u32,
    mode: &'static str,
    /// JSON is Unicode; a path need not be, and then is told as well as it can be.
    root: Option<String>,
    version: &'static str,
}

/// Who else is told than the reader of standard output.
#[derive(Debug, Default)]
pub struct Heralds {
    file: Option<PathBuf>,
    fd: Option<File>,
}

impl Heralds {
    /// To a file, to a descriptor that this program was started with, or to both. To be made before any
    /// other descriptor is opened.
    ///
    /// # Errors
    /// A sentence about what cannot be written to.
    pub fn new(file: Option<PathBuf>, fd: Option<RawFd>) -> Result<Self, Failure> {
        let fd = fd.map(|fd| sys::adopt_to_write(fd).map_err(|error| (fd, error))).transpose();
        let fd = fd.map_err(|(fd, error)| {
            Failure::refused(format!(
                "cannot write to --ready-fd {fd}: {} (open it for this program, as in {fd}>FILE)",
                cause(&error)
            ))
        })?;
        if let Some(path) = &file {
            output::check(path).map_err(|error| unwritable(path, &error))?;
        }
        Ok(Self { file, fd: fd.map(File::from) })
    }

    /// Tells everybody.
    ///
    /// # Errors
    /// A sentence about what could not be written to.
    pub fn tell(self, ready: &Ready<'_>) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let line = |name| format!("tared {version} {} on {name}\n", ready.summary);
        let mut lines: String = ready.names.iter().map(line).collect();
        ready.urls.iter().for_each(|url| lines += &format!("  {url}\n"));
        let mut stdout = io::stdout().lock();
        if stdout.is_terminal() {
            lines += &hint(ready.serve).unwrap_or_default();
        }
        // All lines at once. Nobody may be reading them; serving does not depend on it.
        let _ = stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush());
        drop(stdout);
        let (mode, root) = match ready.serve {
            Serve::Directory(directory) => {
                let root = fs::canonicalize(&directory.path).unwrap_or_else(|_| directory.path.clone());
                ("directory", Some(root.to_string_lossy().into_owned()))
            }
            Serve::Fixed { .. } => ("fixed", None),
        };
        let line = Line {
            address: ready.address.map(|address| address.ip().to_string()),
            port: ready.address.map(|address| address.port()),
            listen: ready.names,
            pid: std::process::id(),
            mode,
            root,
            version,
        };
        let line = serde_json::to_string(&line).expect("it is text and numbers") + "\n";
        if let Some(path) = &self.file {
            output::write(path, &line).map_err(|error| unwritable(path, &error))?;
        }
        if let Some(mut file) = self.fd {
            file.write_all(line.as_bytes()).map_err(|error| {
                Failure::refused(format!(
                    "cannot write to --ready-fd: {} (open it for writing)",
                    cause(&error)
                ))
            })?;
        }
        Ok(())
    }
}

/// What a person is told who would click and find nothing.
fn hint(serve: &Serve) -> Option<String> {
    let Serve::Directory(directory) = serve else { return None };
    let is_there = |name: &String| directory.path.join(name).exists();
    let names = &directory.rules.index_names;
    let first = names.first().filter(|_| !directory.is_listed && !names.iter().any(is_there))?;
    let hint = format!("  there is no {first}, so / is not found: --list shows what there is");
    Some(one_line(&hint) + "\n")
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::refused(format!("cannot write --ready-file '{path}': {} (try another file)", cause(error)))
}
