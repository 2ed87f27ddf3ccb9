//! The loop: wait, tick the clock once, let each connection that moved go on, accept, sweep.
//!
//! One thread, one [`Poll`]. Nothing here looks at a byte of HTTP. No error ends the loop but one of
//! the poll itself; a client's trouble ends its own connection.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token};

use crate::clock::Clock;
use crate::conn::{Conn, Next, Shared};
use crate::listener::Listener;
use crate::site::Site;
use crate::table::Table;

// No connection is ever given these: `Table` leaves out the last generation. Listener k has the k-th
// below STOP.
const STOP: Token = Token(usize::MAX);
const LISTENERS_MIN: Token = Token(STOP.0 - LISTENERS_MAX);

/// Listeners of one server: as many as tokens are kept for. Arbitrary, and beyond any use.
pub const LISTENERS_MAX: usize = 1024;

/// Events taken from the kernel at once. Arbitrary; the rest come with the next wait.
const EVENTS_MAX: usize = 1024;

/// How long a connection is read from after its last response.
const LINGER: Duration = Duration::from_secs(5);

/// How long idle connections stay open when the server ends, so that a request which is on its way is
/// answered, as the last one. Arbitrary: longer than a busy client takes from a response to its next
/// request, shorter than anybody minds.
const IDLE_GRACE: Duration = Duration::from_millis(250);

/// How long responses in flight may take when the server ends.
const GRACE: Duration = Duration::from_secs(10);

/// Turns of accepting when the server ends: whoever the kernel had taken in is not turned away, but
/// those who come faster than they are accepted do not keep it from ending. Arbitrary.
const ENDING_ACCEPTS_MAX: usize = 64;

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
}

/// The server.
#[derive(Debug)]
pub struct Server {
    poll: Poll,
    /// Empty when the server ends.
    listeners: Vec<Listener>,
    stop: UnixStream,
    stops: usize,
    clients: Table<Client>,
    shared: Shared,
    /// Connections that stopped before their socket said `WouldBlock`.
    again: VecDeque<Token>,
    /// Connections that linger, in the order of their ends.
    lingering: VecDeque<(Instant, Token)>,
    idle_ends: Option<Instant>,
    grace_ends: Option<Instant>,
}

impl Server {
    /// A server of `site` on `listeners`, [`LISTENERS_MAX`] at the most. It ends in order when a byte can be read from `stop`, and at
    /// once at the second byte.
    ///
    /// # Errors
    /// What epoll_create(2) and epoll_ctl(2) say.
    pub fn new(
        mut listeners: Vec<Listener>,
        site: Site,
        clock: Clock,
        mut stop: UnixStream,
    ) -> io::Result<Self> {
        assert!(listeners.len() <= LISTENERS_MAX, "each has a token");
        let poll = Poll::new()?;
        for (index, listener) in (1..).zip(&mut listeners) {
            poll.registry().register(listener.socket_mut(), Token(STOP.0 - index), Interest::READABLE)?;
        }
        poll.registry().register(&mut stop, STOP, Interest::READABLE)?;
        Ok(Self {
            poll,
            listeners,
            stop,
            stops: 0,
            clients: Table::new(),
            shared: Shared::new(site, clock),
            again: VecDeque::new(),
            lingering: VecDeque::new(),
            idle_ends: None,
            grace_ends: None,
        })
    }

    /// Serves until it is asked to stop.
    ///
    /// # Errors
    /// What epoll_wait(2) says.
    pub fn run(&mut self) -> io::Result<Ended> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            self.shared.clock.tick();
            let turns = self.again.len();
            for event in &events {
                match event.token() {
                    STOP => self.read_stop(),
                    token if token >= LISTENERS_MIN => self.note_arrivals(STOP.0 - token.0 - 1),
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
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
        }
    }

    /// How long the loop may sleep.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || self.has_arrivals() {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            self.lingering.front().map(|&(end, _)| end),
            self.listeners.iter().filter_map(Listener::rests_until).min(),
            self.shared.site.next_sweep(),
            self.idle_ends,
            self.grace_ends,
        ];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(self.shared.clock.now()))
    }

    /// Lets one connection go on.
    fn drive(&mut self, token: Token, may_have_ended: bool) {
        let Some(client) = self.clients.get_mut(token) else { return };
        match client.conn.ready(may_have_ended, &mut self.shared) {
            Next::Wait => {}
            Next::Again => self.queue(token),
            Next::Linger => {
                self.lingering.push_back((self.shared.clock.now() + LINGER, token));
                self.queue(token);
            }
            Next::Close => self.remove(token),
        }
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

    fn remove(&mut self, token: Token) {
        self.clients.remove(token);
        for listener in &mut self.listeners {
            listener.note_closed();
        }
    }

    fn accept(&mut self) {
        let now = self.shared.clock.now();
        for index in 0..self.listeners.len() {
            for _ in 0..self.listeners[index].accepts_now(now) {
                let Some(socket) = self.listeners[index].accept(now) else { break };
                self.welcome(socket);
            }
        }
    }

    /// Whether somebody may be waiting to be accepted.
    fn has_arrivals(&self) -> bool {
        self.listeners.iter().any(Listener::is_ready)
    }

    /// Reads before it waits: a request that is there already is answered, and a connection that ends
    /// with it never meets the poll.
    fn welcome(&mut self, socket: TcpStream) {
        let token = self.clients.insert(Client { conn: Conn::new(socket), is_queued: false });
        self.drive(token, false);
        let Some(client) = self.clients.get_mut(token) else { return };
        // Registering reports what is there at once, so nothing that came since the read is missed.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        if self.poll.registry().register(client.conn.socket_mut(), token, interest).is_err() {
            self.remove(token);
        }
    }

    /// Ends what has lingered long enough, and drops what nobody asks for.
    fn expire(&mut self) {
        let now = self.shared.clock.now();
        while self.lingering.front().is_some_and(|&(end, _)| end <= now) {
            if let Some((_, token)) = self.lingering.pop_front() {
                self.remove(token);
            }
        }
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
        let mut bytes = [0; 16];
        while let Ok(n @ 1..) = self.stop.read(&mut bytes) {
            self.stops += n;
        }
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
        self.grace_ends = Some(now + GRACE);
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
