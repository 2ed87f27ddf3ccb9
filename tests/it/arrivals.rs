//! Connections that arrive and say nothing: they wait in the kernel (TCP_DEFER_ACCEPT), where the
//! backlog bounds them, and must be answered all the same once they speak.

use std::time::{Duration, Instant};

use crate::server::{PATIENCE, Server, fixtures, temporary};

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
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    server.connect().get("/hello.txt").unwrap();
    let before = descriptors();
    drop((0..100).map(|_| server.connect()).collect::<Vec<_>>());
    std::thread::sleep(SILENCE);
    assert_eq!(server.connect().get("/hello.txt").unwrap().status(), 200);
    // The one that has just asked may not be closed yet.
    assert!(descriptors() <= before + 1, "{} and {before} before", descriptors());
}

/// Clients that hold every descriptor do not keep the others, whom they have let in, from a file.
#[test]
fn a_file_is_served_when_there_is_no_descriptor_left() {
    let fixtures = fixtures();
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -n 40 && exec \"$0\" --max-connections 1000 --listen 127.0.0.1:0 \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tared")]).arg(&fixtures);
    let server = Server::spawn(&mut command);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let targets = ["/hello.txt", "/lipsum.html", "/docs/"];
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for (client, target) in clients.iter_mut().zip(targets.iter().cycle()) {
        // Nobody is idle whose head has begun.
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n"));
    }
    let end = Instant::now() + PATIENCE;
    while descriptors() < 40 {
        assert!(Instant::now() < end, "{} descriptors", descriptors());
        std::thread::sleep(Duration::from_millis(2));
    }
    for (index, client) in clients[..6].iter_mut().enumerate() {
        // Longer than an entry is believed, so that the file is opened again.
        std::thread::sleep(Duration::from_millis(if index == 3 { 1100 } else { 0 }));
        client.send("\r\n");
        assert_eq!(client.response().unwrap().status(), 200, "{index}");
    }
}

/// 200 clients on 64 descriptors: whoever has been idle the longest goes, and everybody is answered.
#[test]
fn idle_connections_make_room_for_new_ones() {
    let fixtures = fixtures();
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -n 64 && exec \"$0\" --listen 127.0.0.1:0 \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tared")]).arg(&fixtures);
    let server = Server::spawn(&mut command);
    let mut clients: Vec<_> = (0..200)
        .map(|_| {
            let mut client = server.connect();
            assert_eq!(client.get("/hello.txt").unwrap().text(), "Hello World\n");
            client
        })
        .collect();
    assert_eq!(clients.last_mut().unwrap().get("/hello.txt").unwrap().status(), 200, "the last one is kept");
    clients[0].assert_closed();
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
