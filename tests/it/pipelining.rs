//! Requests that arrive together, and requests that arrive in pieces.

use std::fs;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::server::{Server, fixtures, skip};
use crate::trace::{self, NO_STRACE, Traced};

/// A few requests of every sort; the last closes.
const BATCH: &str = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n\
    HEAD /lipsum.html HTTP/1.1\r\nHost: a\r\n\r\n\
    POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nGET / H\
    GET /nope HTTP/1.1\r\nHost: a\r\n\r\n\
    POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n\
    GET /docs?q HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
    GET /%68ello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// What the batch is answered with.
const STATUSES: [u16; 7] = [200, 200, 405, 404, 405, 301, 200];

#[track_caller]
fn responses(client: &mut Client) -> Vec<Response> {
    let head = |at| at == 1;
    let read = |at| if head(at) { client.response_to_head() } else { client.response() };
    let responses: Vec<_> = (0..STATUSES.len()).map(read).map(|r| r.expect("an answer")).collect();
    client.assert_closed();
    responses.into_iter().map(Response::without_date).collect()
}

#[test]
fn a_batch_is_answered_in_order() {
    let server = Server::fixtures();
    let mut client = server.connect();
    client.send(BATCH);
    let responses = responses(&mut client);
    assert_eq!(responses.iter().map(Response::status).collect::<Vec<_>>(), STATUSES);
    assert_eq!(responses[0].text(), "Hello World\n");
    assert_eq!(responses[1].field("Content-Length"), Some("33792"));
    assert_eq!(responses[5].field("Location"), Some("/docs/?q"));
    assert_eq!(responses[6].text(), "Hello World\n");
}

#[test]
fn a_batch_in_two_pieces_is_answered_alike() {
    let server = Server::fixtures();
    let mut whole = server.connect();
    whole.send(BATCH);
    let expected = responses(&mut whole);
    let mut other = server.connect();
    for at in 1..BATCH.len() {
        let mut client = server.connect();
        client.send(&BATCH[..at]);
        // The server takes events in the order of their coming, so it has now seen the first piece.
        other.get("/0k.txt").expect("an answer");
        client.send(&BATCH[at..]);
        assert_eq!(responses(&mut client), expected, "cut at {at}");
    }
}

#[test]
fn a_batch_byte_by_byte_is_answered_alike() {
    let server = Server::fixtures();
    let mut whole = server.connect();
    whole.send(BATCH);
    let expected = responses(&mut whole);
    let mut other = server.connect();
    let mut client = server.connect();
    for byte in BATCH.bytes() {
        client.send([byte]);
        other.get("/0k.txt").expect("an answer");
    }
    assert_eq!(responses(&mut client), expected);
}

#[test]
fn a_hundred_requests_in_one_write_have_a_hundred_answers() {
    let server = Server::fixtures();
    for (target, len) in [("/0k.txt", 0), ("/hello.txt", 12), ("/lipsum.html", 33792)] {
        let mut client = server.connect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.send(request.repeat(100));
        for _ in 0..100 {
            let response = client.response().expect("an answer");
            assert_eq!((response.status(), response.body.len()), (200, len));
        }
        client.end_input();
        client.assert_closed();
    }
}

#[test]
fn many_thousand_requests_in_one_write_are_answered_by_number() {
    // Far more than any buffer of the server holds, and its turn ends in between.
    let server = Server::fixtures();
    let requests: String = (0..20_000)
        .map(|n| match n % 2 {
            0 => "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
            _ => "GET /nope HTTP/1.1\r\nHost: a\r\n\r\n",
        })
        .collect();
    let mut client = server.connect();
    let mut sender = client.stream().try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(requests.as_bytes()).expect("it reads"));
        for n in 0..20_000 {
            let status = client.response().expect("an answer").status();
            assert_eq!(status, if n % 2 == 0 { 200 } else { 404 }, "{n}");
        }
    });
}

#[test]
fn a_whole_request_is_answered_while_the_next_is_on_its_way() {
    let server = Server::fixtures();
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /he");
    for _ in 0..10 {
        assert_eq!(client.response().expect("an answer").text(), "Hello World\n");
        client.send("llo.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /he");
    }
    assert_eq!(client.response().expect("an answer").text(), "Hello World\n");
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    const SENT_MAX: usize = 32 * 1024 * 1024;
    const RESIDENT_MAX_KB: u64 = 64 * 1024;
    let server = Server::fixtures();
    let lipsum = fs::read(fixtures().join("lipsum.html")).expect("a fixture");
    let mut client = Client::connect_narrow(server.address);
    let request = format!("GET /lipsum.html HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(1000));

    client.stream().set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut sent = 0;
    loop {
        match client.stream().write(&request.as_bytes()[sent % request.len()..]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < SENT_MAX, "it takes requests without end");
    }
    // Its memory is bounded, and it serves others.
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it is alive");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(resident < RESIDENT_MAX_KB, "{resident} kB");
    let start = Instant::now();
    server.connect().assert_open();
    assert!(start.elapsed() < Duration::from_secs(1));

    // All of it is answered once it is read.
    for _ in 0..sent / request.len() {
        assert!(client.response().expect("an answer").body == lipsum);
    }
    client.send(&request.as_bytes()[sent % request.len()..]);
    assert!(client.response().expect("an answer").body == lipsum);
}

#[test]
fn requests_that_arrive_together_are_answered_with_one_send() {
    let traces = |args: &[&str], target: &str| {
        let Some(traced) = Traced::start(args) else {
            return skip("requests_that_arrive_together_are_answered_with_one_send", NO_STRACE);
        };
        let mut client = traced.server.connect();
        for _ in 0..2 {
            client.get(target).expect("an answer");
        }
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.get("/begin").expect("an answer");
        client.send(request.repeat(16));
        for _ in 0..16 {
            client.response().expect("an answer");
        }
        client.get("/end").expect("an answer");
        let calls = traced.calls_between("GET /begin", "GET /end");
        let count = |names: &[&str]| calls.iter().filter(|call| names.contains(&trace::name(call))).count();
        // The first is the answer to /begin.
        assert_eq!(count(&["send", "sendto", "sendmsg", "write", "writev"]), 1 + 1, "{calls:#?}");
        assert_eq!(
            calls.iter().filter(|call| call.contains(&format!("GET {target}"))).count(),
            1,
            "{calls:#?}"
        );
    };
    traces(&["--fixed"], "/0k.txt");
    traces(&["--fixed", "--body", "Hello"], "/hello.txt");
    let dir = fixtures();
    traces(&[dir.to_str().expect("text")], "/hello.txt");
}
