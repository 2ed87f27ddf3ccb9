//! Which connections are kept (RFC 9112 §9.3), and how the others close (§9.6).

use crate::client::{Client, Response};
use crate::server::Server;

/// What a client may say about its connection, and whether the connection is kept.
const TABLE: [(&str, &str, bool); 32] = [
    // Persistent, unless the close option is there.
    ("HTTP/1.1", "", true),
    ("HTTP/1.1", "Connection: keep-alive\r\n", true),
    ("HTTP/1.1", "Connection: close\r\n", false),
    ("HTTP/1.1", "Connection: Close\r\n", false),
    ("HTTP/1.1", "connection: CLOSE\r\n", false),
    ("HTTP/1.1", "Connection:close\r\n", false),
    ("HTTP/1.1", "Connection: \t close \t\r\n", false),
    ("HTTP/1.1", "Connection: keep-alive, close\r\n", false),
    ("HTTP/1.1", "Connection: close, keep-alive\r\n", false),
    ("HTTP/1.1", "Connection: x-one,close,x-two\r\n", false),
    ("HTTP/1.1", "Connection: x-one\t,\tclose\t, x-two\r\n", false),
    // RFC 9110 §5.3: several lines are one list; §5.6.1: empty elements do not count.
    ("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
    ("HTTP/1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
    ("HTTP/1.1", "Connection: , close ,,\r\n", false),
    ("HTTP/1.1", "Connection:\r\n", true),
    // Other tokens.
    ("HTTP/1.1", "Connection: closed\r\n", true),
    ("HTTP/1.1", "Connection: x-close\r\n", true),
    ("HTTP/1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n", true),
    ("HTTP/1.1", "X-Connection: close\r\n", true),
    ("HTTP/1.1", "Proxy-Connection: close\r\n", true),
    // HTTP/1.0: not persistent, unless keep-alive is there and close is not.
    ("HTTP/1.0", "", false),
    ("HTTP/1.0", "Connection: keep-alive\r\n", true),
    ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
    ("HTTP/1.0", "CONNECTION: KEEP-ALIVE\r\n", true),
    ("HTTP/1.0", "Connection: x-one, keep-alive\r\n", true),
    ("HTTP/1.0", "Connection: x-one\r\nConnection: keep-alive\r\n", true),
    ("HTTP/1.0", "Connection: close\r\n", false),
    ("HTTP/1.0", "Connection: keep-alive, close\r\n", false),
    ("HTTP/1.0", "Connection: close, keep-alive\r\n", false),
    ("HTTP/1.0", "Connection: keep-alives\r\n", false),
    ("HTTP/1.0", "Keep-Alive: timeout=5\r\n", false),
    ("HTTP/1.0", "Proxy-Connection: keep-alive\r\n", false),
];

/// Sends `request`, and checks that the answer has `status` and that the connection is kept, or
/// closed, and says so.
#[track_caller]
fn check(client: &mut Client, request: &str, status: u16, is_kept: bool) -> Response {
    client.send(request);
    let is_head = request.starts_with("HEAD ");
    let response = if is_head { client.response_to_head() } else { client.response() }.expect("an answer");
    assert_eq!(response.status(), status, "{request:?}");
    let said: Vec<String> = response.fields("Connection").iter().map(|v| v.to_lowercase()).collect();
    if is_kept {
        // HTTP/1.0: and then the answer says so.
        let expected: &[&str] = if request.contains(" HTTP/1.0\r\n") { &["keep-alive"] } else { &[] };
        assert!(said == expected || said == ["keep-alive"], "{request:?}: {}", response.head);
        client.assert_open();
    } else {
        assert_eq!(said, ["close"], "{request:?}: {}", response.head);
        client.assert_closed();
    }
    response
}

#[test]
fn files_and_errors_are_kept_as_the_client_says() {
    let server = Server::fixtures();
    for (version, connection, is_kept) in TABLE {
        for (method, target, status) in [
            ("GET", "/hello.txt", 200),
            ("HEAD", "/hello.txt", 200),
            ("GET", "/lipsum.html", 200),
            ("GET", "/0k.txt", 200),
            ("GET", "/docs", 301),
            ("GET", "/nope", 404),
            ("HEAD", "/nope", 404),
            ("DELETE", "/hello.txt", 405),
        ] {
            let request = format!("{method} {target} {version}\r\nHost: a\r\n{connection}\r\n");
            check(&mut server.connect(), &request, status, is_kept);
        }
    }
}

#[test]
fn the_fixed_response_is_kept_as_the_client_says() {
    let server = Server::fixed(&["--body", "Hello"]);
    for (version, connection, is_kept) in TABLE {
        for method in ["GET", "HEAD", "POST"] {
            let request = format!("{method} / {version}\r\nHost: a\r\n{connection}\r\n");
            check(&mut server.connect(), &request, 200, is_kept);
        }
    }
}

#[test]
fn http_1_0_needs_no_host_to_be_kept() {
    let server = Server::fixtures();
    let mut client = server.connect();
    for _ in 0..3 {
        check(&mut client, "GET /hello.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200, true);
    }
    check(&mut client, "GET /hello.txt HTTP/1.0\r\n\r\n", 200, false);
}

#[test]
fn a_connection_is_kept_for_thousands_of_requests() {
    for server in [Server::fixtures(), Server::fixed(&[])] {
        let mut client = server.connect();
        for _ in 0..3000 {
            client.get("/0k.txt").expect("it is still open");
        }
    }
}

#[test]
fn nothing_behind_a_last_request_is_answered() {
    let server = Server::fixtures();
    for last in [
        "GET /0k.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /0k.txt HTTP/1.0\r\n\r\n",
        "GET /0k.txt HTTP/1.1\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(format!("{last}GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response().expect("an answer");
        client.assert_closed();
    }
}

#[test]
fn a_malformed_request_is_answered_whole_however_much_follows() {
    let junk = vec![b'j'; 1024 * 1024];
    for server in [Server::fixtures(), Server::fixed(&[])] {
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
            "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\0\0\0\0",
        ] {
            for len in [0, 64 * 1024, junk.len()] {
                let mut client = server.connect();
                client.send([bad.as_bytes(), &junk[..len]].concat());
                let response = client.response().expect("an answer");
                assert_eq!(response.status(), 400, "{bad:?}");
                assert_eq!(response.field("Connection"), Some("close"), "{bad:?}");
                client.assert_closed();
            }
        }
    }
}

#[test]
fn a_last_response_arrives_whole_however_much_follows() {
    let server = Server::fixtures();
    let junk = vec![b'j'; 1024 * 1024];
    let request = b"GET /lipsum.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for len in [1, 64 * 1024, junk.len()] {
        let mut client = server.connect();
        client.send([request, &junk[..len]].concat());
        assert_eq!(client.response().expect("an answer").body.len(), 33792);
        client.assert_closed();
    }
}

#[test]
fn a_client_that_sends_on_after_the_close_was_announced_meets_no_reset() {
    // autocannon writes its next request even after `Connection: close`.
    let server = Server::fixtures();
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\nno request\r\n\r\n");
    assert_eq!(client.response().expect("an answer").status(), 200);
    for _ in 0..100 {
        client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(client.response().expect("an answer").status(), 400);
    client.assert_closed();
}
