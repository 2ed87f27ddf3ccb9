//! Listening sockets that whoever starts tared hands down, as systemd does: sd_listen_fds(3).
//!
//! Their owner keeps them open over a restart, so connections wait in their queues while one program
//! ends and the next one begins, and none is refused. What the owner has bound, it has also to remove: a
//! unix socket's file stays.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::process;

use socket2::{Domain, Socket, Type};

use crate::bind;
use crate::failure::{Failure, cause, one_line};
use crate::listener::Listener;
use crate::sys;

/// The first descriptor that is handed down: SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;

/// What the sockets are handed down with.
const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// A listening socket that was handed down.
#[derive(Debug)]
pub struct Inherited {
    socket: Socket,
    /// For sentences: its descriptor, and the name that its owner gave it.
    called: String,
}

/// Takes the sockets that are meant for this process, and the variables that say so: whom we might
/// start is not meant. Descriptors are closed on exec from now on.
///
/// # Errors
/// A sentence about a variable that makes no sense, or a descriptor that is no listening stream socket.
pub fn take() -> Result<Vec<Inherited>, Failure> {
    let [pid, fds, names] = VARIABLES.map(env::var_os);
    let count = count(process::id(), pid.as_deref(), fds.as_deref())?;
    if count > 0 {
        sys::forget(&VARIABLES);
    }
    let names = names.unwrap_or_default().to_string_lossy().into_owned();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let mut taken = Vec::new();
    for fd in (FIRST..).take(count) {
        let called = match names.next() {
            Some(name) => format!("descriptor {fd} '{name}'"),
            None => format!("descriptor {fd}"),
        };
        let socket = sys::adopt(fd).map_err(|error| refusal(count, &called, &cause(&error)))?;
        let socket = checked(socket).map_err(|why| refusal(count, &called, why))?;
        taken.push(Inherited { socket, called });
    }
    Ok(taken)
}

/// How many sockets are meant for the process `own_pid`.
fn count(own_pid: u32, pid: Option<&OsStr>, fds: Option<&OsStr>) -> Result<usize, Failure> {
    let (Some(pid), Some(fds)) = (pid, fds) else { return Ok(0) };
    let refuse = |variable: &str, value: &OsStr, cause: &str| {
        Failure::usage(format!(
            "{variable} '{}': {cause} (leave it to systemd, or unset it)",
            value.display()
        ))
    };
    match plain::<u32>(pid) {
        None => return Err(refuse("LISTEN_PID", pid, "this is no process id")),
        Some(pid) if pid != own_pid => return Ok(0),
        Some(_) => {}
    }
    // Descriptors are numbers of 31 bits.
    let count = plain::<usize>(fds).filter(|&count| count <= (RawFd::MAX - FIRST) as usize);
    count.ok_or_else(|| refuse("LISTEN_FDS", fds, "this is no number of descriptors"))
}

/// `parse` takes a plus sign.
fn plain<T: std::str::FromStr>(text: &OsStr) -> Option<T> {
    let text = text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// A listening stream socket of a family that has addresses as we know them, or why it is none.
fn checked(fd: OwnedFd) -> Result<Socket, &'static str> {
    let socket = Socket::from(fd);
    match socket.r#type() {
        Err(_) => return Err("it is no socket"),
        Ok(kind) if kind != Type::STREAM => return Err("it is no stream socket"),
        Ok(_) => {}
    }
    match socket.domain() {
        Ok(Domain::IPV4 | Domain::IPV6 | Domain::UNIX) => {}
        _ => return Err("it is neither an Internet nor a unix socket"),
    }
    match socket.is_listener() {
        Ok(true) => Ok(socket),
        _ => Err("it does not listen"),
    }
}

fn refusal(count: usize, called: &str, cause: &str) -> Failure {
    let way = "hand down what listens, as ListenStream= with Accept=no does";
    Failure::refused(format!("cannot serve LISTEN_FDS '{count}': {called}: {cause} ({way})"))
}

impl Inherited {
    /// `count` listeners at this one socket: see [`Listener::shared`].
    ///
    /// # Errors
    /// A sentence naming the descriptor and what the system said.
    pub fn listeners(self, count: usize) -> Result<Vec<Listener>, Failure> {
        let listeners = || {
            self.socket.set_nonblocking(true)?;
            let name = match self.socket.local_addr()?.as_socket() {
                Some(address) => {
                    // What is not TCP's own (MPTCP, SCTP) may not know these, and does without.
                    let _ = bind::hasten(&self.socket);
                    format!("inherited http://{address}/")
                }
                None => one_line(&format!("inherited {}", unix_name(&self.socket)?)),
            };
            Listener::shared(self.socket, &name, count)
        };
        listeners().map_err(|error: io::Error| {
            Failure::refused(format!(
                "cannot listen on inherited {}: {} (try fewer --workers, or --listen)",
                self.called,
                cause(&error)
            ))
        })
    }
}

/// `unix:` and a path, or an at sign and a name that is in no file system (unix(7)).
fn unix_name(socket: &Socket) -> io::Result<String> {
    let address = socket.local_addr()?;
    Ok(match (address.as_pathname(), address.as_abstract_namespace()) {
        (Some(path), _) => format!("unix:{}", path.display()),
        (None, name) => format!("unix:@{}", String::from_utf8_lossy(name.unwrap_or_default())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[track_caller]
    fn check(pid: Option<&str>, fds: Option<&str>, expected: Result<usize, &str>) {
        let counted = count(4711, pid.map(OsStr::new), fds.map(OsStr::new));
        match (counted, expected) {
            (Ok(counted), Ok(expected)) => assert_eq!(counted, expected),
            (Err(failure), Err(part)) => assert!(failure.to_string().contains(part), "{failure}"),
            other => panic!("{pid:?} {fds:?}: {other:?}"),
        }
    }

    /// sd_listen_fds(3): both variables, and the process that is meant.
    #[test]
    fn descriptors_are_taken_by_whom_they_are_meant_for() {
        check(None, None, Ok(0));
        check(None, Some("1"), Ok(0));
        check(Some("4711"), None, Ok(0));
        check(Some("4712"), Some("1"), Ok(0));
        check(Some("4712"), Some("nonsense"), Ok(0));
        check(Some("4711"), Some("0"), Ok(0));
        check(Some("4711"), Some("1"), Ok(1));
        check(Some("4711"), Some("2"), Ok(2));
        for wrong in ["", "-1", "+1", "1 ", "x", "1.5", "2147483647", "99999999999999999999"] {
            check(Some("4711"), Some(wrong), Err("LISTEN_FDS '"));
        }
        for wrong in ["", "-1", "+4711", " 4711", "x", "99999999999999999999"] {
            check(Some(wrong), Some("1"), Err("LISTEN_PID '"));
        }
    }

    #[test]
    fn only_listening_stream_sockets_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let unix = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let fresh = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        for (fd, expected) in [
            (OwnedFd::from(listener), Ok(())),
            (unix.into(), Ok(())),
            (connected.into(), Err("it does not listen")),
            (fresh.into(), Err("it does not listen")),
            (UdpSocket::bind("127.0.0.1:0").unwrap().into(), Err("it is no stream socket")),
            (std::fs::File::open(dir.path()).unwrap().into(), Err("it is no socket")),
        ] {
            assert_eq!(checked(fd).map(drop), expected);
        }
    }
}
