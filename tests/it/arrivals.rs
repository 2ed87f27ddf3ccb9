//! Connections that arrive and say nothing: they wait in the kernel (TCP_DEFER_ACCEPT), where the
//! backlog bounds them, and must be answered all the same once they speak.

use std::time::{Duration, Instant};

use crate::server::{
    PATIENCE, Server, command_with_descriptors, fixtures, may_have_descriptors, skip, temporary,
};

/// How long a connection without data is held back, and as long again.
const SILENCE: Duration = Duration::from_secs(2);

#[test]
fn many_more_clients_than_the_backlog_may_be_silent_at_first() {
    const BACKLOG: &str = "64";
    const CLIENTS: usize = 400;
    let fixtures = fixtures();
    let server = Server::start(["--listen", "127.0.0.1:0", "--backlog", BACKLOG, fixtures.to_str().unwrap()]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    std::thread::sleep(SILENCE);
    for client in &mut clients {
        assert_eq!(client.get("/hello.txt").unwrap().text(), "Hello World\n");
    }
    // Also those who speak while others are held back.
    let _silent: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    assert_eq!(server.connect().get("/hello.txt").unwrap().text(), "Hello World\n");
}

#[test]
fn a_client_that_leaves_without_a_word_leaves_nothing_behind() {
    let server = Server::fixtures();
    server.connect().get("/hello.txt").unwrap();
    let before = server.descriptors();
    drop((0..100).map(|_| server.connect()).collect::<Vec<_>>());
    std::thread::sleep(SILENCE);
    assert_eq!(server.connect().get("/hello.txt").unwrap().status(), 200);
    // The one that has just asked may not be closed yet.
    assert!(server.descriptors() <= before + 1, "{} and {before} before", server.descriptors());
}

/// Clients that hold every descriptor do not keep the others, whom they have let in, from a file.
#[test]
fn a_file_is_served_when_there_is_no_descriptor_left() {
    let mut command = command_with_descriptors(40);
    command.args(["--max-connections", "1000", "--listen", "127.0.0.1:0"]).arg(fixtures());
    let server = Server::spawn(&mut command);
    let targets = ["/hello.txt", "/lipsum.html", "/docs/"];
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for (client, target) in clients.iter_mut().zip(targets.iter().cycle()) {
        // Nobody is idle whose head has begun.
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n"));
    }
    let end = Instant::now() + PATIENCE;
    while server.descriptors() < 40 {
        assert!(Instant::now() < end, "{} descriptors", server.descriptors());
        std::thread::sleep(Duration::from_millis(2));
    }
    for (index, client) in clients[..6].iter_mut().enumerate() {
        // Longer than an entry is believed, so that the file is opened again.
        std::thread::sleep(Duration::from_millis(if index == 3 { 1100 } else { 0 }));
        client.send("\r\n");
        assert_eq!(client.response().unwrap().status(), 200, "{index}");
    }
}

/// What this process needs for other tests, which run beside.
const OTHERS: u64 = 2_000;

/// 500 clients on 64 descriptors: whoever has been idle the longest goes, and everybody is answered.
#[test]
fn idle_connections_make_room_for_new_ones() {
    const CLIENTS: u64 = 500;
    if !may_have_descriptors(CLIENTS + OTHERS) {
        return skip("idle_connections_make_room_for_new_ones", "there are too few descriptors");
    }
    let mut command = command_with_descriptors(64);
    let server = Server::spawn(command.args(["--listen", "127.0.0.1:0"]).arg(fixtures()));
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            assert_eq!(client.get("/hello.txt").unwrap().text(), "Hello World\n");
            client
        })
        .collect();
    assert_eq!(clients.last_mut().unwrap().get("/hello.txt").unwrap().status(), 200, "the last one is kept");
    clients[0].assert_closed();
}

/// The same where nobody can be closed for room, since everybody is in the midst of a request: whoever
/// waits costs nothing, and is answered when there is room again. It is the table that is full, or, with
/// a larger one, the descriptors that run out.
#[test]
fn who_waits_for_room_costs_nothing_and_is_answered() {
    const CLIENTS: usize = 500;
    const DESCRIPTORS: usize = 64;
    // Of 64 descriptors a quarter is for files and the loop itself.
    const TABLE: usize = 48;
    const PAUSE: Duration = Duration::from_secs(2);
    const AT_ONCE: Duration = Duration::from_secs(3);
    if !may_have_descriptors(CLIENTS as u64 + OTHERS) {
        return skip("who_waits_for_room_costs_nothing_and_is_answered", "there are too few descriptors");
    }
    for connections_max in [None, Some("1000")] {
        let mut command = command_with_descriptors(DESCRIPTORS as u64);
        command.args(connections_max.iter().flat_map(|max| ["--max-connections", max]));
        command.args(["--listen", "127.0.0.1:0", "--header-timeout", "60s"]).arg(fixtures());
        let mut server = Server::spawn(&mut command);
        let full = if connections_max.is_some() { DESCRIPTORS } else { server.descriptors() + TABLE };
        let mut holders: Vec<_> = (0..DESCRIPTORS).map(|_| server.connect()).collect();
        holders.iter_mut().for_each(|client| client.send("GET /hello.txt HTTP/1.1\r\n"));
        let end = Instant::now() + PATIENCE;
        while server.descriptors() < full {
            assert!(Instant::now() < end, "{} descriptors and not {full}", server.descriptors());
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut waiting: Vec<_> = (DESCRIPTORS..CLIENTS).map(|_| server.connect()).collect();
        waiting.iter_mut().for_each(|client| client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"));

        let before = server.cpu();
        std::thread::sleep(PAUSE);
        let spent = server.cpu() - before;
        assert!(spent < PAUSE / 50, "{spent:?} of CPU in {PAUSE:?}, with {connections_max:?}");
        assert_eq!(server.descriptors(), full, "nobody was closed and nobody let in");

        let start = Instant::now();
        holders.iter_mut().for_each(|client| client.send("Host: a\r\n\r\n"));
        for client in holders.iter_mut().chain(&mut waiting) {
            assert_eq!(client.response().unwrap().text(), "Hello World\n");
        }
        // Less than the time for which accepting rests, for each tableful.
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        server.assert_alive();
    }
}

/// 10,000 connections that are open at once, each of which asks twice.
#[test]
fn ten_thousand_connections_are_served_at_once() {
    const CLIENTS: usize = 10_000;
    const DESCRIPTORS: u64 = 20_000;
    if !may_have_descriptors(DESCRIPTORS) {
        return skip("ten_thousand_connections_are_served_at_once", "20,000 descriptors are not allowed");
    }
    let mut command = command_with_descriptors(DESCRIPTORS);
    let server = Server::spawn(command.args(["--listen", "127.0.0.1:0"]).arg(fixtures()));
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for client in &mut clients {
        assert_eq!(client.response().unwrap().text(), "Hello World\n");
    }
    assert!(server.descriptors() > CLIENTS, "{} descriptors", server.descriptors());
    let page = std::fs::read(fixtures().join("docs/index.html")).unwrap();
    clients.iter_mut().for_each(|client| client.send("GET /docs/ HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut clients {
        let response = client.response().unwrap();
        assert_eq!((response.status(), &response.body), (200, &page));
    }
}

/// At the limit nobody is closed for somebody who has not come, and nothing is said.
#[test]
fn a_full_table_alone_closes_nobody() {
    let report = temporary();
    let path = report.path().join("report.json");
    let args = ["--max-connections", "4", "--listen", "127.0.0.1:0", "--fixed", "--report", "json"];
    let mut server =
        Server::start(args.iter().map(std::ffi::OsStr::new).chain(["--report-file".as_ref(), path.as_ref()]));
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/").unwrap().status(), 200);
        }
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for count in ["closed_for_room", "accept_rests"] {
        assert_eq!(report["connections"][count], 0, "{count}");
    }
}

/// The same with all of them at once; those who wait cost nothing meanwhile.
#[test]
fn clients_beyond_the_limit_wait_for_their_turn() {
    let server = Server::start(["--max-connections", "8", "--listen", "127.0.0.1:0", "--fixed"]);
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().unwrap().status(), 200);
    }
}
