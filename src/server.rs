//! The loop: wait, tick the clock once, let each connection that moved go on, accept, sweep.
//!
//! One thread, one [`Poll`]. Nothing here looks at a byte of HTTP. No error ends the loop but one of
//! the poll itself; a client's trouble ends its own connection.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token};

use crate::board::Pulse;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::conn::{Conn, Next, Shared};
use crate::deadlines::{Patience, Phase, Wheel};
use crate::environment::allowed_cpus;
use crate::failure::cause;
use crate::listener::{Accepted, Listener};
use crate::log::{Log, Peer};
use crate::report::Snapshot;
use crate::site::Site;
use crate::sys;
use crate::table::{Table, place_of};
use crate::tally::{Call, Ending};
use crate::usage::{Gauge, Traffic, Usage};

// No connection is ever given these: `Table` leaves out the last generation. Listener k has the k-th
// below REOPEN.
const STOP: Token = Token(usize::MAX);
const REPORT: Token = Token(STOP.0 - 1);
const REOPEN: Token = Token(REPORT.0 - 1);
const LISTENERS_MIN: Token = Token(REOPEN.0 - LISTENERS_MAX);

/// Listeners of one server: as many as tokens are kept for. Arbitrary, and beyond any use.
pub const LISTENERS_MAX: usize = 1024;

/// Events taken from the kernel at once. Arbitrary; the rest come with the next wait.
const EVENTS_MAX: usize = 1024;

/// Idle connections closed at once when there is no room for another, or an eighth of a small table.
/// Arbitrary: enough that looking for them is a small part of what each of the next ones costs.
const ROOM: usize = 16;

/// How long idle connections stay open when the server ends, so that a request which is on its way is
/// answered, as the last one. Arbitrary: longer than a busy client takes from a response to its next
/// request, shorter than anybody minds.
const IDLE_GRACE: Duration = Duration::from_millis(250);

/// Turns of accepting when the server ends: whoever the kernel had taken in is not turned away, but
/// those who come faster than they are accepted do not keep it from ending. Arbitrary.
const ENDING_ACCEPTS_MAX: usize = 64;

/// Nobody has looked since bytes moved: more than there can be.
const UNKNOWN: u32 = u32::MAX;

/// How often the meter is read.
const SECOND: Duration = Duration::from_secs(1);

/// What is asked of the loop from outside, and what bounds it.
#[derive(Debug)]
pub struct Orders {
    /// The first byte read from it ends the loop in order, the second one at once.
    pub stop: UnixStream,
    /// Each byte read from it asks for a report.
    pub report: UnixStream,
    /// Where answers are written down, if anywhere.
    pub log: Option<Log>,
    /// A byte read from it says that the log's file has been renamed.
    pub reopen: Option<UnixStream>,
    /// How long to serve.
    pub duration: Option<Duration>,
    /// How many requests to answer.
    pub budget: Option<Budget>,
    /// Whether somebody watches the meter.
    pub is_metered: bool,
    /// How much is taken, and how long is waited.
    pub limits: Limits,
}

/// How much is taken, and how long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are open at a time.
    pub connections: usize,
    /// Requests of one connection that are answered, if there is a bound.
    pub requests_each: Option<u64>,
    /// How long a client is waited for.
    pub patience: Patience,
    /// How long responses in flight may take when the server ends.
    pub grace: Duration,
}

/// Why the loop paused. It goes on when it is run again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Occasion {
    /// So many reports are asked for.
    Report(usize),
    /// A second with traffic is over, just now.
    Second(Instant, Pulse),
    /// A bound was reached: it is time to ask for the end.
    Over,
    /// It has ended, and is not to be run again.
    Ended(Ended),
}

/// How the loop came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Asked once; the responses in flight have left, or their time was over.
    InOrder,
    /// Asked twice.
    AtOnce,
}

#[derive(Debug)]
struct Client {
    conn: Conn<TcpStream>,
    /// Whether it is on the ready list.
    is_queued: bool,
    /// What it waits for, and since when.
    phase: Phase,
    since: Instant,
    /// It is ending since something took too long.
    is_timed_out: bool,
    /// Bytes on their way to it when they were looked at last, or [`UNKNOWN`].
    on_their_way: u32,
}

impl Client {
    /// Whether it has taken some of what is on its way since it was looked at last. The socket takes more only when
    /// a third of its buffer is free, which is a megabyte where it has grown to four: until then nothing else
    /// tells a slow client from one that is gone. The first look is what the next is held against, so that who
    /// takes nothing is left after twice the time at the most. Whoever has all of the last response has had it.
    fn takes_some(&mut self) -> bool {
        let on_their_way = sys::unacknowledged(self.conn.socket_mut().as_fd()).unwrap_or(0);
        let is_less = std::mem::replace(&mut self.on_their_way, on_their_way) > on_their_way;
        is_less && (on_their_way > 0 || self.phase == Phase::Write)
    }
}

/// What came of looking for connections to close for others.
enum Room {
    /// Some are closed.
    Made,
    /// Those who are idle have only just become so.
    NextTurn,
    /// Nobody is idle.
    None,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    poll: Poll,
    /// Empty when the server ends.
    listeners: Vec<Listener>,
    stop: UnixStream,
    stops: usize,
    report: UnixStream,
    reports: usize,
    reopen: Option<UnixStream>,
    events: Option<Events>,
    clients: Table<Client>,
    shared: Shared,
    /// Connections that stopped before their socket said `WouldBlock`.
    again: VecDeque<Token>,
    limits: Limits,
    wheel: Wheel,
    /// Places of connections whose deadline may be over; empty between turns.
    due: Vec<u32>,
    idle_ends: Option<Instant>,
    grace_ends: Option<Instant>,
    /// When serving is over by itself.
    over: Option<Instant>,
    was_over: bool,
    meter: Option<Meter>,
    traffic: Traffic,
    /// Bytes moved and connections accepted until the last turn.
    moves: u64,
    gauge: Gauge,
}

/// The second being metered, and what had been counted when it began.
#[derive(Debug, Default)]
struct Meter {
    began: Option<Instant>,
    requests: u64,
    bytes_sent: u64,
    usage: Usage,
}

impl Server {
    /// A server of `site` on `listeners`, [`LISTENERS_MAX`] at the most, to be run on this thread.
    ///
    /// # Errors
    /// What epoll_create(2) and epoll_ctl(2) say.
    pub fn new(mut listeners: Vec<Listener>, site: Site, clock: Clock, orders: Orders) -> io::Result<Self> {
        assert!(listeners.len() <= LISTENERS_MAX, "each has a token");
        let Orders { mut stop, mut report, log, mut reopen, duration, budget, is_metered, limits } = orders;
        let poll = Poll::new()?;
        for (index, listener) in (1..).zip(&mut listeners) {
            poll.registry().register(listener.socket_mut(), Token(REOPEN.0 - index), Interest::READABLE)?;
        }
        poll.registry().register(&mut stop, STOP, Interest::READABLE)?;
        poll.registry().register(&mut report, REPORT, Interest::READABLE)?;
        if let Some(reopen) = &mut reopen {
            poll.registry().register(reopen, REOPEN, Interest::READABLE)?;
        }
        let over = duration.and_then(|duration| clock.now().checked_add(duration));
        let wheel = Wheel::new(clock.now());
        let requests_each_max = limits.requests_each;
        Ok(Self {
            poll,
            listeners,
            stop,
            stops: 0,
            report,
            reports: 0,
            reopen,
            events: Some(Events::with_capacity(EVENTS_MAX)),
            clients: Table::new(),
            shared: Shared { log: log.map(Box::new), budget, requests_each_max, ..Shared::new(site, clock) },
            again: VecDeque::new(),
            limits,
            wheel,
            due: Vec::new(),
            idle_ends: None,
            grace_ends: None,
            over,
            was_over: false,
            meter: is_metered.then(Meter::default),
            traffic: Traffic::default(),
            moves: 0,
            gauge: Gauge::start(),
        })
    }

    /// Serves until there is something to say, or it is asked to stop.
    ///
    /// # Errors
    /// What epoll_wait(2) says.
    pub fn run(&mut self) -> io::Result<Occasion> {
        let mut events = self.events.take().unwrap_or_else(|| Events::with_capacity(EVENTS_MAX));
        let occasion = self.run_with(&mut events);
        self.events = Some(events);
        occasion
    }

    fn run_with(&mut self, events: &mut Events) -> io::Result<Occasion> {
        loop {
            if let Some(occasion) = self.occasion() {
                return Ok(occasion);
            }
            self.shared.tally.calls.count(Call::EpollWait);
            let polled = self.poll.poll(events, self.timeout());
            self.shared.clock.tick();
            match polled {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let turns = self.again.len();
            for event in &*events {
                match event.token() {
                    STOP => self.read_stop(),
                    REPORT => self.reports += read_bytes(&mut self.report),
                    REOPEN => self.reopen_log(),
                    token if token >= LISTENERS_MIN => self.note_arrivals(REOPEN.0 - token.0 - 1),
                    // Urgent data ends a read early, as the end of input does.
                    token => self.drive(token, event.is_read_closed() || event.is_priority()),
                }
            }
            for _ in 0..turns {
                let Some(token) = self.again.pop_front() else { break };
                if let Some(client) = self.clients.get_mut(token) {
                    client.is_queued = false;
                    self.drive(token, true);
                }
            }
            self.accept();
            self.expire();
            self.note_traffic();
            self.write_log();
        }
    }

    /// What this server has done so far. To be asked on the thread that runs it.
    pub fn snapshot(&self) -> Snapshot {
        let user_agent = self.shared.recent.user_agent();
        Snapshot {
            tally: self.shared.tally.clone(),
            open: self.clients.len() as u64,
            traffic: self.traffic,
            usage: self.gauge.read(),
            user_agent: user_agent.map(|name| String::from_utf8_lossy(name).into_owned()),
            cpus: allowed_cpus().unwrap_or_default(),
        }
    }

    /// Whether there is something to say between two turns.
    fn occasion(&mut self) -> Option<Occasion> {
        if self.reports > 0 {
            return Some(Occasion::Report(std::mem::take(&mut self.reports)));
        }
        if let Some(pulse) = self.pulse() {
            return Some(Occasion::Second(self.shared.clock.now(), pulse));
        }
        let is_spent = self.shared.budget.as_ref().is_some_and(Budget::is_spent);
        let is_over = self.over.is_some_and(|over| over <= self.shared.clock.now());
        if (is_spent || is_over) && self.stops == 0 && !self.was_over {
            self.was_over = true;
            return Some(Occasion::Over);
        }
        let ended = self.ended()?;
        if let Some(log) = &mut self.shared.log {
            log.end(self.shared.clock.now(), &mut self.shared.tally);
        }
        Some(Occasion::Ended(ended))
    }

    /// What was answered in this turn is written down when it is over.
    fn write_log(&mut self) {
        if let Some(log) = &mut self.shared.log {
            log.write(self.shared.clock.now(), &mut self.shared.tally);
        }
    }

    fn reopen_log(&mut self) {
        if let (Some(signals), Some(log)) = (&mut self.reopen, &mut self.shared.log)
            && read_bytes(signals) > 0
        {
            log.reopen(self.shared.clock.now(), &mut self.shared.tally);
        }
    }

    /// Accepting is work for a client too, whether it says something or not.
    fn note_traffic(&mut self) {
        let tally = &self.shared.tally;
        let moves = tally.bytes() + tally.connections.accepted;
        if moves == self.moves {
            return;
        }
        self.moves = moves;
        let now = self.shared.clock.now();
        self.traffic.note(now);
        if let Some(meter) = &mut self.meter {
            meter.began.get_or_insert(now);
        }
    }

    /// The second that is over, if one is. The next one begins when bytes move again.
    fn pulse(&mut self) -> Option<Pulse> {
        let meter = self.meter.as_mut()?;
        let elapsed = self.shared.clock.now() - meter.began?;
        if elapsed < SECOND {
            return None;
        }
        let tally = &self.shared.tally;
        let (requests, bytes_sent, usage) = (tally.requests(), tally.bytes_sent, self.gauge.read());
        let per_s = |count: u64| count as f64 / elapsed.as_secs_f64();
        let pulse = Pulse {
            requests_per_s: per_s(requests - meter.requests),
            bytes_per_s: per_s(bytes_sent - meter.bytes_sent),
            open: self.clients.len() as u64,
            busy: usage.since(meter.usage).cpu().as_secs_f64() / elapsed.as_secs_f64(),
        };
        *meter = Meter { began: None, requests, bytes_sent, usage };
        Some(pulse)
    }

    /// How long the loop may sleep.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || self.has_arrivals() {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            self.wheel.next(),
            self.listeners.iter().filter_map(Listener::rests_until).min(),
            self.shared.site.next_sweep(),
            self.idle_ends,
            self.grace_ends,
            self.over.filter(|_| !self.was_over),
            self.shared.log.as_ref().and_then(|log| log.try_again(self.shared.clock.now())),
            self.meter.as_ref().and_then(|meter| meter.began).map(|began| began + SECOND),
        ];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(self.shared.clock.now()))
    }

    /// Lets one connection go on.
    fn drive(&mut self, token: Token, may_have_ended: bool) {
        let Some(client) = self.clients.get_mut(token) else { return };
        let (bytes, batches) = (self.shared.tally.bytes(), self.shared.tally.batches);
        let next = client.conn.ready(may_have_ended, &mut self.shared);
        // A request is waited for anew after each answer, a piece of what is on its way after each piece;
        // all of a head, and the client's end, once. While it is the same that is waited for, the look
        // that is due comes in time for any later deadline.
        let phase = client.conn.phase();
        let has_answered = batches != self.shared.tally.batches;
        let has_moved = bytes != self.shared.tally.bytes();
        let is_piecewise = matches!(phase, Phase::Body | Phase::Write);
        let is_new = phase != client.phase;
        if is_new || has_answered || (has_moved && is_piecewise) || next == Next::NotYet {
            client.phase = phase;
            client.since = self.shared.clock.now();
            client.on_their_way = UNKNOWN;
        }
        self.follow(token, next, is_new);
    }

    /// What a connection waits for comes next; `is_new` says that it is something else than before.
    fn follow(&mut self, token: Token, next: Next, is_new: bool) {
        match next {
            Next::Wait => {}
            Next::Again | Next::NotYet | Next::Linger => self.queue(token),
            Next::Close(ending) => return self.remove(token, ending),
        }
        if is_new {
            self.set_deadline(token);
        }
    }

    fn set_deadline(&mut self, token: Token) {
        let Some(client) = self.clients.get_mut(token) else { return };
        if let Some(patience) = self.limits.patience.with(client.phase) {
            self.wheel.set(place_of(token), client.since + patience);
        }
    }

    /// Looks at those whose deadline may be over.
    fn look_at_due(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.turn(now, &mut due);
        for place in due.drain(..) {
            let Some(token) = self.clients.at(place) else { continue };
            let Some(client) = self.clients.get_mut(token) else { continue };
            let patience = self.limits.patience.with(client.phase);
            if patience.is_none_or(|patience| client.since + patience > now) {
                self.set_deadline(token);
                continue;
            }
            if matches!(client.phase, Phase::Write | Phase::Linger) && client.takes_some() {
                client.since = now;
                self.set_deadline(token);
                continue;
            }
            client.is_timed_out = true;
            let next = client.conn.time_out(&mut self.shared);
            (client.phase, client.since) = (client.conn.phase(), now);
            self.follow(token, next, true);
        }
        self.due = due;
    }

    /// Puts a connection on the ready list, once.
    fn queue(&mut self, token: Token) {
        if let Some(client) = self.clients.get_mut(token)
            && !client.is_queued
        {
            client.is_queued = true;
            self.again.push_back(token);
        }
    }

    fn remove(&mut self, token: Token, ending: Ending) {
        if let Some(client) = self.clients.remove(token) {
            let ending = if client.is_timed_out { Ending::TimedOut } else { ending };
            self.shared.tally.count_ending(ending, client.conn.is_owed());
        }
        for listener in &mut self.listeners {
            listener.note_closed();
        }
    }

    fn accept(&mut self) {
        let now = self.shared.clock.now();
        for index in 0..self.listeners.len() {
            for _ in 0..self.listeners[index].accepts_now(now) {
                let limit = self.limits.connections;
                let listener = &mut self.listeners[index];
                let why = match self.clients.len() < limit {
                    false => format!("{limit} are open (see --max-connections)"),
                    true => match listener.accept(self.shared.log.as_deref(), &mut self.shared.tally) {
                        Accepted::One(socket, peer) => {
                            self.welcome(socket, peer);
                            continue;
                        }
                        Accepted::Nobody => break,
                        Accepted::NoRoom(error) => cause(&error),
                        Accepted::Failing(error) => {
                            listener.rest(now, &cause(&error), &mut self.shared.tally);
                            break;
                        }
                    },
                };
                // Nobody is closed for somebody who has not come.
                if !listener.is_awaited() {
                    break;
                }
                match self.make_room() {
                    // Each connection that is closed for it leaves a descriptor.
                    Room::Made => {}
                    Room::NextTurn => break,
                    Room::None => {
                        self.listeners[index].rest(now, &why, &mut self.shared.tally);
                        break;
                    }
                }
            }
        }
    }

    /// Closes the connections that have been idle the longest. What has arrived on them meanwhile is
    /// answered instead, and whoever has only just become idle has a turn to ask again.
    fn make_room(&mut self) -> Room {
        let now = self.shared.clock.now();
        let is_idle =
            |client: &Client| client.phase == Phase::Idle && client.since < now && !client.is_queued;
        let idle = self.clients.iter().filter(|(_, client)| is_idle(client));
        let mut idle: Vec<(Instant, Token)> = idle.map(|(token, client)| (client.since, token)).collect();
        let room = ROOM.min(self.clients.len().div_ceil(8));
        if idle.len() > room {
            idle.select_nth_unstable(room);
            idle.truncate(room);
        }
        let open = self.clients.len();
        for (since, token) in idle {
            self.drive(token, true);
            let Some(client) = self.clients.get_mut(token) else { continue };
            if client.phase == Phase::Idle && client.since == since {
                self.shared.tally.connections.made_room += 1;
                self.remove(token, Ending::ByServer);
            }
        }
        if self.clients.len() < open {
            Room::Made
        } else if self.clients.iter().any(|(_, client)| client.phase == Phase::Idle) {
            Room::NextTurn
        } else {
            Room::None
        }
    }

    /// Whether somebody may be waiting to be accepted.
    fn has_arrivals(&self) -> bool {
        self.listeners.iter().any(Listener::is_ready)
    }

    /// Reads before it waits: a request that is there already is answered, and a connection that ends
    /// with it never meets the poll.
    fn welcome(&mut self, socket: TcpStream, peer: Option<Box<Peer>>) {
        let token = self.clients.insert(Client {
            conn: Conn::from(peer, socket),
            is_queued: false,
            phase: Phase::Idle,
            since: self.shared.clock.now(),
            is_timed_out: false,
            on_their_way: UNKNOWN,
        });
        let connections = &mut self.shared.tally.connections;
        connections.peak = connections.peak.max(self.clients.len() as u64);
        self.drive(token, false);
        self.set_deadline(token);
        let Some(client) = self.clients.get_mut(token) else { return };
        // Registering reports what is there at once, so nothing that came since the read is missed.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        self.shared.tally.calls.count(Call::EpollCtl);
        if self.poll.registry().register(client.conn.socket_mut(), token, interest).is_err() {
            self.remove(token, Ending::ByServer);
        }
    }

    /// Ends what has been waited for long enough, and drops what nobody asks for.
    fn expire(&mut self) {
        let now = self.shared.clock.now();
        self.look_at_due(now);
        self.shared.site.sweep(now);
        if self.idle_ends.is_some_and(|end| end <= now) {
            self.idle_ends = None;
            self.shared.closes_idle = true;
            self.drive_all();
        }
    }

    fn drive_all(&mut self) {
        for token in self.clients.tokens() {
            self.drive(token, true);
        }
    }

    fn note_arrivals(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.note_ready();
        }
    }

    fn read_stop(&mut self) {
        self.stops += read_bytes(&mut self.stop);
        if self.stops > 0 && !self.shared.is_ending {
            self.begin_to_end();
        }
    }

    /// Accepts who is waiting, and answers what has arrived and what arrives within [`IDLE_GRACE`]; then
    /// closes whoever is owed nothing. Those whose connection the kernel still holds back, since their
    /// request has not come, are lost, unless another program has the same listening socket.
    fn begin_to_end(&mut self) {
        for listener in &mut self.listeners {
            listener.withdraw();
            listener.note_ready();
        }
        for _ in 0..ENDING_ACCEPTS_MAX {
            if !self.has_arrivals() {
                break;
            }
            self.accept();
        }
        self.listeners.clear();
        self.shared.is_ending = true;
        let now = self.shared.clock.now();
        self.idle_ends = Some(now + IDLE_GRACE);
        self.grace_ends = Some(now + self.limits.grace);
        self.drive_all();
    }

    fn ended(&self) -> Option<Ended> {
        match (self.stops, self.grace_ends) {
            (0, _) => None,
            (1, Some(end)) if !self.clients.is_empty() && self.shared.clock.now() < end => None,
            (1, _) => Some(Ended::InOrder),
            _ => Some(Ended::AtOnce),
        }
    }
}

/// How many bytes could be read.
fn read_bytes(signals: &mut UnixStream) -> usize {
    let mut bytes = [0; 16];
    let mut count = 0;
    while let Ok(n @ 1..) = signals.read(&mut bytes) {
        count += n;
    }
    count
}
