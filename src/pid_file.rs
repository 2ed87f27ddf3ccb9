//! The number of this process, in a file for those who send it signals: there from when it has bound its
//! sockets until it ends in order. What a dead program has left behind is replaced.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, cause};
use crate::output;

/// The file. It is removed when this is dropped, if it still is ours.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// As long as it is open, nobody else's file has its inode number.
    file: File,
    identity: Identity,
}

/// Device, inode and when it was written, in nanoseconds: another's file differs in the first two, and one
/// that another has written to in the last.
type Identity = (u64, u64, i64, i64);

impl PidFile {
    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// A sentence naming the file and what the system said.
    pub fn write(path: &Path) -> Result<Self, Failure> {
        let written = output::replace(path, &format!("{}\n", std::process::id())).and_then(|(path, file)| {
            let identity = identity(&file.metadata()?);
            Ok(Self { path, file, identity })
        });
        written.map_err(|error| {
            let (path, cause) = (path.display(), cause(&error));
            Failure::refused(format!(
                "cannot write --pid-file '{path}': {cause} (let the user who serves write in its directory)"
            ))
        })
    }
}

fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let is_ours = |metadata: &fs::Metadata| identity(metadata) == self.identity;
        if self.file.metadata().is_ok_and(|metadata| is_ours(&metadata))
            && fs::symlink_metadata(&self.path).is_ok_and(|metadata| is_ours(&metadata))
        {
            // Who may not is not asked; the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_directory() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tared.pid");
        (dir, path)
    }

    #[test]
    fn it_is_there_while_it_is_kept() {
        let (dir, path) = in_directory();
        for before in [None, Some("4194304999\n")] {
            if let Some(text) = before {
                fs::write(&path, text).unwrap();
            }
            let file = PidFile::write(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
            drop(file);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "and nothing else is left behind");
        }
    }

    #[test]
    fn another_ones_is_left_alone() {
        let (_dir, path) = in_directory();
        // Another file under its name, the same one written to, and none.
        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");

        let file = PidFile::write(&path).unwrap();
        // The clock of the file system is that of its ticks.
        while identity(&fs::metadata(&path).unwrap()) == file.identity {
            fs::write(&path, "2\n").unwrap();
        }
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");

        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_a_file_of_ours_is_refused() {
        let (dir, path) = in_directory();
        for (path, part) in [
            (dir.path().join("no/tared.pid"), "no such file"),
            (dir.path().to_owned(), "is a directory"),
            (PathBuf::from("/dev/null"), "no regular file"),
            (PathBuf::new(), "no such file"),
        ] {
            let failure = PidFile::write(&path).unwrap_err();
            let sentence = failure.to_string();
            assert!(sentence.contains(&format!("--pid-file '{}'", path.display())), "{sentence}");
            assert!(sentence.contains(part) && failure.status() == 1, "{sentence}");
        }
        assert!(!path.exists());
    }
}
