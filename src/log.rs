//! The access log: a line for each answer, gathered while a turn of the loop lasts and written once when it
//! ends. There is none unless it is asked for.
//!
//! Each worker has a log of its own. Nothing here waits: what its file does not take is kept, to a bound, and
//! tried again; beyond that lines are dropped, whole ones, and counted. A line of which a part was written is
//! finished before anything else is, so none is torn. (Where several workers write to one file and the disk
//! is full in the midst of a line, that of another may come between.)

use std::fmt::{self, Display};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::entry::{Entry, Format, Stamp};
use crate::failure::{Failure, cause, one_line};
use crate::log_file::{LogFile, Place};
use crate::output;
use crate::proxies::Proxies;
use crate::request::{self, Fields, TARGET_MAX};
use crate::tally::{Call, Tally};

/// Bytes after which lines are written in the midst of a turn. Arbitrary: some hundreds of lines.
const WRITE_AT: usize = 64 * 1024;

/// Bytes beyond which no further line is kept for a file that takes none. Arbitrary: what a pipe holds, four
/// times.
const KEEP_MAX: usize = 4 * WRITE_AT;

/// Bytes of a request line that are written down: the longest target, and room for what stands beside it.
const LINE_MAX: usize = TARGET_MAX + 1024;

/// Bytes of each value in a line that would be more than one piece otherwise. Six times as many for each of
/// three, if all of it is escaped, and the rest of the line are less than a piece.
const CUT_LEN: usize = 200;

/// Time after which a reader that was behind is asked again, if no turn comes before. Arbitrary.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// How long a reader that is behind is waited for in the end. Arbitrary.
const LAST_WAIT: Duration = Duration::from_millis(250);

/// Time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(1);

/// What is asked for by `--log`, `--log-format` and `--real-ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Where it goes.
    pub place: Place,
    /// How it is written.
    pub format: Format,
    /// Who is believed when it says for whom it asks.
    pub proxies: Proxies,
}

/// What no warning has told yet, of all workers.
#[derive(Debug, Default)]
pub struct Unsaid {
    lines: u64,
    warned: Option<Instant>,
}

/// What a worker makes its log of: the file, and what is shared with the others.
pub type Share = (LogFile, Arc<Mutex<Unsaid>>);

/// Who has connected.
#[derive(Debug)]
pub struct Peer {
    name: String,
    is_proxy: bool,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r> {
    /// The three digits of its status.
    pub status: &'r [u8],
    /// Bytes of its body.
    pub body_bytes: u64,
}

/// One worker's log.
#[derive(Debug)]
pub struct Log {
    logging: Logging,
    file: LogFile,
    stamp: Stamp,
    /// What is to be written.
    lines: Vec<u8>,
    /// Where the last line begins, unless it was dropped.
    last: Option<usize>,
    /// A part of the first line has been written.
    is_torn: bool,
    /// The file took nothing more.
    is_behind: bool,
    /// Lines dropped, and not yet told to the others.
    lost: u64,
    /// Why, if it is not that a reader is behind.
    trouble: Option<io::Error>,
    unsaid: Arc<Mutex<Unsaid>>,
}

impl Log {
    /// A log as `logging` says.
    pub fn new(logging: Logging, (file, unsaid): Share, clock: &Clock) -> Self {
        Self {
            logging,
            file,
            stamp: Stamp::of(clock),
            lines: Vec::new(),
            last: None,
            is_torn: false,
            is_behind: false,
            lost: 0,
            trouble: None,
            unsaid,
        }
    }

    /// Who has connected from `address`, or to a unix socket.
    pub fn peer(&self, address: Option<IpAddr>) -> Peer {
        let address = address.map(|address| address.to_canonical());
        Peer {
            name: address.map_or("unix:".to_owned(), |address| address.to_string()),
            is_proxy: self.logging.proxies.include(address),
        }
    }

    /// Adds a line about the request at the begin of `asked`, of which the fields are believed if the whole
    /// of it was read.
    pub fn add(
        &mut self,
        peer: Option<&Peer>,
        asked: &[u8],
        is_read: bool,
        reply: Reply<'_>,
        clock: &Clock,
        tally: &mut Tally,
    ) {
        if self.lines.len() >= WRITE_AT && !self.is_behind {
            self.write_lines(tally);
        }
        if self.lines.len() >= KEEP_MAX {
            self.last = None;
            return self.lose(1, tally);
        }
        let start = self.lines.len();
        self.last = Some(start);
        self.stamp.follow(clock);
        let line = request::line(asked);
        let fields = is_read.then(|| Fields::of_head(asked));
        let told = fields.filter(|_| self.logging.format != Format::Common);
        let value = |name| told.and_then(|fields| fields.only(name));
        let entry = Entry {
            client: client(&self.logging.proxies, peer, fields),
            time: &self.stamp,
            line: &line[..line.len().min(LINE_MAX)],
            status: reply.status,
            body_bytes: reply.body_bytes,
            referer: value("referer"),
            user_agent: value("user-agent"),
        };
        entry.write(self.logging.format, &mut self.lines);
        if self.lines.len() - start > self.file.line_max() {
            self.lines.truncate(start);
            entry.cut(CUT_LEN).write(self.logging.format, &mut self.lines);
        }
    }

    /// The answer that the last line is about has been taken back, before anything else happened.
    pub fn take_back(&mut self, tally: &mut Tally) {
        match self.last.take() {
            Some(start) => self.lines.truncate(start),
            None => {
                self.lost -= 1;
                tally.log_dropped -= 1;
            }
        }
    }

    /// Writes what there is: once, when a turn ends.
    pub fn write(&mut self, now: Instant, tally: &mut Tally) {
        if !self.lines.is_empty() {
            self.write_lines(tally);
        }
        if self.lost > 0 {
            self.warn(now, false);
        }
    }

    /// How long the loop may sleep if nobody asks.
    pub fn try_again(&self, now: Instant) -> Option<Instant> {
        self.is_behind.then(|| now + TRY_AGAIN)
    }

    /// Goes on in the file that now has the name, if it was one that is rotated; what was answered before
    /// belongs to the old one.
    pub fn reopen(&mut self, now: Instant, tally: &mut Tally) {
        let Place::File(path) = &self.logging.place else { return };
        if !self.file.is_regular() {
            return;
        }
        match LogFile::try_open(path) {
            Ok(file) => {
                self.write(now, tally);
                if self.is_torn {
                    self.drop_from(0, tally);
                }
                self.file = file;
            }
            Err(error) => {
                let (place, cause) = (&self.logging.place, cause(&error));
                output::say(&format!(
                    "tared: {}\n",
                    one_line(&format!("cannot open {place} anew: {cause} (it goes on in the old file)"))
                ));
            }
        }
    }

    /// Writes what there is for the last time; a reader that is behind is waited for a moment.
    pub fn end(&mut self, now: Instant, tally: &mut Tally) {
        self.write(now, tally);
        let end = Instant::now() + LAST_WAIT;
        while self.is_behind {
            let patience = end.saturating_duration_since(Instant::now());
            if patience.is_zero() || !self.file.wait(patience) {
                break;
            }
            self.write_lines(tally);
        }
        self.drop_from(0, tally);
        self.warn(now, true);
    }

    /// Writes until everything is written, or the file takes no more.
    fn write_lines(&mut self, tally: &mut Tally) {
        let mut gone = 0;
        let trouble = loop {
            if gone == self.lines.len() {
                break None;
            }
            tally.calls.count(Call::Write);
            match self.file.write(self.file.piece(&self.lines[gone..])) {
                Ok(0) => break Some(io::ErrorKind::WriteZero.into()),
                Ok(n) => gone += n,
                Err(error) => break Some(error),
            }
        };
        if gone > 0 {
            tally.log_lines += count(&self.lines[..gone]);
            self.is_torn = self.lines[gone - 1] != b'\n';
            self.lines.drain(..gone);
        }
        let waits = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        };
        self.is_behind = trouble.as_ref().is_some_and(waits);
        if let Some(error) = trouble.filter(|error| !waits(error)) {
            let rest = if self.is_torn { self.lines.iter().position(|&byte| byte == b'\n') } else { None };
            self.drop_from(rest.map_or(0, |end| end + 1), tally);
            self.trouble = Some(error);
        }
    }

    /// Drops the lines behind the first `keep` bytes.
    fn drop_from(&mut self, keep: usize, tally: &mut Tally) {
        let lost = count(&self.lines[keep..]);
        self.lines.truncate(keep);
        self.is_torn &= keep > 0;
        self.lose(lost, tally);
    }

    fn lose(&mut self, lines: u64, tally: &mut Tally) {
        self.lost += lines;
        tally.log_dropped += lines;
    }

    /// Says how many lines were dropped since the last warning of any worker, if it is time, or in the end.
    fn warn(&mut self, now: Instant, is_end: bool) {
        let mut unsaid = self.unsaid.lock().unwrap_or_else(PoisonError::into_inner);
        unsaid.lines += std::mem::take(&mut self.lost);
        let is_time = unsaid.warned.is_none_or(|warned| now.saturating_duration_since(warned) >= WARN_EVERY);
        if unsaid.lines == 0 || !(is_time || is_end) {
            return;
        }
        let why = self.trouble.take().map_or("its reader is behind".to_owned(), |error| cause(&error));
        let (place, lines) = (&self.logging.place, unsaid.lines);
        let lines = if lines == 1 { "a line".to_owned() } else { format!("{lines} lines") };
        let warning = one_line(&format!("{place}: {lines} dropped: {why}"));
        if output::say(&format!("tared: {warning}\n")) {
            unsaid.lines = 0;
        }
        unsaid.warned = Some(now);
    }
}

/// The one `file` for so many workers.
///
/// # Errors
/// A sentence if there are too few descriptors.
pub fn shared_out(logging: &Logging, file: LogFile, workers: usize) -> Result<Vec<Share>, Failure> {
    let unsaid = Arc::new(Mutex::new(Unsaid::default()));
    let more = (1..workers).map(|_| file.try_clone()).collect::<io::Result<Vec<_>>>();
    let more = more.map_err(|error| {
        Failure::refused(format!("cannot share {}: {} (try fewer --workers)", logging.place, cause(&error)))
    })?;
    Ok(more.into_iter().chain([file]).map(|file| (file, Arc::clone(&unsaid))).collect())
}

/// Who asks: the peer, or whom it names if it is a stated proxy.
fn client<'p>(proxies: &Proxies, peer: Option<&'p Peer>, fields: Option<Fields<'_>>) -> Client<'p> {
    let Some(peer) = peer else { return Client::Named("-") };
    let forwarded = fields.filter(|_| peer.is_proxy);
    forwarded
        .and_then(|fields| proxies.client(fields.values("x-forwarded-for")))
        .map_or(Client::Named(&peer.name), Client::Address)
}

enum Client<'p> {
    Named(&'p str),
    Address(IpAddr),
}

impl Display for Client<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Ends of lines: no line holds another.
fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};
    use std::path::PathBuf;

    use super::*;

    const ASKED: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

    fn logging(format: Format) -> Logging {
        Logging { place: Place::File(PathBuf::from("a pipe")), format, proxies: Proxies::default() }
    }

    fn log(clock: &Clock) -> (Log, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let share = (LogFile::of_pipe(writer), Arc::default());
        (Log::new(logging(Format::Common), share, clock), reader)
    }

    fn add(log: &mut Log, asked: &[u8], clock: &Clock, tally: &mut Tally) {
        let reply = Reply { status: b"200", body_bytes: 7 };
        log.add(None, asked, true, reply, clock, tally);
    }

    fn rest(log: Log, mut reader: PipeReader) -> Vec<String> {
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_wait_for_the_end_of_the_turn_and_what_is_taken_back_is_none() {
        let (clock, mut tally) = (Clock::start(), Tally::default());
        let (mut log, reader) = log(&clock);
        for keeps in [true, false, true, false] {
            add(&mut log, ASKED, &clock, &mut tally);
            if !keeps {
                log.take_back(&mut tally);
            }
        }
        assert_eq!(tally.calls.of(Call::Write), 0);
        log.write(clock.now(), &mut tally);
        log.write(clock.now(), &mut tally);
        assert_eq!((tally.calls.of(Call::Write), tally.log_lines, tally.log_dropped), (1, 2, 0));
        let lines = rest(log, reader);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.ends_with("\"GET /a HTTP/1.1\" 200 7")), "{lines:?}");
    }

    /// Beyond a bound lines are dropped, as they come; those that were kept arrive, none torn.
    #[test]
    fn what_a_reader_does_not_take_is_kept_to_a_bound() {
        let (clock, mut tally) = (Clock::start(), Tally::default());
        let (mut log, mut reader) = log(&clock);
        let asked = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(900));
        let number = 1000;
        for at in 0..number {
            add(&mut log, asked.as_bytes(), &clock, &mut tally);
            if at % 10 == 0 {
                log.write(clock.now(), &mut tally);
            }
        }
        assert!(log.is_behind && log.try_again(clock.now()).is_some());
        assert!(log.lines.len() < KEEP_MAX + 1024 && log.lines.len() > KEEP_MAX - 1024);
        let dropped = tally.log_dropped;
        assert!(dropped > 0);
        add(&mut log, ASKED, &clock, &mut tally);
        log.take_back(&mut tally);
        assert_eq!(tally.log_dropped, dropped, "one that was dropped is taken back, too");
        // Whoever reads on has the rest.
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text).unwrap()
        });
        for _ in 0..1_000_000 {
            if !log.is_behind {
                break;
            }
            log.write(clock.now(), &mut tally);
        }
        log.end(clock.now(), &mut tally);
        drop(log);
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count() as u64, tally.log_lines);
        assert!(text.lines().all(|line| line.ends_with(" HTTP/1.1\" 200 7")), "none is torn");
        assert_eq!((tally.log_lines + dropped, tally.log_dropped), (number, dropped));
    }

    /// If nobody reads any more, the end is not waited for long, and what was kept is counted as dropped.
    #[test]
    fn what_nobody_has_read_in_the_end_is_dropped() {
        let (clock, mut tally) = (Clock::start(), Tally::default());
        let (mut log, reader) = log(&clock);
        let number = 2000;
        (0..number).for_each(|_| add(&mut log, ASKED, &clock, &mut tally));
        let start = Instant::now();
        log.end(clock.now(), &mut tally);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(tally.log_lines > 0 && tally.log_dropped > 0, "{tally:?}");
        assert_eq!(tally.log_lines + tally.log_dropped, number);
        assert_eq!(rest(log, reader).len() as u64, tally.log_lines);
    }

    /// The longest line that a client can bring about, and every byte of it escaped as far as can be.
    #[test]
    fn a_line_that_would_not_be_one_piece_is_cut_until_it_is() {
        let (clock, mut tally) = (Clock::start(), Tally::default());
        let nasty = "\u{1}".repeat(8000);
        let asked = format!("{nasty} / HTTP/1.1\r\nReferer: {nasty}\r\nUser-Agent: {nasty}\r\n\r\n");
        for format in [Format::Common, Format::Combined, Format::Json] {
            let (reader, writer) = io::pipe().unwrap();
            let mut log = Log::new(logging(format), (LogFile::of_pipe(writer), Arc::default()), &clock);
            let peer = log.peer(Some("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap()));
            let reply = Reply { status: b"200", body_bytes: u64::MAX };
            log.add(Some(&peer), asked.as_bytes(), true, reply, &clock, &mut tally);
            assert!(log.lines.len() <= output::PIECE_MAX, "{}", log.lines.len());
            assert!(log.lines.len() > 600, "its begin is there");
            log.write(clock.now(), &mut tally);
            assert_eq!(rest(log, reader).len(), 1);
        }
    }

    #[test]
    fn one_warning_a_second_tells_of_all_workers() {
        let (clock, mut tally) = (Clock::start(), Tally::default());
        let unsaid: Arc<Mutex<Unsaid>> = Arc::default();
        let log = || {
            let (_, writer) = io::pipe().unwrap();
            Log::new(logging(Format::Common), (LogFile::of_pipe(writer), Arc::clone(&unsaid)), &clock)
        };
        let (mut one, mut other) = (log(), log());
        let at = |millis| clock.now() + Duration::from_millis(millis);
        let mut turn = |log: &mut Log, millis| {
            add(log, ASKED, &clock, &mut tally);
            log.write(at(millis), &mut tally);
            let unsaid = unsaid.lock().unwrap();
            (unsaid.lines, unsaid.warned)
        };
        assert_eq!(turn(&mut one, 0), (0, Some(at(0))));
        assert_eq!(turn(&mut one, 500), (1, Some(at(0))));
        assert_eq!(turn(&mut other, 999), (2, Some(at(0))));
        assert_eq!(turn(&mut other, 1000), (0, Some(at(1000))));
        assert_eq!(turn(&mut one, 1001), (1, Some(at(1000))));
        one.end(at(1002), &mut tally);
        assert_eq!(unsaid.lock().unwrap().lines, 0, "the last ones are told in the end");
        assert_eq!((tally.log_lines, tally.log_dropped), (0, 5));
    }
}
