//! Connections that arrive and say nothing: they wait in the kernel (TCP_DEFER_ACCEPT), where the
//! backlog bounds them, and must be answered all the same once they speak.

use std::time::Duration;

use crate::server::{Server, fixtures};

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
