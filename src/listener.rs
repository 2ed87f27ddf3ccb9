//! A listening socket: accepting in bounded bites, and resting when there is no room.
//!
//! A connection is called a [`TcpStream`] whatever its family: mio's is a descriptor on which it does
//! recv, send and shutdown, and those are the same on every stream socket. So the path of a request knows
//! no difference; only accepting does, since mio's wants to know who has called.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, Socket};

use crate::log::{Log, Peer};
use crate::output;
use crate::socket_file::SocketFile;
use crate::sys;
use crate::tally::{Call, Tally};

/// Connections accepted before those that are open get their turn. Arbitrary.
const ACCEPTS_PER_TURN: usize = 256;

/// How long accepting rests when descriptors or memory have run out and no connection closes.
const REST: Duration = Duration::from_millis(500);

/// Time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(1);

/// A listening socket, and whether somebody may be waiting at it.
#[derive(Debug)]
pub struct Listener {
    /// Before the socket, as it asks for.
    file: Option<SocketFile>,
    socket: TcpListener,
    name: String,
    is_ready: bool,
    /// Descriptors or memory ran out; accepting rests until then, or until a connection closes.
    rests_until: Option<Instant>,
    warned: Option<Instant>,
    /// Rests since the last warning.
    rests: u64,
}

impl Listener {
    /// A socket that listens and does not block; `name` tells people where.
    pub fn new(socket: Socket, name: String) -> Self {
        let socket = TcpListener::from_std(socket.into());
        Self { file: None, socket, name, is_ready: true, rests_until: None, warned: None, rests: 0 }
    }

    /// `count` listeners at one socket and its one queue. All of them are told of each arrival and one
    /// has it: with several workers each idle one wakes for it. (EPOLLEXCLUSIVE would wake fewer; mio has
    /// no way to ask for it.)
    ///
    /// # Errors
    /// What dup(2) says.
    pub fn shared(socket: Socket, name: &str, count: usize) -> io::Result<Vec<Self>> {
        let mut listeners = Vec::with_capacity(count);
        for _ in 1..count {
            listeners.push(Self::new(socket.try_clone()?, name.to_owned()));
        }
        listeners.push(Self::new(socket, name.to_owned()));
        Ok(listeners)
    }

    /// Its name in the file system, to be removed in time.
    pub fn keep_file(&mut self, file: SocketFile) {
        self.file = Some(file);
    }

    /// Takes its name out of the file system, if it has one, so that nobody new comes; those who wait
    /// can still be accepted.
    pub fn withdraw(&mut self) {
        self.file = None;
    }

    /// Where it listens, for people: a URL with the real port, or `unix:` and the path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, if it is no unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Whether it is of IPv6 and takes no IPv4 besides.
    pub fn is_v6_only(&self) -> bool {
        SockRef::from(&self.socket).only_v6().unwrap_or(false)
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

    /// Whether somebody waits at this moment, as far as it can be told. If nobody does, the next one is an
    /// event.
    pub fn is_awaited(&mut self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        self.is_ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0);
        self.is_ready
    }

    /// The next connection, if somebody waits and there is room; who has called is asked if there is a `log`.
    pub fn accept(&mut self, log: Option<&Log>, tally: &mut Tally) -> Accepted {
        let mut last = io::Error::from(io::ErrorKind::ConnectionAborted);
        for _ in 0..ACCEPTS_PER_TURN {
            tally.calls.count(Call::Accept4);
            match accept(self.socket.as_fd(), log) {
                Ok((socket, peer)) => {
                    tally.connections.accepted += 1;
                    return Accepted::One(TcpStream::from_std(socket.into()), peer);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.is_ready = false;
                        return Accepted::Nobody;
                    }
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        return Accepted::NoRoom(error);
                    }
                    // accept(2): errors already pending on the new socket; the next one is fine.
                    _ => last = error,
                },
            }
        }
        // One after the other: this is no trouble of theirs.
        Accepted::Failing(last)
    }

    /// Accepts nobody until a connection closes, or some time is over, and says why; once a second at the
    /// most, with how often it came to that.
    pub fn rest(&mut self, now: Instant, why: &str, tally: &mut Tally) {
        tally.connections.rests += 1;
        self.rests += 1;
        self.rests_until = Some(now + REST);
        if self.warned.is_none_or(|warned| now - warned >= WARN_EVERY) {
            let times = if self.rests > 1 { format!(" ({} times)", self.rests) } else { String::new() };
            output::say(&format!("tared: accepting rests until a connection closes: {why}{times}\n"));
            (self.warned, self.rests) = (Some(now), 0);
        }
    }
}

fn accept(socket: BorrowedFd<'_>, log: Option<&Log>) -> io::Result<(OwnedFd, Option<Box<Peer>>)> {
    let Some(log) = log else { return Ok((sys::accept(socket)?, None)) };
    let (socket, address) = sys::accept_named(socket)?;
    let peer = log.peer(address.as_socket().map(|address| address.ip()));
    Ok((socket, Some(Box::new(peer))))
}

/// What accepting has brought.
#[derive(Debug)]
pub enum Accepted {
    /// A connection, and who has called, if that is of interest.
    One(TcpStream, Option<Box<Peer>>),
    /// Nobody waits.
    Nobody,
    /// Descriptors or memory have run out. accept(2) says so whether somebody waits or not.
    NoRoom(io::Error),
    /// One connection after the other fails, for another cause.
    Failing(io::Error),
}
