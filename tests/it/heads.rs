//! Request heads and bodies: limits, grammar, framing.

use crate::client::{Client, Response};
use crate::server::Server;

/// What `server` answers to `request` on a connection of its own.
#[track_caller]
fn answer(server: &Server, request: impl AsRef<[u8]>) -> (Client, Response) {
    let mut client = server.connect();
    client.send(request);
    let response = client.response().expect("an answer");
    (client, response)
}

/// The answer is one of `statuses`, and unless it is a good one the connection ends with it.
#[track_caller]
fn check_closed(server: &Server, request: impl AsRef<[u8]>, statuses: &[u16]) {
    let request = request.as_ref();
    let (mut client, response) = answer(server, request);
    let shown = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
    assert!(statuses.contains(&response.status()), "{shown:?}: {}", response.head);
    assert_eq!(response.field("Connection"), Some("close"), "{shown:?}: {}", response.head);
    client.assert_closed();
}

/// The request is answered with 200, and the connection is kept.
#[track_caller]
fn check_good(server: &Server, request: impl AsRef<[u8]>) {
    let request = request.as_ref();
    let (mut client, response) = answer(server, request);
    let shown = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
    assert_eq!(response.status(), 200, "{shown:?}: {}", response.head);
    client.assert_open();
}

/// The servers in both modes; limits and grammar are the same in both.
fn both() -> [Server; 2] {
    [Server::fixtures(), Server::fixed(&["--body", "Hello"])]
}

#[test]
fn a_head_of_16_kib_is_served_and_a_larger_one_is_431() {
    let head = |len: usize| {
        let start = "GET /hello.txt HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4))
    };
    for server in both() {
        assert_eq!(head(16 * 1024).len(), 16 * 1024);
        check_good(&server, head(16 * 1024));
        check_closed(&server, head(16 * 1024 + 1), &[431]);
        check_closed(&server, head(64 * 1024), &[431]);
        // In a head that never ends.
        check_closed(&server, &head(64 * 1024)[..20 * 1024], &[431]);
        let fields =
            format!("GET /hello.txt HTTP/1.1\r\nHost: a\r\n{}", "X: 0123456789abcdef\r\n".repeat(90_000));
        check_closed(&server, fields, &[431]);
    }
}

#[test]
fn a_hundred_fields_are_served_and_more_are_431() {
    let head = |n: usize| format!("GET /hello.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(n - 1));
    for server in both() {
        check_good(&server, head(100));
        check_closed(&server, head(101), &[431]);
        check_closed(&server, head(1000), &[431]);
    }
}

#[test]
fn a_target_of_8_kib_is_looked_up_and_a_longer_one_is_414() {
    let head = |len: usize| format!("GET /hello.txt?{} HTTP/1.1\r\nHost: a\r\n\r\n", "q".repeat(len - 11));
    for server in both() {
        check_good(&server, head(8 * 1024));
        check_closed(&server, head(8 * 1024 + 1), &[414]);
        check_closed(&server, head(12 * 1024), &[414]);
        // RFC 9112 §3: a request-line longer than the server wishes to parse is 414.
        check_closed(&server, head(64 * 1024), &[414]);
        check_closed(&server, format!("GET /{}", "a".repeat(32 * 1024)), &[414]);
    }
}

/// RFC 9112 §3.2: exactly one Host that is valid, in HTTP/1.1; RFC 3986 §3.2.2, §3.2.3.
#[test]
fn a_host_is_required_once_and_valid() {
    let with = |version: &str, fields: &str| format!("GET /hello.txt {version}\r\n{fields}\r\n");
    for server in both() {
        for host in [
            "a",
            "a:80",
            "a:",
            "",
            "example.com",
            "example.com.",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "[2001:db8::7]:80",
            "[v7.a:b]",
            "a_b-c~d",
            "a!$&'()*+,;=b",
            "gr%C3%BC%C3%9Fe.example",
        ] {
            check_good(&server, with("HTTP/1.1", &format!("Host: {host}\r\n")));
            check_good(&server, with("HTTP/1.1", &format!("hOST:{host}\t \r\n")));
        }
        for host in [
            "a b",
            "a/b",
            "a/",
            "u@a",
            "a?b",
            "a#b",
            "a:b",
            "a:80:80",
            "a:-1",
            "[::1",
            "::1]",
            "[a",
            "a\\b",
            "<a>",
            "\"a\"",
            "a^b",
            "a|b",
            "{a}",
            "http://a",
            "a, b",
            "gr\u{fc}n",
        ] {
            check_closed(&server, with("HTTP/1.1", &format!("Host: {host}\r\n")), &[400]);
        }
        check_closed(&server, with("HTTP/1.1", ""), &[400]);
        check_closed(&server, with("HTTP/1.1", "Hosts: a\r\n"), &[400]);
        check_closed(&server, with("HTTP/1.1", "Host: a\r\nHost: a\r\n"), &[400]);
        check_closed(&server, with("HTTP/1.1", "Host: a\r\nhost: b\r\n"), &[400]);
        // "and to any request message that contains more than one Host header field line or a Host
        // header field with an invalid field value": also in HTTP/1.0.
        check_closed(&server, with("HTTP/1.0", "Host: a\r\nHost: b\r\n"), &[400]);
        check_closed(&server, with("HTTP/1.0", "Host: a b\r\n"), &[400]);
        let (_, response) = answer(&server, with("HTTP/1.0", ""));
        assert_eq!(response.status(), 200);
    }
}

/// RFC 3986 §2.1, §3.2.2: a percent sign has two digits behind it, brackets hold an IPv6 address.
#[test]
fn a_host_with_a_bad_percent_encoding_or_literal_is_400() {
    for server in both() {
        for host in
            ["%zz", "a%2", "%", "a%2:80", "[::g]", "[:::]", "[1.2.3.4]", "[a]", "[::1%25lo]", "[vz.a]"]
        {
            check_closed(&server, format!("GET /hello.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"), &[400]);
        }
    }
}

/// RFC 9110 §4.2.1: "A recipient that processes such a URI reference MUST reject it as invalid."
#[test]
fn an_absolute_target_without_a_host_is_400() {
    let server = Server::fixtures();
    for target in ["http://", "http:///hello.txt", "http://?q", "http://:80/hello.txt"] {
        let (_, response) = answer(&server, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(response.status(), 400, "{target}");
    }
}

/// RFC 9112 §2.3: `HTTP/` DIGIT `.` DIGIT; RFC 9110 §6.2: a higher minor version is served as the
/// highest that is known; §15.6.6.
#[test]
fn versions_of_http_1_are_served_and_others_are_505() {
    let with = |version: &str| format!("GET /hello.txt {version}\r\nHost: a\r\n\r\n");
    for server in both() {
        for version in ["HTTP/1.1", "HTTP/1.2", "HTTP/1.9"] {
            check_good(&server, with(version));
            let close = format!("GET /hello.txt {version}\r\nHost: a\r\nConnection: close\r\n\r\n");
            check_closed(&server, close, &[200]);
            // What 1.1 requires, they do.
            check_closed(&server, format!("GET /hello.txt {version}\r\n\r\n"), &[400]);
        }
        check_closed(&server, with("HTTP/1.0"), &[200]);
        for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/9.9", "HTTP/0.9"] {
            check_closed(&server, with(version), &[505]);
        }
        for version in
            ["HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/1.1.1", "http/1.1", "HTTP/1.x", "HTTPS/1.1", "HTP/1.1"]
        {
            check_closed(&server, with(version), &[400]);
        }
        // Two digits are no version either, but their first says that it is not ours.
        for version in ["HTTP/11.1", "HTTP/2", "HTTP/1.10", "HTTP/1.11"] {
            check_closed(&server, with(version), &[400, 505]);
        }
        // HTTP/0.9 and the preface of HTTP/2.
        check_closed(&server, "GET /hello.txt\r\n\r\n", &[400, 505]);
        check_closed(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505]);
    }
}

/// RFC 9110 §9.1, §5.6.2: a method is a token. RFC 9112 §3: method SP target SP version.
#[test]
fn a_malformed_request_line_is_400() {
    for server in both() {
        for line in [
            "G(T / HTTP/1.1",
            "G@T / HTTP/1.1",
            "G/T / HTTP/1.1",
            "\"GET\" / HTTP/1.1",
            "GET: / HTTP/1.1",
            "G\u{e4}T / HTTP/1.1",
            "G\0T / HTTP/1.1",
            "GET\t/ HTTP/1.1",
            " GET / HTTP/1.1",
            " / HTTP/1.1",
            "GET / a HTTP/1.1",
            "GET  HTTP/1.1",
            "GET / HTTP/1.1 x",
            "GET /a\0b HTTP/1.1",
            "GET /a\tb HTTP/1.1",
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}",
        ] {
            check_closed(&server, format!("{line}\r\nHost: a\r\n\r\n"), &[400]);
        }
    }
}

/// RFC 9112 §3.2: origin-form begins with a slash; absolute-form; authority-form is for CONNECT and
/// asterisk-form for OPTIONS.
#[test]
fn a_target_has_one_of_the_four_forms() {
    let server = Server::fixtures();
    let with = |method: &str, target: &str| format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    for target in [
        "/hello.txt",
        "http://a/hello.txt",
        "HTTP://a/hello.txt",
        "https://a:80/hello.txt?q",
        "http://a",
        "http://a?q",
    ] {
        check_good(&server, with("GET", target));
    }
    for target in ["hello.txt", "a:80", "*", "?q", "%2fhello.txt", "http:/hello.txt"] {
        assert_eq!(answer(&server, with("GET", target)).1.status(), 400, "{target}");
    }
    // A host in the target wins over Host (§3.2.2), and here every host is the same.
    check_good(&server, "GET http://b/hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
}

/// RFC 9112 §5: field-name ":" OWS field-value OWS.
#[test]
fn a_malformed_field_is_400() {
    let with = |field: &str| format!("GET /hello.txt HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    for server in both() {
        for field in [
            "no colon",
            ": no name",
            "space : before the colon", // §5.1: MUST reject
            "two words: value",
            "n(ame: value",
            "n\u{e4}me: value",
            "X: a\0b", // RFC 9110 §5.5: reject or replace; and a NUL is never well meant
            "X: a\u{1}b",
            "X: a\u{7f}b",
            "X: a\rb",                         // §2.2
            " X: folded from the line before", // §5.2: MUST reject or replace
            "X: a\r\n folded",
        ] {
            check_closed(&server, with(field), &[400]);
        }
        for field in [
            "X:",
            "X: ",
            "X:a",
            "X: \t a b \t",
            "X: gr\u{fc}\u{df}e",
            "!#$%&'*+-.^_`|~09azAZ: a",
            "X: a:b, \"c\"",
        ] {
            check_good(&server, with(field));
        }
        // §2.2: at least one empty line before the request line is ignored.
        check_good(&server, format!("\r\n{}", with("X: y")));
        // Space between the request line and the first field: reject, or ignore such lines.
        check_closed(&server, "GET /hello.txt HTTP/1.1\r\n Host: a\r\n\r\n", &[400]);
    }
}

/// The fields of a request body that is no good, and the statuses that say so (RFC 9112 §6.1–§6.3).
#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let both = both();
    for (fields, statuses) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", &[400][..]),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3", &[400]),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked", &[400]),
        ("Content-Length: 3\r\nContent-Length: 4", &[400]),
        ("Content-Length: 3\r\ncontent-length: 33", &[400]),
        ("Content-Length: 3, 4", &[400]),
        ("Content-Length: 3,", &[400]),
        ("Content-Length: +3", &[400]),
        ("Content-Length: -3", &[400]),
        ("Content-Length: 0x3", &[400]),
        ("Content-Length: 3.0", &[400]),
        ("Content-Length: 3 3", &[400]),
        ("Content-Length: 3a", &[400]),
        ("Content-Length: \"3\"", &[400]),
        ("Content-Length:", &[400]),
        ("Content-Length: 18446744073709551616", &[400, 413]),
        ("Content-Length: 99999999999999999999999", &[400, 413]),
        // Unknown codings.
        ("Transfer-Encoding: gzip", &[501]),
        ("Transfer-Encoding: xchunked", &[501]),
        ("Transfer-Encoding: gzip, chunked", &[501]),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", &[501]),
        ("Transfer-Encoding: identity", &[400, 501]),
        // chunked not last, or not once: the length cannot be determined.
        ("Transfer-Encoding: chunked, gzip", &[400, 501]),
        ("Transfer-Encoding: chunked, chunked", &[400, 501]),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", &[400, 501]),
        ("Transfer-Encoding: chunked;q=1", &[400, 501]),
        ("Transfer-Encoding: \"chunked\"", &[400, 501]),
        ("Transfer-Encoding:", &[400, 501]),
        ("Transfer-Encoding: \u{b}chunked", &[400, 501]),
    ] {
        for server in &both {
            for method in ["POST", "GET"] {
                let head = format!("{method} /hello.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
                check_closed(
                    server,
                    format!("{head}0\r\n\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
                    statuses,
                );
            }
        }
    }
    // §6.1: faulty in HTTP/1.0, whatever the answer.
    for server in &both {
        let head = "POST /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n";
        check_closed(server, format!("{head}0\r\n\r\n"), &[200, 400, 405, 501]);
    }
}

/// Sends a request with a body, and one for hello.txt, in `pieces` bytes at a time; both are answered,
/// and nothing else.
#[track_caller]
fn check_skipped(server: &Server, fields: &str, body: &[u8], piece_len: usize) {
    for (method, target, status) in
        [("GET", "/hello.txt", 200), ("POST", "/hello.txt", 405), ("PUT", "/nope", 404)]
    {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let next = b"GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let mut client = server.connect();
        for piece in [head.as_bytes(), body, next].concat().chunks(piece_len) {
            client.send(piece);
        }
        let shown = || {
            format!("{method} {target} {fields:?} {:?}", String::from_utf8_lossy(&body[..body.len().min(99)]))
        };
        let response = client.response().unwrap_or_else(|error| panic!("{}: {error}", shown()));
        assert_eq!(response.status(), status, "{}: {}", shown(), response.head);
        assert_ne!(response.field("Connection"), Some("close"), "{}", shown());
        let response = client.response().unwrap_or_else(|error| panic!("{}: {error}", shown()));
        assert_eq!((response.status(), response.text()), (200, "Hello World\n"), "{}", shown());
        client.assert_closed();
    }
}

/// RFC 9112 §6.2, §7.1.
#[test]
fn a_body_is_skipped_and_the_next_request_answered() {
    let server = Server::fixtures();
    let hidden = b"GET /lipsum.html HTTP/1.1\r\nHost: a\r\n\r\n";
    let large = vec![b'\n'; 200_000];
    let length = |len: usize| format!("Content-Length: {len}");
    for piece_len in [1, 7, 16 * 1024, usize::MAX] {
        check_skipped(&server, &length(0), b"", piece_len);
        check_skipped(&server, &length(5), b"hello", piece_len);
        check_skipped(&server, "Content-Length: 005", b"hello", piece_len);
        check_skipped(&server, &length(4), b"\r\n\r\n", piece_len);
        check_skipped(&server, &length(hidden.len()), hidden, piece_len);
        if piece_len > 7 {
            check_skipped(&server, &length(large.len()), &large, piece_len);
            let chunk = [b"30D40\r\n", &large[..], b"\r\n0\r\n\r\n"].concat();
            check_skipped(&server, CHUNKED, &chunk, piece_len);
            check_skipped(
                &server,
                CHUNKED,
                &[&b"1\r\na\r\n".repeat(3000), &b"0\r\n\r\n"[..]].concat(),
                piece_len,
            );
        }
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            b"a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n",
            b"0000000005\r\nhello\r\n0\r\n\r\n",
            b"5;a\r\nhello\r\n0;b=c\r\n\r\n",
            b"5;a=\"b;c\\\"d\"\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
            b"5\r\nhello\r\n0\r\nX: y\r\nTransfer-Encoding: gzip\r\nContent-Length: 99\r\n\r\n",
            b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
            b"26\r\nGET /lipsum.html HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n",
        ] {
            check_skipped(&server, CHUNKED, body, piece_len);
        }
    }
    // §7: names of codings are case-insensitive.
    check_skipped(&server, "transfer-encoding: CHUNKED", b"5\r\nhello\r\n0\r\n\r\n", 3);
}

const CHUNKED: &str = "Transfer-Encoding: chunked";

#[test]
fn a_malformed_chunked_body_is_refused_and_the_connection_closed() {
    let both = both();
    for body in [
        "x\r\n",
        "\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5_\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5;a=\nhello\r\n0\r\n\r\n",
        "10000000000000000\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "0\r\nX: y\n\r\n",
    ] {
        for server in &both {
            let head = format!("POST /hello.txt HTTP/1.1\r\nHost: a\r\n{CHUNKED}\r\n\r\n");
            check_closed(server, format!("{head}{body}GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]);
        }
    }
}

#[test]
fn a_body_that_never_comes_does_not_stop_others() {
    let server = Server::fixtures();
    let mut waits = server.connect();
    waits.send("POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    server.connect().assert_open();
    waits.end_input();
    // It may be answered or not, but it ends.
    waits.rest().expect("it ends without a reset");
}

/// RFC 9110 §10.1.1: a final status instead of 100 is an answer too, and here it comes at once.
#[test]
fn a_client_that_waits_with_its_body_is_answered_at_once() {
    let server = Server::fixtures();
    let hidden = "GET /lipsum.html HTTP/1.1\r\nHost: a\r\n\r\n";
    for expect in ["Expect: 100-continue", "expect: 100-Continue"] {
        for framing in [format!("Content-Length: {}", hidden.len()), CHUNKED.to_owned()] {
            for (method, target, status) in
                [("POST", "/hello.txt", 405), ("PUT", "/nope", 404), ("GET", "/hello.txt", 200)]
            {
                for body in ["", hidden] {
                    let head =
                        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{expect}\r\n{framing}\r\n\r\n");
                    let mut client = server.connect();
                    client.send(format!("{head}{body}"));
                    let response = client.response().expect("an answer");
                    assert_eq!(response.status(), status, "{head}");
                    // The body, should it come, is not taken for a request.
                    client.end_input();
                    client.assert_closed();
                }
            }
        }
    }
}

/// Without a body there is nothing to wait for.
#[test]
fn an_expectation_without_a_body_changes_nothing() {
    let server = Server::fixtures();
    check_good(&server, "GET /hello.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
}

/// RFC 9110 §9.3.2.
#[test]
fn head_is_answered_without_a_body_even_if_it_is_refused() {
    for server in both() {
        for (request, status) in [
            ("HEAD /hello.txt HTTP/1.1\r\n\r\n", 400),
            ("HEAD /hello.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("HEAD /hello.txt HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
            ("HEAD /hello.txt HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("HEAD /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            ("HEAD /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        ] {
            let mut client = server.connect();
            client.send(request);
            let response = client.response_to_head().expect("an answer");
            assert_eq!(response.status(), status, "{request:?}");
            client.assert_closed();
        }
        let mut client = server.connect();
        client.send(format!("HEAD /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000)));
        assert_eq!(client.response_to_head().expect("an answer").status(), 414);
        client.assert_closed();
        let mut client = server.connect();
        client.send(format!("HEAD / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200)));
        assert_eq!(client.response_to_head().expect("an answer").status(), 431);
        client.assert_closed();
    }
}
