//! Path → the listing of a directory, made in bites and kept for a while.
//!
//! Nothing stops the loop: a listing that is not kept is made a bite at a time, one in each turn, and those
//! who wait for it ask again in the next. One is made at a time, by whoever waits, be it theirs or not; so it
//! makes no difference who of them goes away. A bite goes by the clock, not by the number of names: a look at a
//! name takes a microsecond where the file system's own cache has it, and a thousand times that from a disk.

use std::collections::HashMap;
use std::collections::btree_set::{self, BTreeSet};
use std::ffi::{CStr, CString};
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
use crate::clock::{Clock, Stretch};
use crate::files::{self, Keeping};
use crate::head::{Body, Field, Response};
use crate::listing::{Entry, Format, Page, Wish};
use crate::plan::{ETag, Validators};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::representation::Representation;
use crate::tally::{Call, Tally};

/// How long a bite is; it ends behind the step in which that is over. Arbitrary: what other clients are made to
/// wait in each turn, and long enough that the turn itself does not count.
const BITE: Duration = Duration::from_millis(1);

/// Bytes of names that are read in one step: some 500 names of usual length. Arbitrary.
const STEP_BYTES: usize = 16 * 1024;

/// Names of the longest listing. Arbitrary; each takes some 110 bytes, beside its own, while it is sorted.
const NAMES_MAX: usize = 200_000;

/// Bytes of all names in the longest listing: 80 for each of the most names. A byte takes four while it is
/// sorted where it is not UTF-8, so that 90 MiB are all that sorting takes.
const NAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the longest listing, give or take a row. Arbitrary.
const LISTING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of all listings that are kept.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of all listings that there are, kept or on their way to somebody. Beyond that only short ones are made,
/// until these are half as much again.
const ALIVE_BYTES_MAX: u64 = 2 * KEPT_BYTES_MAX;

/// Bytes of a short listing: some 300 names. Arbitrary.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// A listing is kept for at least so many times as long as it took to make, so that no more than this part of
/// the loop goes to any one of them; unless it has to make room for others that were asked for since.
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

impl Kept {
    fn is_current(&self, check: Option<Duration>, now: Instant) -> bool {
        check.is_none() || now - self.since < self.holds
    }
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
    /// Whether there is only room for a short one.
    is_short: bool,
}

#[derive(Debug)]
enum Stage {
    /// Names are read, into their order.
    Reading(Box<Names>),
    /// Rows are written.
    Writing(Rows),
}

/// The names of a directory, as far as it has been read.
#[derive(Debug)]
struct Names {
    dir: File,
    is_read: bool,
    /// What has been read and not looked at.
    ahead: Vec<(CString, FileType)>,
    directories: BTreeSet<Entry>,
    files: BTreeSet<Entry>,
    /// Bytes of the names in both.
    bytes: usize,
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
        let check = self.keeping.check;
        if let Some(kept) = self.kept.get_mut(&name)
            && kept.is_current(check, now)
        {
            tally.cache_hits += 1;
            kept.used = now;
            return Found::Listing(Rc::clone(&kept.representation));
        }
        let making = match &mut self.making {
            Some(making) if making.turn == now => return Found::NotYet,
            Some(making) => making,
            None => {
                let dir = match root.file(path, &mut tally.calls) {
                    Ok(dir) => dir,
                    Err(error) => {
                        self.kept.remove(&name);
                        return Found::Refused(files::refusal(&error));
                    }
                };
                let alive_bytes = self.alive_bytes();
                if alive_bytes > self.alive_bytes_max / 2 * 3 {
                    return Found::Refused(Refusal::Overloaded);
                }
                let is_short = alive_bytes > self.alive_bytes_max;
                self.making.insert(Making { is_short, ..Making::begin(name.clone(), dir, now) })
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

    /// Whether to ask for a listing of `path` is of no use in this turn: one is being made that has had its bite,
    /// and none is kept.
    pub fn is_resting(&self, path: &[u8], wish: impl FnOnce() -> Wish, now: Instant) -> bool {
        let is_had = |making: &Making| making.turn == now && *making.name.0 == *path;
        self.making.as_ref().is_some_and(is_had) && {
            let kept = self.kept.get(&(path.into(), wish()));
            !kept.is_some_and(|kept| kept.is_current(self.keeping.check, now))
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
        let wish = made.name.1;
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
        let mut fields = self.policy.success(defaults);
        fields.push(Field::new("Vary", "Accept"));
        if made.is_cut {
            // A boolean of structured fields (RFC 9651 §3.3.6), for programs: an array of JSON cannot say it.
            fields.push(Field::new("Listing-Cut", "?1"));
        }
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
        let (out, hasher) = (Vec::new(), DefaultHasher::new());
        let stage = Stage::Reading(Box::new(Names::of(dir)));
        Self { name, began: now, turn: now, stage, page, out, hasher, is_cut: false, is_short: false }
    }

    /// Goes on by a bite; returns whether that was the last.
    fn bite(&mut self, root: &Root, tally: &mut Tally) -> io::Result<bool> {
        let bite = Stretch::of(BITE);
        loop {
            let is_made = self.step(root, tally)?;
            if self.is_short && self.bytes() > SHORT_BYTES_MAX {
                return Err(rustix::io::Errno::NOMEM.into());
            }
            if is_made || bite.is_over() {
                return Ok(is_made);
            }
        }
    }

    /// Bytes of the names so far, or of the page.
    fn bytes(&self) -> usize {
        match &self.stage {
            Stage::Reading(names) => names.bytes,
            Stage::Writing(_) => self.out.len(),
        }
    }

    /// Goes on by a buffer of names, by a look at one, or by a row; returns whether that was the last.
    fn step(&mut self, root: &Root, tally: &mut Tally) -> io::Result<bool> {
        let (path, wish) = &self.name;
        match &mut self.stage {
            Stage::Reading(names) => match names.ahead.pop() {
                Some(_) if names.is_full() => {
                    self.is_cut = true;
                    names.is_read = true;
                    names.ahead.clear();
                }
                Some((name, kind)) => {
                    if let Some(entry) = look(root, &names.dir, path, &name, kind, wish, tally)? {
                        names.take(entry, name.count_bytes());
                    }
                }
                None if !names.is_read => names.read(tally)?,
                None => {
                    self.page.begin(path, &mut self.out);
                    self.hasher.write(&self.out);
                    self.stage = Stage::Writing(names.rows(wish.is_descending));
                }
            },
            Stage::Writing(rows) => {
                let start = self.out.len();
                let row = rows.next();
                match &row {
                    Some(row) if start <= LISTING_BYTES_MAX => self.page.row(row, &mut self.out),
                    // The rest goes row by row, too: to free all of it at once takes long.
                    Some(_) => self.is_cut = true,
                    None => self.page.end(self.is_cut, &mut self.out),
                }
                self.hasher.write(&self.out[start..]);
                return Ok(row.is_none());
            }
        }
        Ok(false)
    }
}

impl Names {
    fn of(dir: File) -> Self {
        let (directories, files) = (BTreeSet::new(), BTreeSet::new());
        Self { dir, is_read: false, ahead: Vec::new(), directories, files, bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.directories.len() + self.files.len() >= NAMES_MAX || self.bytes >= NAME_BYTES_MAX
    }

    /// Reads on by one buffer. What begins with a dot is not listed.
    fn read(&mut self, tally: &mut Tally) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); STEP_BYTES];
        let mut names = RawDir::new(&self.dir, &mut buffer);
        tally.calls.count(Call::Getdents64);
        while let Some(name) = names.next() {
            let name = name?;
            if !name.file_name().to_bytes().starts_with(b".") {
                self.ahead.push((name.file_name().to_owned(), name.file_type()));
            }
            if names.is_buffer_empty() {
                return Ok(());
            }
        }
        self.is_read = true;
        Ok(())
    }

    fn take(&mut self, entry: Entry, len: usize) {
        self.bytes += len;
        match entry.is_directory() {
            true => self.directories.insert(entry),
            false => self.files.insert(entry),
        };
    }

    fn rows(&mut self, is_descending: bool) -> Rows {
        let directories = std::mem::take(&mut self.directories).into_iter();
        let files = std::mem::take(&mut self.files).into_iter();
        match is_descending {
            false => Rows::Ascending(directories.chain(files)),
            true => Rows::Descending(directories.rev().chain(files.rev())),
        }
    }
}

/// What stands in `dir`, the directory `path`, under `name`, if it is served: regular files and directories, also
/// behind links that do not lead out.
fn look(
    root: &Root,
    dir: &File,
    path: &[u8],
    name: &CStr,
    kind: FileType,
    wish: &Wish,
    tally: &mut Tally,
) -> io::Result<Option<Entry>> {
    let entry = |is_directory, size, modified_s| {
        Entry::new(name.to_bytes(), is_directory, size, modified_s, wish.key)
    };
    let mut kind = kind;
    if !matches!(kind, FileType::Symlink) {
        let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME;
        tally.calls.count(Call::Statx);
        let found = statx(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, wanted).map_err(io::Error::from);
        let Some(found) = unless_overloaded(found)? else { return Ok(None) };
        kind = FileType::from_raw_mode(found.stx_mode.into());
        if matches!(kind, FileType::RegularFile | FileType::Directory) {
            let is_directory = kind == FileType::Directory;
            return Ok(Some(entry(is_directory, found.stx_size, found.stx_mtime.tv_sec)));
        }
    }
    if kind != FileType::Symlink {
        return Ok(None);
    }
    let behind = root.file(&[path, name.to_bytes()].concat(), &mut tally.calls);
    let Some(behind) = unless_overloaded(behind)? else { return Ok(None) };
    tally.calls.count(Call::Statx);
    let Some(found) = unless_overloaded(behind.metadata())? else { return Ok(None) };
    let is_served = found.is_file() || found.is_dir();
    Ok(is_served.then(|| entry(found.is_dir(), found.size(), found.mtime())))
}

/// What cannot be had is not listed; but where that is so for want of descriptors or memory, a listing without it
/// would be wrong.
fn unless_overloaded<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if files::refusal(&error) == Refusal::Overloaded => Err(error),
        found => Ok(found.ok()),
    }
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

    /// Whoever reads slowly holds a listing that is long outdated: all of them together are bounded, and long ones
    /// leave room for short ones.
    #[test]
    fn listings_that_are_still_being_read_are_bounded() {
        let (_long, long, mut clock) = site(2000);
        let (_short, short, _) = site(100);
        let keeping = Keeping { check: Some(Duration::ZERO), ..Keeping::default() };
        let mut directories = Directories::new(Policy::default(), keeping, clock.now());
        directories.alive_bytes_max = 400_000;
        let mut read = Vec::new();
        let mut refused = |root: &Root| {
            let refused = (0..100).find_map(|_| {
                directories.kept.clear();
                match listing(&mut directories, root, &mut clock, WISH) {
                    Found::Listing(found) => read.push(Rc::clone(&found.whole)),
                    Found::Refused(refusal) => return Some(refusal),
                    Found::NotYet => {}
                }
                None
            });
            (refused, read.iter().map(|listing| listing.body().len()).sum::<u64>())
        };
        let (refusal, bytes) = refused(&long);
        assert_eq!(refusal, Some(Refusal::Overloaded));
        assert!((400_000..600_000).contains(&bytes), "{bytes} bytes in long ones");
        let (refusal, bytes) = refused(&short);
        assert_eq!(refusal, Some(Refusal::Overloaded));
        assert!((600_000..620_000).contains(&bytes), "{bytes} bytes in all");
        // What is not there is not there, however little room there is.
        let found = directories.listing(&short, b"none/", WISH, &clock, &mut Tally::default());
        assert!(matches!(found, Found::Refused(Refusal::NotFound)), "{found:?}");
        read.clear();
        assert!(matches!(listing(&mut directories, &long, &mut clock, WISH), Found::Listing(_)));
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

    /// Those who wait need not look for an index again; those for whom there is a listing do not wait.
    #[test]
    fn who_waits_rests_until_the_next_turn() {
        let (_tree, root, mut clock) = site(3);
        let mut directories = Directories::new(Policy::default(), Keeping::default(), clock.now());
        assert!(matches!(listing(&mut directories, &root, &mut clock, WISH), Found::Listing(_)));
        let other = Wish { key: Key::Size, ..WISH };
        let opened = root.file(b"", &mut Tally::default().calls).unwrap();
        directories.making = Some(Making::begin((Box::default(), other), opened, clock.now()));
        assert!(directories.is_resting(b"", || other, clock.now()));
        assert!(!directories.is_resting(b"", || WISH, clock.now()), "it is kept");
        assert!(!directories.is_resting(b"sub/", || other, clock.now()), "it may have an index");
        clock.tick();
        assert!(!directories.is_resting(b"", || other, clock.now()), "it can go on");
    }

    /// A listing for which nobody waits is not gone on with.
    #[test]
    fn what_nobody_waits_for_is_dropped() {
        let (_tree, root, mut clock) = site(3);
        let mut directories = Directories::new(Policy::default(), Keeping::default(), clock.now());
        let opened = root.file(b"", &mut Tally::default().calls).unwrap();
        directories.making = Some(Making::begin((Box::default(), WISH), opened, clock.now()));
        directories.sweep(clock.now());
        assert!(directories.making.is_some(), "somebody asked in this turn");
        clock.tick();
        directories.sweep(clock.now());
        assert!(directories.making.is_none());
    }

    const CUT: &str = "There are more names than are listed here.";

    /// The listing of three names, in which `change` has been at what is known before them.
    fn page(change: impl FnOnce(&mut Making)) -> String {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a", "b", "c", ".hidden", ".other"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        let (mut tally, now) = (Tally::default(), Instant::now());
        let opened = root.file(b"", &mut tally.calls).unwrap();
        let mut making = Making::begin((Box::default(), Wish::of(None, b"")), opened, now);
        change(&mut making);
        let is_made = (0..100).any(|_| making.step(&root, &mut tally).unwrap());
        assert!(is_made, "it has no end");
        String::from_utf8(making.out).unwrap()
    }

    /// RFC 9651 §3.3.6: what an array of JSON cannot say.
    #[test]
    fn a_cut_listing_says_so_in_its_head() {
        for is_cut in [true, false] {
            let (_tree, root, mut clock) = site(3);
            let mut directories = Directories::new(Policy::default(), Keeping::default(), clock.now());
            let opened = root.file(b"", &mut Tally::default().calls).unwrap();
            let making = Making::begin((Box::default(), WISH), opened, clock.now());
            directories.making = Some(Making { is_cut, ..making });
            let found = listing(&mut directories, &root, &mut clock, WISH);
            let Found::Listing(found) = found else { panic!("{found:?}") };
            let head = String::from_utf8_lossy(found.whole.template(true).whole()).into_owned();
            assert_eq!(head.contains("\r\nListing-Cut: ?1\r\n"), is_cut, "{head}");
        }
    }

    #[test]
    fn a_listing_is_cut_where_names_take_too_much() {
        let with_bytes = |bytes: usize| {
            page(|making| match &mut making.stage {
                Stage::Reading(names) => names.bytes = bytes,
                Stage::Writing(_) => unreachable!("nothing has been read"),
            })
        };
        for (bytes, rows, is_cut) in [
            (0, 3, false),
            (NAME_BYTES_MAX - 3, 3, false),
            (NAME_BYTES_MAX - 1, 1, true),
            (NAME_BYTES_MAX, 0, true),
        ] {
            let page = with_bytes(bytes);
            assert_eq!((page.matches("<bdi>").count(), page.contains(CUT)), (rows, is_cut), "{page}");
        }
    }

    #[test]
    fn a_listing_is_cut_where_its_page_takes_too_much() {
        let page = page(|making| making.out = vec![b' '; LISTING_BYTES_MAX + 1]);
        assert_eq!((page.matches("<bdi>").count(), page.contains(CUT)), (0, true));
        assert!(page.ends_with("</html>\n"), "it is whole all the same");
    }
}
