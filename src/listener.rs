//! A listening socket: accepting in bounded bites, and resting when there is no room.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};

use crate::failure::cause;

/// Connections accepted before those that are open get their turn. Arbitrary.
const ACCEPTS_PER_TURN: usize = 256;

/// How long accepting rests when descriptors or memory have run out and no connection closes.
const REST: Duration = Duration::from_millis(500);

/// Time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(1);

/// A listening socket, and whether somebody may be waiting at it.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    name: String,
    is_ready: bool,
    /// Descriptors or memory ran out; accepting rests until then, or until a connection closes.
    rests_until: Option<Instant>,
    warned: Option<Instant>,
}

impl Listener {
    /// A socket that listens and does not block; `name` tells people where.
    pub fn new(socket: std::net::TcpListener, name: String) -> Self {
        let socket = TcpListener::from_std(socket);
        Self { socket, name, is_ready: true, rests_until: None, warned: None }
    }

    /// Where it listens, for people: a URL with the real port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The socket, to be registered.
    pub fn socket_mut(&mut self) -> &mut TcpListener {
        &mut self.socket
    }

    /// Somebody may be waiting.
    pub fn note_ready(&mut self) {
        self.is_ready = true;
    }

    /// A connection has closed, so there is a descriptor again.
    pub fn note_closed(&mut self) {
        self.rests_until = None;
    }

    /// Whether to accept without waiting for an event.
    pub fn is_ready(&self) -> bool {
        self.is_ready && self.rests_until.is_none()
    }

    /// When accepting goes on after it ran out of something.
    pub fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// The connections to be accepted in this turn, at the most.
    pub fn accepts_now(&mut self, now: Instant) -> usize {
        self.rests_until = self.rests_until.filter(|&end| end > now);
        if self.is_ready() { ACCEPTS_PER_TURN } else { 0 }
    }

    /// The next connection, if somebody waits and there is room.
    pub fn accept(&mut self, now: Instant) -> Option<TcpStream> {
        let mut last = None;
        for _ in 0..ACCEPTS_PER_TURN {
            match self.socket.accept() {
                Ok((socket, _)) => return Some(socket),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.is_ready = false;
                        return None;
                    }
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        self.rests_until = Some(now + REST);
                        self.warn(now, &error);
                        return None;
                    }
                    // accept(2): errors already pending on the new socket; the next one is fine.
                    _ => last = Some(error),
                },
            }
        }
        // One after the other: this is no trouble of theirs.
        self.rests_until = Some(now + REST);
        if let Some(error) = last {
            self.warn(now, &error);
        }
        None
    }

    fn warn(&mut self, now: Instant, error: &io::Error) {
        if self.warned.is_none_or(|warned| now - warned >= WARN_EVERY) {
            self.warned = Some(now);
            // Nobody may be reading the warnings; serving goes on.
            let _ =
                writeln!(io::stderr(), "tared: accepting rests until a connection closes: {}", cause(error));
        }
    }
}
