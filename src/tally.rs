//! What one worker has counted: plain integers on its own memory, added to where the counted things
//! happen. Nobody else looks at them while it serves; a report is made from a copy.

use std::ops::AddAssign;

use crate::request::{Dialect, Method};

/// Status classes of final responses, from 2xx on.
pub const CLASSES: usize = 4;

/// Methods that are told apart, and behind them heads of which none could be read.
const METHODS: usize = 7;
const REFUSED: usize = METHODS - 1;

/// A kind of system call, by the name that the kernel has for it.
///
/// `Close` and `EpollCtl` are those of clients, `Write` that of the access log. What the memory allocator and the C library ask of the
/// kernel is theirs, and not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    EpollWait,
    EpollCtl,
    Accept4,
    RecvFrom,
    SendTo,
    Writev,
    SendFile,
    Shutdown,
    Close,
    Openat2,
    Openat,
    Readlinkat,
    Getdents64,
    Statx,
    Pread64,
    Mmap,
    Write,
}

impl Call {
    /// Every kind's name, in the order of the enum.
    pub const NAMES: [&str; 17] = [
        "epoll_wait",
        "epoll_ctl",
        "accept4",
        "recvfrom",
        "sendto",
        "writev",
        "sendfile",
        "shutdown",
        "close",
        "openat2",
        "openat",
        "readlinkat",
        "getdents64",
        "statx",
        "pread64",
        "mmap",
        "write",
    ];
}

/// System calls by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([u64; Call::NAMES.len()]);

impl Calls {
    /// One of them is being made.
    pub fn count(&mut self, call: Call) {
        self.0[call as usize] += 1;
    }

    /// Those of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.0[call as usize]
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that send.
    pub fn sends(&self) -> u64 {
        self.of(Call::SendTo) + self.of(Call::Writev) + self.of(Call::SendFile)
    }

    /// Every kind by its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Call::NAMES.into_iter().zip(self.0)
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed its side and is owed nothing more.
    ByClient,
    /// We closed it, behind its last response.
    ByServer,
    /// It was reset, or its client vanished.
    Reset,
    /// Something took too long.
    TimedOut,
}

/// What became of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// The most that were open at a time.
    pub peak: u64,
    /// Ended as [`Ending::ByClient`].
    pub by_client: u64,
    /// Ended as [`Ending::ByServer`].
    pub by_server: u64,
    /// Ended as [`Ending::Reset`].
    pub reset: u64,
    /// Ended as [`Ending::TimedOut`].
    pub timed_out: u64,
    /// Of the ended ones, those to which a part of a response was still owed.
    pub aborted: u64,
    /// Of those that were ended by us, those that were idle the longest when there was no room.
    pub made_room: u64,
    /// How often accepting rested since there was no room.
    pub rests: u64,
}

/// What is counted of a request when it has been answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// How it spoke.
    pub dialect: Dialect,
    /// Bytes of its head.
    pub head_len: usize,
}

/// The counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By method, and behind it by status class.
    answered: [u64; 32],
    /// By whether the connection stayed open, and by dialect.
    spoken: [[u64; Dialect::COUNT]; 2],
    /// Bytes of all heads that could be read.
    pub head_bytes: u64,
    /// How often requests were answered that came together.
    pub batches: u64,
    /// Requests answered since the last batch.
    depth: u64,
    /// The most that came together.
    pub depth_max: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Sends of which the socket took a part or nothing.
    pub sends_short: u64,
    /// Files that were served as they were cached.
    pub cache_hits: u64,
    /// Files that were opened and made into an entry.
    pub cache_fills: u64,
    /// Lines of the access log that were written.
    pub log_lines: u64,
    /// Lines of the access log that were dropped.
    pub log_dropped: u64,
    /// Connections.
    pub connections: Connections,
    /// System calls.
    pub calls: Calls,
}

impl Tally {
    /// A request was answered with a status of `class` (0 is 2xx).
    pub fn count_answer(&mut self, asked: Asked, class: usize, is_kept: bool) {
        self.answered[row(asked.method as usize, class)] += 1;
        self.spoken[usize::from(is_kept)][asked.dialect.index()] += 1;
        self.head_bytes += asked.head_len as u64;
        self.depth += 1;
    }

    /// A head, or the body behind it, was refused for its form, or since its rest did not come.
    pub fn count_refused(&mut self, class: usize) {
        self.answered[row(REFUSED, class)] += 1;
        self.depth += 1;
    }

    /// The requests answered since the last batch came together, if there were any.
    pub fn count_batch(&mut self) {
        self.batches += u64::from(self.depth > 0);
        self.depth_max = self.depth_max.max(self.depth);
        self.depth = 0;
    }

    /// Of `offered` bytes the socket took `taken`.
    pub fn count_send(&mut self, offered: usize, taken: usize) {
        self.bytes_sent += taken as u64;
        self.sends_short += u64::from(taken < offered);
    }

    /// A response comes to no end, and its connection with it.
    pub fn count_cut(&mut self) {
        self.connections.aborted += 1;
    }

    /// A connection has ended; `is_owed` says that a response was not sent to its end.
    pub fn count_ending(&mut self, ending: Ending, is_owed: bool) {
        let count = match ending {
            Ending::ByClient => &mut self.connections.by_client,
            Ending::ByServer => &mut self.connections.by_server,
            Ending::Reset => &mut self.connections.reset,
            Ending::TimedOut => &mut self.connections.timed_out,
        };
        *count += 1;
        self.connections.aborted += u64::from(is_owed);
        self.calls.count(Call::Close);
    }

    /// Requests answered, those refused for their form among them.
    pub fn requests(&self) -> u64 {
        self.answered.iter().sum()
    }

    /// Requests whose head could not be read, or whose body broke the grammar.
    pub fn refused(&self) -> u64 {
        self.of_row(REFUSED)
    }

    /// Requests answered with a status of `class`.
    pub fn of_class(&self, class: usize) -> u64 {
        (0..METHODS).map(|method| self.answered[row(method, class)]).sum()
    }

    /// Requests with `method`.
    pub fn of_method(&self, method: Method) -> u64 {
        self.of_row(method as usize)
    }

    /// Requests behind which the connection stayed open.
    pub fn kept(&self) -> u64 {
        self.spoken[1].iter().sum()
    }

    /// Requests whose dialect is as `is_so` says.
    pub fn spoken(&self, is_so: impl Fn(Dialect) -> bool) -> u64 {
        let by_dialect = self.spoken.iter().flat_map(|counts| counts.iter().zip(Dialect::all()));
        by_dialect.filter(|&(_, dialect)| is_so(dialect)).map(|(count, _)| count).sum()
    }

    fn of_row(&self, method: usize) -> u64 {
        (0..CLASSES).map(|class| self.answered[row(method, class)]).sum()
    }

    /// Bytes moved in either direction: it grows with everything that a client has us do.
    pub fn bytes(&self) -> u64 {
        self.bytes_received + self.bytes_sent
    }
}

/// Of several workers. What was the most at a time of each is, for connections, added up too: all of them
/// together had at the most so many.
impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        add_all(&mut self.answered, &other.answered);
        add_all(self.spoken.as_flattened_mut(), other.spoken.as_flattened());
        self.head_bytes += other.head_bytes;
        self.batches += other.batches;
        self.depth_max = self.depth_max.max(other.depth_max);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.sends_short += other.sends_short;
        self.cache_hits += other.cache_hits;
        self.cache_fills += other.cache_fills;
        self.log_lines += other.log_lines;
        self.log_dropped += other.log_dropped;
        self.connections += other.connections;
        add_all(&mut self.calls.0, &other.calls.0);
    }
}

impl AddAssign for Connections {
    fn add_assign(&mut self, other: Connections) {
        self.accepted += other.accepted;
        self.peak += other.peak;
        self.by_client += other.by_client;
        self.by_server += other.by_server;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.aborted += other.aborted;
        self.made_room += other.made_room;
        self.rests += other.rests;
    }
}

/// Where a method and a class are counted. It is always within the array, and the compiler sees it.
fn row(method: usize, class: usize) -> usize {
    (method * CLASSES + class) % 32
}

fn add_all(sums: &mut [u64], others: &[u64]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: [Method; REFUSED] =
        [Method::Get, Method::Head, Method::Options, Method::Connect, Method::Trace, Method::Other];

    fn asked(method: Method, dialect: Dialect) -> Asked {
        Asked { method, dialect, head_len: 40 }
    }

    /// Every method with every class, each so often that no two of them are alike.
    #[test]
    fn an_answer_is_counted_by_its_method_and_its_class_and_nowhere_else() {
        let mut tally = Tally::default();
        let times = |method: usize, class: usize| 1u64 << (4 * method + class);
        for (at, &method) in METHOD.iter().enumerate() {
            for class in 0..CLASSES {
                for _ in 0..times(at, class).min(1 << 12) {
                    tally.count_answer(asked(method, Dialect::default()), class, true);
                }
            }
        }
        let capped = |at: usize, class: usize| times(at, class).min(1 << 12);
        for (at, &method) in METHOD.iter().enumerate() {
            let expected: u64 = (0..CLASSES).map(|class| capped(at, class)).sum();
            assert_eq!(tally.of_method(method), expected, "{method:?}");
        }
        for class in 0..CLASSES {
            let expected: u64 = (0..METHOD.len()).map(|at| capped(at, class)).sum();
            assert_eq!(tally.of_class(class), expected, "{class}");
        }
        assert_eq!(tally.requests(), (0..CLASSES).map(|class| tally.of_class(class)).sum::<u64>());
        assert_eq!((tally.refused(), tally.kept()), (0, tally.requests()));
        assert_eq!(tally.head_bytes, tally.requests() * 40);
    }

    #[test]
    fn what_is_refused_has_a_class_and_neither_method_nor_dialect() {
        let mut tally = Tally::default();
        tally.count_refused(2);
        tally.count_refused(2);
        tally.count_refused(3);
        assert_eq!((tally.requests(), tally.refused(), tally.head_bytes), (3, 3, 0));
        assert_eq!((tally.of_class(2), tally.of_class(3)), (2, 1));
        assert!(METHOD.iter().all(|&method| tally.of_method(method) == 0));
        assert_eq!((tally.spoken(|_| true), tally.kept()), (0, 0));
    }

    /// The array has room for every method and class, and no two of them share a place.
    #[test]
    fn every_method_and_class_has_a_place_of_its_own() {
        let places: std::collections::HashSet<usize> =
            (0..METHODS).flat_map(|method| (0..CLASSES).map(move |class| row(method, class))).collect();
        assert_eq!(places.len(), METHODS * CLASSES);
        assert!(METHOD.iter().all(|&method| (method as usize) < REFUSED));
    }

    #[test]
    fn every_dialect_is_found_by_each_of_its_parts() {
        let parts =
            [Dialect::HTTP_1_0, Dialect::KEEP_ALIVE, Dialect::CLOSE, Dialect::HOSTLESS, Dialect::EXPECT];
        let mut tally = Tally::default();
        for dialect in Dialect::all() {
            tally.count_answer(asked(Method::Get, dialect), 0, dialect.has(Dialect::CLOSE));
        }
        assert_eq!(tally.requests(), Dialect::COUNT as u64);
        for part in parts {
            assert_eq!(tally.spoken(|dialect| dialect.has(part)), 16, "half of all: {part:?}");
        }
        assert_eq!(tally.kept(), 16);
    }

    #[test]
    fn every_call_is_counted_by_its_name() {
        let mut calls = Calls::default();
        for (call, times) in [
            (Call::EpollWait, 1),
            (Call::SendTo, 2),
            (Call::Writev, 4),
            (Call::SendFile, 8),
            (Call::Mmap, 16),
        ] {
            (0..times).for_each(|_| calls.count(call));
        }
        let named: std::collections::BTreeMap<_, _> = calls.named().collect();
        assert_eq!(named.len(), Call::NAMES.len(), "no name is there twice");
        for (name, times) in
            [("epoll_wait", 1), ("sendto", 2), ("writev", 4), ("sendfile", 8), ("mmap", 16), ("close", 0)]
        {
            assert_eq!(named[name], times, "{name}");
        }
        assert_eq!((calls.total(), calls.sends(), calls.of(Call::Mmap)), (31, 14, 16));
    }

    #[test]
    fn an_ending_is_of_one_kind_and_costs_a_close() {
        let mut tally = Tally::default();
        for (ending, is_owed) in [
            (Ending::ByClient, false),
            (Ending::ByServer, true),
            (Ending::ByServer, false),
            (Ending::Reset, true),
            (Ending::Reset, true),
            (Ending::Reset, false),
            (Ending::TimedOut, false),
        ] {
            tally.count_ending(ending, is_owed);
        }
        let Connections { by_client, by_server, reset, timed_out, aborted, .. } = tally.connections;
        assert_eq!((by_client, by_server, reset, timed_out, aborted), (1, 2, 3, 1, 3));
        assert_eq!(tally.calls.of(Call::Close), 7);
    }

    #[test]
    fn a_send_is_short_if_anything_is_left() {
        let mut tally = Tally::default();
        for (offered, taken) in [(10, 10), (10, 9), (10, 0), (1, 1)] {
            tally.count_send(offered, taken);
        }
        assert_eq!((tally.bytes_sent, tally.sends_short), (20, 2));
        tally.bytes_received = 5;
        assert_eq!(tally.bytes(), 25);
    }

    /// A worker's every counter is in the sum; only the depth is the larger one.
    #[test]
    fn several_workers_add_up() {
        let mut one = Tally {
            answered: std::array::from_fn(|at| at as u64),
            spoken: [std::array::from_fn(|at| at as u64), [2; Dialect::COUNT]],
            head_bytes: 3,
            batches: 4,
            depth: 0,
            depth_max: 5,
            bytes_received: 6,
            bytes_sent: 7,
            sends_short: 8,
            cache_hits: 9,
            cache_fills: 10,
            log_lines: 20,
            log_dropped: 21,
            connections: Connections {
                accepted: 11,
                peak: 12,
                by_client: 13,
                by_server: 14,
                reset: 15,
                timed_out: 16,
                aborted: 17,
                made_room: 18,
                rests: 19,
            },
            calls: Calls(std::array::from_fn(|at| at as u64)),
        };
        let other = Tally { depth_max: 3, ..one.clone() };
        let before = one.clone();
        one += &other;
        let twice = |n: u64| 2 * n;
        assert_eq!(one.answered, before.answered.map(twice));
        assert_eq!(one.spoken, before.spoken.map(|counts| counts.map(twice)));
        assert_eq!(one.calls.0, before.calls.0.map(twice));
        assert_eq!(one.depth_max, 5);
        let sums = |tally: &Tally| {
            let Connections { accepted, peak, by_client, by_server, reset, .. } = tally.connections;
            let Connections { timed_out, aborted, made_room, rests, .. } = tally.connections;
            let ended = [by_client, by_server, reset, timed_out, aborted, made_room];
            let connections = [&[accepted, peak, rests], &ended[..]].concat();
            let Tally { head_bytes, batches, bytes_received, bytes_sent, .. } = *tally;
            let rest = [tally.sends_short, tally.cache_hits, tally.cache_fills];
            let log = [tally.log_lines, tally.log_dropped];
            [&connections[..], &[head_bytes, batches, bytes_received, bytes_sent], &rest, &log].concat()
        };
        assert_eq!(sums(&one), sums(&before).into_iter().map(twice).collect::<Vec<_>>());
        let mut same = before.clone();
        same += &Tally::default();
        assert_eq!(same, before);
    }
}
