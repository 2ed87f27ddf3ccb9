//! Text that leaves the program beside the responses: into a file, whole or not at all, or to standard
//! error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that a pipe takes in one piece where it takes any (PIPE_BUF, pipe(7)).
pub const PIECE_MAX: usize = 4096;

/// Whether `file` takes [`PIECE_MAX`] bytes, or says at once why not; it is waited for so long.
pub fn is_free(file: &impl AsFd, patience: Duration) -> bool {
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// Says `text`, which is short, on standard error, unless its reader has fallen behind: then the loop
/// does not wait for it. Returns whether it was said.
pub fn say(text: &str) -> bool {
    let stderr = io::stderr();
    let text = &text.as_bytes()[..text.len().min(PIECE_MAX)];
    is_free(&stderr, Duration::ZERO) && stderr.lock().write_all(text).is_ok()
}

/// Whether a file of this name can be written as [`write()`] does it, found out by trying.
///
/// # Errors
/// What stands in the way.
pub fn check(path: &Path) -> io::Result<()> {
    match kind(path)? {
        Kind::Replaceable(path) => beside(&path).map(drop),
        Kind::Special => open(path).map(drop),
    }
}

/// Writes `text` as the file `path`: whoever reads it sees all of it, or what was there before. What is
/// no regular file, as a pipe or a terminal, is written to.
///
/// # Errors
/// What creating, writing or renaming says.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    match kind(path)? {
        Kind::Special => open(path)?.write_all(text.as_bytes()),
        Kind::Replaceable(path) => put_in_place(&path, text).map(drop),
    }
}

/// The same, of what is to be a regular file; it, and its name behind all links.
///
/// # Errors
/// The same, and that it is something else.
pub fn replace(path: &Path, text: &str) -> io::Result<(PathBuf, File)> {
    match kind(path)? {
        Kind::Special => Err(io::Error::other("it is no regular file")),
        Kind::Replaceable(path) => put_in_place(&path, text).map(|file| (path, file)),
    }
}

fn put_in_place(path: &Path, text: &str) -> io::Result<File> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file.persist(path)?)
}

enum Kind {
    /// A regular file, behind its links, or nothing yet.
    Replaceable(PathBuf),
    Special,
}

fn kind(path: &Path) -> io::Result<Kind> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Kind::Replaceable(fs::canonicalize(path)?)),
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(Kind::Special),
        // No file can be given a name that ends in a slash.
        Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => Err(io::ErrorKind::IsADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::Replaceable(path.to_owned())),
        Err(error) => Err(error),
    }
}

/// A new file in the directory of `path`, which is removed again unless it is given its name. It is
/// opened for writing alone: the sandbox lets nobody read there.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // What the umask leaves of it, as for any other file.
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o666).open(path);
    tempfile::Builder::new().prefix(".tared-").make_in(parent, create)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_there_whole_under_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        check(&path).unwrap();
        assert!(!path.exists(), "a check leaves nothing behind");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let link = dir.path().join("link");
        symlink("report.json", &link).unwrap();
        write(&link, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three", "a link stays a link");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left behind");
    }

    #[test]
    fn what_is_no_regular_file_is_written_to_and_stays_what_it_is() {
        check(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(check(&dir.path().join("no/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(write(&dir.path().join("no/file"), "").is_err());
    }
}
