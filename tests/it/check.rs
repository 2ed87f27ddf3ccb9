//! `--check URL`: whether a server answers, as an exit status.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Instant;

use crate::command_line::{REFUSED, USAGE, check_refusal, check_usage};
use crate::server::{PATIENCE, Server, command, run, temporary};

/// It serves nothing, so what would be served does not belong beside it.
#[test]
fn what_would_be_served_is_refused_beside_it() {
    for (args, name) in [
        (&["."][..], "DIR"),
        (&["--fixed"], "--fixed"),
        (&["--listen", "127.0.0.1:0"], "--listen"),
        (&["--max-connections", "9"], "--max-connections"),
    ] {
        let mut command = command();
        command.args(["--check", "http://127.0.0.1:1/"]).args(args);
        check_refusal(&mut command, USAGE, &["--check", &format!("{name} does not go")]);
    }
}

#[track_caller]
fn check_well(url: &str) {
    let output = run(command().args(["--check", url]));
    let said = [output.stdout, output.stderr].concat();
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&said)), (Some(0), ""), "{url}");
}

#[test]
fn what_answers_is_well() {
    let server = Server::fixtures();
    let url = |path: &str| format!("http://{}{path}", server.address);
    check_well(&url(""));
    check_well(&url("/hello.txt?query#fragment"));
    // A redirect: RFC 9110 §15.4.
    check_well(&url("/docs"));
    check_well(&format!("http://localhost:{}/", server.address.port()));
    check_refusal(command().args(["--check", &url("/nope")]), REFUSED, &["--check", "/nope'", "404"]);
}

#[test]
fn a_status_of_a_failure_is_said() {
    for (status, is_well) in [("204", true), ("302", true), ("400", false), ("500", false), ("503", false)] {
        let server = Server::fixed(&["--status", status]);
        let url = format!("http://{}/", server.address);
        match is_well {
            true => check_well(&url),
            false => check_refusal(command().args(["--check", &url]), REFUSED, &["--check", &url, status]),
        }
    }
}

#[test]
fn a_unix_socket_is_asked_too() {
    let dir = temporary();
    let place = format!("unix:{}", dir.path().join("socket").display());
    check_refusal(command().args(["--check", &place]), REFUSED, &[&place, "no such file"]);
    let _server = Server::start(["--fixed", "--listen", &place]);
    check_well(&place);
}

#[test]
fn nobody_there_is_said() {
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let url = format!("http://{address}/");
    check_refusal(command().args(["--check", &url]), REFUSED, &["--check", &url, "connection refused"]);
}

/// The kernel takes the connection and the request, and nobody answers, or somebody does without an end.
#[test]
fn it_does_not_wait_for_long() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endless = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endless_address = endless.local_addr().expect("it listens");
    std::thread::spawn(move || {
        let (mut client, _) = endless.accept().expect("it comes");
        let _ = client.read(&mut [0; 1024]);
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\n");
        // Kept open until the client goes.
        let _ = client.read(&mut [0; 1024]);
    });
    for address in [silent.local_addr().expect("it listens"), endless_address] {
        let url = format!("http://{address}/");
        let begin = Instant::now();
        check_refusal(command().args(["--check", &url]), REFUSED, &["--check", &url, "no answer within 3 s"]);
        assert!(begin.elapsed() < PATIENCE / 2);
    }
}

#[test]
fn what_is_no_url_is_refused() {
    for url in [
        "",
        "127.0.0.1:8080",
        "https://127.0.0.1/",
        "http://",
        "http:///",
        "http://:8080/",
        "http://a:b/",
        "http://a:0/",
        "http://a:65536/",
        "http://user@a/",
        "http://::1/",
        "http://a/b c",
        "http://a/\r\nX: y",
        "http://grün/",
        "unix:",
        "unix:relative",
    ] {
        check_usage(&[&format!("--check={url}")], &["--check"]);
    }
}
