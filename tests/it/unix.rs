//! Unix sockets: a file that clients on this machine connect to, as a proxy in front does.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::command_line::{REFUSED, check_refusal, check_usage};
use crate::server::{PATIENCE, Server, command, fixtures, run, skip, temporary};
use crate::trace::{self, NO_STRACE, Traced};

/// More than a socket holds.
const LARGE: usize = 8 * 1024 * 1024;

fn serve(socket: &Path, args: &[&str]) -> Server {
    Server::start(
        ["--listen".to_owned(), listen(socket)].iter().map(String::as_str).chain(args.iter().copied()),
    )
}

fn listen(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

fn connect(socket: &Path) -> Client {
    Client::connect_unix(socket).expect("it accepts")
}

/// A directory with files of every way in which they are sent (see the README), and a place for a socket.
fn site() -> (tempfile::TempDir, PathBuf) {
    let dir = temporary();
    fs::write(dir.path().join("index.html"), "index").expect("it is ours");
    for (name, len) in [("read", 40 * 1024), ("mapped", 200 * 1024), ("sent", LARGE)] {
        fs::write(dir.path().join(name), body(len)).expect("it is ours");
    }
    let socket = dir.path().join("socket");
    (dir, socket)
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_unix_socket_serves_as_an_address_does() {
    let (dir, socket) = site();
    for workers in ["1", "2"] {
        let server = serve(&socket, &["--workers", workers, dir.path().to_str().expect("text")]);
        let version = env!("CARGO_PKG_VERSION");
        let line = format!("tared {version} serving {} on unix:{}\n", dir.path().display(), socket.display());
        assert_eq!(server.ready_line, line);
        let mut kept = connect(&socket);
        for (target, len) in [("/read", 40 * 1024), ("/mapped", 200 * 1024), ("/sent", LARGE)] {
            assert!(kept.get(target).expect("an answer").body == body(len), "{target}");
            assert!(connect(&socket).get(target).expect("an answer").body == body(len), "{target}");
        }
        let mut pipelined = connect(&socket);
        pipelined.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
        for _ in 0..20 {
            assert_eq!(pipelined.response().expect("an answer").text(), "index");
        }
        // Byte by byte, and a last word.
        let mut slow = connect(&socket);
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".iter().for_each(|&byte| slow.send([byte]));
        assert_eq!(slow.response().expect("an answer").text(), "index");
        slow.assert_closed();
        let mut wrong = connect(&socket);
        wrong.send("nonsense\r\n\r\n");
        assert_eq!(wrong.response().expect("an answer").status(), 400);
        let mut ended = connect(&socket);
        ended.send("GET /mapped HTTP/1.1\r\nHost: a\r\n\r\n");
        ended.end_input();
        assert!(ended.response().expect("an answer").body == body(200 * 1024));
        ended.assert_closed();
    }
}

/// The socket itself stands in the directory that is served.
#[test]
fn the_socket_is_no_file_to_be_served() {
    let (dir, socket) = site();
    let _server = serve(&socket, &[dir.path().to_str().expect("text")]);
    assert_eq!(connect(&socket).get("/socket").expect("an answer").status(), 404);
}

#[test]
fn two_hundred_clients_at_once_over_a_short_queue() {
    let (dir, socket) = site();
    let server = serve(&socket, &["--backlog", "256", dir.path().to_str().expect("text")]);
    let mut clients: Vec<_> = (0..200).map(|_| connect(&socket)).collect();
    for client in &mut clients {
        client.send("GET /read HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in clients.iter_mut().rev() {
        assert_eq!(client.response().expect("an answer").body.len(), 40 * 1024);
    }
    drop(server);
}

#[test]
fn the_name_is_removed_however_it_ends_in_order() {
    let (_dir, socket) = site();
    for (signals, status) in [(&["TERM"][..], 0), (&["INT"], 0), (&["TERM", "TERM"], 1)] {
        let mut server = serve(&socket, &["--fixed", "--size", "64m"]);
        assert!(fs::symlink_metadata(&socket).expect("it is there").file_type().is_socket());
        // Somebody who does not read keeps it from ending.
        let mut slow = connect(&socket);
        slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        slow.response_to_head().expect("an answer");
        for signal in signals {
            server.signal(signal);
            let end = Instant::now() + PATIENCE;
            while socket.exists() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!socket.exists(), "{signals:?}");
        }
        if status == 0 {
            drop(slow);
        }
        assert_eq!(server.wait().code(), Some(status), "{signals:?}");
    }
    // Nor does a start that fails leave it.
    let args = ["--fixed", "--listen", &listen(&socket), "--listen", "203.0.113.1:0"];
    check_refusal(command().args(args), REFUSED, &["203.0.113.1:0"]);
    assert!(!socket.exists());
}

#[test]
fn a_name_that_another_has_taken_is_left_alone() {
    let (_dir, socket) = site();
    let mut server = serve(&socket, &["--fixed"]);
    fs::remove_file(&socket).expect("it is ours");
    let _other = UnixListener::bind(&socket).expect("the name is free");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(socket.exists());
}

#[test]
fn a_name_left_behind_is_taken_over() {
    let (_dir, socket) = site();
    let mut server = serve(&socket, &["--fixed"]);
    server.signal("KILL");
    server.wait();
    assert!(socket.exists());
    let mut server = serve(&socket, &["--fixed"]);
    connect(&socket).assert_open();
    server.signal("TERM");
    server.wait();
    assert!(!socket.exists());
}

#[test]
fn a_name_in_use_is_refused() {
    let (_dir, socket) = site();
    let address = listen(&socket);
    let args = ["--fixed", "--listen", &address];
    {
        let _server = serve(&socket, &["--fixed"]);
        check_refusal(command().args(args), REFUSED, &["--listen", &address, "address already in use"]);
        connect(&socket).assert_open();
    }
    fs::remove_file(&socket).expect("it was killed");
    // Somebody listens and is behind with accepting.
    let other = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    other.bind(&socket2::SockAddr::unix(&socket).expect("short")).expect("the name is free");
    other.listen(0).expect("it listens");
    let _waits = connect(&socket);
    check_refusal(command().args(args), REFUSED, &["--listen", &address, "address already in use"]);
    drop(other);
    fs::remove_file(&socket).expect("it is ours");
    let _datagrams = UnixDatagram::bind(&socket).expect("the name is free");
    check_refusal(command().args(args), REFUSED, &["--listen", &address, "address already in use"]);
}

#[test]
fn what_is_no_socket_is_refused_and_left_alone() {
    let (dir, socket) = site();
    let address = listen(&socket);
    let args = ["--fixed", "--listen", &address];
    fs::write(&socket, "content").expect("it is ours");
    check_refusal(command().args(args), REFUSED, &["--listen", &address, "no socket"]);
    assert_eq!(fs::read_to_string(&socket).expect("it is there"), "content");
    fs::remove_file(&socket).expect("it is ours");
    symlink(dir.path().join("index.html"), &socket).expect("a link");
    check_refusal(command().args(args), REFUSED, &["--listen", &address, "no socket"]);
    let directory = listen(dir.path());
    check_refusal(command().args(["--fixed", "--listen", &directory]), REFUSED, &[&directory, "no socket"]);
    let nowhere = listen(&dir.path().join("nowhere/socket"));
    check_refusal(command().args(["--fixed", "--listen", &nowhere]), REFUSED, &[&nowhere, "no such file"]);
    let in_file = listen(&dir.path().join("index.html/socket"));
    check_refusal(command().args(["--fixed", "--listen", &in_file]), REFUSED, &[&in_file, "not a directory"]);
}

#[test]
fn a_path_that_is_none_is_refused() {
    for address in ["unix:", "unix:socket", "unix:./socket", "unix:~/socket"] {
        check_usage(&["--fixed", "--listen", address], &[&format!("--listen '{address}'"), "slash"]);
    }
    let long = format!("unix:/{}", "a".repeat(107));
    check_usage(&["--fixed", "--listen", &long], &["--listen", &long, "107"]);
    let longest = format!("unix:/{}", "a/".repeat(53));
    check_refusal(command().args(["--fixed", "--listen", &longest]), REFUSED, &[&longest]);
    let twice = ["--fixed", "--listen", "unix:/nowhere/a", "--listen", "unix:/nowhere/a"];
    check_usage(&twice, &["--listen 'unix:/nowhere/a'", "twice"]);
}

#[test]
fn the_mode_says_who_may_connect() {
    let (_dir, socket) = site();
    for (typed, mode) in [("0660", 0o660), ("600", 0o600), ("0777", 0o777), ("0", 0)] {
        let _server = serve(&socket, &["--fixed", "--unix-mode", typed]);
        assert_eq!(fs::metadata(&socket).expect("it is there").mode() & 0o7777, mode, "{typed}");
        fs::remove_file(&socket).expect("it is ours");
    }
    let mut umask = Command::new("sh");
    umask.args(["-c", "umask 027; exec \"$0\" --fixed --listen \"$1\"", env!("CARGO_BIN_EXE_tared")]);
    let server = Server::spawn(umask.arg(listen(&socket)));
    assert_eq!(fs::metadata(&socket).expect("it is there").mode() & 0o7777, 0o750);
    drop(server);
    for mode in ["", "8", "rw", "-1", "+1", "01000", "0o660", "77777777777", "660 "] {
        let given = format!("--unix-mode={mode}");
        let parts = ["--unix-mode", &format!("'{mode}'")];
        check_usage(&["--fixed", "--listen", &listen(&socket), &given], &parts);
    }
    check_usage(&["--fixed", "--unix-mode", "0660"], &["--unix-mode", "'0660'", "--listen unix:"]);
}

#[test]
fn a_directory_without_leave_to_write_is_refused() {
    const TEST: &str = "a_directory_without_leave_to_write_is_refused";
    let Some(mut command) = crate::privilege::unprivileged() else {
        return skip(TEST, crate::privilege::NO_OTHER_USER);
    };
    let (dir, socket) = site();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).expect("it is ours");
    let args = ["--fixed", "--listen", &listen(&socket)];
    check_refusal(command.args(args), REFUSED, &[args[2], "permission denied", "directory"]);
}

/// Nothing that belongs to TCP is asked of a unix socket, and a request is one read and one write.
#[test]
fn a_warm_request_over_a_unix_socket_is_one_read_and_one_write() {
    const REQUESTS: usize = 100;
    let (_dir, socket) = site();
    let Some(traced) = Traced::start(&["--fixed", "--listen", &listen(&socket)]) else {
        return skip("a_warm_request_over_a_unix_socket_is_one_read_and_one_write", NO_STRACE);
    };
    let mut client = connect(&socket);
    client.get("/warm").expect("an answer");
    client.get("/begin").expect("an answer");
    for _ in 0..REQUESTS {
        client.get("/").expect("an answer");
    }
    client.get("/end").expect("an answer");
    let calls = traced.calls_between("GET /begin", "GET /end");
    // A unix socket tells that it is free to write whenever its client has read: where that comes before the
    // next request it is an event of its own, at which there is nothing to read.
    let calls: Vec<_> = calls.iter().filter(|call| !call.contains("= -1 EAGAIN")).collect();
    let count = |names: &[&str]| calls.iter().filter(|call| names.contains(&trace::name(call))).count();
    assert_eq!(count(&["recvfrom", "recv", "recvmsg", "read"]), REQUESTS);
    assert_eq!(count(&["sendto", "send", "sendmsg", "writev"]), REQUESTS + 1);
    assert_eq!(count(&["setsockopt", "epoll_ctl", "fcntl", "ioctl"]), 0, "{calls:?}");
}

#[test]
fn a_client_that_knows_unix_sockets_is_served() {
    let (_dir, socket) = site();
    let fixtures = fixtures();
    let _server = serve(&socket, &[fixtures.to_str().expect("text")]);
    let mut curl = Command::new("sh");
    curl.args(["-c", "exec curl -sS --unix-socket \"$0\" http://localhost/hello.txt"]).arg(&socket);
    match run(&mut curl).stdout {
        text if text == b"Hello World\n" => {}
        _ if !run(Command::new("sh").args(["-c", "curl --version"]).stdin(Stdio::null()))
            .status
            .success() =>
        {
            skip("a_client_that_knows_unix_sockets_is_served", "there is no curl");
        }
        text => panic!("{:?}", String::from_utf8_lossy(&text)),
    }
}
