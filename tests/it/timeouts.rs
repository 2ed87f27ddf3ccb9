//! How long a client is waited for. Times are short here, and measured from the outside.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::reported::{Reported, count};
use crate::server::{PATIENCE, Server, fixtures};

fn fixed(args: &[&str]) -> Server {
    Server::fixed(args)
}

/// It closes no earlier than after `least`, and not much later: looks are 250 ms apart, and machines are
/// busy.
#[track_caller]
fn check_after(start: Instant, least: Duration) {
    let waited = start.elapsed();
    assert!(waited >= least && waited < least + Duration::from_secs(3), "{waited:?}");
}

const SHORT: Duration = Duration::from_millis(400);

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = fixed(&["--keep-alive", "400ms"]);
    for asks in [true, false] {
        let mut client = server.connect();
        if asks {
            client.get("/").unwrap();
        }
        let start = Instant::now();
        client.assert_closed();
        // A connection that has sent nothing waits in the kernel first.
        check_after(start, if asks { SHORT - Duration::from_millis(20) } else { Duration::ZERO });
    }
}

#[test]
fn a_connection_that_is_used_is_not_idle() {
    let server = fixed(&["--keep-alive", "700ms"]);
    let mut client = server.connect();
    for _ in 0..8 {
        client.get("/").unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    client.get("/").unwrap();
}

#[test]
fn zero_keeps_an_idle_connection_for_ever() {
    let server = fixed(&["--keep-alive", "0"]);
    let mut client = server.connect();
    client.get("/").unwrap();
    std::thread::sleep(Duration::from_millis(900));
    client.get("/").unwrap();
}

/// RFC 9110 §15.5.9; a byte now and then is no excuse.
#[test]
fn a_head_that_does_not_end_is_refused_with_408() {
    let server = fixed(&["--header-timeout", "400ms"]);
    for drips in [false, true] {
        let mut client = server.connect();
        client.get("/").unwrap();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
        let start = Instant::now();
        let mut drops = client.stream().try_clone().unwrap();
        let dripping = std::thread::spawn(move || {
            for _ in 0..if drips { 20 } else { 0 } {
                std::thread::sleep(Duration::from_millis(50));
                if std::io::Write::write_all(&mut drops, b"x").is_err() {
                    break;
                }
            }
        });
        let response = client.response().unwrap();
        assert_eq!(response.status(), 408);
        assert_eq!(response.field("Connection"), Some("close"));
        check_after(start, SHORT);
        dripping.join().unwrap();
        client.assert_closed();
    }
}

/// RFC 9112 §2.2: an empty line before a request is ignored; it is no part of one.
#[test]
fn an_empty_line_begins_no_head() {
    let server = fixed(&["--header-timeout", "300ms"]);
    let mut client = server.connect();
    client.get("/").unwrap();
    client.send("\r\n");
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(client.get("/").unwrap().status(), 200);
}

#[test]
fn a_body_that_stops_is_refused_and_one_that_goes_on_is_not() {
    let server = fixed(&["--body-timeout", "400ms"]);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let mut slow = server.connect();
    slow.send(head);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        slow.send("x");
    }
    assert_eq!(slow.response().unwrap().status(), 200, "1 s in all, and never 400 ms of nothing");
    let mut stuck = server.connect();
    stuck.send(head);
    let start = Instant::now();
    assert_eq!(stuck.response().unwrap().status(), 408);
    check_after(start, SHORT);
}

#[test]
fn a_client_that_takes_nothing_of_its_response_is_left() {
    let server = fixed(&["--size", "100m", "--write-timeout", "400ms"]);
    let mut stuck = Client::connect_narrow(server.address);
    stuck.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // Twice the time at the most, and what deadlines may be too late.
    std::thread::sleep(2 * SHORT + Duration::from_millis(800));
    let received = stuck.rest().expect("what was on its way comes, and then the end").len();
    assert!(received > 0 && received < 100 << 20, "{received} bytes came before it was left");
}

/// However much it asks for: what it does not read stays with us, and not in the kernel's memory. 1 MiB
/// may be unsent (TCP_NOTSENT_LOWAT, tcp(7)); one segment more, and what its own window took.
#[test]
fn a_client_that_reads_nothing_holds_little() {
    for args in [&["--fixed", "--size", "600k"][..], &["--fixed", "--size", "100m"]] {
        let reported = Reported::start(args);
        let mut stuck = Client::connect_narrow(reported.server.address);
        stuck.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16));
        let sent = || count(&reported.on_demand(), "bytes.sent");
        let (mut before, mut now) = (0, sent());
        let end = Instant::now() + PATIENCE;
        while before != now || now == 0 {
            assert!(Instant::now() < end, "there is no end of it: {now} bytes");
            std::thread::sleep(Duration::from_millis(50));
            (before, now) = (now, sent());
        }
        assert!((256 << 10..=1200 << 10).contains(&now), "{now} bytes were sent to {args:?}");
    }
}

/// A socket takes more only when a third of its buffer is free, which may be a megabyte. Who takes less than that
/// in time takes some all the same.
#[test]
fn a_client_that_takes_its_response_slowly_is_waited_for() {
    let server = Reported::start(&["--fixed", "--size", "100m", "--write-timeout", "400ms"]);
    let mut slow = Client::connect_narrow(server.server.address);
    slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..60 {
        slow.take(8 * 1024).expect("it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let report = server.on_demand();
    assert_eq!((count(&report, "connections.timed_out"), count(&report, "connections.open")), (0, 1));
}

#[test]
fn a_connection_ends_with_its_last_allowed_request() {
    for args in [&["--fixed"][..], &[fixtures().to_str().unwrap()]] {
        let all = ["--max-requests-per-connection", "3", "--listen", "127.0.0.1:0"];
        let server = Server::start(all.iter().chain(args));
        let mut client = server.connect();
        client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
        for connection in ["keep-alive", "keep-alive", "close"] {
            assert_eq!(client.response().unwrap().field("Connection"), Some(connection));
        }
        client.assert_closed();
    }
}

#[test]
fn grace_bounds_the_end() {
    let mut server = fixed(&["--size", "100m", "--grace", "300ms"]);
    let mut stuck = server.connect();
    stuck.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stuck.take(1).unwrap();
    let start = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    check_after(start, Duration::from_millis(300));
}
