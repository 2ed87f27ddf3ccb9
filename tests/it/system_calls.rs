//! What a warm request costs in system calls: one read, one write.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::client::Client;
use crate::server::{fixtures, skip};
use crate::trace::{self, NO_STRACE, Traced};

const REQUESTS: usize = 1000;

/// Calls that look an entry over once a second, at the most.
const REVALIDATION_CALLS_MAX: usize = 8;

/// Sends requests over `conns_max` warm connections, each of them once a round, and counts the
/// system calls.
#[track_caller]
fn check(args: &[&str], target: &str, conns_max: usize) {
    let Some(traced) = Traced::start(args) else { return skip("system_calls", NO_STRACE) };
    let mut clients: Vec<Client> = (0..conns_max).map(|_| traced.server.connect()).collect();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut round = || {
        clients.iter_mut().for_each(|client| client.send(&request));
        for client in &mut clients {
            assert_eq!(client.response().expect("an answer").status(), 200);
        }
    };
    round();
    let mut marker = traced.server.connect();
    // Its first request may come before its connection is registered, which costs a read more.
    marker.get("/warm").expect("an answer");
    marker.get("/begin").expect("an answer");
    let start = Instant::now();
    for _ in 0..REQUESTS / conns_max {
        round();
    }
    let seconds = usize::try_from(start.elapsed().as_secs()).expect("a few") + 1;
    marker.get("/end").expect("an answer");

    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let calls = traced.calls_between("GET /begin", "GET /end");
    // Without the answer to /begin, and what is made of its connection then.
    let first = calls.iter().position(|call| call.contains(&format!("GET {target}"))).expect("a request");
    for call in &calls[first..] {
        *counts.entry(trace::name(call).to_owned()).or_default() += 1;
    }
    let mut take = |names: &[&str]| names.iter().filter_map(|name| counts.remove(*name)).sum::<usize>();
    let received = take(&["recv", "recvfrom", "recvmsg", "readv"]);
    let sent = take(&["send", "sendto", "sendmsg", "writev"]);
    let waited = take(&["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
    let shown = format!("{args:?} {target}: {received} received, {sent} sent, {waited} waited, {counts:?}");
    assert_eq!((received, sent), (REQUESTS, REQUESTS), "{shown}");
    if conns_max > 1 {
        assert!(waited < REQUESTS, "{shown}");
    } else {
        assert!(waited <= REQUESTS + 8 * seconds, "{shown}");
    }
    // No open, stat, mmap, brk, setsockopt, epoll_ctl.
    assert!(counts.values().sum::<usize>() <= REVALIDATION_CALLS_MAX * seconds, "{shown}");
}

#[test]
fn a_warm_request_for_a_file_is_one_read_and_one_write() {
    let dir = fixtures();
    let dir = dir.to_str().expect("text");
    for target in ["/0k.txt", "/hello.txt", "/lipsum.html"] {
        check(&[dir], target, 1);
    }
}

#[test]
fn a_warm_request_for_the_fixed_response_is_one_read_and_one_write() {
    check(&["--fixed"], "/", 1);
    check(&["--fixed", "--body", "Hello"], "/", 1);
    check(&["--fixed", "--size", "33k"], "/", 1);
}

#[test]
fn warm_requests_of_twenty_clients_share_their_waits() {
    let dir = fixtures();
    check(&[dir.to_str().expect("text")], "/0k.txt", 20);
    check(&["--fixed"], "/", 20);
}
