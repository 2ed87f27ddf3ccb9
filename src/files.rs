//! Path → representation: the file cache.
//!
//! A path that is asked for is opened beneath the root, and becomes an entry: an immutable
//! [`Representation`] with its heads rendered. Within [`Keeping::check`] an entry is served as it is (no system
//! call; one `fstat` if its file is open); after that the path is opened again and the entry kept only
//! if the file is still the same. Absence is not cached.
//!
//! A small file is read into our own memory, where nothing can happen to it; what was read is whole,
//! or is read again. A larger one stays open and is mapped, where its bytes are for the kernel alone
//! (`head::Body`); the largest ones are not even mapped, but sent by the kernel itself.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::beneath::Root;
use crate::clock::{Clock, imf_fixdate};
use crate::coding::Coding;
use crate::head::{Body, Field, Mapping};
use crate::mime::Types;
use crate::plan::{ETag, Validators};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::representation::Representation;
use crate::tally::{Call, Calls, Tally};

/// What makes a response of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Files served for a directory; the first that is there.
    pub index_names: Vec<String>,
    /// Content types.
    pub types: Types,
    /// What goes with which response.
    pub policy: Policy,
    /// Whether a file's siblings with a content coding are served in its place.
    pub is_precompressed: bool,
    /// Whether the root's index also stands for what is not there, so that it depends on Accept.
    pub is_spa: bool,
}

/// How entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// How many there may be.
    pub entries_max: usize,
    /// How long one is kept that nobody asks for, and with it the file if it was deleted.
    pub idle: Duration,
    /// How long one is believed without a look at the file system, if not for ever.
    pub check: Option<Duration>,
}

impl Default for Keeping {
    /// As many as nginx's open_file_cache had in 2012, and for as long, but believed for a second only.
    fn default() -> Self {
        Self { entries_max: 1000, idle: Duration::from_secs(3600), check: Some(Duration::from_secs(1)) }
    }
}

impl Keeping {
    /// How often is looked for what is in disuse.
    pub(crate) fn sweep_every(&self) -> Duration {
        self.idle.min(SWEEP_EVERY)
    }
}

/// How often is looked for entries in disuse, at the most. Arbitrary.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Entries among them that hold a descriptor, since their files are read as they are sent. Arbitrary.
const OPEN_MAX: usize = 64;

/// Bytes of the largest file that is read instead of mapped: 1,000 of them are 64 MB at the most, and four
/// times that if each has all of its siblings.
/// Up to here a copy from our memory costs the kernel what a copy from the page cache does, and a
/// file that is cut shorter in place cannot show zeros behind its new end.
pub const READ_MAX: u64 = 64 * 1024;

/// Bytes from which on a file is sent by sendfile(2) and not from a mapping. Measured with the two
/// floors of `scripts/floor.c` (Linux 6.18, loopback, wrk with 20 connections, CPU per request of 5
/// rounds in turn): mapping 51 and sendfile 56 µs at 512 KiB, 79 and 76 at 768 KiB, 133 and 107 at
/// 1 MiB.
pub const SENDFILE_MIN: u64 = 768 * 1024;

/// A file changed this recently may change again without a trace in its times, so its entry is
/// filled anew at the next check. The kernel stamps files with a clock of 4 ms or 10 ms ticks.
const TICK: Duration = Duration::from_millis(20);

/// The same where times are kept in whole seconds, or in two as FAT does.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// Tries to read a file that changes while it is read.
const READS_MAX: usize = 3;

/// Why there is no response for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It is a directory, asked for without its slash.
    Directory,
    /// It is refused.
    Refused(Refusal),
}

/// What tells one state of a file from another. ctime is among it: it moves with every change, and
/// nobody can set it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// An entity tag's text: these facts, but not in the clear, since an inode is nobody's business.
    /// The device is left out: it may be another after a reboot.
    fn opaque(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.inode, self.size, self.modified, self.changed).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Whether a change after `wall` would show in the times.
    fn is_settled(&self, wall: SystemTime) -> bool {
        let tick = if self.modified.1 == 0 && self.changed.1 == 0 { COARSE_TICK } else { TICK };
        [self.modified, self.changed].into_iter().all(|time| match at(time) {
            Some(time) => wall.duration_since(time).is_ok_and(|age| age > tick),
            None => true,
        })
    }
}

#[derive(Debug)]
struct Entry {
    representation: Rc<Representation>,
    identity: Identity,
    /// Those of its siblings.
    siblings: Vec<(Coding, Identity)>,
    /// Whether a file is read as it is sent.
    is_open: bool,
    /// Whether the same identities later mean the same content.
    is_settled: bool,
    checked: Instant,
    used: Instant,
}

/// A sibling, opened.
type Sibling = ((Coding, Identity), File);

/// A directory being served.
#[derive(Debug)]
pub struct Files {
    root: Root,
    rules: Rules,
    keeping: Keeping,
    entries: HashMap<Box<[u8]>, Entry>,
    swept: Instant,
}

impl Files {
    /// Serves `root` by `rules`.
    pub fn new(root: Root, rules: Rules, keeping: Keeping, now: Instant) -> Self {
        Self { root, rules, keeping, entries: HashMap::new(), swept: now }
    }

    /// What `path`, as [`crate::target::resolve`] makes it, stands for.
    ///
    /// # Errors
    /// That it is a directory asked for without its slash, or why it is refused.
    pub fn representation(
        &mut self,
        path: &[u8],
        clock: &Clock,
        tally: &mut Tally,
    ) -> Result<Rc<Representation>, Miss> {
        let now = clock.now();
        if let Some(entry) = self.entries.get_mut(path)
            && self.keeping.check.is_none_or(|check| {
                now - entry.checked < check && (!entry.is_open || entry.is_unchanged(&mut tally.calls))
            })
        {
            tally.cache_hits += 1;
            entry.used = now;
            return Ok(Rc::clone(&entry.representation));
        }
        let checked = self.check(path, clock, tally);
        self.root.restock();
        if checked.is_err() {
            self.entries.remove(path);
        }
        checked
    }

    /// Drops the entries that are in disuse.
    pub fn sweep(&mut self, now: Instant) {
        if now - self.swept >= self.keeping.sweep_every() {
            self.swept = now;
            self.entries.retain(|_, entry| now - entry.used < self.keeping.idle);
        }
    }

    /// When [`Files::sweep`] has something to do next.
    pub fn next_sweep(&self) -> Option<Instant> {
        (!self.entries.is_empty()).then(|| self.swept + self.keeping.sweep_every())
    }

    /// The directory that is served.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Opens `path` and keeps its entry if the file is the same, or makes a new one.
    fn check(&mut self, path: &[u8], clock: &Clock, tally: &mut Tally) -> Result<Rc<Representation>, Miss> {
        let (name, file, metadata) = self.open(path, &mut tally.calls)?;
        let (now, wall) = (clock.now(), clock.wall());
        let identity = Identity::of(&metadata);
        let (siblings, mut is_all) = self.siblings(&name, &identity, &mut tally.calls);
        // A wall clock that has stepped back would have its Last-Modified later than Date.
        if let Some(entry) = self.entries.get_mut(path)
            && entry.is_settled
            && identity.is_settled(wall)
            && siblings.iter().all(|((_, sibling), _)| sibling.is_settled(wall))
            && entry.identity == identity
            && entry.siblings.iter().eq(siblings.iter().map(|(sibling, _)| sibling))
        {
            tally.cache_hits += 1;
            (entry.checked, entry.used) = (now, now);
            return Ok(Rc::clone(&entry.representation));
        }
        tally.cache_fills += 1;
        let (body, identity) =
            load(file, identity, &mut tally.calls).map_err(|error| Miss::Refused(refusal(&error)))?;
        let mut is_settled = identity.is_settled(wall);
        let (mut coded, mut kept) = (Vec::new(), Vec::new());
        let has_siblings = !siblings.is_empty();
        for ((coding, sibling), file) in siblings {
            let (body, sibling) = match load(file, sibling, &mut tally.calls) {
                Ok(loaded) => loaded,
                Err(error) => {
                    is_all &= refusal(&error) != Refusal::Overloaded;
                    continue;
                }
            };
            is_settled &= sibling.is_settled(wall);
            let form = self.render((path, &name), (Some(coding), has_siblings), body, &sibling, wall);
            coded.push((coding, Rc::new(form)));
            kept.push((coding, sibling));
        }
        let whole = self.render((path, &name), (None, has_siblings), body, &identity, wall);
        let representation = Rc::new(whole.with_coded(coded));
        if !is_all {
            return Ok(representation);
        }
        self.make_room(path, representation.open_files());
        let entry = Entry {
            representation: Rc::clone(&representation),
            identity,
            siblings: kept,
            is_open: representation.open_files() > 0,
            is_settled,
            checked: now,
            used: now,
        };
        self.entries.insert(path.into(), entry);
        Ok(representation)
    }

    /// Opens what `path` names: a regular file, or a directory's index file.
    fn open(&self, path: &[u8], calls: &mut Calls) -> Result<(Vec<u8>, File, Metadata), Miss> {
        if path.is_empty() || path.ends_with(b"/") {
            for index_name in &self.rules.index_names {
                let name = [path, index_name.as_bytes()].concat();
                match self.open_regular(&name, calls) {
                    Ok((file, metadata)) => return Ok((name, file, metadata)),
                    Err(Miss::Directory | Miss::Refused(Refusal::NotFound)) => {}
                    Err(miss) => return Err(miss),
                }
            }
            return Err(Miss::Refused(Refusal::NotFound));
        }
        self.open_regular(path, calls).map(|(file, metadata)| (path.to_vec(), file, metadata))
    }

    /// The siblings of the file called `name` that are neither older than it nor empty, and whether these are
    /// all: one that cannot be opened for want of descriptors or memory may well be there in a moment. A file
    /// that is said to have a coding by itself has none.
    fn siblings(&self, name: &[u8], identity: &Identity, calls: &mut Calls) -> (Vec<Sibling>, bool) {
        let mut siblings = Vec::new();
        let mut is_all = true;
        if !self.rules.is_precompressed || self.rules.policy.names(name, "Content-Encoding") {
            return (siblings, is_all);
        }
        for coding in Coding::ALL {
            let path = [name, coding.suffix().as_bytes()].concat();
            match self.open_regular(&path, calls) {
                Ok((file, metadata)) => {
                    let sibling = Identity::of(&metadata);
                    // No coding makes nothing of anything: what is empty was broken off.
                    if sibling.modified >= identity.modified && sibling.size > 0 {
                        siblings.push(((coding, sibling), file));
                    }
                }
                Err(miss) => is_all &= miss != Miss::Refused(Refusal::Overloaded),
            }
        }
        (siblings, is_all)
    }

    fn open_regular(&self, path: &[u8], calls: &mut Calls) -> Result<(File, Metadata), Miss> {
        let opened = self.root.file(path, calls).and_then(|file| {
            calls.count(Call::Statx);
            file.metadata().map(|metadata| (file, metadata))
        });
        match opened {
            Ok((file, metadata)) if metadata.is_file() => Ok((file, metadata)),
            Ok((_, metadata)) if metadata.is_dir() => Err(Miss::Directory),
            Ok(_) => Err(Miss::Refused(Refusal::NotFound)),
            Err(error) => Err(Miss::Refused(refusal(&error))),
        }
    }

    /// The representation of `body`, which has this `identity` and stands for the file called `name`, under
    /// `path`.
    fn render(
        &self,
        (path, name): (&[u8], &[u8]),
        (coding, is_negotiated): (Option<Coding>, bool),
        body: Body,
        identity: &Identity,
        wall: SystemTime,
    ) -> Representation {
        let is_settled = identity.is_settled(wall);
        let defaults =
            vec![Field::new("Server", "tared"), Field::new("Content-Type", self.rules.types.of(name))];
        // RFC 9110 §8.8.2.1: a time to come is replaced with now.
        let modified = at(identity.modified).map(|time| time.min(wall)).and_then(whole_second);
        let last_modified = modified.and_then(imf_fixdate);
        let validators = Validators {
            etag: ETag { opaque: identity.opaque(), is_weak: !is_settled },
            modified,
            // Its second must be over, or another change may still be given the same date.
            // Nor may another form have it, as siblings do that were given their file's time (§8.8.1).
            is_date_strong: is_settled
                && !is_negotiated
                && modified.is_some_and(|time| wall >= time + Duration::from_secs(1)),
        };
        let last_modified = last_modified.map(|date| String::from_utf8_lossy(&date).into_owned());
        let mut fields = self.rules.policy.of_file(name, defaults);
        if self.rules.is_spa && path.is_empty() {
            fields.push(Field::new("Vary", "Accept"));
        }
        fields.extend(coding.map(|coding| Field::new("Content-Encoding", coding.name())));
        if is_negotiated {
            fields.push(Field::new("Vary", "Accept-Encoding"));
        }
        Representation::new(&fields, validators, last_modified, body)
    }

    /// Evicts the entry used least recently where one more, for `path`, would be one too many. It looks at
    /// each: filling an entry is dear enough for that.
    fn make_room(&mut self, path: &[u8], open_files: usize) {
        self.entries.remove(path);
        if self.entries.len() >= self.keeping.entries_max {
            self.evict(|_| true);
        }
        let open = |entry: &Entry| entry.representation.open_files();
        while open_files > 0 && self.entries.values().map(open).sum::<usize>() + open_files > OPEN_MAX {
            self.evict(|entry| open(entry) > 0);
        }
    }

    fn evict(&mut self, is_candidate: impl Fn(&Entry) -> bool) {
        let candidates = self.entries.iter().filter(|(_, entry)| is_candidate(entry));
        if let Some(path) = candidates.min_by_key(|(_, entry)| entry.used).map(|(path, _)| path.clone()) {
            self.entries.remove(&path);
        }
    }
}

impl Entry {
    /// What is read as it is sent shows what becomes of its file at once, so the head must not lag behind.
    fn is_unchanged(&self, calls: &mut Calls) -> bool {
        let mut is_unchanged = |form: &Representation, identity: &Identity| {
            form.whole.body().file().is_none_or(|file| {
                calls.count(Call::Statx);
                file.metadata().is_ok_and(|metadata| Identity::of(&metadata) == *identity)
            })
        };
        let coded = self.representation.coded();
        is_unchanged(&self.representation, &self.identity)
            && coded.iter().zip(&self.siblings).all(|((_, form), (_, identity))| is_unchanged(form, identity))
    }
}

/// The content of `file`, and what it was when the content was taken.
fn load(file: File, identity: Identity, calls: &mut Calls) -> io::Result<(Body, Identity)> {
    let mut identity = identity;
    for _ in 0..READS_MAX {
        if identity.size >= SENDFILE_MIN {
            return Ok((Body::File { file: Rc::new(file), len: identity.size }, identity));
        }
        if identity.size > READ_MAX {
            let len = usize::try_from(identity.size).map_err(|_| io::ErrorKind::FileTooLarge)?;
            calls.count(Call::Mmap);
            // There are file systems that map nothing, and a bound on the mappings of a program.
            let body = match Mapping::new(file, len) {
                Ok(mapping) => Body::Mapped(mapping),
                Err(file) => Body::File { file: Rc::new(file), len: identity.size },
            };
            return Ok((body, identity));
        }
        let mut bytes = vec![0; identity.size as usize];
        calls.count(Call::Pread64);
        let read = file.read_exact_at(&mut bytes, 0);
        calls.count(Call::Statx);
        let after = Identity::of(&file.metadata()?);
        match read {
            Ok(()) if after == identity => return Ok((Body::Bytes(bytes), identity)),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => identity = after,
        }
    }
    // Somebody is writing all the time: what could be read now is a beginning of it.
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&file, READ_MAX), &mut bytes)?;
    Ok((Body::Bytes(bytes), identity))
}

/// `time` cut to its second; `None` where an HTTP-date cannot say it.
fn whole_second(time: SystemTime) -> Option<SystemTime> {
    imf_fixdate(time)?;
    Some(UNIX_EPOCH + Duration::from_secs(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
}

/// A file's time; `None` where the system's own type cannot hold it.
fn at((seconds, nanos): (i64, i64)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base?.checked_add(Duration::from_nanos(nanos.unsigned_abs()))
}

/// What open(2) says, as HTTP. What leads out of the root looks like nothing at all.
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ELOOP
            | libc::EXDEV
            | libc::ENAMETOOLONG
            | libc::ENXIO
            | libc::ENODEV,
        ) => Refusal::NotFound,
        Some(libc::EACCES | libc::EPERM) => Refusal::Forbidden,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR) => Refusal::Overloaded,
        _ => Refusal::Unreadable,
    }
}
