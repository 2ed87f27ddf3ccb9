//! Asking a server whether it answers: `--check`, for containers in which there is nothing else to ask with.
//!
//! One GET, of whose response no more than the head is read. An HTTP client that does more is half as
//! large as tared.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::address::{Address, Host};
use crate::failure::{Failure, cause};

/// For all of it, the look-up of a name included: a health check is asked again soon.
const PATIENCE: Duration = Duration::from_secs(3);

/// Bytes of heads, interim ones included, and fields of one: as tared takes them of a request.
const HEAD_MAX: u64 = 16 * 1024;
const FIELDS_MAX: usize = 100;

/// Whom to ask, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    typed: String,
    place: Place,
    /// For the Host field.
    authority: String,
    target: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Check {
    /// What was typed behind `--check`: `http://HOST[:PORT][/PATH]`, or `unix:/PATH` of a socket that is
    /// asked for `/`.
    ///
    /// # Errors
    /// A sentence naming the value, the cause and what to try.
    pub fn parse(typed: &str) -> Result<Self, Failure> {
        let refuse = |cause: &str| {
            Failure::usage(format!("--check '{typed}': {cause} (try --check http://127.0.0.1:8080/)"))
        };
        let check = |place, authority: &str, target| Self {
            typed: typed.to_owned(),
            place,
            authority: authority.to_owned(),
            target,
        };
        if typed.starts_with("unix:") {
            return match Address::parse(typed) {
                Ok(Address::Unix(path)) => Ok(check(Place::Unix(path), "localhost", "/".to_owned())),
                _ => Err(refuse("this is no path of a unix socket, as in unix:/run/tared.sock")),
            };
        }
        let (scheme, rest) = typed.split_at_checked(7).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("http://") {
            return Err(refuse("this is no http:// URL"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refuse("a URL has neither spaces nor other characters than ASCII's"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        // RFC 3986 §3.2.3: a port may be left out behind its colon, too.
        let authority = authority.strip_suffix(':').unwrap_or(authority);
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let address = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        match Address::parse(&address) {
            Ok(Address::Tcp(Host::Named(host), port @ 1..)) if !host.contains('@') => {
                Ok(check(Place::Tcp(host, port), authority, target))
            }
            _ => Err(refuse("this names no host and port")),
        }
    }

    /// Asks. It is well if the status of the answer is 2xx or 3xx.
    ///
    /// # Errors
    /// A sentence with the status, or what came instead of one.
    pub fn ask(self) -> Result<(), Failure> {
        let typed = self.typed.clone();
        let (sender, receiver) = mpsc::channel();
        // On a thread that is left behind where it takes too long: looking up a name knows no bound.
        thread::spawn(move || sender.send(self.status()));
        let found = match receiver.recv_timeout(PATIENCE) {
            Ok(Ok(200..=399)) => return Ok(()),
            Ok(Ok(status)) => format!("the answer is {status}"),
            Ok(Err(error)) => cause(&error),
            Err(_) => format!("there is no answer within {} s", PATIENCE.as_secs()),
        };
        Err(Failure::refused(format!(
            "--check '{typed}': {found} (try curl -v, or look at what serves there)"
        )))
    }

    fn status(&self) -> io::Result<u16> {
        match &self.place {
            Place::Tcp(host, port) => self.status_from(TcpStream::connect((host.as_str(), *port))?),
            Place::Unix(path) => self.status_from(UnixStream::connect(path)?),
        }
    }

    fn status_from(&self, mut server: impl Read + Write) -> io::Result<u16> {
        let version = env!("CARGO_PKG_VERSION");
        let Self { authority, target, .. } = self;
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: tared/{version}\r\nConnection: close\r\n\r\n"
        );
        server.write_all(head.as_bytes())?;
        let mut server = server.take(HEAD_MAX);
        let mut unread = Vec::new();
        loop {
            match status(&unread)? {
                Some((100..=199, end)) => drop(unread.drain(..end)),
                Some((status, _)) => return Ok(status),
                None => {
                    let mut piece = [0; 4096];
                    match server.read(&mut piece)? {
                        0 => return Err(no_http("the head has no end, or is larger than 16 KiB")),
                        len => unread.extend_from_slice(&piece[..len]),
                    }
                }
            }
        }
    }
}

/// The status of the first head in `bytes`, and where that ends, if it is whole.
fn status(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => Ok(response.code.map(|code| (code, end))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(no_http("what it answers is no HTTP")),
    }
}

fn no_http(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, host: &str, port: u16, authority: &str, target: &str) {
        let place = Place::Tcp(host.to_owned(), port);
        let (typed, authority, target) = (typed.to_owned(), authority.to_owned(), target.to_owned());
        assert_eq!(Check::parse(&typed), Ok(Check { typed, place, authority, target }));
    }

    /// RFC 9112 §3.2.1: an empty path is sent as "/". RFC 9110 §4.2.1: the default port is 80.
    #[test]
    fn a_url_is_a_place_and_a_target() {
        check("http://127.0.0.1:8080/", "127.0.0.1", 8080, "127.0.0.1:8080", "/");
        check("http://a.example", "a.example", 80, "a.example", "/");
        check("http://a.example?q", "a.example", 80, "a.example", "/?q");
        check("http://[::1]:81/a/b?c:d#e", "::1", 81, "[::1]:81", "/a/b?c:d");
        check("http://[::1]", "::1", 80, "[::1]", "/");
        check("HTTP://[::1]:/", "::1", 80, "[::1]", "/");
        check("http://a.example:?q", "a.example", 80, "a.example", "/?q");
    }

    /// A server that says `said` and closes.
    struct Says<'s>(&'s [u8]);

    impl Read for Says<'_> {
        fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
            // Byte by byte.
            self.0.read(&mut piece[..1])
        }
    }

    impl Write for Says<'_> {
        fn write(&mut self, head: &[u8]) -> io::Result<usize> {
            Ok(head.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_status_is_that_of_the_final_head() {
        let check = Check::parse("http://localhost/").unwrap();
        let status = |said: &[u8]| check.status_from(Says(said)).map_err(|error| error.to_string());
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(204));
        assert_eq!(status(b"HTTP/1.0 301\r\nLocation: /\r\n\r\nbody"), Ok(301));
        // RFC 9110 §15.2: any number of them may come before.
        assert_eq!(status(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 503 No\r\n\r\n"), Ok(503));
        assert!(status(b"").unwrap_err().contains("no end"));
        assert!(status(b"HTTP/1.1 200 OK\r\n").unwrap_err().contains("no end"));
        assert!(status(b"SSH-2.0-OpenSSH\r\n").unwrap_err().contains("no HTTP"));
        let endless = [&b"HTTP/1.1 200 OK\r\nA: "[..], &vec![b'a'; 20_000]].concat();
        assert!(status(&endless).unwrap_err().contains("no end"));
    }
}
