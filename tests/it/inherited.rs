//! Sockets that are handed down: sd_listen_fds(3).

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::command_line::{REFUSED, USAGE};
use crate::server::{
    PATIENCE, Server, address, command, fixtures, run, share_environment, skip, temporary, unwarned,
};

/// The binary with `socket` as its descriptor 3. It is handed over as the shell's standard input, so that
/// nobody else who is started meanwhile has it too.
fn handed(socket: impl Into<OwnedFd>, variables: &str, args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{variables} exec \"$0\" \"$@\" 3<&0 </dev/null")]);
    shell.arg(command().get_program()).args(args).stdin(socket.into());
    share_environment(&mut shell);
    shell
}

const ONE: &str = "LISTEN_PID=$$ LISTEN_FDS=1";

/// The binary at a copy of `socket`.
pub(crate) fn start(socket: &TcpListener, args: &[&str]) -> Server {
    Server::spawn_with(&mut handed(socket.try_clone().expect("a copy"), ONE, args), 1)
}

fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

#[test]
fn an_inherited_socket_is_served_instead_of_the_default() {
    let fixtures = fixtures();
    for workers in ["1", "3"] {
        let (listener, address) = bound();
        let server = start(&listener, &["--workers", workers, fixtures.to_str().expect("text")]);
        let version = env!("CARGO_PKG_VERSION");
        let line = format!("tared {version} serving {} on inherited http://{address}/\n", fixtures.display());
        assert_eq!(server.ready_line, line);
        let mut kept: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for client in &mut kept {
            assert_eq!(client.get("/hello.txt").unwrap().text(), "Hello World\n");
        }
        let mut server = server;
        server.signal("TERM");
        assert_eq!(server.printed(), "", "nothing but the one line");
        kept.iter_mut().for_each(Client::assert_closed);
        // It is still its owner's.
        TcpStream::connect(address).expect("the queue is open");
    }
}

#[test]
fn an_address_that_was_asked_for_is_served_besides() {
    let (listener, inherited) = bound();
    let mut command = handed(listener, ONE, &["--fixed", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn_with(&mut command, 2);
    let lines = [&server.ready_line, &server.more_lines[0]];
    let addresses = lines.map(|line| address(line).expect("an address"));
    assert_eq!(lines.map(|line| line.contains(" on inherited http://")), [false, true]);
    assert_eq!(addresses[1], inherited);
    addresses.iter().for_each(|&address| Client::connect(address).assert_open());
}

#[test]
fn an_inherited_unix_socket_keeps_its_file() {
    let dir = temporary();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a name");
    let mut server = Server::spawn_with(&mut handed(listener, ONE, &["--fixed"]), 1);
    let end = format!(" on inherited unix:{}\n", path.display());
    assert!(server.ready_line.ends_with(&end), "{}", server.ready_line);
    Client::connect_unix(&path).expect("it accepts").assert_open();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(path.exists());
}

#[test]
fn the_descriptor_and_the_variables_are_not_handed_on() {
    let (listener, _) = bound();
    let variables = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
    let server = Server::spawn_with(&mut handed(listener, variables, &["--fixed"]), 1);
    // FD_CLOEXEC is the bit 02000000 of flags (proc_pid_fdinfo(5)); 04000 is O_NONBLOCK.
    let info = fs::read_to_string(format!("/proc/{}/fdinfo/3", server.pid())).expect("it is open");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
    let flags = u32::from_str_radix(flags, 8).expect("octal");
    assert_eq!((flags & 0o2000000, flags & 0o4000), (0o2000000, 0o4000), "{info}");
}

/// Who is not meant leaves descriptor and variables alone.
#[test]
fn sockets_for_another_process_are_not_taken() {
    for variables in
        ["LISTEN_PID=1 LISTEN_FDS=1", "LISTEN_FDS=1", "LISTEN_PID=$$", "LISTEN_PID=$$ LISTEN_FDS=0"]
    {
        let (listener, inherited) = bound();
        let mut command = handed(listener, variables, &["--fixed", "--listen", "127.0.0.1:0"]);
        let server = Server::spawn_with(&mut command, 1);
        assert_ne!(server.address, inherited, "{variables}");
        assert!(!server.ready_line.contains("inherited"), "{variables}: {}", server.ready_line);
        server.connect().assert_open();
    }
}

#[test]
fn what_is_no_listening_stream_socket_is_refused() {
    let (listener, address) = bound();
    let connected = TcpStream::connect(address).expect("a connection");
    let file = fs::File::open(fixtures().join("hello.txt")).expect("a file");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let sockets: [(OwnedFd, &str); 3] = [
        (file.into(), "it is no socket"),
        (datagrams.into(), "it is no stream socket"),
        (connected.into(), "it does not listen"),
    ];
    for (socket, cause) in sockets {
        let variables = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
        let parts = ["LISTEN_FDS '1'", "descriptor 3 'web'", cause, "ListenStream="];
        refuses(socket, variables, REFUSED, &parts);
    }
    let two = "LISTEN_PID=$$ LISTEN_FDS=2";
    refuses(
        listener.try_clone().unwrap(),
        two,
        REFUSED,
        &["LISTEN_FDS '2'", "descriptor 4", "bad file descriptor"],
    );
    for (variables, parts) in [
        ("LISTEN_PID=$$ LISTEN_FDS=x", ["LISTEN_FDS 'x'", "no number"]),
        ("LISTEN_PID=$$ LISTEN_FDS=-1", ["LISTEN_FDS '-1'", "no number"]),
        ("LISTEN_PID=$$ LISTEN_FDS=", ["LISTEN_FDS ''", "no number"]),
        ("LISTEN_PID=me LISTEN_FDS=1", ["LISTEN_PID 'me'", "no process id"]),
    ] {
        refuses(listener.try_clone().unwrap(), variables, USAGE, &parts);
    }
}

#[track_caller]
fn refuses(socket: impl Into<OwnedFd>, variables: &str, status: i32, parts: &[&str]) {
    let output = handed(socket, variables, &["--fixed"]).output().expect("it runs");
    let sentence = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{sentence}");
    assert!(sentence.starts_with("tared: ") && sentence.ends_with(")\n"), "{sentence}");
    assert_eq!((sentence.lines().count(), output.stdout.len()), (1, 0), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is not in {sentence:?}");
    }
}

/// The real thing, as far as it can be had without systemd.
#[test]
fn systemd_socket_activate_starts_it() {
    let mut probe = Command::new("sh");
    probe.args(["-c", "exec systemd-socket-activate --version"]);
    if !run(&mut probe).status.success() {
        return skip("systemd_socket_activate_starts_it", "there is no systemd-socket-activate");
    }
    // It needs a port that is known before.
    let (listener, address) = bound();
    drop(listener);
    let mut activate = Command::new("systemd-socket-activate");
    let fixtures = fixtures();
    activate.args(["--fdname=web", "-l", &address.to_string(), env!("CARGO_BIN_EXE_tared")]).arg(&fixtures);
    activate.stdin(Stdio::null()).stderr(Stdio::null());
    // It starts the program at the first connection.
    let client = std::thread::spawn(move || {
        let end = std::time::Instant::now() + crate::server::PATIENCE;
        while std::time::Instant::now() < end {
            if let Ok(stream) = TcpStream::connect(address) {
                drop(stream);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    let server = Server::spawn_with(&mut activate, 1);
    client.join().expect("it has connected");
    assert!(
        server.ready_line.ends_with(&format!(" on inherited http://{address}/\n")),
        "{}",
        server.ready_line
    );
    assert_eq!(server.connect().get("/hello.txt").unwrap().text(), "Hello World\n");
}

/// Who has the listening socket's number cannot be told by it.
#[test]
fn an_inherited_socket_is_not_taken_for_a_descriptor_to_be_told() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", "3"];
    let mut child =
        handed(bound().0, ONE, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill(); // It has ended, or should have.
    let output = child.wait_with_output().unwrap();
    let said = unwarned(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--ready-fd 3"), "{said}");
}
