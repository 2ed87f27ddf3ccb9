//! Methods, forms of the target and expectations (RFC 9110 §9, §10.1.1; RFC 9112 §3.2).

use crate::server::Server;

/// Sends a head of `lines` and reads what comes back.
fn answer(server: &Server, line: &str, fields: &str) -> crate::client::Response {
    let mut client = server.connect();
    client.send(format!("{line}\r\nHost: a\r\n{fields}\r\n"));
    client.response().unwrap()
}

#[test]
fn options() {
    let server = Server::fixtures();
    for target in ["*", "/", "/hello.txt", "/docs", "http://a/hello.txt"] {
        let mut client = server.connect();
        let response = client.request("OPTIONS", target, "").unwrap();
        // RFC 9110 §9.3.7, §8.6: Allow, and no length in a 204.
        assert_eq!(response.status(), 204, "{target}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(response.field("Content-Length"), None);
        assert_eq!(client.get("/hello.txt").unwrap().status(), 200, "the connection is in step");
    }
    assert_eq!(answer(&server, "OPTIONS /none HTTP/1.1", "").status(), 404);
    assert_eq!(answer(&server, "GET * HTTP/1.1", "").status(), 400, "§3.2.4: only for OPTIONS");
}

/// A preflight of CORS is an OPTIONS.
#[test]
fn own_fields_are_on_the_success_of_options_too() {
    let fixtures = crate::server::fixtures();
    let field = "Access-Control-Allow-Origin: *";
    let server = Server::start(["--listen", "127.0.0.1:0", "--header", field, fixtures.to_str().unwrap()]);
    let response = server.connect().request("OPTIONS", "/hello.txt", "").unwrap();
    assert_eq!(response.field("Access-Control-Allow-Origin"), Some("*"));
}

#[test]
fn connect_and_trace() {
    let server = Server::fixtures();
    for line in [
        "CONNECT a:80 HTTP/1.1",
        "CONNECT /hello.txt HTTP/1.1",
        "TRACE /hello.txt HTTP/1.1",
        "TRACE /none HTTP/1.1",
    ] {
        let response = answer(&server, line, "Cookie: secret\r\n");
        assert_eq!(response.status(), 405, "{line}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
        assert!(!response.text().contains("secret"));
    }
}

#[test]
fn forms_of_the_target() {
    let server = Server::fixtures();
    for (target, status) in [
        ("/hello.txt", 200),
        ("http://a/hello.txt", 200),
        ("HTTP://other.example:8080/hello.txt?q", 200),
        ("http://[::1]/hello.txt", 200),
        ("http://a", 200),
        ("http://user@a/hello.txt", 400),
        ("http:///hello.txt", 400),
        ("http://a b/hello.txt", 400),
        ("a:80", 400),
        ("hello.txt", 400),
        ("/hello.txt#fragment", 400),
        ("//hello.txt", 200),
        ("/./docs/../hello.txt", 200),
        ("/docs/%2e%2E/hello.txt", 200),
        ("/docs%2f..%2fhello.txt", 404),
        ("/%c0%ae%c0%ae/hello.txt", 404),
        ("/%", 400),
        ("/hello.txt%00", 400),
        ("/caf\u{e9}", 404),
    ] {
        assert_eq!(answer(&server, &format!("GET {target} HTTP/1.1"), "").status(), status, "{target}");
    }
}

#[test]
fn expectations() {
    for server in [Server::fixtures(), Server::fixed(&[])] {
        assert_eq!(answer(&server, "GET /hello.txt HTTP/1.1", "Expect: 100-continue\r\n").status(), 200);
        // RFC 9110 §10.1.1: an expectation in an HTTP/1.0 request is ignored.
        assert_eq!(answer(&server, "GET /hello.txt HTTP/1.0", "Expect: x\r\n").status(), 200);
        for expectation in ["x", "100-continue, x", "100-continue\r\nExpect: x"] {
            let mut client = server.connect();
            let response =
                client.request("GET", "/hello.txt", &format!("Expect: {expectation}\r\n")).unwrap();
            assert_eq!(response.status(), 417, "{expectation}");
            assert_eq!(client.get("/hello.txt").unwrap().status(), 200, "the connection is in step");
        }
        // The body is not waited for, and no next request is looked for behind it.
        let mut client = server.connect();
        client
            .send("POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        let response = client.response().unwrap();
        assert!(
            response.status() >= 200 && response.field("Connection") == Some("close"),
            "{}",
            response.head
        );
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.end_input();
        assert_eq!(client.rest().unwrap(), b"", "one answer, then the end");
    }
}
