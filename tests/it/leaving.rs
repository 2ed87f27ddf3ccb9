//! Clients that leave at every stage of a request: by a reset, by closing, and by ending their side only.
//!
//! What is expected was written down first.
//!
//! | stage | reset, or closed | only its sending side ended |
//! | --- | --- | --- |
//! | before a byte | nothing is left | closed in order, without a byte |
//! | amid a head | nothing is left | closed in order; nothing was asked |
//! | after a head, before its answer is read | nothing is left | the whole answer, then closed in order |
//! | amid a small, a mapped, a large answer | nothing is left | the whole answer, then closed in order |
//! | amid a body of known length, amid a chunk | nothing is left | closed in order; it was never asked whole |
//! | between pipelined requests | nothing is left | an answer for each whole one, then closed in order |
//! | after a last request, after a refused one | nothing is left | the whole answer, then closed in order |
//!
//! *Nothing is left*: as many descriptors as before. In every case somebody else who reads slowly has every
//! byte, and others are answered. Who vanishes without a word is the deadlines' matter: `timeouts`.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::inherited::start;
use crate::server::{PATIENCE, Server, temporary};

/// Bytes that the server's side of a connection holds, so that a mapped file leaves in many pieces: twice that
/// in the kernel's own reckoning (socket(7)).
const NARROW: usize = 64 * 1024;

/// Read, mapped, and sent by the kernel alone.
const FILES: [(&str, usize); 3] = [("/small", 12), ("/mapped", 700_000), ("/large", 2 * 1024 * 1024)];

/// A byte that tells where it stands.
fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(byte_at).collect()
}

/// A server of [`FILES`] whose sockets hold little; they have it from the one that is handed down.
fn serve() -> (tempfile::TempDir, Server) {
    let dir = temporary();
    for (name, len) in FILES {
        fs::write(dir.path().join(&name[1..]), content(len)).expect("it is ours");
    }
    fs::write(dir.path().join("index.html"), "index").expect("it is ours");
    let server = start(&narrow_listener(), &[dir.path().to_str().expect("text")]);
    (dir, server)
}

/// A listening socket whose connections hold little of what is sent.
pub(crate) fn narrow_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket2::SockRef::from(&listener).set_send_buffer_size(NARROW).expect("it takes a size");
    listener
}

/// How far a client goes before it leaves.
#[derive(Clone, Copy)]
struct Stage {
    name: &'static str,
    /// What it sends.
    sent: &'static str,
    /// How much of the answers it reads.
    read: usize,
    /// The statuses of the answers that it would have.
    answers: &'static [(u16, usize)],
}

const STAGES: [Stage; 14] = {
    const fn stage(
        name: &'static str,
        sent: &'static str,
        read: usize,
        answers: &'static [(u16, usize)],
    ) -> Stage {
        Stage { name, sent, read, answers }
    }
    const SMALL: (u16, usize) = (200, 12);
    const MAPPED: (u16, usize) = (200, 700_000);
    const LARGE: (u16, usize) = (200, 2 * 1024 * 1024);
    [
        stage("before a byte", "", 0, &[]),
        stage("amid a head", "GET /small HTTP/1.1\r\nHo", 0, &[]),
        stage("amid the end of a head", "GET /small HTTP/1.1\r\nHost: a\r\n\r", 0, &[]),
        stage("after a head", "GET /small HTTP/1.1\r\nHost: a\r\n\r\n", 0, &[SMALL]),
        stage("before a mapped answer", "GET /mapped HTTP/1.1\r\nHost: a\r\n\r\n", 0, &[MAPPED]),
        stage("amid a small answer", "GET /small HTTP/1.1\r\nHost: a\r\n\r\n", 20, &[SMALL]),
        stage("amid a mapped answer", "GET /mapped HTTP/1.1\r\nHost: a\r\n\r\n", 100_000, &[MAPPED]),
        stage("amid a large answer", "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", 500_000, &[LARGE]),
        stage("amid a body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhal", 0, &[]),
        stage(
            "amid a chunk",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            0,
            &[],
        ),
        stage(
            "between requests",
            "GET /small HTTP/1.1\r\nHost: a\r\n\r\nGET /mapped HTTP/1.1\r\nHost: a\r\n\r\nGET /sm",
            0,
            &[SMALL, MAPPED],
        ),
        stage(
            "amid the first of two answers",
            "GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\n",
            100_000,
            &[LARGE, SMALL],
        ),
        stage(
            "after a last request",
            "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /small HT",
            0,
            &[LARGE],
        ),
        stage("after a refused request", "no request\r\n\r\nno more", 0, &[(400, 0)]),
    ]
};

/// Goes as far as `stage`; how many bytes of the answers were read.
#[track_caller]
fn go(server: &Server, stage: &Stage) -> (Client, Vec<u8>) {
    let mut client = server.connect();
    client.send(stage.sent);
    let begun = client.take(stage.read).unwrap_or_else(|error| panic!("{}: {error}", stage.name));
    (client, begun)
}

fn descriptors(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it is alive").count()
}

/// Somebody who reads the large file slowly.
struct Slow {
    client: Client,
    read: usize,
}

impl Slow {
    fn begin(server: &Server) -> Self {
        let mut client = server.connect();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response_to_head().expect("an answer");
        Self { client, read: 0 }
    }

    /// Reads `len` bytes more.
    #[track_caller]
    fn read(&mut self, len: usize) {
        let piece = self.client.take(len.min(FILES[2].1 - self.read)).expect("more of it");
        let wrong = piece.iter().zip(self.read..).find(|&(&byte, at)| byte != byte_at(at));
        assert_eq!(wrong, None, "behind {}", self.read);
        self.read += piece.len();
    }
}

#[test]
fn whoever_leaves_at_any_stage_leaves_nothing_behind() {
    let (_dir, mut server) = serve();
    let mut other = server.connect();
    // The files that stay open are open.
    for (target, len) in FILES {
        assert!(other.get(target).expect("an answer").body == content(len));
    }
    let mut slow = Slow::begin(&server);
    let before = descriptors(&server);
    for stage in &STAGES {
        for resets in [true, false] {
            let (clients, _): (Vec<_>, Vec<_>) = (0..4).map(|_| go(&server, stage)).unzip();
            for client in clients {
                if resets { client.reset() } else { drop(client) }
            }
            slow.read(50_000);
            for (target, len) in [FILES[0], FILES[1]] {
                assert!(other.get(target).expect("an answer").body == content(len), "{}", stage.name);
            }
        }
    }
    server.assert_alive();
    // Those who said nothing wait in the kernel, until their closing is seen.
    let end = Instant::now() + PATIENCE;
    while descriptors(&server) != before {
        assert!(Instant::now() < end, "{} descriptors are open, {before} were", descriptors(&server));
        std::thread::sleep(Duration::from_millis(2));
    }
    slow.read(FILES[2].1);
    slow.client.assert_open();
}

#[test]
fn whoever_ends_its_side_at_any_stage_has_what_it_asked_for() {
    let (_dir, server) = serve();
    let mut other = server.connect();
    let mut slow = Slow::begin(&server);
    for stage in &STAGES {
        let (mut client, begun) = go(&server, stage);
        client.end_input();
        slow.read(50_000);
        assert!(other.get("/mapped").expect("an answer").body == content(FILES[1].1), "{}", stage.name);
        let rest = client.rest().unwrap_or_else(|error| panic!("{}: {error}", stage.name));
        let mut received = &[begun, rest].concat()[..];
        for &(status, len) in stage.answers {
            let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
            let head = String::from_utf8_lossy(&received[..end]);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{}: {head}", stage.name);
            let promised = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let promised: usize = promised.expect("a length").parse().expect("a length");
            let body = &received[end..][..promised];
            assert!(status != 200 || (promised == len && body == content(len)), "{}", stage.name);
            received = &received[end + promised..];
        }
        assert!(received.is_empty(), "{}: {}", stage.name, String::from_utf8_lossy(received));
    }
    slow.read(FILES[2].1);
    slow.client.assert_open();
}
