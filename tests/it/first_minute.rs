//! What somebody meets who starts it by hand: where to click, a browser, a hint.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::command_line::check_usage;
use crate::generated::is_there;
use crate::server::{
    PATIENCE, Server, address, command, fixtures, run, share_environment, skip, temporary, unwarned,
};

/// The further lines of a server that listens at `place`.
fn urls_of(place: &str) -> (Server, Vec<String>) {
    let mut server = Server::start(["--fixed", "--listen", place]);
    let port = server.address.port();
    // Asked while it serves; that others answer too is for their networks to say.
    Client::connect(([127, 0, 0, 1], port).into()).assert_open();
    server.signal("TERM");
    let urls = server.printed().lines().map(str::to_owned).collect();
    (server, urls)
}

#[test]
fn every_address_is_said_one_by_one() {
    for place in ["0.0.0.0:0", ":0"] {
        let (server, urls) = urls_of(place);
        let port = server.address.port();
        let own = format!("  http://127.0.0.1:{port}/");
        assert!(urls.contains(&own), "{place}: {own} is not in {urls:?}");
        let addresses: Vec<_> =
            urls.iter().map(|url| address(url).unwrap_or_else(|| panic!("{place}: {url:?}"))).collect();
        for (url, address) in urls.iter().zip(&addresses) {
            assert_eq!(*url, format!("  http://{address}/"), "{place}");
            assert_eq!(address.port(), port, "{place}");
            assert!(!address.ip().is_unspecified(), "{place}: {url}");
            assert!(place == ":0" || address.is_ipv4(), "{place}: {url}");
        }
        assert!(addresses.is_sorted_by_key(|address| address.ip().is_loopback()), "{place}: {urls:?}");
        assert!(urls.len() <= 16, "{place}: {urls:?}");
    }
}

/// A directory with a program of this name that writes down its argument.
fn opener(name: &str) -> tempfile::TempDir {
    let dir = temporary();
    let path = dir.path().join(name);
    let said = dir.path().join("said");
    let script =
        format!("#!/bin/sh\nprintf %s \"$*\" >'{0}.new' && /bin/mv '{0}.new' '{0}'\n", said.display());
    fs::write(&path, script).expect("it is ours");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    dir
}

#[track_caller]
fn awaited(path: &Path) -> String {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("nobody was sent there");
}

/// Within the sandbox, too, in which it could start nothing.
#[test]
fn a_browser_is_sent_where_it_listens() {
    for place in ["127.0.0.1:0", "0.0.0.0:0", ":0"] {
        let dir = opener("xdg-open");
        let args = ["--open", "--listen", place];
        let server = Server::spawn(command().args(args).arg(fixtures()).env("PATH", dir.path()));
        let url = awaited(&dir.path().join("said"));
        assert_eq!(url, format!("http://127.0.0.1:{}/", server.address.port()), "{place}");
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid()));
        assert_eq!(children.unwrap_or_default(), "", "the browser is its own, and nothing is left of it");
    }
}

#[test]
fn without_a_browser_it_serves_all_the_same() {
    let (dir, no_opener) = (temporary(), opener("something-else"));
    let socket = format!("unix:{}", dir.path().join("socket").display());
    for (place, said) in [("127.0.0.1:0", "xdg-utils"), (&*socket, "unix socket")] {
        let stderr = dir.path().join("stderr");
        let mut command = command();
        command.args(["--fixed", "--open", "--listen", place]).env("PATH", no_opener.path());
        let mut server = Server::spawn(command.stderr(fs::File::create(&stderr).expect("it is ours")));
        if place != socket {
            server.assert_alive();
        }
        server.signal("TERM");
        assert!(server.wait().success());
        let warning = unwarned(&fs::read_to_string(&stderr).expect("it is ours"));
        assert!(warning.starts_with("tared: --open: ") && warning.contains(said), "{warning:?}");
        assert_eq!(warning.lines().count(), 1, "{warning:?}");
    }
}

#[test]
fn a_browser_is_not_started_as_root_by_who_gives_up_root() {
    check_usage(&["--fixed", "--open", "--user", "nobody"], &["--user 'nobody'", "--open"]);
}

#[test]
fn a_terminal_is_told_that_there_is_no_index() {
    let dir = temporary();
    let args = format!("--listen 127.0.0.1:0 --duration 20ms --index a.html '{}'", dir.path().display());
    let hint = "there is no a.html";
    let shell = format!("'{}' {args}", env!("CARGO_BIN_EXE_tared"));
    let said = |mut command: Command| {
        share_environment(&mut command);
        let output = run(command.stdin(Stdio::null()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" on http://127.0.0.1:"), "{text}");
        text
    };
    let with = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args);
        command
    };
    assert!(!said(with("sh", &["-c", &shell])).contains(hint), "a script is told no hints");
    if !is_there("script") {
        return skip("a_terminal_is_told_that_there_is_no_index", "script is not installed");
    }
    let on_terminal = || with("script", &["-q", "-e", "-c", &shell, "/dev/null"]);
    assert!(said(on_terminal()).contains(hint));
    fs::write(dir.path().join("a.html"), "index").expect("it is ours");
    assert!(!said(on_terminal()).contains(hint));
}
