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

/// Clients that hold every descriptor do not keep the others, whom they have let in, from a file.
#[test]
fn a_file_is_served_when_there_is_no_descriptor_left() {
    let fixtures = fixtures();
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -n 40 && exec \"$0\" --listen 127.0.0.1:0 \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tared")]).arg(&fixtures);
    let server = Server::spawn(&mut command);
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let mut answered = 0;
    for client in &mut clients {
        client.stream().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        answered += usize::from(client.get("/hello.txt").is_ok());
    }
    assert!((20..40).contains(&answered), "{answered} were let in");
    // Longer than an entry is believed, so that each round opens the file again.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1100));
        for target in ["/hello.txt", "/lipsum.html", "/docs/"] {
            assert_eq!(clients[0].get(target).unwrap().status(), 200, "{target}");
        }
    }
    // Who goes makes room for who waits.
    clients.truncate(5);
    assert_eq!(server.connect().get("/hello.txt").unwrap().status(), 200);
}
