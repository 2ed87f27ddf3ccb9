//! Address → listening sockets, with their options set before they are bound.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::Path;

use socket2::{Domain, Protocol, Socket, Type};

use crate::address::{Address, Host};
use crate::failure::{Failure, cause, one_line};
use crate::listener::Listener;
use crate::socket_file::{self, Access};
use crate::sys;

/// Seconds for which a connection without data waits in the kernel: as long as its first SYN-ACK takes
/// to be sent again. What comes with its request is then accepted, read and often closed at once.
const DEFER_S: i32 = 1;

/// Bytes of responses that the kernel takes of one connection beyond what it could send so far. By itself
/// it takes what fits a send buffer that it sizes by the segment, which over loopback is 1.6 MB at once; to
/// a client with a tiny window those are thousands of tiny segments, and 200 such clients who come together
/// stopped everybody else for 2 s (slowhttptest -X, AMD EPYC, Linux 6.18, 2026-12-01; 14 ms with this).
/// Half of it is safer still, and makes a file of 1 MiB a sixth dearer, which no longer leaves at once.
const UNSENT_MAX: u32 = 1024 * 1024;

/// Listens `count` times on one `address`, asking the kernel for a queue of `backlog` connections. It
/// shares out among several what arrives (SO_REUSEPORT, socket(7)); those of a unix socket, for which
/// there is no such thing, share one queue: see [`Listener::shared`].
///
/// # Errors
/// A sentence naming the address, what the system said, and what to try.
pub fn listeners(
    address: &Address,
    access: Access,
    backlog: u32,
    count: usize,
) -> Result<Vec<Listener>, Failure> {
    let listeners = match (address, count) {
        (Address::Unix(path), _) => unix(path, access, backlog, count),
        (Address::Tcp(host, port), 1) => {
            first_that_binds(host, *port, false).and_then(|bound| Ok(vec![bound.listen(backlog)?]))
        }
        (Address::Tcp(host, port), _) => shared(host, *port, backlog, count),
    };
    listeners.map_err(|error| Failure::refused(bind_sentence(address, &error)))
}

fn shared(host: &Host, port: u16, backlog: u32, count: usize) -> io::Result<Vec<Listener>> {
    // Sharing would join whoever else shares this address; that it is free is found out first. Two that
    // start in the same instant may both find it so.
    drop(first_that_binds(host, port, false)?);
    let first = first_that_binds(host, port, true)?;
    let (address, is_v6_only) = (first.address()?, first.is_v6_only);
    let mut listeners = vec![first.listen(backlog)?];
    while listeners.len() < count {
        listeners.push(Bound::bind(address, is_v6_only, true)?.listen(backlog)?);
    }
    Ok(listeners)
}

fn unix(path: &Path, access: Access, backlog: u32, count: usize) -> io::Result<Vec<Listener>> {
    let (socket, file) = socket_file::bind(path, access)?;
    socket.listen(backlog_of(backlog))?;
    let name = one_line(&format!("unix:{}", path.display()));
    let mut listeners = Listener::shared(socket, &name, count)?;
    listeners[0].keep_file(file);
    Ok(listeners)
}

/// A socket bound to an address, not listening yet.
struct Bound {
    socket: Socket,
    is_v6_only: bool,
}

impl Bound {
    fn bind(address: SocketAddr, is_v6_only: bool, is_shared: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(is_v6_only)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(is_shared)?;
        hasten(&socket)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self { socket, is_v6_only })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    fn listen(self, backlog: u32) -> io::Result<Listener> {
        self.socket.listen(backlog_of(backlog))?;
        let name = format!("http://{}/", self.address()?);
        Ok(Listener::new(self.socket, name))
    }
}

/// Sets TCP_NODELAY, TCP_NOTSENT_LOWAT and TCP_DEFER_ACCEPT on a listening socket: what it accepts has
/// inherited the first two and is past the third (Linux), so none of them costs a call per connection.
///
/// # Errors
/// What setsockopt(2) says.
pub fn hasten(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    sys::defer_accept(socket.as_fd(), DEFER_S)
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn first_that_binds(host: &Host, port: u16, is_shared: bool) -> io::Result<Bound> {
    match host {
        Host::Every => {
            // IPv6 may be off, in the kernel or on its interfaces.
            let every_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            let every_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            Bound::bind(every_v6, false, is_shared).or_else(|error| match error.raw_os_error() {
                Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => Bound::bind(every_v4, true, is_shared),
                _ => Err(error),
            })
        }
        Host::Named(host) => {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in resolve(host, port)? {
                match Bound::bind(address, true, is_shared) {
                    Ok(bound) => return Ok(bound),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(vec![(address, port).into()]),
        Err(_) => (host, port).to_socket_addrs().map(Iterator::collect),
    }
}

fn bind_sentence(address: &Address, error: &io::Error) -> String {
    let (typed, port) = match address {
        Address::Tcp(Host::Every, port) => (format!(":{port}"), *port),
        Address::Tcp(Host::Named(host), port) if host.contains(':') => (format!("[{host}]:{port}"), *port),
        Address::Tcp(Host::Named(host), port) => (format!("{host}:{port}"), *port),
        Address::Unix(path) => return unix_sentence(path, error),
    };
    let advice = match error.raw_os_error() {
        Some(libc::EACCES) if port < 1024 => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; try --listen 127.0.0.1:8080"
        }
        Some(libc::EADDRINUSE) => {
            "another program or --listen has it; try another port, or port 0 for any free one"
        }
        Some(libc::EADDRNOTAVAIL) => "no interface here has this address; try --listen 127.0.0.1:8080",
        _ => "try --listen 127.0.0.1:8080",
    };
    format!("cannot listen on --listen '{typed}': {} ({advice})", cause(error))
}

fn unix_sentence(path: &Path, error: &io::Error) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => "another program or --listen has it; try another path",
        Some(libc::ENOENT | libc::ENOTDIR) => "name one in a directory that is there",
        Some(libc::EACCES | libc::EPERM) => "let the user who runs tared write in its directory",
        None => "try another path, or remove it",
        _ => "try another path",
    };
    format!("cannot listen on --listen 'unix:{}': {} ({advice})", path.display(), cause(error))
}

/// What the kernel makes of a `backlog`, where that is less: it caps silently (listen(2)).
pub fn backlog_cap(backlog: u32) -> Option<u32> {
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    somaxconn.trim().parse().ok().filter(|&cap| cap < backlog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_option_value_cause_and_way_out() {
        for (address, errno, parts) in [
            (
                Address::Tcp(Host::Named("0.0.0.0".into()), 80),
                libc::EACCES,
                ["--listen '0.0.0.0:80'", "permission denied", "CAP_NET_BIND_SERVICE"],
            ),
            (
                Address::Tcp(Host::Every, 8080),
                libc::EADDRINUSE,
                ["--listen ':8080'", "address already in use", "port 0"],
            ),
            (
                Address::Tcp(Host::Named("fe80::1".into()), 1),
                libc::EADDRNOTAVAIL,
                ["--listen '[fe80::1]:1'", "cannot assign requested address", "try --listen"],
            ),
            (
                Address::Unix("/run/tared.sock".into()),
                libc::EACCES,
                ["--listen 'unix:/run/tared.sock'", "permission denied", "directory"],
            ),
        ] {
            let sentence = bind_sentence(&address, &io::Error::from_raw_os_error(errno));
            for part in parts {
                assert!(sentence.contains(part), "{sentence}");
            }
        }
    }
}
