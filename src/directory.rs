//! Path → the listing of a directory, made in bites and kept for a while.
//!
//! Nothing stops the loop: a listing that is not kept is made a bite at a time, one in each turn, and those
//! who wait for it ask again in the next. One is made at a time, by whoever waits, be it theirs or not; so it
//! makes no difference who of them goes away. A bite is one buffer of names (getdents64(2)) with a look at
//! each, or so many rows of the page: at most a millisecond where the file system's own cache has them.

use std::collections::HashMap;
use std::collections::btree_set::{self, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::iter::{Chain, Rev};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, RawDir, StatxFlags, statx};

use crate::beneath::Root;
use crate::clock::Clock;
use crate::files::{self, Keeping};
use crate::head::{Body, Field, Response};
use crate::listing::{Entry, Format, Page, Wish};
use crate::plan::{ETag, Validators};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::representation::Representation;
use crate::tally::{Call, Tally};

/// Bytes of names that are read in one bite: some 500 names of usual length. Arbitrary.
const BITE_BYTES: usize = 16 * 1024;

/// Rows that are written in one bite. Arbitrary: what costs about as much as a bite of names.
const BITE_ROWS: usize = 1000;

/// Names of the longest listing. Arbitrary; each takes some 150 bytes while it is sorted.
const NAMES_MAX: usize = 200_000;

/// Bytes of the longest listing, give or take a row. Arbitrary.
const LISTING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of all listings that are kept.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of all listings that there are, kept or on their way to somebody; beyond that no other is made.
const ALIVE_BYTES_MAX: u64 = 2 * KEPT_BYTES_MAX;

/// A listing is kept for at least so many times as long as it took to make, so that no more than this part of
/// the loop goes to any one of them.
const KEPT_BY_COST: u32 = 20;

/// What becomes of asking for a listing.
#[derive(Debug)]
pub enum Found {
    /// It is there.
    Listing(Rc<Representation>),
    /// It is being made: ask again in the next turn.
    NotYet,
    /// There is none.
    Refused(Refusal),
}

type Name = (Box<[u8]>, Wish);

#[derive(Debug)]
struct Kept {
    representation: Rc<Representation>,
    /// When its directory was read, and for how long that holds.
    since: Instant,
    holds: Duration,
    used: Instant,
}

/// A listing that is being made.
#[derive(Debug)]
struct Making {
    name: Name,
    began: Instant,
    /// The turn of its last bite.
    turn: Instant,
    stage: Stage,
    page: Page,
    out: Vec<u8>,
    hasher: DefaultHasher,
    is_cut: bool,
}

#[derive(Debug)]
enum Stage {
    /// Names are read, into their order.
    Reading { dir: File, directories: BTreeSet<Entry>, files: BTreeSet<Entry> },
    /// Rows are written.
    Writing(Rows),
}

/// Directories, then files, each in one order or the other.
#[derive(Debug)]
enum Rows {
    Ascending(Chain<btree_set::IntoIter<Entry>, btree_set::IntoIter<Entry>>),
    Descending(Chain<Rev<btree_set::IntoIter<Entry>>, Rev<btree_set::IntoIter<Entry>>>),
}

impl Iterator for Rows {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        match self {
            Self::Ascending(rows) => rows.next(),
            Self::Descending(rows) => rows.next(),
        }
    }
}

/// The listings of a site.
#[derive(Debug)]
pub struct Directories {
    policy: Policy,
    keeping: Keeping,
    kept: HashMap<Name, Kept>,
    /// Those that somebody may still be reading, with their bytes.
    alive: Vec<(Weak<Response>, u64)>,
    alive_bytes_max: u64,
    making: Option<Making>,
    swept: Instant,
}

impl Directories {
    /// Listings with the fields of `policy`, kept as files are.
    pub fn new(policy: Policy, keeping: Keeping, now: Instant) -> Self {
        Self {
            policy,
            keeping,
            kept: HashMap::new(),
            alive: Vec::new(),
            alive_bytes_max: ALIVE_BYTES_MAX,
            making: None,
            swept: now,
        }
    }

    /// The listing of the directory `path` beneath `root`, which is empty or ends in a slash.
    pub fn listing(
        &mut self,
        root: &Root,
        path: &[u8],
        wish: Wish,
        clock: &Clock,
        tally: &mut Tally,
    ) -> Found {
        let now = clock.now();
        let name: Name = (path.into(), wish);
        if let Some(kept) = self.kept.get_mut(&name)
            && (self.keeping.check.is_none() || now - kept.since < kept.holds)
        {
            tally.cache_hits += 1;
            kept.used = now;
            return Found::Listing(Rc::clone(&kept.representation));
        }
        let is_full = self.making.is_none() && self.alive_bytes() > self.alive_bytes_max;
        let making = match &mut self.making {
            Some(making) if making.turn == now => return Found::NotYet,
            Some(making) => making,
            None if is_full => return Found::Refused(Refusal::Overloaded),
            None => {
                let place = if path.is_empty() { b"." } else { path };
                match root.file(place, &mut tally.calls) {
                    Ok(dir) => self.making.insert(Making::begin(name.clone(), dir, now)),
                    Err(error) => {
                        self.kept.remove(&name);
                        return Found::Refused(files::refusal(&error));
                    }
                }
            }
        };
        making.turn = now;
        match making.bite(root, tally) {
            Ok(false) => Found::NotYet,
            Ok(true) => {
                let Some(made) = self.making.take() else { return Found::NotYet };
                tally.cache_fills += 1;
                root.restock();
                let is_this = made.name == name;
                let representation = self.keep(made, now);
                if is_this { Found::Listing(representation) } else { Found::NotYet }
            }
            Err(error) => {
                let failed = self.making.take();
                root.restock();
                match failed {
                    Some(failed) if failed.name == name => Found::Refused(files::refusal(&error)),
                    _ => Found::NotYet,
                }
            }
        }
    }

    /// Drops a listing for which nobody waits any more, and those that are in disuse.
    pub fn sweep(&mut self, now: Instant) {
        self.making.take_if(|making| making.turn < now);
        if now - self.swept >= self.keeping.sweep_every() {
            self.swept = now;
            self.kept.retain(|_, kept| now - kept.used < self.keeping.idle);
        }
    }

    /// When [`Directories::sweep`] has something to do next.
    pub fn next_sweep(&self) -> Option<Instant> {
        (!self.kept.is_empty()).then(|| self.swept + self.keeping.sweep_every())
    }

    fn keep(&mut self, made: Making, now: Instant) -> Rc<Representation> {
        let (path, wish) = &made.name;
        let mut defaults = vec![
            Field::new("Server", "tared"),
            Field::new("Content-Type", wish.format.content_type()),
            Field::new("X-Content-Type-Options", "nosniff"),
        ];
        if wish.format == Format::Html {
            // Whatever a name may smuggle in, there is nothing here to be run or fetched.
            let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
            defaults.push(Field::new("Content-Security-Policy", policy));
        }
        let mut fields = self.policy.of_file(path, defaults);
        fields.push(Field::new("Vary", "Accept"));
        let etag = ETag { opaque: format!("{:016x}", made.hasher.finish()), is_weak: false };
        let validators = Validators { etag, modified: None, is_date_strong: false };
        let representation = Rc::new(Representation::new(&fields, validators, None, Body::Bytes(made.out)));
        self.alive.retain(|(listing, _)| listing.strong_count() > 0);
        self.alive.push((Rc::downgrade(&representation.whole), representation.len()));
        let holds =
            (now - made.began).saturating_mul(KEPT_BY_COST).max(self.keeping.check.unwrap_or_default());
        let kept = Kept { representation: Rc::clone(&representation), since: made.began, holds, used: now };
        self.kept.insert(made.name, kept);
        while self.kept.len() > self.keeping.entries_max || self.kept_bytes() > KEPT_BYTES_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(name, _)| name.clone());
            oldest.map(|name| self.kept.remove(&name));
        }
        representation
    }

    fn alive_bytes(&self) -> u64 {
        self.alive.iter().filter(|(listing, _)| listing.strong_count() > 0).map(|(_, bytes)| bytes).sum()
    }

    fn kept_bytes(&self) -> u64 {
        self.kept.values().map(|kept| kept.representation.len()).sum()
    }
}

impl Making {
    fn begin(name: Name, dir: File, now: Instant) -> Self {
        let page = Page::new(name.1);
        let stage = Stage::Reading { dir, directories: BTreeSet::new(), files: BTreeSet::new() };
        let (out, hasher) = (Vec::new(), DefaultHasher::new());
        Self { name, began: now, turn: now, stage, page, out, hasher, is_cut: false }
    }

    /// Goes on by a bite; returns whether that was the last.
    fn bite(&mut self, root: &Root, tally: &mut Tally) -> io::Result<bool> {
        let (path, wish) = &self.name;
        match &mut self.stage {
            Stage::Reading { dir, directories, files } => {
                let room = NAMES_MAX - directories.len() - files.len();
                let read = read(root, dir, path, wish, room, tally, |entry| {
                    if entry.is_directory() {
                        directories.insert(entry)
                    } else {
                        files.insert(entry)
                    };
                })?;
                if read == Read::More {
                    return Ok(false);
                }
                self.is_cut = read == Read::Cut;
                let (directories, files) = (std::mem::take(directories), std::mem::take(files));
                let (directories, files) = (directories.into_iter(), files.into_iter());
                self.page.begin(path, &mut self.out);
                self.stage = Stage::Writing(match wish.is_descending {
                    false => Rows::Ascending(directories.chain(files)),
                    true => Rows::Descending(directories.rev().chain(files.rev())),
                });
                Ok(false)
            }
            Stage::Writing(rows) => {
                let start = self.out.len();
                for _ in 0..BITE_ROWS {
                    let row = rows.next();
                    let is_full = self.out.len() > LISTING_BYTES_MAX;
                    match row {
                        Some(row) if !is_full => self.page.row(&row, &mut self.out),
                        row => {
                            self.page.end(self.is_cut || row.is_some(), &mut self.out);
                            self.hasher.write(&self.out[start..]);
                            return Ok(true);
                        }
                    }
                }
                self.hasher.write(&self.out[start..]);
                Ok(false)
            }
        }
    }
}

/// How far a directory has been read.
#[derive(PartialEq, Eq)]
enum Read {
    More,
    All,
    Cut,
}

/// Reads some names of `dir`, the directory `path`, and tells `take` of those that are served: regular files
/// and directories, also behind links that do not lead out, whose names do not begin with a dot.
fn read(
    root: &Root,
    dir: &File,
    path: &[u8],
    wish: &Wish,
    room: usize,
    tally: &mut Tally,
    mut take: impl FnMut(Entry),
) -> io::Result<Read> {
    let mut buffer = [MaybeUninit::uninit(); BITE_BYTES];
    let mut names = RawDir::new(dir, &mut buffer);
    tally.calls.count(Call::Getdents64);
    let mut left = room;
    while let Some(name) = names.next() {
        let name = name?;
        let file_name = name.file_name();
        let is_served = !file_name.to_bytes().starts_with(b".");
        if is_served && left == 0 {
            return Ok(Read::Cut);
        }
        if is_served && let Some(entry) = look(root, dir, path, file_name, name.file_type(), wish, tally) {
            left -= 1;
            take(entry);
        }
        if names.is_buffer_empty() {
            return Ok(Read::More);
        }
    }
    Ok(Read::All)
}

/// What stands in `dir` under `name`, if it is served.
fn look(
    root: &Root,
    dir: &File,
    path: &[u8],
    name: &std::ffi::CStr,
    kind: FileType,
    wish: &Wish,
    tally: &mut Tally,
) -> Option<Entry> {
    let entry = |is_directory, size, modified_s| {
        Entry::new(name.to_bytes(), is_directory, size, modified_s, wish.key)
    };
    let mut kind = kind;
    if !matches!(kind, FileType::Symlink) {
        let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME;
        tally.calls.count(Call::Statx);
        let found = statx(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
        kind = FileType::from_raw_mode(found.stx_mode.into());
        if matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Some(entry(kind == FileType::Directory, found.stx_size, found.stx_mtime.tv_sec));
        }
    }
    if kind != FileType::Symlink {
        return None;
    }
    let behind = root.file(&[path, name.to_bytes()].concat(), &mut tally.calls).ok()?;
    tally.calls.count(Call::Statx);
    let found = behind.metadata().ok()?;
    (found.is_file() || found.is_dir()).then(|| entry(found.is_dir(), found.size(), found.mtime()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Key;

    const WISH: Wish = Wish { key: Key::Name, is_descending: false, format: Format::Json };

    /// Asks in one turn after the other until it is there, or refused.
    fn listing(directories: &mut Directories, root: &Root, clock: &mut Clock, wish: Wish) -> Found {
        for _ in 0..1000 {
            clock.tick();
            match directories.listing(root, b"", wish, clock, &mut Tally::default()) {
                Found::NotYet => {}
                found => return found,
            }
        }
        panic!("it is never there");
    }

    fn site(names: usize) -> (tempfile::TempDir, Root, Clock) {
        let tree = tempfile::tempdir().unwrap();
        (0..names).for_each(|at| std::fs::write(tree.path().join(format!("{at:05}")), "").unwrap());
        let root = Root::open(tree.path()).unwrap();
        (tree, root, Clock::start())
    }

    /// Whoever reads slowly holds a listing that is long outdated: all of them together are bounded.
    #[test]
    fn listings_that_are_still_being_read_are_bounded() {
        let (_tree, root, mut clock) = site(100);
        let keeping = Keeping { check: Some(Duration::ZERO), ..Keeping::default() };
        let mut directories = Directories::new(Policy::default(), keeping, clock.now());
        directories.alive_bytes_max = 50_000;
        let mut read = Vec::new();
        let refused = (0..100).find_map(|_| {
            directories.kept.clear();
            match listing(&mut directories, &root, &mut clock, WISH) {
                Found::Listing(found) => read.push(Rc::clone(&found.whole)),
                Found::Refused(refusal) => return Some(refusal),
                Found::NotYet => {}
            }
            None
        });
        assert_eq!(refused, Some(Refusal::Overloaded));
        let bytes: u64 = read.iter().map(|listing| listing.body().len()).sum();
        assert!((50_000..70_000).contains(&bytes), "{bytes} bytes in {} listings", read.len());
        read.clear();
        assert!(matches!(listing(&mut directories, &root, &mut clock, WISH), Found::Listing(_)));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_least_used_goes_first() {
        let (_tree, root, mut clock) = site(3);
        let keeping = Keeping { entries_max: 2, check: None, ..Keeping::default() };
        let mut directories = Directories::new(Policy::default(), keeping, clock.now());
        let wishes = [Key::Name, Key::Size, Key::Time].map(|key| Wish { key, ..WISH });
        for wish in [wishes[0], wishes[1], wishes[0], wishes[2]] {
            assert!(matches!(listing(&mut directories, &root, &mut clock, wish), Found::Listing(_)));
        }
        let is_kept = wishes.map(|wish| directories.kept.contains_key(&(Box::from(&b""[..]), wish)));
        assert_eq!(is_kept, [true, false, true]);
    }

    /// A listing for which nobody waits is not gone on with.
    #[test]
    fn what_nobody_waits_for_is_dropped() {
        let (_tree, root, mut clock) = site(3);
        let mut directories = Directories::new(Policy::default(), Keeping::default(), clock.now());
        clock.tick();
        let found = directories.listing(&root, b"", WISH, &clock, &mut Tally::default());
        assert!(matches!(found, Found::NotYet) && directories.making.is_some());
        directories.sweep(clock.now());
        assert!(directories.making.is_some(), "somebody asked in this turn");
        clock.tick();
        directories.sweep(clock.now());
        assert!(directories.making.is_none());
    }
}
