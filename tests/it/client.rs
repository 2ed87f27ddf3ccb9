//! A raw-byte client: what is sent is what is written here, and a response is read by its framing.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::server::PATIENCE;

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    /// Bytes received and not yet taken.
    received: Vec<u8>,
    /// Bytes sent, and bytes received.
    moved: (u64, u64),
}

/// A response: its head as text, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The status code.
    pub(crate) fn status(&self) -> u16 {
        self.head["HTTP/1.1 ".len()..][..3].parse().expect("a status")
    }

    /// The same with a Date that every response has.
    pub(crate) fn without_date(mut self) -> Self {
        let date = self.field("Date").expect("a date").to_owned();
        self.head = self.head.replace(&date, "(date)");
        self
    }

    /// All values of the field `name`.
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// The value of the field `name`, which is there at most once.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let values = self.fields(name);
        assert!(values.len() <= 1, "{name} is repeated in {}", self.head);
        values.first().copied()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).expect("it accepts"))
    }

    /// A connection to a unix socket: also a stream.
    pub(crate) fn connect_unix(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(|stream| Self::of_any(OwnedFd::from(stream).into()))
    }

    /// A connection that holds little of what the client has not read yet, so that a server soon has
    /// to wait for it.
    pub(crate) fn connect_narrow(address: SocketAddr) -> Self {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(16 * 1024).expect("it takes a size");
        socket.connect(&address.into()).expect("it accepts");
        Self::new(socket.into())
    }

    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("no delay");
        Self::of_any(stream)
    }

    fn of_any(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, received: Vec::new(), moved: (0, 0) }
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("it reads");
        self.moved.0 += bytes.as_ref().len() as u64;
    }

    /// How many bytes were sent, and how many were received.
    pub(crate) fn moved(&self) -> (u64, u64) {
        self.moved
    }

    /// Sends, or tells that the server has closed.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.moved.0 += bytes.as_ref().len() as u64;
        Ok(())
    }

    /// Closes at once, with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).expect("it lingers");
    }

    /// Closes the sending side.
    pub(crate) fn end_input(&self) {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
    }

    /// Sends a GET and reads the response.
    pub(crate) fn get(&mut self, target: &str) -> io::Result<Response> {
        self.request("GET", target, "")
    }

    /// Sends a request with `fields` (each line with its CRLF) and reads the response.
    pub(crate) fn request(&mut self, method: &str, target: &str, fields: &str) -> io::Result<Response> {
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        if method == "HEAD" { self.response_to_head() } else { self.response() }
    }

    /// Reads a response to anything but HEAD; its body by Content-Length, which it must have unless
    /// its status forbids one.
    pub(crate) fn response(&mut self) -> io::Result<Response> {
        let mut response = self.response_to_head()?;
        if matches!(response.status(), 204 | 304) {
            return Ok(response);
        }
        let length =
            response.field("Content-Length").unwrap_or_else(|| panic!("no length: {}", response.head));
        let length: usize = length.parse().expect("a length");
        response.body = self.take(length)?;
        Ok(response)
    }

    /// Reads a head.
    pub(crate) fn response_to_head(&mut self) -> io::Result<Response> {
        let end = loop {
            match self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.receive()?,
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head is text");
        assert!(head.starts_with("HTTP/1.1 "), "{head:?}");
        Ok(Response { head, body: Vec::new() })
    }

    /// Reads `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < n {
            self.receive()?;
        }
        Ok(self.received.drain(..n).collect())
    }

    /// What has been received and not yet taken.
    pub(crate) fn take_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Reads to the end of the stream; an error, a reset among them, if it has none.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        self.moved.1 += self.stream.read_to_end(&mut self.received)? as u64;
        Ok(std::mem::take(&mut self.received))
    }

    /// Panics unless the server has closed the connection in order, with nothing more in it.
    #[track_caller]
    pub(crate) fn assert_closed(&mut self) {
        let rest = self.rest().expect("it ends without a reset");
        assert!(rest.is_empty(), "there is more: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Panics unless the connection serves another request.
    #[track_caller]
    pub(crate) fn assert_open(&mut self) {
        self.get("/").expect("it is still open");
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64 * 1024];
        match self.stream.read(&mut bytes) {
            // Where a read has a timeout, stopping and continuing this process interrupts it (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.received.extend_from_slice(&bytes[..n]);
                self.moved.1 += n as u64;
                Ok(())
            }
        }
    }
}
