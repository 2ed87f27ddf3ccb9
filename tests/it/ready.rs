//! Who is told that connections are accepted: a file, a descriptor, and when.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command_line::{REFUSED, check_refusal};
use crate::reported::parse;
use crate::server::{PATIENCE, QUIET, Server, command, command_through, fixtures, temporary, unwarned};

/// The binary, with descriptors as the shell's `redirections` say.
fn with(redirections: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$@\" {redirections}"), "sh"]);
    command_through(shell)
}

/// All that `reader` brings, in bounded time.
fn all_of(mut reader: impl Read + Send + 'static) -> String {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = reader.read_to_string(&mut text).map(|_| sender.send(text));
    });
    unwarned(&receiver.recv_timeout(PATIENCE).expect("it comes to an end"))
}

/// What the file `path` says as soon as it is there: it is put there by its name, and so whole at once.
#[track_caller]
fn awaited(path: &Path) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        assert!(Instant::now() < end, "there is no file");
        // No sleep, so that it is early.
        std::thread::yield_now();
    }
}

/// The line that says what `server` is.
fn line_of(server: &Server, mode: &str, root: Option<&Path>) -> Value {
    json!({
        "address": "127.0.0.1",
        "port": server.address.port(),
        "listen": [format!("http://{}/", server.address)],
        "pid": server.pid(),
        "mode": mode,
        "root": root.map(Path::to_string_lossy),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

#[test]
fn a_descriptor_is_told_and_closed() {
    for fd in ["3", "7"] {
        let redirections = format!("{fd}>&2 2>/dev/null");
        let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", fd];
        let mut server = Server::spawn(with(&redirections).args(args).stderr(Stdio::piped()));
        // Its end comes while the server runs.
        let told = all_of(server.take_stderr());
        assert_eq!(parse(&told), line_of(&server, "fixed", None));
        server.assert_alive();
    }
}

/// A client that it accepts must not be taken for the descriptor, nor a file.
#[test]
fn a_descriptor_that_was_told_is_nobodys() {
    let dir = temporary();
    let told = dir.path().join("told");
    let redirections = format!("3>'{}'", told.display());
    let fixtures = fixtures();
    let args = ["--listen", "127.0.0.1:0", "--ready-fd", "3", fixtures.to_str().expect("text")];
    let mut server = Server::spawn(with(&redirections).args(args));
    for _ in 0..5 {
        server.assert_alive();
    }
    let root = fs::canonicalize(fixtures).expect("it is there");
    let line = fs::read_to_string(told).expect("it is ours");
    assert_eq!(parse(&line), line_of(&server, "directory", Some(&root)), "one line and nothing behind it");
}

#[test]
fn standard_output_and_error_can_be_told_too_and_stay_open() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", "1"];
    let mut server = Server::spawn(command().args(args));
    server.connect().assert_open();
    let line = line_of(&server, "fixed", None);
    server.signal("TERM");
    assert_eq!(parse(&server.printed()), line, "behind the line for people");

    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", "2", "--report", "json"];
    let mut server = Server::spawn(command().args(args).env_remove(QUIET).stderr(Stdio::piped()));
    let line = line_of(&server, "fixed", None);
    server.signal("TERM");
    let said = all_of(server.take_stderr());
    let (told, report) = said.split_at(said.find('\n').expect("a line") + 1);
    assert_eq!(parse(told), line);
    assert_eq!(parse(report)["requests"]["total"], 0, "the report comes behind it");
}

#[test]
fn a_descriptor_that_is_not_open_is_refused() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd"];
    for fd in ["9", "1000000"] {
        let parts = [&format!("--ready-fd {fd}")[..], "bad file descriptor"];
        check_refusal(with("").args(args).arg(fd), REFUSED, &parts);
    }
}

#[test]
fn a_descriptor_that_is_not_open_for_writing_is_refused() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", "3"];
    check_refusal(with("3</dev/null").args(args), REFUSED, &["--ready-fd", "bad file descriptor"]);
}

#[test]
fn the_port_accepts_when_the_file_is_there() {
    let dir = temporary();
    for round in 0..10 {
        let path = dir.path().join(round.to_string());
        let workers = if round % 2 == 0 { "1" } else { "2" };
        let mut command = command();
        command.args(["--fixed", "--listen", "127.0.0.1:0", "--duration", "20s", "--workers", workers]);
        let child = command.arg("--ready-file").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = child.expect("the binary starts");
        let line = parse(&awaited(&path));
        let port = line["port"].as_u64().and_then(|port| port.try_into().ok()).expect("a port");
        let address =
            SocketAddr::new(line["address"].as_str().expect("text").parse().expect("an address"), port);
        let connected = TcpStream::connect_timeout(&address, Duration::from_secs(5));
        let pid = child.id();
        child.kill().and_then(|()| child.wait()).expect("it is our child");
        connected.expect("it accepts");
        assert_eq!(line["pid"], pid);
    }
}

#[test]
fn a_file_and_a_descriptor_are_told_the_same() {
    let dir = temporary();
    let path = dir.path().join("ready.json");
    fs::write(&path, "what was there before").expect("it is ours");
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--ready-fd", "1", "--ready-file"];
    let mut server = Server::spawn(command().args(args).arg(&path));
    server.signal("TERM");
    let printed = server.printed();
    assert_eq!(fs::read_to_string(&path).expect("it is there"), printed);
    assert_eq!(parse(&printed), line_of(&server, "fixed", None));
}

/// JSON is Unicode; a path need not be.
#[test]
fn the_root_is_told_whatever_it_is_called() {
    let dir = temporary();
    let canonical = fs::canonicalize(&dir).expect("it is ours");
    for name in [&b"with space"[..], b"two\nlines", b"quoted\"", "gr\u{fc}n".as_bytes(), b"caf\xe9"] {
        let name = std::ffi::OsStr::from_bytes(name);
        fs::create_dir(dir.path().join(name)).expect("it is ours");
        let path = dir.path().join("ready.json");
        let mut command = command();
        command.args(["--listen", "127.0.0.1:0", "--ready-file"]).arg(&path).arg(name).current_dir(&dir);
        let server = Server::spawn(&mut command);
        let line = parse(&awaited(&path));
        fs::remove_file(&path).expect("it is there");
        let root = canonical.join(name);
        assert_eq!(line["root"], *root.to_string_lossy(), "{name:?}");
        assert_eq!(line["pid"], server.pid());
    }
}
