//! Path → open file, never outside the root. The kernel decides: a path is resolved from the root's
//! descriptor, and whatever leads out of it on the way, be it dots, links or a rename in that very
//! moment, is refused.
//!
//! Where openat2(2) is missing (before Linux 5.6, or under an old sandbox) the same is done here
//! component by component, with links read and followed by hand.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys;
use crate::tally::{Call, Calls};

/// Symbolic links followed on the way to one file, as many as the kernel follows: path_resolution(7).
const LINKS_MAX: usize = 40;

/// Tries to open a file when a rename somewhere keeps the kernel from telling (EAGAIN), or a signal came
/// between (EINTR), which file systems that lie elsewhere do not hide. Arbitrary.
const TRIES_MAX: usize = 4;

const HERE: &CStr = c".";

/// The directory that is served, held open: it may be renamed or removed, and is still the root.
#[derive(Debug)]
pub struct Root {
    dir: File,
    /// Where it was at start, links resolved: to recognise links that lead out and back inside.
    canonical: PathBuf,
    /// A descriptor to give up when there is no other, so that clients who hold all the rest do not
    /// keep a file from being read.
    reserve: RefCell<Option<File>>,
    has_openat2: bool,
}

impl Root {
    /// Opens `path`, which must be a directory that may be read.
    ///
    /// # Errors
    /// What open(2) and realpath(3) say; `NotADirectory` for another kind of file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let dir =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK).open(path)?;
        let has_openat2 = sys::open_beneath(dir.as_fd(), HERE).is_ok();
        let reserve = RefCell::new(dir.try_clone().ok());
        Ok(Self { dir, canonical: fs::canonicalize(path)?, reserve, has_openat2 })
    }

    /// Opens the file or directory `path`, relative to the root or empty for the root itself, for reading and without blocking.
    ///
    /// # Errors
    /// `EXDEV` for what leads out of the root, and what open(2) says.
    pub fn file(&self, path: &[u8], calls: &mut Calls) -> io::Result<File> {
        let mut opened = self.resolve(path, calls);
        if opened
            .as_ref()
            .is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)))
        {
            self.reserve.take();
            opened = self.resolve(path, calls);
        }
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {
                self.by_way_of_outside(path, calls).ok_or(error)
            }
            opened => opened,
        }
    }

    /// Takes the reserve again, if it was given up. Call it when what [`Root::file`] opened is closed,
    /// before somebody else takes the descriptor.
    pub fn restock(&self) {
        let mut reserve = self.reserve.borrow_mut();
        if reserve.is_none() {
            *reserve = self.dir.try_clone().ok();
        }
    }

    fn resolve(&self, path: &[u8], calls: &mut Calls) -> io::Result<File> {
        // The kernel knows no path without a name (path_resolution(7)).
        let path = if path.is_empty() { HERE.to_bytes() } else { path };
        let whole = CString::new(path)?;
        let mut open = || {
            if !self.has_openat2 {
                return walk(self.dir.as_fd(), path, calls);
            }
            calls.count(Call::Openat2);
            sys::open_beneath(self.dir.as_fd(), &whole)
        };
        let mut opened = open();
        for _ in 1..TRIES_MAX {
            match opened {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                _ => break,
            }
            opened = open();
        }
        opened
    }

    /// A link counts as leading out though it may lead back inside, as absolute ones do. Where it does,
    /// the place that it leads to is opened beneath the root. No step of the way may end outside, or
    /// names out there could be tried.
    fn by_way_of_outside(&self, path: &[u8], calls: &mut Calls) -> Option<File> {
        let steps = Path::new(OsStr::from_bytes(path)).components();
        if steps.clone().count() > LINKS_MAX {
            return None;
        }
        let mut inside = PathBuf::new();
        for name in steps {
            let target = fs::canonicalize(self.canonical.join(&inside).join(name)).ok()?;
            inside = target.strip_prefix(&self.canonical).ok()?.to_path_buf();
        }
        self.resolve(inside.as_os_str().as_bytes(), calls).ok()
    }
}

/// Resolves `path` beneath `root` one component after the other.
fn walk(root: BorrowedFd<'_>, path: &[u8], calls: &mut Calls) -> io::Result<File> {
    let mut parents: Vec<OwnedFd> = Vec::new();
    let mut names = components(path);
    let mut links = 0;
    while let Some(name) = names.pop() {
        let here = parents.last().map_or(root, |dir| dir.as_fd());
        if name == b".." {
            parents.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EXDEV))?;
            continue;
        }
        let name = CString::new(name)?;
        calls.count(Call::Readlinkat);
        match sys::read_link(here, &name) {
            Ok(link) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                if link.starts_with(b"/") {
                    return Err(io::Error::from_raw_os_error(libc::EXDEV));
                }
                names.extend(components(&link));
            }
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            Err(_) if names.is_empty() => {
                calls.count(Call::Openat);
                return sys::open_component(here, &name);
            }
            Err(_) => {
                calls.count(Call::Openat);
                let dir = sys::open_directory(here, &name)?;
                parents.push(dir);
            }
        }
    }
    calls.count(Call::Openat);
    sys::open_component(parents.last().map_or(root, |dir| dir.as_fd()), HERE)
}

/// The components of `path`, last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let is_name = |name: &&[u8]| !name.is_empty() && *name != b".";
    path.split(|&byte| byte == b'/').rev().filter(is_name).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn content(file: io::Result<File>) -> Result<String, i32> {
        let read = file.and_then(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        });
        read.map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    /// Both ways of resolving, on the same tree, with what path_resolution(7) and openat2(2) say.
    #[test]
    fn what_is_found_and_what_leads_out() {
        let outer = tempfile::tempdir().unwrap();
        let root_path = outer.path().join("root");
        fs::create_dir_all(root_path.join("a/b")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        fs::write(root_path.join("file"), "file").unwrap();
        fs::write(root_path.join("a/b/deep"), "deep").unwrap();
        for (link, to) in [
            ("in", "file"),
            ("a/up", "../file"),
            ("a/b/round", "../../a/./b//deep"),
            ("dir", "a/b"),
            ("chain", "dir"),
            ("out", "../secret"),
            ("a/out", "../../secret"),
            ("out-and-in", "../root/file"),
            ("etc", "/etc"),
            ("parent", ".."),
            ("loop", "loop"),
            ("dangling", "nothing"),
        ] {
            symlink(to, root_path.join(link)).unwrap();
        }
        symlink(root_path.join("a/b/deep"), root_path.join("absolute")).unwrap();
        symlink(outer.path().join("secret"), root_path.join("absolute-out")).unwrap();

        let by_kernel = Root::open(&root_path).unwrap();
        let by_hand = Root { has_openat2: false, ..Root::open(&root_path).unwrap() };
        for (path, expected) in [
            ("file", Ok("file")),
            ("a/b/deep", Ok("deep")),
            ("in", Ok("file")),
            ("a/up", Ok("file")),
            ("a/b/round", Ok("deep")),
            ("dir/deep", Ok("deep")),
            ("chain/deep", Ok("deep")),
            ("a/../file", Ok("file")),
            ("absolute", Ok("deep")),
            ("out-and-in", Ok("file")),
            ("parent/root/file", Err(libc::EXDEV)),
            ("a", Err(libc::EISDIR)),
            ("a/", Err(libc::EISDIR)),
            ("nothing", Err(libc::ENOENT)),
            ("dangling", Err(libc::ENOENT)),
            ("file/x", Err(libc::ENOTDIR)),
            ("loop", Err(libc::ELOOP)),
            ("../secret", Err(libc::EXDEV)),
            ("a/../../secret", Err(libc::EXDEV)),
            ("out", Err(libc::EXDEV)),
            ("a/out", Err(libc::EXDEV)),
            ("etc/passwd", Err(libc::EXDEV)),
            ("absolute-out", Err(libc::EXDEV)),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(
                content(by_kernel.file(path.as_bytes(), &mut Calls::default())),
                expected,
                "{path} as resolved there"
            );
            assert_eq!(
                content(by_hand.file(path.as_bytes(), &mut Calls::default())),
                expected,
                "{path} by hand"
            );
        }
        // Beneath a moved root nothing changes.
        let moved = outer.path().join("moved");
        fs::rename(&root_path, &moved).unwrap();
        assert_eq!(content(by_kernel.file(b"a/up", &mut Calls::default())), Ok("file".to_owned()));
    }

    #[test]
    fn what_is_no_root() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(Root::open(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(Root::open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
