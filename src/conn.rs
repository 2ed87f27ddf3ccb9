//! One client's life. The only room that reads or writes a client's socket.
//!
//! ```text
//!            ┌────────────── more requests ─────────────┐
//!            v                                          │
//! accepted → Head ── whole head, body follows ──> Body ─┤        Head, Body: slot holds unread bytes, or none
//!            │                                          │
//!            └─ last request, refusal, shutdown ──> Closing → Lingering → closed
//! ```
//! [`Conn::ready`] is told that the socket may have moved, goes as far as it can, and returns what it
//! waits for. On the warm path that is one read, one answer per request in the batch, one write.
//!
//! Invariants: while a tail is unsent no further request is looked at, which is back-pressure for
//! free. The slot is held exactly as long as it has unread bytes. Readiness is edge-triggered, so
//! `Wait` is returned only after the socket has said `WouldBlock`, or after a read that did not fill
//! the space it was given: such a read has drained the socket, unless the other side has closed or sent
//! urgent data, and then the event says so.

use std::fs::File;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;

use crate::budget::{Budget, Share};
use crate::clock::Clock;
use crate::deadlines::Phase;
use crate::framing::{BODY_MAX, Framing, Skip, Skipped};
use crate::head::{self, Status};
use crate::log::{Log, Peer, Reply};
use crate::outbox::{Mark, Outbox, Sent, Sink};
use crate::pool::{Pool, Slot};
use crate::refusal::Refusal;
use crate::request::{self, Expectation, Method, Parsed, Recent, Request};
use crate::site::{Answer, Site};
use crate::sys;
use crate::tally::{Asked, Call, Ending, Tally};

/// Reads and batches of one connection before another gets its turn. Arbitrary: enough for any
/// pipelining that was seen, little enough that thousands of others do not wait for long.
const ROUNDS_PER_TURN: usize = 16;

/// Bytes of a response that has as good as arrived when the socket has taken it. Behind a longer one a
/// client that asked for the close is waited for too: a stray CRLF of it would be met with a reset,
/// which takes along what has not been acknowledged. 64 KiB is what a receiver's first window holds.
const PROMPT_MAX: u64 = 64 * 1024;

/// The status of a part (RFC 9110 §15.3.7).
const PARTIAL: Status = Status(206);

/// Bytes that are read and thrown away from a client that goes on sending after its last response.
const LINGER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a connection needs of a socket.
pub trait Socket: Read + Sink {
    /// Ends the sending side; what is queued is still delivered (shutdown(2)).
    ///
    /// # Errors
    /// What the socket says.
    fn shutdown_write(&self) -> io::Result<()>;
}

impl Sink for mio::net::TcpStream {
    fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::send_more(self.as_fd(), bytes)
    }

    fn write_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        sys::send_file(self.as_fd(), file, offset, len)
    }
}

impl Socket for mio::net::TcpStream {
    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// What all connections share. One turn at a time has it.
#[derive(Debug)]
pub struct Shared {
    /// Free parser slots.
    pub pool: Pool,
    /// The head that was parsed last.
    pub recent: Recent,
    /// The batch being gathered; empty between turns.
    pub outbox: Outbox,
    /// What is served.
    pub site: Site,
    /// What time it is.
    pub clock: Clock,
    /// What has been counted.
    pub tally: Tally,
    /// Where each answer is written down, if anywhere.
    pub log: Option<Box<Log>>,
    /// Requests that may still be answered, if there is a bound.
    pub budget: Option<Budget>,
    /// Requests of one connection that are answered, if there is a bound.
    pub requests_each_max: Option<u64>,
    /// Whether the server is ending: every response is then its connection's last.
    pub is_ending: bool,
    /// Whether connections that are owed nothing close.
    pub closes_idle: bool,
}

/// What a connection waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The socket's next event.
    Wait,
    /// Another turn, without an event.
    Again,
    /// The same, since its response is still being made: it is not the client that is waited for.
    NotYet,
    /// Another turn, and after that the socket's events, but only for so long: the last response is sent.
    Linger,
    /// Nothing; it is to be closed.
    Close(Ending),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next unread bytes are a request head.
    Head,
    /// A whole head of `head_len` bytes is kept at the front of the slot until its body is skipped.
    Body { head_len: usize, skip: Skip },
    /// What is queued is the last; then the connection closes, or lingers first.
    Closing { linger: bool },
    /// Our side is shut; input is thrown away until the client has had its response and closes.
    Lingering { bytes_left: u64 },
}

/// A client's connection.
#[derive(Debug)]
pub struct Conn<S> {
    socket: S,
    slot: Option<Slot>,
    tail: Option<Box<Outbox>>,
    state: State,
    /// The client sends no more; it may still be reading.
    is_input_ended: bool,
    /// The socket took nothing of what there is to send.
    is_blocked: bool,
    /// A batch was longer than [`PROMPT_MAX`].
    has_long: bool,
    /// Requests answered.
    answered: u64,
    /// Who has connected, if there is a log.
    peer: Option<Box<Peer>>,
}

/// A request that has been answered and is still unread.
#[derive(Clone, Copy)]
struct Answered {
    /// Bytes of it, body included.
    len: usize,
    /// Whether the response says that the connection stays open.
    is_kept: bool,
    /// Whether to wait for the client's end if the connection closes behind it.
    lingers: bool,
    /// What is counted of it.
    asked: Asked,
    /// The class of the response's status.
    class: usize,
}

/// Why a look at the unread bytes came to an end.
enum Pause {
    /// More input is needed.
    NeedsInput,
    /// The batch is to be sent first.
    BatchFull,
    /// The response to the next request is still being made.
    NotYet,
    /// The batch ends in a response that is read from its file, put in at the mark. Its request stays unread
    /// until the response has begun to leave.
    FromFile(Mark, Answered),
}

impl<S: Socket> Conn<S> {
    /// A connection just accepted.
    pub fn new(socket: S) -> Self {
        Self {
            socket,
            slot: None,
            tail: None,
            state: State::Head,
            is_input_ended: false,
            is_blocked: false,
            has_long: false,
            answered: 0,
            peer: None,
        }
    }

    /// The same from `peer`.
    pub fn from(peer: Option<Box<Peer>>, socket: S) -> Self {
        Self { peer, ..Self::new(socket) }
    }

    /// The socket, to be registered.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Goes on as far as the socket lets it. `may_have_ended` says that the client may have closed its
    /// side or sent urgent data, so that a short read does not prove the socket drained.
    pub fn ready(&mut self, may_have_ended: bool, shared: &mut Shared) -> Next {
        let next = self.turn(may_have_ended, shared);
        if let Some(slot) = self.slot.take_if(|slot| slot.is_empty() || matches!(next, Next::Close(_))) {
            shared.pool.put_discarding(slot);
        }
        debug_assert!(shared.outbox.is_empty(), "a batch is sent or kept within its turn");
        next
    }

    /// What it waits for.
    pub fn phase(&self) -> Phase {
        match self.state {
            _ if self.tail.is_some() || self.is_blocked => Phase::Write,
            State::Closing { .. } | State::Lingering { .. } => Phase::Linger,
            State::Body { .. } => Phase::Body,
            State::Head if self.slot.as_ref().is_some_and(|slot| request::has_begun(slot.unread())) => {
                Phase::Head
            }
            State::Head => Phase::Idle,
        }
    }

    /// What it waits for has not come in time. A request of which a part has come is refused, which is
    /// then to be sent; otherwise there is nothing more to say.
    pub fn time_out(&mut self, shared: &mut Shared) -> Next {
        match (self.phase(), &self.slot) {
            (Phase::Head | Phase::Body, Some(slot))
                if shared.refuse(Refusal::TimedOut, slot, self.peer.as_deref()) =>
            {
                shared.tally.count_batch();
                self.tail = Some(Box::new(shared.outbox.take_unsent()));
                self.state = State::Closing { linger: true };
                Next::Again
            }
            _ => Next::Close(Ending::TimedOut),
        }
    }

    /// Whether a response has not been sent to its end.
    pub fn is_owed(&self) -> bool {
        self.tail.is_some()
    }

    fn turn(&mut self, may_have_ended: bool, shared: &mut Shared) -> Next {
        let mut is_drained = false;
        let mut was_cut = false;
        self.is_blocked = false;
        for _ in 0..ROUNDS_PER_TURN {
            if let Some(tail) = &mut self.tail {
                match tail.send(&mut self.socket, &mut shared.tally) {
                    Sent::All => self.tail = None,
                    Sent::Blocked => return Next::Wait,
                    Sent::Paused => return Next::Again,
                    // The client sees it by the end of the connection; responses before it may still be on
                    // their way.
                    Sent::Cut => {
                        self.tail = None;
                        self.state = State::Closing { linger: true };
                        shared.tally.count_cut();
                    }
                    Sent::Lost => return Next::Close(Ending::Reset),
                }
            }
            match self.state {
                State::Closing { linger } => return self.close(linger, shared),
                State::Lingering { bytes_left } => return self.linger(bytes_left, shared),
                State::Head | State::Body { .. } => {}
            }
            let pause = self.answer(shared);
            match self.send_batch(&pause, shared) {
                Sent::All => {}
                Sent::Blocked => {
                    self.is_blocked = true;
                    return Next::Wait;
                }
                Sent::Paused => return Next::Again,
                // The file was cut between the look at it and the send: look at its request again.
                Sent::Cut if !was_cut => {
                    was_cut = true;
                    continue;
                }
                // If it has begun, it is the tail that is looked at next.
                Sent::Cut => {
                    self.state = State::Closing { linger: true };
                    continue;
                }
                Sent::Lost => return Next::Close(Ending::Reset),
            }
            match pause {
                Pause::NeedsInput => {}
                Pause::NotYet => return Next::NotYet,
                Pause::BatchFull | Pause::FromFile(..) => continue,
            }
            if self.is_input_ended {
                return Next::Close(Ending::ByClient);
            }
            if is_drained {
                // Whose head has come is heard to the end.
                let has_asked = matches!(self.state, State::Body { .. });
                return match shared.closes_idle && !has_asked {
                    true => Next::Close(Ending::ByServer),
                    false => Next::Wait,
                };
            }
            let slot = self.slot.get_or_insert_with(|| shared.pool.take());
            match read(slot, &mut self.socket, &mut shared.tally) {
                Ok((0, _)) => self.is_input_ended = true,
                Ok((_, is_filled)) => is_drained = !is_filled && !may_have_ended,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_drained = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Close(Ending::Reset),
            }
        }
        Next::Again
    }

    /// Answers the whole requests among the unread bytes into the batch.
    fn answer(&mut self, shared: &mut Shared) -> Pause {
        let Some(slot) = &mut self.slot else { return Pause::NeedsInput };
        loop {
            if shared.outbox.is_full() || !matches!(self.state, State::Head | State::Body { .. }) {
                break Pause::BatchFull;
            }
            if slot.is_empty() {
                break Pause::NeedsInput;
            }
            let (request, head_len, len, is_early) = match look(slot, self.state, &mut shared.recent) {
                Unread::Request { request, head_len, len, is_early } => (request, head_len, len, is_early),
                Unread::Partial => break Pause::NeedsInput,
                Unread::Body { head_len, skip } => {
                    slot.keep_only(head_len);
                    self.state = State::Body { head_len, skip };
                    break Pause::NeedsInput;
                }
                Unread::HigherMinor(at) => {
                    slot.replace(at, b'1');
                    continue;
                }
                Unread::Refused(refusal) => {
                    shared.refuse(refusal, slot, self.peer.as_deref());
                    self.state = State::Closing { linger: true };
                    break Pause::BatchFull;
                }
            };
            let share = shared.share();
            if share == Share::None {
                self.state = State::Closing { linger: true };
                break Pause::BatchFull;
            }
            let is_last =
                share == Share::Last || shared.requests_each_max.is_some_and(|max| self.answered + 1 >= max);
            let is_kept = request.keep_alive && !is_early && !shared.is_ending && !is_last;
            // The client may send more, whatever the response says.
            let may_send_more = request.keep_alive || is_early;
            let asked = Asked { method: request.method, dialect: request.dialect, head_len };
            let mark = shared.outbox.mark();
            let Some((class, is_from_file)) = shared.respond(&request, &slot.unread()[..head_len], is_kept)
            else {
                shared.give_share_back();
                break Pause::NotYet;
            };
            if shared.log.is_some() {
                shared.note(&slot.unread()[..head_len], true, mark, self.peer.as_deref());
            }
            // A response may still be on its way when a stray byte of the client comes: this one, or one before it.
            let is_long = self.has_long || shared.outbox.is_longer_since(mark, PROMPT_MAX);
            let lingers = may_send_more || is_long;
            let answered = Answered { len, is_kept, lingers, asked, class };
            if is_from_file {
                break Pause::FromFile(mark, answered);
            }
            self.state = answered.finish(slot, &mut shared.tally);
            self.answered += 1;
        }
    }

    /// Sends the batch; what does not leave becomes the tail.
    fn send_batch(&mut self, pause: &Pause, shared: &mut Shared) -> Sent {
        if shared.outbox.is_empty() {
            return Sent::All;
        }
        let sent_before = shared.tally.bytes_sent;
        let sent = shared.outbox.send(&mut self.socket, &mut shared.tally);
        self.has_long |= shared.tally.bytes_sent - sent_before > PROMPT_MAX || sent != Sent::All;
        if let (Pause::FromFile(mark, answered), Some(slot)) = (pause, &mut self.slot) {
            if sent == Sent::All || shared.outbox.is_begun_since(*mark) {
                self.state = answered.finish(slot, &mut shared.tally);
                self.answered += 1;
            } else {
                shared.outbox.take_back(*mark);
                shared.give_share_back();
                if let Some(log) = &mut shared.log {
                    log.take_back(&mut shared.tally);
                }
            }
        }
        shared.tally.count_batch();
        let unsent = (!shared.outbox.is_empty()).then(|| shared.outbox.take_unsent());
        self.tail = unsent.map(Box::new);
        sent
    }

    /// The last response has left. What the client still sends would be met with a reset that can
    /// overtake the response, so where more may come we let it come (RFC 9112 §9.6).
    fn close(&mut self, linger: bool, shared: &mut Shared) -> Next {
        if !linger || self.is_input_ended {
            return Next::Close(Ending::ByServer);
        }
        shared.tally.calls.count(Call::Shutdown);
        if self.socket.shutdown_write().is_err() {
            return Next::Close(Ending::Reset);
        }
        self.state = State::Lingering { bytes_left: LINGER_BYTES_MAX };
        Next::Linger
    }

    fn linger(&mut self, bytes_left: u64, shared: &mut Shared) -> Next {
        let slot = self.slot.get_or_insert_with(|| shared.pool.take());
        let mut bytes_left = bytes_left;
        for _ in 0..ROUNDS_PER_TURN {
            slot.consume(slot.unread().len());
            match read(slot, &mut self.socket, &mut shared.tally) {
                Ok((n, _)) if n == 0 || n as u64 > bytes_left => return Next::Close(Ending::ByServer),
                Ok((n, _)) => bytes_left -= n as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.state = State::Lingering { bytes_left };
                    return Next::Wait;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Close(Ending::ByServer),
            }
        }
        slot.consume(slot.unread().len());
        self.state = State::Lingering { bytes_left };
        Next::Again
    }
}

impl Answered {
    /// Counts and consumes the request; the state that follows.
    fn finish(self, slot: &mut Slot, tally: &mut Tally) -> State {
        tally.count_answer(self.asked, self.class, self.is_kept);
        slot.consume(self.len);
        if self.is_kept { State::Head } else { State::Closing { linger: self.lingers || !slot.is_empty() } }
    }
}

impl Shared {
    /// What the connections of one server share.
    pub fn new(site: Site, clock: Clock) -> Self {
        Self {
            pool: Pool::default(),
            recent: Recent::default(),
            outbox: Outbox::default(),
            site,
            clock,
            tally: Tally::default(),
            log: None,
            budget: None,
            requests_each_max: None,
            is_ending: false,
            closes_idle: false,
        }
    }

    /// The right to answer a request.
    fn share(&self) -> Share {
        self.budget.as_ref().map_or(Share::One, Budget::take)
    }

    /// Puts the reply to what is unread in `slot` into the batch, and says whether it may.
    fn refuse(&mut self, refusal: Refusal, slot: &Slot, peer: Option<&Peer>) -> bool {
        if self.share() == Share::None {
            return false;
        }
        let mark = self.outbox.mark();
        let response = self.site.refusal(refusal, &self.clock, &mut self.tally);
        self.outbox.push(&response, false, !request::is_head(slot.unread()), self.clock.dates());
        self.tally.count_refused(response.class());
        self.note(slot.unread(), false, mark, peer);
        true
    }

    /// Writes down what was put into the batch since `mark`, if there is a log: the answer to what was `asked`,
    /// which begins with a request line. What is told of it is read from the answer itself.
    #[cold]
    fn note(&mut self, asked: &[u8], is_read: bool, mark: Mark, peer: Option<&Peer>) {
        let Some(log) = &mut self.log else { return };
        let (own, len) = self.outbox.since(mark);
        let reply = Reply { status: head::status_of(own), body_bytes: len - head::len_of(own) as u64 };
        log.add(peer, asked, is_read, reply, &self.clock, &mut self.tally);
    }

    /// What was taken is answered later.
    fn give_share_back(&self) {
        if let Some(budget) = &self.budget {
            budget.give_back();
        }
    }

    /// Puts the response to `request`, read from `head`, into the batch; returns the class of its status, and
    /// whether it is read from its file. Puts in nothing if the response is still being made.
    fn respond(&mut self, request: &Request<'_>, head: &[u8], is_kept: bool) -> Option<(usize, bool)> {
        let dates = self.clock.dates();
        Some(match self.site.answer(request, head, &self.clock, &mut self.tally) {
            Answer::Whole(response) => {
                let with_body = request.method != Method::Head;
                self.outbox.push(&response, is_kept, with_body, dates);
                (response.class(), with_body && response.body().file().is_some())
            }
            Answer::Parts(representation, spans) => {
                let boundary = self.site.boundary();
                representation.push_parts(&spans, is_kept, dates, boundary, &mut self.outbox);
                (PARTIAL.class(), representation.whole.body().file().is_some())
            }
            Answer::NotYet => return None,
        })
    }
}

/// Reads once into `slot`.
fn read(slot: &mut Slot, socket: &mut impl Read, tally: &mut Tally) -> io::Result<(usize, bool)> {
    tally.calls.count(Call::RecvFrom);
    let (n, is_filled) = slot.read_from(socket)?;
    tally.bytes_received += n as u64;
    Ok((n, is_filled))
}

/// What the unread bytes begin with.
enum Unread<'b> {
    /// A request of `len` bytes in all, to be answered. `is_early`: its body is not waited for.
    Request { request: Request<'b>, head_len: usize, len: usize, is_early: bool },
    /// A part of a head.
    Partial,
    /// A whole head and a part of its body, which was skipped: see [`State::Body`].
    Body { head_len: usize, skip: Skip },
    /// See [`Parsed::HigherMinor`].
    HigherMinor(usize),
    /// Something that is refused, with the connection.
    Refused(Refusal),
}

/// Looks at the bytes unread in `slot`, which holds something.
fn look<'b>(slot: &'b Slot, state: State, recent: &mut Recent) -> Unread<'b> {
    let unread = slot.unread();
    let (request, head_len, mut skip) = match state {
        State::Body { head_len, skip } => (None, head_len, skip),
        _ => match recent.parse(unread) {
            Parsed::Partial => return Unread::Partial,
            Parsed::HigherMinor(at) => return Unread::HigherMinor(at),
            Parsed::Refused(refusal) => return Unread::Refused(refusal),
            Parsed::Complete(request, len) => match request.framing {
                Framing::Length(0) => {
                    return Unread::Request { request, head_len: len, len, is_early: false };
                }
                // RFC 9110 §10.1.1: the final status comes at once. A client may then keep its body
                // back, and what it sends next must not be taken for it: this request is the last.
                _ if request.expectation != Expectation::None => {
                    return Unread::Request { request, head_len: len, len, is_early: true };
                }
                Framing::Length(n) if n > BODY_MAX => {
                    return Unread::Request { request, head_len: len, len, is_early: true };
                }
                framing => (Some(request), len, Skip::new(framing)),
            },
        },
    };
    match skip.feed(&unread[head_len..]) {
        Skipped::All => Unread::Body { head_len, skip },
        Skipped::Refused(refusal) => Unread::Refused(refusal),
        Skipped::Ended(n) => {
            match request.map_or_else(|| request::parse(unread), |r| Parsed::Complete(r, head_len)) {
                Parsed::Complete(request, _) => {
                    Unread::Request { request, head_len, len: head_len + n, is_early: false }
                }
                _ => unreachable!("the head was whole before its body came"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::fs;
    use std::io::{IoSlice, Write};
    use std::path::Path;
    use std::rc::Rc;

    use super::*;
    use crate::beneath::Root;
    use crate::files::{Files, Keeping, READ_MAX, Rules, SENDFILE_MIN};
    use crate::head::{Body, Response, Status};
    use crate::outbox::fake::{Taker, Writing};
    use crate::policy::Policy;
    use crate::site::Manner;

    /// A socket whose other side is the test.
    struct Fake {
        /// What reads give, one each; then `WouldBlock`, or the end.
        input: VecDeque<Vec<u8>>,
        is_ended: bool,
        reads: usize,
        output: Taker,
        is_shut: Rc<Cell<bool>>,
    }

    impl Fake {
        fn new(input: &[&[u8]]) -> Self {
            Self {
                input: input.iter().map(|chunk| chunk.to_vec()).collect(),
                is_ended: false,
                reads: 0,
                output: Taker::wide(),
                is_shut: Rc::default(),
            }
        }

        fn narrow(self, room: usize) -> Self {
            Self { output: Taker::narrow(room), ..self }
        }
    }

    impl Read for Fake {
        fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let Some(mut chunk) = self.input.pop_front() else {
                return if self.is_ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
            };
            let n = chunk.len().min(space.len());
            space[..n].copy_from_slice(&chunk[..n]);
            if n < chunk.len() {
                self.input.push_front(chunk.split_off(n));
            }
            Ok(n)
        }
    }

    impl Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.output.write(bytes)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.output.write_vectored(slices)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Fake {
        fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.output.write_more(bytes)
        }

        fn write_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
            self.output.write_file(file, offset, len)
        }
    }

    impl Socket for Fake {
        fn shutdown_write(&self) -> io::Result<()> {
            self.is_shut.set(true);
            Ok(())
        }
    }

    fn fixed(body: &[u8]) -> Shared {
        Shared::new(
            Site::fixed(Response::new(Status(200), &[], Body::Bytes(body.to_vec())), Policy::default()),
            Clock::start(),
        )
    }

    fn directory(root: &Path) -> Shared {
        let clock = Clock::start();
        let rules = Rules { index_names: vec!["index.html".into()], ..Rules::default() };
        let files = Files::new(Root::open(root).unwrap(), rules, Keeping::default(), clock.now());
        Shared::new(Site::files(files, Manner::default()), clock)
    }

    /// Lets `conn` go on until it waits for input that never comes, or closes.
    fn run(conn: &mut Conn<Fake>, shared: &mut Shared) -> Next {
        for _ in 0..1_000_000 {
            let (reads, writes) = (conn.socket.reads, conn.socket.output.writes);
            let next = conn.ready(true, shared);
            let is_still =
                conn.tail.is_none() && conn.socket.input.is_empty() && conn.socket.output.writes == writes;
            if matches!(next, Next::Close(_) | Next::Linger) || (next == Next::Wait && is_still) {
                return next;
            }
            assert!(
                next == Next::Again || (reads, writes) != (conn.socket.reads, conn.socket.output.writes),
                "it spins"
            );
        }
        panic!("it does not come to an end");
    }

    fn output_text(conn: &Conn<Fake>) -> String {
        String::from_utf8_lossy(&conn.socket.output.taken).into_owned()
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    const BATCH: &str = "\r\nGET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n\
        HEAD /middle.bin HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET / HTT\
        GET /middle.bin HTTP/1.2\r\nHost: a\r\n\r\n\
        GET /dir?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n\
        GET /none HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
        GET /small.txt HTTP/1.0\r\n\r\nGET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("small.txt"), "small\n").unwrap();
        fs::write(tree.path().join("middle.bin"), vec![b'm'; 5000]).unwrap();
        fs::create_dir(tree.path().join("dir")).unwrap();
        tree
    }

    /// The rule of RFC 9112 §9.3.2, whatever the segments: answers in order, the same bytes.
    #[test]
    fn every_split_of_the_input_and_every_size_of_short_write_gives_the_same_output() {
        let tree = tree();
        let mut shared = directory(tree.path());
        let mut output = |chunks: &[&[u8]], room: usize| {
            let mut conn = Conn::new(Fake::new(chunks).narrow(room));
            run(&mut conn, &mut shared);
            conn.socket.output.taken
        };
        let batch = BATCH.as_bytes();
        let whole = output(&[batch], usize::MAX);
        let text = String::from_utf8_lossy(&whole);
        let statuses: Vec<_> =
            text.match_indices("HTTP/1.1 ").map(|(at, _)| &text[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["200", "200", "405", "200", "301", "404", "200"]);
        assert_eq!(text.matches("Connection: close\r\n").count(), 1);
        assert_eq!(
            text.matches("mmmm").count(),
            5000 / 4,
            "one body of middle.bin, for GET and not for HEAD"
        );
        for cut in 1..batch.len() {
            assert_eq!(output(&[&batch[..cut], &batch[cut..]], usize::MAX), whole, "cut at {cut}");
        }
        for room in (1..40).chain([100, 499, 4096, whole.len() - 1]) {
            assert_eq!(output(&[batch], room), whole, "{room} bytes a write");
        }
        let bytes: Vec<&[u8]> = batch.chunks(1).collect();
        assert_eq!(output(&bytes, 700), whole, "byte by byte");
    }

    /// Requests of every kind that is answered without closing, to be strung together.
    const REQUESTS: [&str; 12] = [
        "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /middle.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
        "GET /middle.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /middle.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=10-1000\r\n\r\n",
        "GET /middle.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,50-60, -7\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-3\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=99-\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "PUT /small.txt HTTP/1.1\r\nHost: a\r\nIf-Match: *\r\nContent-Length: 17\r\n\r\nGET / HTTP/1.1\r\n\r",
        "POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nGET \r\n0\r\nT: U\r\n\r\n",
        "\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /dir HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ];

    proptest::proptest! {
        /// Any split of any pipelined batch, with any sizes of short write, gives the same output.
        #[test]
        fn any_split_of_any_batch_gives_the_same_output(
            picks in proptest::collection::vec(0..REQUESTS.len(), 1..12),
            cuts in proptest::collection::vec(1usize..300, 0..20),
            rooms in proptest::collection::vec(0usize..2000, 1..20),
        ) {
            let tree = tree();
            let mut shared = directory(tree.path());
            let batch: String = picks.iter().map(|&pick| REQUESTS[pick]).collect();
            let mut whole = Conn::new(Fake::new(&[batch.as_bytes()]));
            run(&mut whole, &mut shared);
            assert_eq!(output_text(&whole).matches("HTTP/1.1 ").count(), picks.len());

            let mut chunks = Vec::new();
            let mut rest = batch.as_bytes();
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                if !chunk.is_empty() {
                    chunks.push(chunk);
                }
                rest = after;
            }
            chunks.extend((!rest.is_empty()).then_some(rest));
            let mut socket = Fake::new(&chunks);
            let mut rooms = rooms.into_iter().cycle().chain([usize::MAX]);
            let mut blocked = 0;
            socket.output.write = Box::new(move |bytes| match rooms.next() {
                // However many rooms of nothing there are, the socket is free again at some time.
                Some(0) if blocked < 100 => {
                    blocked += 1;
                    Err(io::ErrorKind::WouldBlock.into())
                }
                room => Ok(bytes.len().min(room.unwrap_or(1).max(1))),
            });
            let mut split = Conn::new(socket);
            run(&mut split, &mut shared);
            assert_eq!(output_text(&split), output_text(&whole));
        }
    }

    #[test]
    fn a_warm_request_costs_one_read_and_one_write() {
        let mut shared = fixed(b"hello");
        let mut conn = Conn::new(Fake::new(&[GET]));
        assert_eq!(conn.ready(false, &mut shared), Next::Wait);
        assert_eq!((conn.socket.reads, conn.socket.output.writes), (1, 1));
        let batch: Vec<u8> = GET.repeat(16);
        conn.socket.input.push_back(batch);
        assert_eq!(conn.ready(false, &mut shared), Next::Wait);
        assert_eq!((conn.socket.reads, conn.socket.output.writes), (2, 2), "a batch is sent with one write");
        assert_eq!(output_text(&conn).matches("\r\n\r\nhello").count(), 17);
        assert!(conn.slot.is_none(), "an idle connection owns no buffer");
    }

    #[test]
    fn a_read_that_fills_its_space_or_may_be_the_last_is_followed_by_another() {
        let mut shared = fixed(b"");
        let mut conn = Conn::new(Fake::new(&[&GET.repeat(2000)]));
        assert_eq!(run(&mut conn, &mut shared), Next::Wait);
        assert_eq!(output_text(&conn).matches("200 OK").count(), 2000);

        let mut conn = Conn::new(Fake::new(&[GET]));
        conn.socket.is_ended = true;
        assert_eq!(
            conn.ready(true, &mut shared),
            Next::Close(Ending::ByClient),
            "the end behind the request is seen"
        );
        assert_eq!(
            output_text(&conn).matches("200 OK").count(),
            1,
            "and the request is answered all the same"
        );
    }

    /// Also what is refused does not depend on how it was split, nor waits for the end of its line.
    #[test]
    fn a_refusal_is_the_same_byte_by_byte() {
        let mut shared = fixed(b"");
        for head in [
            "foo/123",
            "GE\0T / HTTP/1.1",
            "GET / HTTP/2.0",
            "GET / XTTP/1.1",
            "GET / HTTP/1.1\r\nHo\0st: a",
            "GET / HTTP/1.1\r\nHost: a\r\nA B: c",
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\rz",
            "\u{16}\u{3}\u{1}",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 5",
        ] {
            let mut output = |chunks: &[&[u8]]| {
                let mut conn = Conn::new(Fake::new(chunks));
                run(&mut conn, &mut shared);
                output_text(&conn)
            };
            let whole = output(&[head.as_bytes()]);
            assert!(
                whole.starts_with("HTTP/1.1 400 ") || whole.starts_with("HTTP/1.1 505 "),
                "{head:?}: {whole}"
            );
            let bytes: Vec<&[u8]> = head.as_bytes().chunks(1).collect();
            assert_eq!(output(&bytes), whole, "{head:?}");
        }
    }

    #[test]
    fn nothing_is_read_while_a_tail_is_unsent() {
        let mut shared = fixed(&[b'x'; 3000]);
        let mut fake = Fake::new(&[GET, GET]);
        fake.output.write = Box::new(|_| Err(io::ErrorKind::WouldBlock.into()));
        let mut conn = Conn::new(fake);
        for _ in 0..3 {
            assert_eq!(conn.ready(true, &mut shared), Next::Wait);
            assert_eq!(conn.socket.reads, 1);
        }
        conn.socket.output.write = Box::new(|bytes| Ok(bytes.len()));
        assert_eq!(run(&mut conn, &mut shared), Next::Wait);
        assert_eq!(output_text(&conn).matches("200 OK").count(), 2);
    }

    #[test]
    fn a_refusal_outlives_what_the_client_still_sends() {
        let mut shared = fixed(b"");
        let mut conn = Conn::new(Fake::new(&[b"bad\r\n\r\n", &[b'x'; 100_000]]));
        assert_eq!(run(&mut conn, &mut shared), Next::Linger);
        assert!(output_text(&conn).starts_with("HTTP/1.1 400 ") && conn.socket.is_shut.get());
        assert_eq!(run(&mut conn, &mut shared), Next::Wait);
        assert!(conn.slot.is_none() && conn.socket.input.is_empty(), "it is read and thrown away");
        conn.socket.is_ended = true;
        assert_eq!(conn.ready(true, &mut shared), Next::Close(Ending::ByServer));
    }

    #[test]
    fn a_client_that_asked_for_the_close_and_sent_no_more_is_closed_at_once() {
        let mut shared = fixed(b"");
        for request in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] {
            let mut conn = Conn::new(Fake::new(&[request.as_bytes()]));
            assert_eq!(conn.ready(false, &mut shared), Next::Close(Ending::ByServer));
            assert_eq!((conn.socket.reads, conn.socket.output.writes), (1, 1));
        }
    }

    #[test]
    fn a_short_response_is_seen_off_behind_a_long_one() {
        let tree = tree_with_big();
        let mut shared = directory(tree.path());
        let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        for (first, expected) in [(GET_BIG, Next::Linger), (GET_SMALL, Next::Close(Ending::ByServer))] {
            let mut conn = Conn::new(Fake::new(&[first, last.as_bytes()]));
            assert_eq!(run(&mut conn, &mut shared), expected);
        }
    }

    /// A stray CRLF behind the request would be met with a reset while megabytes are on their way.
    #[test]
    fn a_long_response_is_seen_off_even_if_the_client_asked_for_the_close() {
        for (body_len, is_long) in [(PROMPT_MAX as usize / 2, false), (PROMPT_MAX as usize + 1, true)] {
            let mut shared = fixed(&vec![b'x'; body_len]);
            let mut conn = Conn::new(Fake::new(&[b"GET / HTTP/1.0\r\n\r\n"]));
            let next = conn.ready(false, &mut shared);
            assert_eq!(next, if is_long { Next::Linger } else { Next::Close(Ending::ByServer) });
        }
    }

    #[test]
    fn a_client_that_floods_after_its_last_response_gets_no_more_than_its_turn() {
        let mut shared = fixed(b"");
        let mut conn = Conn::new(Fake::new(&[b"bad\r\n\r\n"]));
        conn.socket.input.extend(vec![vec![b'x'; 16 * 1024]; 5000]);
        assert_eq!(run(&mut conn, &mut shared), Next::Linger);
        let reads = conn.socket.reads;
        assert_eq!(conn.ready(false, &mut shared), Next::Again);
        assert_eq!(conn.socket.reads, reads + ROUNDS_PER_TURN);
        assert_eq!(
            run(&mut conn, &mut shared),
            Next::Close(Ending::ByServer),
            "nor more than a bounded number of bytes"
        );
    }

    #[test]
    fn a_body_that_is_too_large_or_held_back_is_answered_early_and_for_the_last_time() {
        let mut shared = fixed(b"");
        let too_large = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", BODY_MAX + 1);
        let held_back = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\nExpect: 100-continue\r\n\r\n";
        for head in [too_large.as_str(), held_back] {
            let mut conn = Conn::new(Fake::new(&[head.as_bytes(), GET]));
            assert_eq!(run(&mut conn, &mut shared), Next::Linger);
            let output = output_text(&conn);
            assert_eq!(run(&mut conn, &mut shared), Next::Wait);
            assert_eq!(output_text(&conn), output, "what follows is no request");
            assert_eq!(output.matches("HTTP/1.1 ").count(), 1, "{output}");
            assert!(output.contains("Connection: close\r\n"));
        }
    }

    #[test]
    fn a_server_that_ends_answers_what_has_arrived_and_closes_then_who_is_owed_nothing() {
        let mut shared = fixed(b"");
        shared.is_ending = true;
        let mut idle = Conn::new(Fake::new(&[]));
        assert_eq!(idle.ready(true, &mut shared), Next::Wait, "a request may be on its way");
        let mut busy = Conn::new(Fake::new(&[GET]));
        busy.ready(true, &mut shared);
        assert!(output_text(&busy).contains("Connection: close\r\n"));
        shared.closes_idle = true;
        assert_eq!(idle.ready(true, &mut shared), Next::Close(Ending::ByServer));
    }

    /// Whatever the road, what is told of an answer is told once, in order, and as it left.
    #[test]
    fn an_answer_is_logged_once_and_as_it_left() {
        use crate::log_file::{LogFile, Place};

        let tree = tree_with_big();
        let path = tree.path().join(".log");
        let mut shared = directory(tree.path());
        let (format, proxies) = (crate::entry::Format::Common, Default::default());
        let logging = crate::log::Logging { place: Place::File(path.clone()), format, proxies };
        let log = Log::new(logging, (LogFile::open(&path).unwrap(), Default::default()), &shared.clock);
        shared.log = Some(Box::new(log));
        let range = "GET /middle.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3\r\n\r\n";
        let head = "HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut fake = Fake::new(&[GET_BIG, range.as_bytes(), head.as_bytes(), b"bad\r\n\r\n"]);
        fake.output.write = Box::new(|_| Err(io::ErrorKind::WouldBlock.into()));
        let mut conn = Conn::from(Some(Box::new(shared.log.as_ref().unwrap().peer(None))), fake);
        (0..3).for_each(|_| assert_eq!(conn.ready(true, &mut shared), Next::Wait));
        fs::write(tree.path().join("big"), "now small").unwrap();
        conn.socket.output.write = Box::new(|bytes| Ok(bytes.len()));
        run(&mut conn, &mut shared);
        shared.log.as_mut().unwrap().write(shared.clock.now(), &mut shared.tally);
        let text = fs::read_to_string(&path).unwrap();
        let bad = output_text(&conn).rsplit_once("\r\n\r\n").unwrap().1.len();
        let expected = [
            "\"GET /small.txt HTTP/1.1\" 200 6".to_owned(),
            "\"GET /big HTTP/1.1\" 200 9".to_owned(),
            "\"GET /middle.bin HTTP/1.1\" 206 3".to_owned(),
            "\"HEAD /big HTTP/1.1\" 200 -".to_owned(),
            format!("\"bad\" 400 {bad}"),
        ];
        let said: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
        assert_eq!(said, expected);
        assert!(text.lines().all(|line| line.starts_with("unix: - - [")));
        assert_eq!((shared.tally.requests(), shared.tally.log_lines), (5, 5));
    }

    const MAPPED_LEN: usize = READ_MAX as usize + 1000;

    /// A file that the kernel sends by itself is one more road for the same bytes.
    #[test]
    fn the_largest_files_are_sent_whole_in_parts_and_never_beyond_their_end() {
        let tree = tree();
        let big: Vec<u8> = (0..SENDFILE_MIN as usize + 1000).map(|at| (at % 251) as u8).collect();
        fs::write(tree.path().join("big"), &big).unwrap();
        let mut shared = directory(tree.path());
        let get = |range: &str| format!("GET /big HTTP/1.1\r\nHost: a\r\n{range}\r\n");
        for room in [usize::MAX, 10_007] {
            let batch = [get(""), get("Range: bytes=-1000\r\n"), get("Range: bytes=1-2,5-6\r\n")].concat();
            let mut conn = Conn::new(Fake::new(&[batch.as_bytes()]).narrow(room));
            assert_eq!(run(&mut conn, &mut shared), Next::Wait);
            let output = &conn.socket.output.taken;
            let body_at =
                |from: usize| from + output[from..].windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
            let first = body_at(0);
            assert!(output[first..first + big.len()] == big);
            let second = body_at(first + big.len());
            assert!(output[second..second + 1000] == big[big.len() - 1000..]);
            assert!(output[second + 1000..].windows(6).any(|w| w == b"\r\n\r\n\x05\x06"));
        }
        let mut conn = Conn::new(Fake::new(&[get("").as_bytes()]).narrow(10_000));
        assert_eq!(conn.ready(true, &mut shared), Next::Wait);
        File::options().write(true).open(tree.path().join("big")).unwrap().set_len(50_000).unwrap();
        assert_eq!(run(&mut conn, &mut shared), Next::Linger);
        assert!(conn.socket.output.taken.ends_with(&big[..50_000]), "cut where the file was cut");
    }

    const GET_SMALL: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    const GET_BIG: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\n";

    fn tree_with_big() -> tempfile::TempDir {
        let tree = tree();
        fs::write(tree.path().join("big"), vec![b'B'; MAPPED_LEN]).unwrap();
        tree
    }

    fn faulting_once(mut at_fault: impl FnMut() + 'static) -> Writing {
        let mut has_faulted = false;
        Box::new(move |bytes| {
            if has_faulted {
                return Ok(bytes.len());
            }
            has_faulted = true;
            at_fault();
            Err(io::Error::from_raw_os_error(libc::EFAULT))
        })
    }

    /// The kernel met the end of the file before a byte of its response had left.
    #[test]
    fn a_mapping_that_fails_before_it_began_is_answered_anew() {
        let tree = tree_with_big();
        let big = tree.path().join("big");
        let mut shared = directory(tree.path());
        let mut fake = Fake::new(&[GET_BIG]);
        fake.output.write = faulting_once(move || fs::write(&big, "now small").unwrap());
        let mut conn = Conn::new(fake);
        assert_eq!(run(&mut conn, &mut shared), Next::Wait);
        let output = output_text(&conn);
        assert_eq!(output.matches("200 OK").count(), 2, "{output}");
        assert!(
            output.contains("\r\n\r\nsmall\nHTTP/1.1 200 OK") && output.ends_with("\r\n\r\nnow small"),
            "{output}"
        );
    }

    #[test]
    fn a_mapping_that_fails_again_and_again_costs_its_connection_only() {
        let tree = tree_with_big();
        let mut shared = directory(tree.path());
        let mut fake = Fake::new(&[GET_BIG]);
        fake.output.write = Box::new(|bytes| match bytes.len() > READ_MAX as usize {
            true => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            false => Ok(bytes.len()),
        });
        let mut conn = Conn::new(fake);
        assert_eq!(run(&mut conn, &mut shared), Next::Linger);
        assert_eq!(output_text(&conn).matches("200 OK").count(), 1, "what came before it has left");
        assert!(shared.outbox.is_empty());
    }

    #[test]
    fn a_file_cut_shorter_while_it_is_sent_cuts_the_connection() {
        let tree = tree_with_big();
        let mut shared = directory(tree.path());
        let mut conn = Conn::new(Fake::new(&[GET_BIG]).narrow(10_000));
        assert_eq!(conn.ready(true, &mut shared), Next::Wait);
        let sent = conn.socket.output.taken.len();
        // Longer than what was sent, so that every byte of it could be read: only the size tells.
        fs::File::options().write(true).open(tree.path().join("big")).unwrap().set_len(READ_MAX).unwrap();
        // What came before may still be on its way, and requests behind it.
        conn.socket.input.push_back(GET.to_vec());
        assert_eq!(conn.ready(true, &mut shared), Next::Linger);
        assert!(conn.socket.is_shut.get() && !conn.is_owed());
        assert_eq!(shared.tally.connections.aborted, 1);
        conn.socket.is_ended = true;
        assert_eq!(conn.ready(true, &mut shared), Next::Close(Ending::ByServer));
        assert_eq!(conn.socket.output.taken.len(), sent);
    }

    #[test]
    fn a_response_that_could_not_begin_is_made_when_it_can() {
        let tree = tree_with_big();
        let mut shared = directory(tree.path());
        let mut fake = Fake::new(&[GET_BIG]);
        fake.output.write = Box::new(|_| Err(io::ErrorKind::WouldBlock.into()));
        let mut conn = Conn::new(fake);
        for _ in 0..3 {
            assert_eq!(conn.ready(true, &mut shared), Next::Wait, "it waits for room and does not spin");
        }
        fs::write(tree.path().join("big"), "now small").unwrap();
        conn.socket.output.write = Box::new(|bytes| Ok(bytes.len()));
        assert_eq!(run(&mut conn, &mut shared), Next::Wait);
        assert!(output_text(&conn).ends_with("\r\n\r\nnow small"));
        // However often it could not begin: two requests, each in a batch of its own in the end.
        let Tally { batches, depth_max, .. } = shared.tally;
        assert_eq!((shared.tally.requests(), batches, depth_max), (2, 2, 1));
    }
}
