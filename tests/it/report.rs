//! The report's counts: requests of known kinds over known connections, and every count is exactly right.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::reported::{Reported, at, count, number, parse};
use crate::server::{PATIENCE, QUIET, Server, command, temporary, unwarned};

/// Every count that does not depend on how fast somebody was. What a test does not name is zero.
const COUNTS: [&str; 35] = [
    "requests.total",
    "requests.by_status.2xx",
    "requests.by_status.3xx",
    "requests.by_status.4xx",
    "requests.by_status.5xx",
    "requests.by_method.GET",
    "requests.by_method.HEAD",
    "requests.by_method.OPTIONS",
    "requests.by_method.CONNECT",
    "requests.by_method.TRACE",
    "requests.by_method.other",
    "requests.by_method.malformed",
    "bytes.received",
    "bytes.sent",
    "connections.accepted",
    "connections.open",
    "connections.peak",
    "connections.closed_by_client",
    "connections.closed_by_server",
    "connections.reset",
    "connections.timed_out",
    "connections.aborted",
    "connections.accept_rests",
    "dialect.http_1_0",
    "dialect.http_1_1",
    "dialect.keep_alive_asked",
    "dialect.close_asked",
    "dialect.without_host",
    "dialect.expect_continue",
    "dialect.malformed",
    "dialect.depth_max",
    "cache.hits",
    "cache.fills",
    "workers.count",
    "schema",
];

/// What the shares and means are made of.
#[derive(Clone, Copy)]
struct Parts {
    /// Requests behind which the connection stayed open.
    kept: u64,
    /// Times that requests were answered together.
    batches: u64,
    /// Bytes of all heads that could be read.
    head_bytes: u64,
}

#[track_caller]
fn check_counts(report: &Value, expected: &[(&str, u64)]) {
    for (path, _) in expected {
        assert!(COUNTS.contains(path), "{path} is no count");
    }
    let named = |path: &str| expected.iter().find(|(name, _)| *name == path).map(|&(_, count)| count);
    let wrong: Vec<_> = COUNTS
        .iter()
        .map(|&path| {
            let default = if ["workers.count", "schema"].contains(&path) { 1 } else { 0 };
            (path, count(report, path), named(path).unwrap_or(default))
        })
        .filter(|(_, counted, expected)| counted != expected)
        .collect();
    assert!(wrong.is_empty(), "(path, reported, expected): {wrong:?}");
    check_sums(report);
}

/// Figures that are told twice are the same.
#[track_caller]
fn check_sums(report: &Value) {
    let sum = |path: &str| -> u64 {
        let counts = at(report, path).as_object().expect("an object").values();
        counts.map(|n| n.as_u64().expect("a count")).sum()
    };
    let of = |path: &str| count(report, path);
    let total = of("requests.total");
    assert_eq!(sum("requests.by_status"), total, "{report}");
    assert_eq!(sum("requests.by_method"), total, "{report}");
    let dialects = of("dialect.http_1_0") + of("dialect.http_1_1") + of("dialect.malformed");
    assert_eq!(dialects, total, "{report}");
    assert_eq!(of("dialect.malformed"), of("requests.by_method.malformed"), "{report}");
    let ended = ["closed_by_client", "closed_by_server", "reset", "timed_out"];
    let ended: u64 = ended.iter().map(|name| of(&format!("connections.{name}"))).sum();
    assert_eq!(of("connections.accepted"), ended + of("connections.open"), "{report}");
    assert_eq!(of("system_calls.total"), sum("system_calls.by_kind"), "{report}");
    assert_eq!(of("system_calls.by_kind.close"), ended, "{report}");
    let each = at(report, "workers.each").as_array().expect("a list");
    assert_eq!(each.len() as u64, of("workers.count"), "{report}");
    assert_eq!(each.iter().map(|worker| count(worker, "requests")).sum::<u64>(), total, "{report}");
    let accepted = each.iter().map(|worker| count(worker, "connections")).sum::<u64>();
    assert_eq!(accepted, of("connections.accepted"), "{report}");
    let cpu: f64 = each.iter().map(|worker| number(worker, "cpu_seconds")).sum();
    assert!((cpu - number(report, "cost.cpu_seconds")).abs() < 1e-5, "{report}");
    let window = ["seconds", "traffic_seconds", "silent_seconds"];
    let [all, traffic, silent] = window.map(|name| number(report, &format!("window.{name}")));
    assert!((traffic + silent - all).abs() < 1e-5 && traffic >= 0.0 && silent >= 0.0, "{report}");
    check_ratio(report, "requests.per_second", total as f64, all);
    check_ratio(report, "connections.requests_each", total as f64, accepted as f64);
    check_ratio(report, "system_calls.per_request", of("system_calls.total") as f64, total as f64);
    if total > 0 {
        let each = ["cpu_user_us", "cpu_system_us", "cpu_us"];
        let [user, system, both] = each.map(|name| number(report, &format!("cost.{name}_per_request")));
        assert!((user + system - both).abs() <= 0.002, "{report}");
    }
    check_ratio(report, "cost.cpu_us_per_request", number(report, "cost.cpu_seconds") * 1e6, total as f64);
}

/// A ratio is rounded to thousandths, and null where there is nothing to divide by.
#[track_caller]
fn check_ratio(report: &Value, path: &str, part: f64, whole: f64) {
    if whole == 0.0 {
        assert!(at(report, path).is_null(), "{path} in {report}");
        return;
    }
    let (ratio, expected) = (number(report, path), part / whole);
    // The window itself is rounded to microseconds.
    let slack = 0.001 + expected * 1e-6 * (1.0 + 1.0 / whole);
    assert!((ratio - expected).abs() <= slack, "{path} is {ratio}, and not {expected}, in {report}");
}

#[track_caller]
fn check_parts(report: &Value, parts: Parts) {
    let total = count(report, "requests.total");
    let readable = total - count(report, "dialect.malformed");
    check_ratio(report, "connections.kept_alive_share", parts.kept as f64, total as f64);
    check_ratio(report, "dialect.depth_mean", total as f64, parts.batches as f64);
    check_ratio(report, "dialect.head_bytes_mean", parts.head_bytes as f64, readable as f64);
}

/// The bytes that `clients` sent and received, as the server calls them.
fn bytes(clients: &[&Client]) -> [(&'static str, u64); 2] {
    let (sent, received) = clients.iter().fold((0, 0), |sum, client| {
        let (sent, received) = client.moved();
        (sum.0 + sent, sum.1 + received)
    });
    [("bytes.received", sent), ("bytes.sent", received)]
}

/// Sends `requests`, one after the other, and reads the statuses of the answers.
#[track_caller]
fn ask(client: &mut Client, requests: &[&str]) -> Vec<u16> {
    let one = |request: &&str| {
        client.send(request);
        let answer = if request.starts_with("HEAD ") { client.response_to_head() } else { client.response() };
        answer.expect("an answer").status()
    };
    requests.iter().map(one).collect()
}

/// Closes our side of a kept connection, and waits until the server has closed its own: then it has counted.
#[track_caller]
fn close(client: &mut Client) {
    client.end_input();
    client.assert_closed();
}

const HELLO: &str = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn len(requests: &[&str]) -> u64 {
    requests.iter().map(|request| request.len() as u64).sum()
}

#[test]
fn a_run_without_requests_has_a_report_of_zeros() {
    let mut server = Reported::fixtures(&[]);
    let report = server.end();
    check_counts(&report, &[]);
    check_parts(&report, Parts { kept: 0, batches: 0, head_bytes: 0 });
    assert_eq!(at(&report, "mode"), "directory");
    for path in ["cost.busy_share", "cost.cpu_us_per_request", "dialect.user_agent", "workers.imbalance"] {
        assert!(at(&report, path).is_null(), "{path} in {report}");
    }
    assert_eq!(number(&report, "window.seconds"), 0.0);
}

#[test]
fn connections_that_are_kept_and_those_that_are_not() {
    let mut server = Reported::fixtures(&[]);
    let mut kept = server.server.connect();
    let of_kept = [HELLO, "GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", HELLO];
    assert_eq!(ask(&mut kept, &of_kept), [200; 3]);
    let mut asks = server.server.connect();
    let of_asks = [HELLO, "GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"];
    assert_eq!(ask(&mut asks, &of_asks), [200; 2]);
    asks.assert_closed();
    let mut old = server.server.connect();
    let of_old = ["GET /hello.txt HTTP/1.0\r\nHost: a\r\n\r\n"];
    assert_eq!(ask(&mut old, &of_old), [200]);
    old.assert_closed();
    let mut old_kept = server.server.connect();
    // RFC 9112 §9.3: who speaks HTTP/1.0 asks for it.
    let of_old_kept = ["GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"; 2];
    assert_eq!(ask(&mut old_kept, &of_old_kept), [200; 2]);
    close(&mut old_kept);
    close(&mut kept);
    let report = server.end();
    let moved = bytes(&[&kept, &asks, &old, &old_kept]);
    let counts = [
        ("requests.total", 8),
        ("requests.by_status.2xx", 8),
        ("requests.by_method.GET", 8),
        ("connections.accepted", 4),
        // One was open all the time, and beside it one after the other.
        ("connections.peak", 2),
        ("connections.closed_by_client", 2),
        ("connections.closed_by_server", 2),
        ("dialect.http_1_0", 3),
        ("dialect.http_1_1", 5),
        ("dialect.keep_alive_asked", 3),
        ("dialect.close_asked", 1),
        ("dialect.without_host", 2),
        ("dialect.depth_max", 1),
        ("cache.hits", 7),
        ("cache.fills", 1),
    ];
    check_counts(&report, &[&counts[..], &moved].concat());
    let head_bytes = len(&of_kept) + len(&of_asks) + len(&of_old) + len(&of_old_kept);
    check_parts(&report, Parts { kept: 6, batches: 8, head_bytes });
}

#[test]
fn requests_that_come_together_have_a_depth() {
    let mut server = Reported::fixtures(&[]);
    let mut client = server.server.connect();
    for depth in [1, 10, 4] {
        client.send(HELLO.repeat(depth));
        for _ in 0..depth {
            assert_eq!(client.response().expect("an answer").status(), 200);
        }
    }
    close(&mut client);
    let report = server.end();
    let counts = [
        ("requests.total", 15),
        ("requests.by_status.2xx", 15),
        ("requests.by_method.GET", 15),
        ("connections.accepted", 1),
        ("connections.peak", 1),
        ("connections.closed_by_client", 1),
        ("dialect.http_1_1", 15),
        ("dialect.depth_max", 10),
        ("cache.hits", 14),
        ("cache.fills", 1),
    ];
    check_counts(&report, &[&counts[..], &bytes(&[&client])].concat());
    check_parts(&report, Parts { kept: 15, batches: 3, head_bytes: 15 * HELLO.len() as u64 });
}

#[test]
fn what_cannot_be_read_is_malformed_whatever_it_says() {
    // RFC 9112 §3, §3.2, §5.1, §6.3, §6.1; RFC 9110 §15.6.6. Each ends its connection.
    let refused = [
        ("no request\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ];
    let mut server = Reported::start(&["--fixed"]);
    let mut clients = Vec::new();
    for (request, status) in refused {
        let mut client = server.server.connect();
        assert_eq!(ask(&mut client, &[request]), [status], "{request:?}");
        client.end_input();
        clients.push(client);
        server.settle();
    }
    // A chunk that breaks the grammar of its body (RFC 9112 §7.1) comes behind a head that could be read.
    let mut client = server.server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    assert_eq!(client.response().expect("an answer").status(), 400);
    client.end_input();
    clients.push(client);
    server.settle();
    let report = server.end();
    assert_eq!(at(&report, "mode"), "fixed");
    let counts = [
        ("requests.total", 7),
        ("requests.by_status.4xx", 5),
        ("requests.by_status.5xx", 2),
        ("requests.by_method.malformed", 7),
        ("connections.accepted", 7),
        ("connections.peak", 1),
        ("connections.closed_by_server", 7),
        ("dialect.malformed", 7),
        ("dialect.depth_max", 1),
    ];
    check_counts(&report, &[&counts[..], &bytes(&clients.iter().collect::<Vec<_>>())].concat());
    check_parts(&report, Parts { kept: 0, batches: 7, head_bytes: 0 });
}

#[test]
fn methods_and_statuses_are_counted_by_what_they_are() {
    let requests = [
        (HELLO, 200),
        ("HEAD /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204),
        ("OPTIONS /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", 204),
        ("POST /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("DELETE /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("TRACE /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("HEAD /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("GET /docs HTTP/1.1\r\nHost: a\r\n\r\n", 301),
        ("GET /hello.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\n\r\n", 206),
        ("GET /hello.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=99-\r\n\r\n", 416),
        ("GET /hello.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 304),
        ("GET /hello.txt HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n", 412),
        ("GET /hello.txt HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n", 417),
    ];
    let mut server = Reported::fixtures(&[]);
    let mut clients = Vec::new();
    // Each on a connection of its own.
    for (request, status) in requests {
        let mut client = server.server.connect();
        assert_eq!(ask(&mut client, &[request]), [status], "{request:?}");
        close(&mut client);
        clients.push(client);
    }
    let report = server.end();
    let counts = [
        ("requests.total", 16),
        ("requests.by_status.2xx", 5),
        ("requests.by_status.3xx", 2),
        ("requests.by_status.4xx", 9),
        ("requests.by_method.GET", 8),
        ("requests.by_method.HEAD", 2),
        ("requests.by_method.OPTIONS", 2),
        ("requests.by_method.TRACE", 1),
        ("requests.by_method.CONNECT", 1),
        ("requests.by_method.other", 2),
        ("connections.accepted", 16),
        ("connections.peak", 1),
        ("connections.closed_by_client", 16),
        ("dialect.http_1_1", 16),
        ("dialect.depth_max", 1),
        // Of the file: GET, HEAD, OPTIONS, POST, DELETE, 206, 416, 304, 412.
        ("cache.hits", 8),
        ("cache.fills", 1),
    ];
    check_counts(&report, &[&counts[..], &bytes(&clients.iter().collect::<Vec<_>>())].concat());
    let head_bytes = requests.iter().map(|(request, _)| request.len() as u64).sum();
    check_parts(&report, Parts { kept: 16, batches: 16, head_bytes });
}

#[test]
fn a_fixed_status_has_its_class() {
    for (status, class) in [("200", "2xx"), ("302", "3xx"), ("404", "4xx"), ("503", "5xx")] {
        let mut server = Reported::start(&["--fixed", "--status", status, "--size", "100k"]);
        let mut client = server.server.connect();
        assert_eq!(ask(&mut client, &[HELLO]), [status.parse::<u16>().expect("a status")]);
        close(&mut client);
        let class = format!("requests.by_status.{class}");
        let counts = [
            (&*class, 1),
            ("requests.total", 1),
            ("requests.by_method.GET", 1),
            ("connections.accepted", 1),
            ("connections.peak", 1),
            ("connections.closed_by_client", 1),
            ("dialect.http_1_1", 1),
            ("dialect.depth_max", 1),
        ];
        check_counts(&server.end(), &[&counts[..], &bytes(&[&client])].concat());
    }
}

#[test]
fn bodies_are_received_and_are_no_part_of_a_head() {
    let head = "POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let chunked = "PUT /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut server = Reported::fixtures(&[]);
    let mut client = server.server.connect();
    client.send(head);
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.response().expect("an answer").status(), 405);
    client.send([chunked, "3\r\nabc\r\n0\r\n\r\n"].concat());
    assert_eq!(client.response().expect("an answer").status(), 405);
    close(&mut client);
    // RFC 9110 §10.1.1: the final status comes without the body, which the client keeps back.
    let expects = "POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut waits = server.server.connect();
    assert_eq!(ask(&mut waits, &[expects]), [405]);
    waits.end_input();
    server.settle();
    let report = server.end();
    let counts = [
        ("requests.total", 3),
        ("requests.by_status.4xx", 3),
        ("requests.by_method.other", 3),
        ("connections.accepted", 2),
        ("connections.peak", 1),
        ("connections.closed_by_client", 1),
        ("connections.closed_by_server", 1),
        ("dialect.http_1_1", 3),
        ("dialect.expect_continue", 1),
        ("dialect.depth_max", 1),
        ("cache.hits", 2),
        ("cache.fills", 1),
    ];
    check_counts(&report, &[&counts[..], &bytes(&[&client, &waits])].concat());
    check_parts(&report, Parts { kept: 2, batches: 3, head_bytes: len(&[head, chunked, expects]) });
}

#[test]
fn a_client_that_says_half_a_request_has_asked_nothing() {
    let mut server = Reported::start(&["--fixed"]);
    let mut half = server.server.connect();
    half.send("GET / HTTP/1.1\r\nHo");
    close(&mut half);
    let report = server.end();
    let counts = [("connections.accepted", 1), ("connections.peak", 1), ("connections.closed_by_client", 1)];
    check_counts(&report, &[&counts[..], &bytes(&[&half])].concat());
}

#[test]
fn the_most_open_at_a_time_and_those_that_the_end_closes() {
    let mut server = Reported::start(&["--fixed"]);
    let mut clients: Vec<Client> = (0..5).map(|_| server.server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(ask(client, &[HELLO]), [200]));
    clients[..2].iter_mut().for_each(close);
    let mut late = server.server.connect();
    assert_eq!(ask(&mut late, &[HELLO]), [200]);
    clients.push(late);
    let report = server.on_demand();
    assert_eq!((count(&report, "connections.open"), count(&report, "connections.peak")), (4, 5));
    let report = server.end();
    clients[2..].iter_mut().for_each(Client::assert_closed);
    let counts = [
        ("requests.total", 6),
        ("requests.by_status.2xx", 6),
        ("requests.by_method.GET", 6),
        ("connections.accepted", 6),
        ("connections.peak", 5),
        ("connections.closed_by_client", 2),
        ("connections.closed_by_server", 4),
        ("dialect.http_1_1", 6),
        ("dialect.depth_max", 1),
    ];
    check_counts(&report, &[&counts[..], &bytes(&clients.iter().collect::<Vec<_>>())].concat());
}

#[test]
fn a_connection_that_is_reset_is_told_from_one_that_is_closed() {
    let mut server = Reported::start(&["--fixed"]);
    let mut clients: Vec<Client> = (0..3).map(|_| server.server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(ask(client, &[HELLO]), [200]));
    let moved = bytes(&clients.iter().collect::<Vec<_>>());
    clients.drain(..2).for_each(Client::reset);
    server.until(|report| count(report, "connections.open") == 1);
    close(&mut clients[0]);
    let counts = [
        ("requests.total", 3),
        ("requests.by_status.2xx", 3),
        ("requests.by_method.GET", 3),
        ("connections.accepted", 3),
        ("connections.peak", 3),
        ("connections.closed_by_client", 1),
        ("connections.reset", 2),
        ("dialect.http_1_1", 3),
        ("dialect.depth_max", 1),
    ];
    check_counts(&server.end(), &[&counts[..], &moved].concat());
}

/// Far more than the buffers of both sides.
const LARGE: usize = 24 * 1024 * 1024;

/// A directory with a file larger than what the kernel holds of a connection that is not read from.
fn with_large() -> tempfile::TempDir {
    let dir = temporary();
    fs::write(dir.path().join("large"), vec![b'L'; LARGE]).expect("it is ours");
    dir
}

#[test]
fn a_client_that_vanishes_in_mid_response_is_aborted() {
    let dir = with_large();
    let large = dir.path().to_str().expect("text");
    for (args, fills) in [(&[large][..], 1), (&["--fixed", "--size", "24m"], 0)] {
        let mut server = Reported::start(args);
        let mut client = Client::connect_narrow(server.server.address);
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().expect("its head").status(), 200);
        client.take(64 * 1024).expect("its begin");
        let (sent, received) = client.moved();
        client.reset();
        server.settle();
        let report = server.end();
        let moved = count(&report, "bytes.sent");
        assert!((received..LARGE as u64).contains(&moved), "{moved} sent, {received} received");
        let counts = [
            // It was answered, if not to the end.
            ("requests.total", 1),
            ("requests.by_status.2xx", 1),
            ("requests.by_method.GET", 1),
            ("bytes.received", sent),
            ("bytes.sent", moved),
            ("connections.accepted", 1),
            ("connections.peak", 1),
            ("connections.reset", 1),
            ("connections.aborted", 1),
            ("dialect.http_1_1", 1),
            ("dialect.depth_max", 1),
            ("cache.fills", fills),
        ];
        check_counts(&report, &counts);
        assert!(number(&report, "system_calls.short_send_share") > 0.0, "{report}");
    }
}

#[test]
fn every_byte_of_a_large_response_is_counted_once() {
    let dir = with_large();
    fs::write(dir.path().join("mapped"), vec![b'M'; 300_000]).expect("it is ours");
    let mut server = Reported::start(&[dir.path().to_str().expect("text")]);
    let mut client = Client::connect_narrow(server.server.address);
    let requests = ["/large", "/mapped", "/large", "/mapped"]
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.send(requests.concat());
    for len in [LARGE, 300_000, LARGE, 300_000] {
        assert_eq!(client.response().expect("an answer").body.len(), len);
    }
    close(&mut client);
    let report = server.end();
    // The files are young: whether they were cached depends on how long this took.
    let fills = count(&report, "cache.fills");
    assert!((2..=4).contains(&fills), "{report}");
    let counts = [
        ("requests.total", 4),
        ("requests.by_status.2xx", 4),
        ("requests.by_method.GET", 4),
        ("connections.accepted", 1),
        ("connections.peak", 1),
        ("connections.closed_by_client", 1),
        ("dialect.http_1_1", 4),
        ("dialect.depth_max", 1),
        ("cache.fills", fills),
        ("cache.hits", 4 - fills),
    ];
    check_counts(&report, &[&counts[..], &bytes(&[&client])].concat());
    // Each is read from its file, so each ends its batch.
    check_parts(&report, Parts { kept: 4, batches: 4, head_bytes: len(&requests.each_ref().map(|r| &**r)) });
}

/// 5 s is how long a connection is read from after its last response.
#[test]
fn a_client_that_does_not_close_after_the_last_response_times_out() {
    let mut server = Reported::start(&["--fixed"]);
    let mut client = server.server.connect();
    assert_eq!(ask(&mut client, &["no request\r\n\r\n"]), [400]);
    assert_eq!(count(&server.on_demand(), "connections.open"), 1);
    server.settle();
    let counts = [
        ("requests.total", 1),
        ("requests.by_status.4xx", 1),
        ("requests.by_method.malformed", 1),
        ("connections.accepted", 1),
        ("connections.peak", 1),
        ("connections.timed_out", 1),
        ("dialect.malformed", 1),
        ("dialect.depth_max", 1),
    ];
    check_counts(&server.end(), &[&counts[..], &bytes(&[&client])].concat());
}

#[test]
fn a_signal_brings_a_report_and_the_server_goes_on() {
    let mut server = Reported::fixtures(&[]);
    let mut client = server.server.connect();
    let mut other = server.server.connect();
    assert_eq!(ask(&mut client, &[HELLO; 3]), [200; 3]);
    assert_eq!(ask(&mut other, &[HELLO]), [200]);
    let first = server.on_demand();
    let counts = [
        ("requests.total", 4),
        ("requests.by_status.2xx", 4),
        ("requests.by_method.GET", 4),
        ("connections.accepted", 2),
        ("connections.open", 2),
        ("connections.peak", 2),
        ("dialect.http_1_1", 4),
        ("dialect.depth_max", 1),
        ("cache.hits", 3),
        ("cache.fills", 1),
    ];
    check_counts(&first, &[&counts[..], &bytes(&[&client, &other])].concat());
    assert_eq!(ask(&mut client, &[HELLO; 2]), [200; 2]);
    close(&mut other);
    let second = server.on_demand();
    let counts = [
        ("requests.total", 6),
        ("requests.by_status.2xx", 6),
        ("requests.by_method.GET", 6),
        ("connections.accepted", 2),
        ("connections.open", 1),
        ("connections.peak", 2),
        ("connections.closed_by_client", 1),
        ("dialect.http_1_1", 6),
        ("dialect.depth_max", 1),
        ("cache.hits", 5),
        ("cache.fills", 1),
    ];
    check_counts(&second, &[&counts[..], &bytes(&[&client, &other])].concat());
    close(&mut client);
    let last = server.end();
    assert_eq!((count(&last, "requests.total"), count(&last, "connections.open")), (6, 0));
    check_sums(&last);
    assert_eq!(server.beside(), ["report.json"]);
}

/// A reader never sees half a report, however often it looks and however fast they come.
#[test]
fn a_report_file_is_whole_at_any_time() {
    let mut server = Reported::start(&["--fixed"]);
    server.on_demand();
    let path = server.path();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                check_sums(&parse(&fs::read_to_string(&path).expect("it is there")));
                reads += 1;
            }
            reads
        });
        let mut client = server.server.connect();
        for _ in 0..30 {
            server.server.signal("USR1");
            server.server.signal("USR1");
            assert_eq!(ask(&mut client, &[HELLO]), [200]);
        }
        close(&mut client);
        is_over.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("it saw whole reports only") > 0);
    });
    let last = server.end();
    assert_eq!((count(&last, "requests.total"), count(&last, "connections.open")), (30, 0));
    assert_eq!(server.beside(), ["report.json"], "nothing is left behind");
}

/// A report on demand is written by a thread of its own. The one at the end is the last word all the same.
#[test]
fn the_report_at_the_end_is_the_last_one() {
    for _ in 0..20 {
        let mut server = Reported::start(&["--fixed"]);
        let mut client = server.server.connect();
        assert_eq!(ask(&mut client, &[HELLO]), [200]);
        for _ in 0..4 {
            server.server.signal("USR1");
        }
        let last = server.end();
        let closed = count(&last, "connections.closed_by_server");
        assert_eq!((count(&last, "connections.open"), closed), (0, 1), "an earlier report came later");
        assert_eq!(server.beside(), ["report.json"], "nothing is left behind");
    }
}

#[test]
fn two_workers_report_together() {
    let mut server = Reported::fixtures(&["--workers", "2"]);
    let mut clients = Vec::new();
    let connections = |report: &Value| -> Vec<u64> {
        let each = at(report, "workers.each").as_array().expect("a list");
        each.iter().map(|worker| count(worker, "connections")).collect()
    };
    for round in 1..=2 {
        // The kernel chooses a worker by a hash of the client's port: 40 connections miss one of two in
        // one run of 2³⁹.
        for _ in 0..40 {
            let mut client = server.server.connect();
            assert_eq!(ask(&mut client, &[HELLO, HELLO]), [200; 2]);
            clients.push(client);
        }
        let report = server.on_demand();
        assert!(connections(&report).iter().all(|&connections| connections > 0), "{report}");
        assert_eq!(count(&report, "connections.open"), 40 * round);
        check_sums(&report);
    }
    clients.iter_mut().for_each(close);
    let report = server.end();
    let fills = count(&report, "cache.fills");
    assert!(fills >= 2, "each has a cache of its own: {report}");
    let peak = count(&report, "connections.peak");
    assert_eq!(peak, 80, "all were open at once");
    let counts = [
        ("requests.total", 160),
        ("requests.by_status.2xx", 160),
        ("requests.by_method.GET", 160),
        ("connections.accepted", 80),
        ("connections.peak", 80),
        ("connections.closed_by_client", 80),
        ("dialect.http_1_1", 160),
        ("dialect.depth_max", 1),
        ("cache.fills", fills),
        ("cache.hits", 160 - fills),
        ("workers.count", 2),
    ];
    check_counts(&report, &[&counts[..], &bytes(&clients.iter().collect::<Vec<_>>())].concat());
    check_parts(&report, Parts { kept: 160, batches: 160, head_bytes: 160 * HELLO.len() as u64 });
    // The busiest has at least the mean, and at most everything.
    let busiest = connections(&report).into_iter().max().expect("two");
    check_ratio(&report, "workers.imbalance", busiest as f64 * 2.0, 80.0);
    assert!((1.0..2.0).contains(&number(&report, "workers.imbalance")), "{report}");
}

#[test]
fn the_environment_is_this_one() {
    let mut server = Reported::start(&["--fixed", "--backlog", "77", "--workers", "2", "--pin"]);
    let report = server.end();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert_eq!(at(&report, "environment.version"), env!("CARGO_PKG_VERSION"));
    assert!(at(&report, "environment.kernel").as_str().expect("text").contains(release.trim()), "{report}");
    let cores = std::thread::available_parallelism().expect("a number").get() as u64;
    assert_eq!(count(&report, "environment.cpus"), cores);
    assert_eq!(count(&report, "environment.backlog"), 77);
    let cpus: Vec<_> =
        (0..2).map(|index| at(&report, &format!("workers.each.{index}.cpus")).clone()).collect();
    assert!(cpus.iter().all(|cpus| cpus.as_array().expect("a list").len() == 1), "{report}");
    assert_eq!(cpus[0] == cpus[1], cores == 1, "{report}");
}

/// Starts a fixed server whose standard error goes to a file of this directory.
fn speaking(dir: &Path, args: &[&str]) -> Server {
    let stderr = fs::File::create(dir.join("stderr")).expect("it is ours");
    let args = ["--fixed", "--listen", "127.0.0.1:0"].iter().chain(args);
    Server::spawn(command().env_remove(QUIET).args(args).stderr(stderr))
}

fn said(dir: &Path) -> String {
    unwarned(&fs::read_to_string(dir.join("stderr")).expect("it is ours"))
}

#[test]
fn a_report_is_text_on_standard_error_unless_asked_otherwise() {
    let dir = temporary();
    for (args, is_said) in
        [(&[][..], true), (&["--report=text"], true), (&["--quiet"], false), (&["-q"], false)]
    {
        let mut server = speaking(dir.path(), args);
        server.connect().assert_open();
        server.signal("TERM");
        assert_eq!((server.wait().code(), &*server.printed()), (Some(0), ""), "{args:?}");
        let said = said(dir.path());
        let labels =
            ["window", "requests", "bytes", "connections", "dialect", "cost", "system calls", "kernel"];
        let labels = labels.iter().chain(&["environment", "verdict"]);
        let lines: Vec<&str> = said.lines().map(str::trim_start).collect();
        for label in labels {
            let count = lines.iter().filter(|line| line.starts_with(&format!("{label} "))).count();
            assert_eq!(count, usize::from(is_said), "{args:?}, {label}: {said}");
        }
        assert_eq!(said.contains("There was too little traffic to judge"), is_said, "{said}");
        assert_eq!(said.is_empty(), !is_said, "{said}");
    }
    let mut server = speaking(dir.path(), &["--report", "json"]);
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0));
    check_counts(&parse(&said(dir.path())), &[]);
}

/// A thread waits for each report that its reader does not take. Who asks by the clock is not to fill the memory
/// with them.
#[test]
fn reports_that_nobody_takes_do_not_pile_up() {
    const WRITERS_MAX: usize = 16;
    let args = ["--fixed", "--listen", "127.0.0.1:0"];
    let mut server = Server::spawn(command().args(args).stderr(Stdio::piped()));
    let threads = |server: &Server| {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        tasks.count()
    };
    let end = Instant::now() + PATIENCE;
    let mut beyond = 0;
    while beyond < 50 {
        assert!(Instant::now() < end, "{} threads: they have read it after all", threads(&server));
        server.signal("USR1");
        assert!(threads(&server) <= 1 + WRITERS_MAX, "{} threads", threads(&server));
        beyond += usize::from(threads(&server) == 1 + WRITERS_MAX);
    }
    assert_eq!(server.connect().get("/").expect("it answers").status(), 200);
    let mut stderr = server.take_stderr();
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(reader.join().expect("it reads").expect("text").contains("verdict"), "the last one comes");
}

/// Whoever asks wants an answer, also of a quiet server.
#[test]
fn a_quiet_server_reports_on_demand() {
    let dir = temporary();
    let mut server = speaking(dir.path(), &["--quiet", "--report", "json"]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, &[HELLO]), [200]);
    server.signal("USR1");
    let end = Instant::now() + PATIENCE;
    while !said(dir.path()).ends_with('\n') {
        assert!(Instant::now() < end, "there is no report");
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = parse(&said(dir.path()));
    assert_eq!((count(&report, "requests.total"), count(&report, "connections.open")), (1, 1));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(said(dir.path()).lines().count(), 1, "and says nothing at the end");
}

#[test]
fn a_second_signal_ends_it_at_once_and_with_a_report() {
    let dir = with_large();
    let mut server = Reported::start(&[dir.path().to_str().expect("text")]);
    let mut client = Client::connect_narrow(server.server.address);
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().expect("its head").status(), 200);
    server.server.signal("TERM");
    // It ends when the port is closed; then a second signal is one of its own.
    crate::lifecycle::until_refused(server.server.address);
    server.server.signal("TERM");
    assert_eq!(server.server.wait().code(), Some(1));
    let report = parse(&fs::read_to_string(server.path()).expect("a report"));
    // Whoever tried whether the port is closed may have been let in once more, and has gone again.
    let counts = ["requests.total", "connections.open", "connections.aborted"];
    assert_eq!(counts.map(|path| count(&report, path)), [1, 1, 0]);
    check_sums(&report);
}

/// A report that cannot be put where it belongs is not lost, and the status tells.
#[test]
fn a_report_file_that_cannot_be_written_in_the_end_is_said_so() {
    let removed = |dir: &Path| fs::remove_dir_all(dir).expect("it is ours");
    let replaced = |dir: &Path| fs::create_dir(dir.join("report.json")).expect("it is ours");
    for (spoil, cause) in
        [(&removed as &dyn Fn(&Path), "no such file or directory"), (&replaced, "is a directory")]
    {
        let dir = temporary();
        let place = dir.path().join("place");
        fs::create_dir(&place).expect("it is ours");
        let path = place.join("report.json");
        // Also a quiet one: there is no other place for it.
        let args = ["--quiet", "--report", "json", "--report-file", path.to_str().expect("text")];
        let mut server = speaking(dir.path(), &args);
        let mut client = server.connect();
        assert_eq!(ask(&mut client, &[HELLO]), [200]);
        spoil(&place);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(1), "{cause}");
        let said = said(dir.path());
        let (report, sentence) = said.split_once('\n').expect("two lines");
        assert_eq!(count(&parse(&format!("{report}\n")), "requests.total"), 1);
        assert!(sentence.starts_with("tared: ") && sentence.lines().count() == 1, "{said}");
        for part in ["--report-file", path.to_str().expect("text"), cause] {
            assert!(sentence.contains(part), "{part:?} is not in {sentence:?}");
        }
    }
}

/// A file that others may read stays one: it has the permissions that the umask leaves, as any other.
#[test]
fn a_report_file_may_be_read_by_whom_the_umask_lets() {
    let mut server = Reported::start(&["--fixed"]);
    server.end();
    let plain = server.path().with_file_name("plain");
    fs::write(&plain, "").expect("it is ours");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode(&server.path()), mode(&plain));
    // And as a pipe is written to, so is what is no regular file.
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--report-file", "/dev/null"];
    let mut server = Server::start(args);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_user_agent_is_the_clients_own_name() {
    let mut server = Reported::start(&["--fixed"]);
    let mut client = server.server.connect();
    let named = "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: probe/1 \"quoted\" \u{e9}\r\n\r\n";
    assert_eq!(ask(&mut client, &[named]), [200]);
    close(&mut client);
    assert_eq!(at(&server.end(), "dialect.user_agent"), "probe/1 \"quoted\" \u{e9}");
}

/// A worker that has ended already is in the report of one that has not.
#[test]
fn a_report_can_be_had_while_the_last_worker_ends() {
    let dir = temporary();
    let path = dir.path().join("report.json");
    let args = ["--fixed", "--size", "100m", "--workers", "2", "--grace", "60s", "--listen", "127.0.0.1:0"];
    let server = Server::spawn(command().args(args).args(["--report", "json", "--report-file"]).arg(&path));
    let mut slow = Client::connect_narrow(server.address);
    slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.take(1).expect("it begins");
    server.signal("TERM");
    // Nothing tells from outside that the idle worker has ended; it does so at once.
    std::thread::sleep(Duration::from_millis(300));
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < end, "there is no report");
        server.signal("USR1");
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = parse(&fs::read_to_string(&path).expect("it is whole"));
    assert_eq!((count(&report, "workers.count"), count(&report, "connections.open")), (2, 1));
}
