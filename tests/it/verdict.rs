//! Who was the limit: clients that are slow, that saturate, and that open a connection per request.
//!
//! Other tests run at the same time and take the CPU, so a verdict may be that its CPU was shared. What is
//! asserted is what holds then, too: the shares of time, and that the verdict is drawn from the figures
//! beside it.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::reported::{Reported, at, count, number, verdict};
use crate::server::PATIENCE;

/// What the figures of `report` say about the limit, by the rules that the README tells.
#[track_caller]
fn check_limit(report: &Value) {
    let (busy, waited) = (number(report, "cost.busy_share"), number(report, "cost.waited_share"));
    let said = verdict(report);
    let expected = match (busy, waited) {
        (_, 0.1..) => "shares its core",
        (0.9.., _) => "so tared was the limit",
        _ => "so the client (or the wire) was the limit",
    };
    assert!(said.contains(expected) && said.contains(&format!("busy {:.0} %", busy * 100.0)), "{report}");
}

/// Here the pace is the point, and a pause is how to have it: 150 requests within no less than 0.3 s.
#[test]
fn a_slow_client_is_the_limit() {
    let mut server = Reported::fixtures(&[]);
    let mut client = server.server.connect();
    for _ in 0..150 {
        client.get("/hello.txt").expect("an answer");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(client);
    let report = server.end();
    let window = number(&report, "window.seconds");
    assert!((0.3..60.0).contains(&window), "{report}");
    assert_eq!(count(&report, "requests.total"), 150);
    assert!(number(&report, "cost.busy_share") < 0.5, "{report}");
    check_limit(&report);
    // Also per request: what the thread took is what the requests cost, and a pause costs nothing.
    let us = number(&report, "cost.cpu_us_per_request") * 150.0;
    assert!(us <= number(&report, "cost.busy_share") * window * 1e6 * 1.01 + 1e3, "{report}");
}

/// A file that is not there costs the server a system call for each request, and the clients none.
#[test]
fn a_client_that_saturates_leaves_no_time_to_spare() {
    let mut server = Reported::fixtures(&[]);
    let end = Instant::now() + Duration::from_millis(800);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let client = server.server.connect();
            scope.spawn(move || {
                let (mut input, mut output) = (client.stream(), client.stream());
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let mut bytes = vec![0; 256 * 1024];
                        while input.read(&mut bytes).expect("it answers") > 0 {}
                    });
                    let flood = "GET /nope HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500);
                    while Instant::now() < end {
                        output.write_all(flood.as_bytes()).expect("it reads");
                    }
                    output.shutdown(Shutdown::Write).expect("it is open");
                });
            });
        }
    });
    let report = server.end();
    let total = count(&report, "requests.total");
    assert!(total >= 1000 && total.is_multiple_of(500), "{report}");
    assert_eq!(count(&report, "requests.by_status.4xx"), total);
    assert!(count(&report, "dialect.depth_max") > 100, "{report}");
    let window = number(&report, "window.seconds");
    assert!((0.7..3.0).contains(&window), "bounded: {report}");
    let (busy, waited) = (number(&report, "cost.busy_share"), number(&report, "cost.waited_share"));
    assert!(busy + waited >= 0.9, "it had time to spare: {report}");
    check_limit(&report);
}

/// The kernel counts what it loses for the whole host: whoever makes it lose something, or says that it loses
/// nothing, holds this meanwhile.
static ACCEPT_QUEUES: Mutex<()> = Mutex::new(());

/// A client that opens a connection per request, and calls itself so.
#[track_caller]
fn check_fresh(user_agent: &str, hint: Option<&str>) {
    let _held = ACCEPT_QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut server = Reported::start(&["--fixed"]);
    for _ in 0..120 {
        let mut client = server.server.connect();
        client.send(format!("GET / HTTP/1.0\r\nHost: a\r\nUser-Agent: {user_agent}\r\n\r\n"));
        assert_eq!(client.response().expect("an answer").status(), 200);
        client.assert_closed();
    }
    let report = server.end();
    assert_eq!(number(&report, "connections.requests_each"), 1.0);
    assert_eq!(number(&report, "connections.kept_alive_share"), 0.0);
    assert_eq!(at(&report, "dialect.user_agent"), user_agent);
    let said = verdict(&report);
    if count(&report, "kernel.listen_overflows") > 0 {
        // It is counted for the whole host, and another test may fill a queue: that is said first.
        assert!(said.contains("overflowed") && said.contains("somaxconn"), "{report}");
        return;
    }
    let (_, behind) = said.split_once("Nearly every request opened a connection").expect(said);
    match hint {
        Some(hint) => assert!(behind.contains(hint), "{said}"),
        None => assert!(behind.ends_with("more than HTTP."), "{said}"),
    }
}

#[test]
fn a_client_that_opens_a_connection_per_request_is_told_how_not_to() {
    check_fresh("ApacheBench/2.3", Some("ab keeps connections with -k"));
    check_fresh("somebody/1.0", None);
}

/// The kernel's queue of those who wait to be accepted has room for one more than was asked for; whoever
/// comes then has to come again.
#[test]
fn an_accept_queue_that_overflows_is_told_with_what_to_do() {
    let _held = ACCEPT_QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut server = Reported::start(&["--fixed", "--backlog", "1"]);
    server.server.signal("STOP");
    let stat = format!("/proc/{}/stat", server.server.pid());
    let end = Instant::now() + PATIENCE;
    while !fs::read_to_string(&stat).expect("it is there").contains(") T ") {
        assert!(Instant::now() < end, "it does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
    let clients: Vec<Socket> = (0..8)
        .map(|_| {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            client.set_nonblocking(true).expect("it may be");
            // It is in progress, and stays so for whom there is no room.
            let _ = client.connect(&server.server.address.into());
            let _ = client.send(b"GET / HTTP/1.0\r\n\r\n");
            client
        })
        .collect();
    server.server.signal("CONT");
    drop(clients);
    let report = server.end();
    let overflows = count(&report, "kernel.listen_overflows");
    assert!(overflows > 0 && count(&report, "kernel.listen_drops") >= overflows, "{report}");
    assert!(count(&report, "connections.accepted") < 8, "{report}");
    for part in [&format!("overflowed {overflows} times"), "--backlog (granted: 1)", "net.core.somaxconn"] {
        assert!(verdict(&report).contains(part), "{part:?} is not in {report}");
    }
}

#[test]
fn too_little_traffic_is_not_judged() {
    for requests in [0, 1, 99] {
        let mut server = Reported::start(&["--fixed"]);
        let mut client = server.server.connect();
        for _ in 0..requests {
            client.get("/").expect("an answer");
        }
        let report = server.end();
        let said = verdict(&report);
        let expected = if requests == 0 { "No request was answered" } else { "too little traffic" };
        assert!(said.contains(expected) && !said.contains("limit"), "{report}");
    }
}

/// A second and more without traffic is told apart, and is no part of the shares.
#[test]
fn silence_is_no_traffic() {
    let mut server = Reported::start(&["--fixed"]);
    let mut client = server.server.connect();
    client.get("/").expect("an answer");
    let start = Instant::now();
    // Silence is a time, so a time must go by.
    std::thread::sleep(Duration::from_millis(1200));
    client.get("/").expect("an answer");
    drop(client);
    let report = server.end();
    let (silent, traffic) =
        (number(&report, "window.silent_seconds"), number(&report, "window.traffic_seconds"));
    let elapsed = start.elapsed().as_secs_f64();
    assert!((1.1..elapsed + 0.1).contains(&silent), "{report}");
    assert!(traffic < elapsed - 1.0, "{report}");
}
