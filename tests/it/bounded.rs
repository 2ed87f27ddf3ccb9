//! Runs that end by themselves: after a number of requests, or a time.

use std::fs;
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::reported::{Reported, at, count};
use crate::server::{PATIENCE, fixtures, temporary};

const HELLO: &str = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// Reads answers until the server ends the connection.
#[track_caller]
fn answers(client: &mut Client) -> Vec<Response> {
    let mut answers = Vec::new();
    // One more than any test asks for is more than there can be.
    for _ in 0..1000 {
        match client.response() {
            Ok(answer) => answers.push(answer),
            Err(_) => return answers,
        }
    }
    panic!("there is no end of answers");
}

fn says_close(answer: &Response) -> bool {
    answer.field("Connection") == Some("close")
}

/// The last answer of a connection, and only that, says that it is the last.
#[track_caller]
fn check_closes(answers: &[Response]) {
    let (last, earlier) = answers.split_last().expect("an answer");
    assert!(says_close(last), "{}", last.head);
    assert!(!earlier.iter().any(says_close));
}

#[test]
fn exactly_so_many_requests_are_answered_one_after_the_other() {
    for max in [1, 2, 7] {
        let mut server = Reported::fixtures(&["--max-requests", &max.to_string()]);
        let mut client = server.server.connect();
        let mut got = Vec::new();
        for _ in 0..max {
            client.send(HELLO);
            got.push(client.response().expect("an answer"));
        }
        check_closes(&got);
        client.assert_closed();
        drop(client);
        let report = server.ended();
        assert_eq!(count(&report, "requests.total"), max);
        assert_eq!(count(&report, "connections.closed_by_server"), 1);
    }
}

#[test]
fn requests_beyond_the_number_are_not_answered_though_they_came_with_the_others() {
    for (max, sent) in [(5, 5), (5, 6), (5, 50), (1, 300)] {
        let mut server = Reported::fixtures(&["--max-requests", &max.to_string()]);
        let mut client = server.server.connect();
        client.send(HELLO.repeat(sent));
        let got = answers(&mut client);
        assert_eq!(got.len(), max, "of {sent}");
        check_closes(&got);
        assert!(got.iter().all(|answer| answer.text() == "Hello World\n"));
        drop(client);
        let report = server.ended();
        assert_eq!(count(&report, "requests.total"), max as u64);
        assert_eq!(count(&report, "dialect.depth_max"), max as u64);
        assert_eq!(count(&report, "bytes.received"), (sent * HELLO.len()) as u64);
    }
}

/// Several connections draw on one number, whoever serves them.
#[test]
fn several_connections_and_workers_share_the_number() {
    const MAX: usize = 100;
    for workers in ["1", "2"] {
        let mut server = Reported::fixtures(&["--workers", workers, "--max-requests", &MAX.to_string()]);
        let address = server.server.address;
        let clients: Vec<_> = (0..8)
            .map(|_| {
                // Before any of them asks, so that all of them are let in.
                let mut client = Client::connect(address);
                std::thread::spawn(move || {
                    let mut got = Vec::new();
                    // Each of them would go on beyond what all of them together are given.
                    for _ in 0..MAX + 1 {
                        // The server may be gone already.
                        if std::io::Write::write_all(&mut client.stream(), HELLO.as_bytes()).is_err() {
                            break;
                        }
                        let Ok(answer) = client.response() else { break };
                        got.push(answer);
                        if got.last().is_some_and(says_close) {
                            break;
                        }
                    }
                    got
                })
            })
            .collect();
        let got: Vec<Response> =
            clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect();
        let report = server.ended();
        assert_eq!(count(&report, "requests.total"), MAX as u64, "{workers} workers");
        assert_eq!(count(&report, "requests.by_status.2xx"), MAX as u64);
        assert_eq!(got.len(), MAX, "each was answered to its end: {workers} workers, {report}");
        assert!(got.iter().any(says_close));
    }
}

/// What is sent by the kernel is given back and taken again when the socket is full.
#[test]
fn large_files_count_like_small_ones_however_slowly_they_are_read() {
    const LARGE: usize = 3 * 1024 * 1024;
    let dir = temporary();
    fs::write(dir.path().join("large"), vec![b'L'; LARGE]).expect("it is ours");
    fs::write(dir.path().join("mapped"), vec![b'M'; 200_000]).expect("it is ours");
    for (target, len) in [("/large", LARGE), ("/mapped", 200_000)] {
        let mut server = Reported::start(&["--max-requests", "9", dir.path().to_str().expect("text")]);
        let mut clients: Vec<Client> =
            (0..2).map(|_| Client::connect_narrow(server.server.address)).collect();
        for client in &mut clients {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(6));
        }
        let threads: Vec<_> =
            clients.into_iter().map(|mut client| std::thread::spawn(move || answers(&mut client))).collect();
        let got: Vec<Vec<Response>> =
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        let bodies = got.iter().flatten().map(|answer| answer.body.len());
        assert!(bodies.clone().all(|body| body == len));
        assert_eq!(bodies.count(), 9, "{target}");
        let report = server.ended();
        assert_eq!(count(&report, "requests.total"), 9);
        assert_eq!(count(&report, "connections.aborted"), 0);
        assert_eq!(
            count(&report, "cache.hits") + count(&report, "cache.fills"),
            9,
            "one look a request: {report}"
        );
        // Each is read from its file, so each ends its batch.
        assert_eq!(at(&report, "dialect.depth_mean"), 1.0, "{report}");
    }
}

#[test]
fn what_is_refused_is_an_answer_too() {
    let mut server = Reported::start(&["--fixed", "--max-requests", "2"]);
    let mut first = server.server.connect();
    first.send("no request\r\n\r\n");
    assert_eq!(first.response().expect("an answer").status(), 400);
    drop(first);
    let mut second = server.server.connect();
    let answer = second.get("/").expect("an answer");
    assert!(says_close(&answer), "{}", answer.head);
    drop(second);
    let report = server.ended();
    assert_eq!((count(&report, "requests.total"), count(&report, "dialect.malformed")), (2, 1));
}

#[test]
fn an_idle_connection_does_not_hold_up_the_end() {
    let mut server = Reported::start(&["--fixed", "--max-requests", "2"]);
    let mut idle = server.server.connect();
    idle.get("/").expect("an answer");
    let mut last = server.server.connect();
    assert!(says_close(&last.get("/").expect("an answer")));
    drop(last);
    let report = server.ended();
    idle.assert_closed();
    assert_eq!(count(&report, "requests.total"), 2);
    assert_eq!(count(&report, "connections.closed_by_server"), 2);
}

#[test]
fn a_time_ends_it_with_a_report() {
    // A client must be there in time, also on a machine that is busy with other tests.
    for (workers, millis, connections) in [("1", 300, 0), ("1", 1000, 2), ("2", 300, 0), ("2", 1000, 4)] {
        let start = Instant::now();
        let mut server = Reported::fixtures(&["--workers", workers, "--duration", &format!("{millis}ms")]);
        // Of those that were never used the kernel holds some back; those that were are the server's.
        let mut idle: Vec<Client> = (0..connections).map(|_| server.server.connect()).collect();
        idle.iter_mut().for_each(|client| assert_eq!(client.get("/").expect("an answer").status(), 200));
        let report = server.ended();
        let took = start.elapsed();
        assert!((Duration::from_millis(millis)..PATIENCE / 2).contains(&took), "{took:?}");
        idle.iter_mut().for_each(Client::assert_closed);
        assert_eq!(count(&report, "requests.total"), connections);
        assert_eq!(count(&report, "connections.closed_by_server"), connections);
    }
}

#[test]
fn a_time_ends_it_in_the_midst_of_traffic_and_in_order() {
    let mut server = Reported::fixtures(&["--duration", "300ms"]);
    let mut client = server.server.connect();
    let mut asked = 0;
    let is_last = loop {
        assert!(asked < 10_000_000, "it does not end");
        asked += 1;
        match client.get("/hello.txt") {
            Ok(answer) if says_close(&answer) => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    let report = server.ended();
    // A client whose request crossed the close was not answered.
    assert_eq!(count(&report, "requests.total"), asked - u64::from(!is_last));
}

#[test]
fn the_first_of_two_bounds_ends_it() {
    let mut server = Reported::start(&["--fixed", "--duration", "1h", "--max-requests", "1"]);
    assert!(says_close(&server.server.connect().get("/").expect("an answer")));
    assert_eq!(count(&server.ended(), "requests.total"), 1);
    let mut server = Reported::start(&["--fixed", "--duration", "1ms", "--max-requests", "1000"]);
    assert_eq!(count(&server.ended(), "requests.total"), 0);
}

/// A signal ends a bounded run as it ends any other.
#[test]
fn a_signal_ends_a_bounded_run_too() {
    let fixtures = fixtures();
    let args = ["--duration", "1h", "--max-requests", "1000", fixtures.to_str().expect("text")];
    let mut server = Reported::start(&args);
    server.server.connect().get("/").expect("an answer");
    assert_eq!(count(&server.end(), "requests.total"), 1);
}
