//! Where the access log goes, and how it is written to without ever waiting.
//!
//! | what it is | how |
//! | --- | --- |
//! | a regular file | opened to append; one write(2) takes whatever there is, and waits for its disk alone |
//! | a pipe, a terminal, a device | opened anew and non-blocking, in pieces of whole lines |
//! | a pipe that may not be opened anew | asked first (poll(2)), in such pieces |
//! | a socket | MSG_DONTWAIT, in such pieces |
//!
//! A descriptor that was handed down is never made non-blocking: who else has it, as the shell has the
//! terminal, would meet that too; and a terminal of somebody else's, which may not be opened anew, is
//! refused. A piece is at the most what a pipe takes whole or not at all, so that several workers do not mix
//! their lines.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::SockRef;

use crate::failure::{Failure, cause};
use crate::output::{self, PIECE_MAX};

/// What was typed behind `--log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A dash.
    StandardOutput,
    /// A file's name.
    File(PathBuf),
}

impl Place {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::StandardOutput => None,
            Self::File(path) => Some(path),
        }
    }

    /// That it cannot be written to; what was typed is then wrong.
    fn failure(&self, error: &io::Error) -> Failure {
        let advice = match (self, error.raw_os_error()) {
            (Self::StandardOutput, _) => "name a file",
            // open(2)
            (_, Some(libc::ENXIO)) => "a pipe needs its reader first; a socket will not do",
            _ => "try another file, or - for standard output",
        };
        Failure::usage(format!("cannot write {self}: {} ({advice})", cause(error)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardOutput => write!(f, "--log '-'"),
            Self::File(path) => write!(f, "--log '{}'", path.display()),
        }
    }
}

/// An open log.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All at once.
    Whole,
    /// In pieces; it does not block.
    Pieces,
    /// In pieces, if poll(2) says that it takes one.
    Asked,
    /// In pieces, each sent with the word not to wait.
    Socket,
}

impl LogFile {
    /// Standard output, to be taken before root is given up: it may not be opened anew by anybody else.
    ///
    /// # Errors
    /// A sentence with what the system said.
    pub fn standard_output() -> Result<Self, Failure> {
        let stdout = || {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            let kind = file.metadata()?.file_type();
            let way = match (kind.is_file(), kind.is_socket()) {
                (true, _) => Way::Whole,
                (_, true) => Way::Socket,
                _ => match append_to(Path::new("/proc/self/fd/1")) {
                    Ok(file) => return Ok(Self { file, way: Way::Pieces }),
                    // What poll(2) says of a terminal promises room for no more than a byte.
                    Err(error) if kind.is_char_device() => return Err(error),
                    Err(_) => Way::Asked,
                },
            };
            Ok(Self { file, way })
        };
        stdout().map_err(|error| Place::StandardOutput.failure(&error))
    }

    /// The file `path`, made if it is not there.
    ///
    /// # Errors
    /// A sentence naming the file and what open(2) said.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Self::try_open(path).map_err(|error| Place::File(path.to_owned()).failure(&error))
    }

    /// The same.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn try_open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let way = if file.metadata()?.is_file() { Way::Whole } else { Way::Pieces };
        Ok(Self { file, way })
    }

    /// The same for another worker.
    ///
    /// # Errors
    /// What dup(2) says.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, way: self.way })
    }

    /// A pipe that was handed down.
    #[cfg(test)]
    pub(crate) fn of_pipe(writer: io::PipeWriter) -> Self {
        Self { file: File::from(std::os::fd::OwnedFd::from(writer)), way: Way::Asked }
    }

    /// Whether it is a regular file: one that is rotated.
    pub fn is_regular(&self) -> bool {
        self.way == Way::Whole
    }

    /// Bytes of the longest line that stays in one piece.
    pub fn line_max(&self) -> usize {
        if self.is_regular() { usize::MAX } else { PIECE_MAX }
    }

    /// The begin of `lines` that is to be written at once: whole lines, or the rest of one.
    pub fn piece<'l>(&self, lines: &'l [u8]) -> &'l [u8] {
        let max = self.line_max();
        if lines.len() <= max {
            return lines;
        }
        let is_end = |byte: &u8| *byte == b'\n';
        let last = lines[..max].iter().rposition(is_end);
        let end = last.or_else(|| lines.iter().position(is_end)).map_or(lines.len(), |at| at + 1);
        &lines[..end]
    }

    /// Writes a piece, or a part of it; it does not wait.
    ///
    /// # Errors
    /// `WouldBlock` if the reader is behind, and what write(2) says.
    pub fn write(&self, piece: &[u8]) -> io::Result<usize> {
        match self.way {
            Way::Socket => {
                SockRef::from(&self.file).send_with_flags(piece, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            }
            Way::Asked if !self.wait(Duration::ZERO) => Err(io::ErrorKind::WouldBlock.into()),
            Way::Asked | Way::Whole | Way::Pieces => (&self.file).write(piece),
        }
    }

    /// Waits until it may take a piece, for at most `patience`; returns whether it may.
    pub fn wait(&self, patience: Duration) -> bool {
        output::is_free(&self.file, patience)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_piece_is_whole_lines_and_at_the_most_what_a_pipe_takes() {
        let dir = tempfile::tempdir().unwrap();
        let regular = LogFile::open(&dir.path().join("log")).unwrap();
        let null = LogFile::open(Path::new("/dev/null")).unwrap();
        assert!(regular.is_regular() && !null.is_regular());
        let lines = |lens: &[usize]| -> Vec<u8> {
            lens.iter().flat_map(|len| [vec![b'x'; len - 1], vec![b'\n']].concat()).collect()
        };
        for (lens, expected) in [
            (&[1][..], 1),
            (&[100, 200], 300),
            (&[4096], 4096),
            (&[4095, 1], 4096),
            (&[4095, 2], 4095),
            (&[1, 4096], 1),
            (&[2000, 2000, 2000], 4000),
            // The rest of a line that began when it was a regular file.
            (&[5000, 10], 5000),
        ] {
            let lines = lines(lens);
            assert_eq!(null.piece(&lines).len(), expected, "{lens:?}");
            assert_eq!(regular.piece(&lines).len(), lines.len());
        }
    }

    /// A file is added to, not begun anew.
    #[test]
    fn a_regular_file_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let (one, other) = (LogFile::open(&path).unwrap(), LogFile::open(&path).unwrap());
        for (log, line) in [(&one, "one\n"), (&other, "two\n"), (&one.try_clone().unwrap(), "three\n")] {
            assert_eq!(log.write(line.as_bytes()).unwrap(), line.len());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\none\ntwo\nthree\n");
    }

    /// A reader that reads nothing is `WouldBlock` in the end, whatever it is; one that is gone is an error.
    #[test]
    fn a_reader_that_is_behind_is_not_waited_for() {
        let piece = [b'x'; PIECE_MAX];
        let fill = |log: &LogFile| {
            for _ in 0..100_000 {
                if let Err(error) = log.write(&piece) {
                    return error.kind();
                }
            }
            panic!("it takes more than any buffer");
        };
        let (mut reader, writer) = io::pipe().unwrap();
        let asked = LogFile::of_pipe(writer);
        assert_eq!(fill(&asked), io::ErrorKind::WouldBlock);
        reader.read_exact(&mut [0; 2 * PIECE_MAX]).unwrap();
        assert_eq!(asked.write(&piece).unwrap(), PIECE_MAX);
        drop(reader);
        assert_eq!(asked.write(&piece).unwrap_err().kind(), io::ErrorKind::BrokenPipe);

        let (reader, writer) = UnixStream::pair().unwrap();
        let socket = LogFile { file: File::from(std::os::fd::OwnedFd::from(writer)), way: Way::Socket };
        assert_eq!(fill(&socket), io::ErrorKind::WouldBlock);
        drop(reader);
        assert_eq!(socket.write(&piece).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_cannot_be_written_is_a_sentence_of_status_2() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (path, part) in [
            (dir.path().to_owned(), "is a directory"),
            (dir.path().join("no/file"), "no such file"),
            (file.join("below"), "not a directory"),
        ] {
            let failure = LogFile::open(&path).unwrap_err();
            assert_eq!(failure.status(), 2);
            let sentence = failure.to_string();
            assert!(sentence.contains(&format!("--log '{}'", path.display())), "{sentence}");
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}
