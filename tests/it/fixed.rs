//! `--fixed`: one precomputed response to everything.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use crate::client::Response;
use crate::server::{Server, skip, temporary};

/// The answer of a server started with `args`.
#[track_caller]
fn answer(args: &[&str]) -> Response {
    Server::fixed(args).connect().get("/").expect("an answer")
}

#[track_caller]
fn check_body(args: &[&str], body: &[u8], content_type: &str) {
    let response = answer(args);
    assert_eq!(response.status(), 200, "{args:?}");
    assert_eq!(response.body, body, "{args:?}");
    assert_eq!(response.field("Content-Type"), Some(content_type), "{args:?}");
}

#[test]
fn the_body_is_text_or_a_file() {
    check_body(&[], b"", "text/html");
    check_body(&["--body", ""], b"", "text/plain; charset=utf-8");
    check_body(&["--body", r"Hello World\n"], b"Hello World\n", "text/plain; charset=utf-8");
    check_body(&["--body", r"\r\n\t\\n"], b"\r\n\t\\n", "text/plain; charset=utf-8");
    check_body(&["--body", "a\nb\\\\"], b"a\nb\\", "text/plain; charset=utf-8");
    check_body(&["--body", "grüße"], "grüße".as_bytes(), "text/plain; charset=utf-8");
    check_body(&["--size", "0"], b"", "text/html");
    check_body(&["--body", "{}", "--type", "application/json"], b"{}", "application/json");
    check_body(&["--type", "image/png"], b"", "image/png");

    let dir = temporary();
    let binary: Vec<u8> = (0..=255).collect();
    for (name, content, content_type) in [
        ("a.css", &b"b { }"[..], "text/css; charset=utf-8"),
        ("a.html", b"<p>", "text/html; charset=utf-8"),
        ("a.png", &binary, "image/png"),
        // Escapes are for TEXT.
        ("a.txt", br"a\nb", "text/plain; charset=utf-8"),
        ("empty.txt", b"", "text/plain; charset=utf-8"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("it is ours");
        let body = format!("@{}", path.display());
        check_body(&["--body", &body], content, content_type);
        check_body(&["--body", &body, "--type", "a/b"], content, "a/b");
    }
}

#[test]
fn a_body_file_without_an_extension_is_plain_text_wherever_it_is() {
    let dir = temporary();
    for path in ["README", "with.dot/README"] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
        fs::write(&path, "read").expect("it is ours");
        check_body(&["--body", &format!("@{}", path.display())], b"read", "text/plain; charset=utf-8");
    }
}

#[test]
fn the_body_has_the_size_that_is_asked_for() {
    for (size, bytes) in [
        ("1", 1),
        ("1000", 1000),
        ("3k", 3 * 1024),
        ("64k", 64 * 1024),
        ("100000", 100_000),
        ("3m", 3 * 1024 * 1024),
        ("3M", 3 * 1024 * 1024),
    ] {
        let response = answer(&["--size", size]);
        assert_eq!(response.field("Content-Length"), Some(&*bytes.to_string()), "{size}");
        assert_eq!(response.body.len(), bytes, "{size}");
    }
}

#[test]
fn a_size_beyond_memory_is_announced() {
    let server = Server::fixed(&["--size", "1g"]);
    let mut client = server.connect();
    for _ in 0..2 {
        let response = client.request("HEAD", "/", "").expect("an answer");
        assert_eq!(response.field("Content-Length"), Some("1073741824"));
    }
}

#[test]
fn the_status_is_the_one_that_is_asked_for() {
    for (code, phrase) in [
        (200, "OK"),
        (201, "Created"),
        (404, "Not Found"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (503, "Service Unavailable"),
    ] {
        let response = answer(&["--status", &code.to_string(), "--body", "Hi"]);
        assert!(response.head.starts_with(&format!("HTTP/1.1 {code} {phrase}\r\n")), "{}", response.head);
        assert_eq!((response.status(), response.text()), (code, "Hi"));
    }
    // RFC 9112 §4: without a phrase the space behind the code stays.
    assert!(answer(&["--status", "299"]).head.starts_with("HTTP/1.1 299 "));
}

#[test]
fn a_status_without_content_has_none() {
    for code in ["204", "304"] {
        let server = Server::fixed(&["--status", code]);
        let mut client = server.connect();
        for method in ["GET", "HEAD", "POST"] {
            let response = client.request(method, "/", "").expect("an answer");
            assert_eq!(response.status().to_string(), code);
            // RFC 9110 §8.6: no Content-Length in a 204.
            assert!(code != "204" || response.field("Content-Length").is_none(), "{}", response.head);
            assert_eq!(response.field("Transfer-Encoding"), None);
        }
        client.end_input();
        client.assert_closed();
    }
}

#[test]
fn a_header_is_added_or_replaces_ours() {
    let response = answer(&[]);
    assert_eq!(response.field("Server"), Some("tared"));

    let args = ["--header", "X-One: 1", "--header", "Set-Cookie: a=b", "--header", "Set-Cookie:c=d"];
    let response = answer(&args);
    assert_eq!(response.field("X-One"), Some("1"));
    assert_eq!(response.fields("Set-Cookie"), ["a=b", "c=d"]);
    assert_eq!(response.field("Server"), Some("tared"));

    assert_eq!(answer(&["--header", "Server: other"]).fields("Server"), ["other"]);
    assert_eq!(answer(&["--header", "server: other"]).fields("Server"), ["other"]);
}

#[test]
fn kept_or_closed_and_get_or_head_have_the_same_head() {
    let server = Server::fixed(&["--body", "Hello", "--header", "X: y"]);
    let whole = |response: Response| {
        let head = response.without_date().head;
        head.replace("Connection: close\r\n", "").replace("Connection: keep-alive\r\n", "")
    };
    let expected = whole(server.connect().get("/").expect("an answer"));
    for method in ["GET", "HEAD"] {
        for connection in ["", "Connection: close\r\n"] {
            let mut client = server.connect();
            let response = client.request(method, "/", connection).expect("an answer");
            assert_eq!(response.field("Content-Length"), Some("5"));
            assert_eq!(response.text(), if method == "GET" { "Hello" } else { "" });
            let closes = response.field("Connection") == Some("close");
            assert_eq!(closes, !connection.is_empty(), "{}", response.head);
            assert_eq!(whole(response), expected);
            if closes {
                client.assert_closed();
            } else {
                client.assert_open();
            }
        }
    }
}

#[test]
fn any_method_on_any_target_has_the_answer() {
    let server = Server::fixed(&["--body", "Hello"]);
    let mut client = server.connect();
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "get", "M-SEARCH"] {
        for target in ["/", "/any/thing?q", "/../..", "/%00", "/.env", "//x", "http://a/b"] {
            let response = client.request(method, target, "").expect("an answer");
            assert_eq!((response.status(), response.text()), (200, "Hello"), "{method} {target}");
        }
    }
    let response = client.request("OPTIONS", "*", "").expect("an answer");
    assert_eq!(response.status(), 200);
    // RFC 9110 §9.3.8: a 2xx to TRACE would have to send the request back.
    let response = client.request("TRACE", "/", "Cookie: secret\r\n").expect("an answer");
    assert_eq!(response.status(), 405);
    assert!(!response.text().contains("secret"));
}

#[test]
fn there_is_no_tunnel() {
    // RFC 9110 §9.3.6: any 2xx to CONNECT would begin one.
    let server = Server::fixed(&["--body", "Hello"]);
    let mut client = server.connect();
    let response = client.request("CONNECT", "a:80", "").expect("an answer");
    assert_eq!(response.status(), 405);
    assert!(response.field("Allow").is_some(), "{}", response.head); // RFC 9110 §15.5.6
    server.connect().assert_open();
}

#[test]
fn date_moves_and_is_right() {
    let server = Server::fixed(&[]);
    let mut client = server.connect();
    let mut date = || {
        let response = client.get("/").expect("an answer");
        let text = response.field("Date").expect("a date").to_owned();
        let at = httpdate::parse_http_date(&text).expect("a date");
        assert_eq!(httpdate::fmt_http_date(at), text, "RFC 9110 §5.6.7: IMF-fixdate");
        let now = SystemTime::now();
        let off = now.duration_since(at).or_else(|_| at.duration_since(now)).expect("one of the two");
        assert!(off < Duration::from_secs(3), "{text} is {off:?} off");
        text
    };
    let first = date();
    let end = Instant::now() + Duration::from_secs(3);
    while date() == first {
        assert!(Instant::now() < end, "it stays {first}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A pipe can be read only once, also where several workers need what was in it.
#[test]
fn a_body_may_come_from_a_pipe() {
    let dir = temporary();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("a_body_may_come_from_a_pipe", "mkfifo does not work here");
    }
    let writer = {
        let fifo = fifo.clone();
        std::thread::spawn(move || std::fs::write(fifo, "from a pipe"))
    };
    let body = format!("--body=@{}", fifo.display());
    let server = Server::fixed(&[&body, "--workers", "2"]);
    writer.join().expect("it does not panic").expect("somebody reads");
    assert!(server.ready_line.contains("11 bytes"), "{}", server.ready_line);
    for _ in 0..20 {
        assert_eq!(server.connect().get("/").expect("an answer").text(), "from a pipe");
    }
}
