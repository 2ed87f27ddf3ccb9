//! What a warm request costs in system calls: one read, one write; and that the report counts them right.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use crate::client::Client;
use crate::reported::{at, parse};
use crate::server::{fixtures, skip, temporary};
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

/// What was traced between the line that says that connections are accepted and the first look at the
/// clocks for the report, by kind: calls on sockets of clients and on the file `log`, waits, and calls on files
/// that are served.
/// What the loop asks of its own pipes and of its allocator is not counted.
fn traced_kinds<'c>(calls: &'c str, log: &str) -> BTreeMap<&'c str, u64> {
    let mut clients: BTreeSet<&str> = BTreeSet::new();
    let opened = calls.lines().find(|call| call.contains(&format!("\"{log}\", O_WRONLY")));
    let (_, log) = opened.and_then(|call| call.rsplit_once(" = ")).expect("it is opened");
    let mut kinds = BTreeMap::new();
    let run = calls.lines().skip_while(|call| !call.starts_with("write(1, \"tared ")).skip(1);
    for call in run.take_while(|call| !call.starts_with("getrusage(")) {
        let Some((name, rest)) = call.split_once('(') else { continue };
        let Some((args, result)) = rest.rsplit_once(" = ") else { continue };
        let args = args.trim_end().trim_end_matches(')');
        let arg = |index: usize| args.split(", ").nth(index).unwrap_or_default();
        let is_counted = match name {
            "accept4" => {
                clients.extend(Some(result.trim()).filter(|fd| fd.parse::<u32>().is_ok()));
                true
            }
            "close" => clients.remove(arg(0)),
            "write" if arg(0) == log => true,
            "recvfrom" | "sendto" | "writev" | "sendmsg" | "sendfile" | "shutdown" | "read" | "write" => {
                clients.contains(arg(0))
            }
            "epoll_ctl" => clients.contains(arg(2)),
            "mmap" => arg(4) != "-1",
            _ => name.starts_with("epoll_") || FILE_CALLS.contains(&name),
        };
        if is_counted {
            *kinds.entry(name).or_default() += 1;
        }
    }
    kinds
}

const FILE_CALLS: [&str; 8] =
    ["openat2", "openat", "readlinkat", "getdents64", "statx", "newfstatat", "fstat", "pread64"];

/// The counts are made where the calls are made, so nothing but looking from outside shows that none is
/// missing.
#[test]
fn the_reports_counts_are_those_that_strace_saw() {
    let dir = temporary();
    let site = dir.path().join("site");
    fs::create_dir_all(site.join("sub")).expect("it is ours");
    for (name, len) in [("index.html", 5), ("mapped", 200_000), ("large", 24 * 1024 * 1024), ("sub/x", 1)] {
        fs::write(site.join(name), vec![b'x'; len]).expect("it is ours");
    }
    std::os::unix::fs::symlink("sub/x", site.join("link")).expect("a link");
    std::os::unix::fs::symlink("x", site.join("sub/link")).expect("a link");
    let (report, log) = (dir.path().join("report.json"), dir.path().join("log"));
    let [site, path, log] = [&site, &report, &log].map(|path| path.to_str().expect("text"));
    let args = ["--list", "--log", log, "--report", "json", "--report-file", path, site];
    let Some(traced) = Traced::start(&args) else {
        return skip("the_reports_counts_are_those_that_strace_saw", NO_STRACE);
    };
    let server = &traced.server;
    let mut kept = server.connect();
    for target in ["/", "/mapped", "/large", "/sub/x", "/link", "/nope", "/sub", "/sub/", "/", "/mapped"] {
        kept.get(target).expect("an answer");
    }
    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
    (0..20).for_each(|_| assert_eq!(kept.response().expect("an answer").status(), 200));
    kept.request("GET", "/mapped", "Range: bytes=0-9,100-109\r\n").expect("an answer");
    for last in ["GET / HTTP/1.0\r\n\r\n", "no request\r\n\r\n", "GET /large HTTP/1.0\r\n\r\n"] {
        let mut client = server.connect();
        client.send(last);
        client.response().expect("an answer");
        client.end_input();
        client.assert_closed();
    }
    let mut slow = Client::connect_narrow(server.address);
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.response().expect("an answer");
    let mut vanishes = Client::connect_narrow(server.address);
    vanishes.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    vanishes.take(64 * 1024).expect("its begin");
    vanishes.reset();
    kept.get("/").expect("an answer");

    let calls = traced.calls();
    let seen = traced_kinds(&calls, log);
    let report = parse(&fs::read_to_string(&report).expect("a report"));
    let counted = at(&report, "system_calls.by_kind").as_object().expect("an object");
    let names: BTreeSet<&str> = counted.keys().map(String::as_str).chain(seen.keys().copied()).collect();
    let of = |name: &str| (counted.get(name).and_then(|n| n.as_u64()), seen.get(name).copied().unwrap_or(0));
    let wrong: Vec<_> = names.iter().filter(|name| of(name).0 != Some(of(name).1)).collect();
    let shown: Vec<_> = wrong.iter().map(|name| (name, of(name))).collect();
    assert!(wrong.is_empty(), "(name, (counted, seen)): {shown:?}");
    // Each kind was made, but for those that walk a path where there is no openat2.
    let unmade: Vec<_> = names.iter().filter(|name| of(name).1 == 0).collect();
    assert!(unmade.iter().all(|name| ["openat", "openat2", "readlinkat"].contains(name)), "{unmade:?}");
}
