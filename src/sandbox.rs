//! The kernel's word that nothing but the site is read and nothing is written: Landlock (landlock(7)).
//!
//! Entered once, when everything is bound and before another thread is started: who comes later has the
//! same bounds. What stays possible is to open for reading what lies beneath the directories named, to
//! write the files named, and to remove the names of our sockets. No file is made, written, removed or
//! executed anywhere else, no address bound and none connected to (TCP, Linux 6.7), no process outside
//! signalled (Linux 6.12). Descriptors that are open already keep what they can do.
//!
//! What Landlock does not cover: the metadata of files (chmod, utime, stat), and UDP.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, Scope,
};

use crate::failure::Failure;
use crate::output;

/// Whether to enter the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// As far as the kernel has it.
    Auto,
    /// Or not serve at all.
    On,
    /// No.
    Off,
}

/// Files can be kept from being cut from Linux 6.2 on: without that, "no writes" would not be true.
const NEEDED: ABI = ABI::V3;

/// What else there is, where the kernel knows it.
const WANTED: ABI = ABI::V6;

/// What remains possible.
#[derive(Clone, Debug, Default)]
pub struct Bounds<'a> {
    /// Directories beneath which files are read.
    pub readable: Vec<&'a Path>,
    /// Files that are written, made, replaced by renaming, or removed: with that, any file in the same
    /// directory can be, since a name belongs to its directory.
    pub writable: Vec<&'a Path>,
    /// Unix sockets whose names are removed in the end; so could be others in the same directory.
    pub removable: Vec<&'a Path>,
}

impl Sandbox {
    /// What was typed behind `--sandbox`.
    ///
    /// # Errors
    /// A sentence naming the value and what to try.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(Failure::usage(format!(
                "--sandbox '{text}': this is neither auto nor on nor off (try --sandbox auto)"
            ))),
        }
    }

    /// Keeps this thread, and those that it starts, within `bounds` for good.
    ///
    /// # Errors
    /// With [`Sandbox::On`], a sentence about what the kernel does not have.
    pub fn enter(self, bounds: Bounds<'_>) -> Result<(), Failure> {
        let entered = match self {
            Self::Off => Ok(()),
            // What cannot be had is not asked for; that this fails is not known to happen.
            Self::Auto => restrict(CompatLevel::BestEffort, bounds).or_else(|cause| {
                output::say(&format!("tared: serving without the sandbox: {cause}\n"));
                Ok(())
            }),
            Self::On => restrict(CompatLevel::HardRequirement, bounds),
        };
        entered.map_err(|cause| {
            Failure::refused(format!(
                "cannot have --sandbox 'on': {cause} (Linux 6.2 has it if Landlock is among its lsm=; try --sandbox auto)"
            ))
        })
    }
}

fn restrict(needed: CompatLevel, bounds: Bounds<'_>) -> Result<(), String> {
    let text = |error: landlock::RulesetError| error.to_string();
    let mut ruleset = Ruleset::default()
        .set_compatibility(needed)
        .handle_access(AccessFs::from_all(NEEDED))
        .map_err(text)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(WANTED)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(WANTED)))
        .and_then(Ruleset::create)
        .map_err(text)?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let rules: [(Vec<PathBuf>, BitFlags<AccessFs>); 3] = [
        (bounds.readable.into_iter().map(Path::to_owned).collect(), read),
        (bounds.writable.into_iter().map(directory).collect(), write),
        (bounds.removable.into_iter().map(directory).collect(), AccessFs::RemoveFile.into()),
    ];
    for (paths, access) in rules {
        for path in paths {
            let opened = match PathFd::new(&path) {
                Ok(opened) => opened,
                // Where we cannot go nothing has to be allowed; the rest is kept all the same.
                Err(_) if needed == CompatLevel::BestEffort => continue,
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(text)?;
        }
    }
    ruleset.restrict_self().map(drop).map_err(text)
}

/// The directory that the name at the end of `path` is in. A link stays a link: what is written is the
/// file behind it.
fn directory(path: &Path) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{self, ErrorKind};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::symlink;
    use std::thread;

    use super::*;

    /// Whether this kernel has what `--sandbox on` takes; asked on a thread of its own, which then ends.
    fn is_there(test: &str) -> bool {
        let entered = thread::spawn(|| Sandbox::On.enter(Bounds::default())).join().unwrap();
        if let Err(failure) = &entered {
            eprintln!("skipped: {test}: {failure}");
        }
        entered.is_ok()
    }

    #[track_caller]
    fn check<T>(result: io::Result<T>, is_allowed: bool) {
        match result {
            Ok(_) => assert!(is_allowed, "it is not to be allowed"),
            Err(error) => {
                assert!(!is_allowed, "{error}");
                assert!(
                    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::CrossesDevices),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn only_the_site_is_read_and_only_what_is_named_is_written() {
        if !is_there("only_the_site_is_read_and_only_what_is_named_is_written") {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        for name in ["root", "root/sub", "log", "run", "else"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("file"), name).unwrap();
        }
        symlink(path("else/file"), path("root/out")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut open = File::create(path("else/open")).unwrap();

        let inside = || {
            let (root, report, socket) = (path("root"), path("log/report"), path("run/socket"));
            let bounds = Bounds { readable: vec![&root], writable: vec![&report], removable: vec![&socket] };
            fs::write(&socket, "").unwrap();
            Sandbox::On.enter(bounds).unwrap();

            check(fs::read(path("root/file")), true);
            check(fs::read(path("root/sub/file")), true);
            check(fs::read_dir(path("root/sub")), true);
            check(File::create(path("root/new")), false);
            check(File::create(path("root/sub/file")), false);
            check(OpenOptions::new().append(true).open(path("root/file")), false);
            check(fs::remove_file(path("root/file")), false);
            check(fs::rename(path("root/file"), path("root/other")), false);
            check(fs::create_dir(path("root/dir")), false);
            check(symlink("file", path("root/link")), false);
            check(fs::hard_link(path("root/file"), path("root/hard")), false);

            check(fs::read("/etc/passwd"), false);
            check(fs::read(path("else/file")), false);
            check(fs::read(path("root/out")), false);
            check(fs::read_dir(outer.path()), false);
            check(File::create(path("else/new")), false);
            // A path is looked up all the same: see `Root` for links that lead out and back.
            check(fs::canonicalize(path("root/out")), true);
            check(fs::metadata(path("else/file")), true);

            check(fs::write(path("log/report.new"), "1"), true);
            check(fs::rename(path("log/report.new"), path("log/report")), true);
            check(fs::write(path("log/report"), "2"), true);
            check(fs::remove_file(path("log/report")), true);
            check(fs::remove_file(&socket), true);
            check(File::create(&socket), false);

            io::Write::write_all(&mut open, b"what is open stays open").unwrap();
        };
        thread::scope(|scope| scope.spawn(inside).join()).unwrap();
        // Only that thread is within.
        fs::read(path("else/file")).unwrap();

        let net = move || {
            Sandbox::On.enter(Bounds::default()).unwrap();
            (TcpListener::bind("127.0.0.1:0").map(drop), TcpStream::connect(address).map(drop))
        };
        let (bound, connected) = thread::spawn(net).join().unwrap();
        if is_6_7() {
            check(bound, false);
            check(connected, false);
        }
        drop(listener);
    }

    /// TCP is covered from Linux 6.7 on.
    fn is_6_7() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(7))
    }

    #[test]
    fn what_is_not_there_is_a_sentence_with_on_and_takes_nothing_away_from_auto() {
        if !is_there("what_is_not_there_is_a_sentence_with_on_and_takes_nothing_away_from_auto") {
            return;
        }
        let bounds = || Bounds { readable: vec![Path::new("/nowhere/at/all")], ..Bounds::default() };
        let failure = Sandbox::On.enter(bounds()).unwrap_err().to_string();
        assert!(failure.contains("--sandbox 'on'") && failure.contains("/nowhere/at/all"), "{failure}");
        Sandbox::Off.enter(bounds()).unwrap();
        fs::read("/proc/self/stat").unwrap();
        Sandbox::Auto.enter(bounds()).unwrap();
        check(fs::read("/proc/self/stat"), false);
    }
}
