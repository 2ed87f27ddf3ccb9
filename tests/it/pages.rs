//! The site's own pages for refusals, and the index in place of what is not there.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::server::{PATIENCE, Server, command, run, temporary};

const NOT_FOUND: &str = "<h1>Gone fishing</h1>";

fn tree() -> tempfile::TempDir {
    let tree = temporary();
    fs::create_dir(tree.path().join("sub")).unwrap();
    for (name, text) in
        [("index.html", "index"), ("404.html", NOT_FOUND), ("sub/oops.txt", "oops"), ("hello.txt", "hello")]
    {
        fs::write(tree.path().join(name), text).unwrap();
    }
    tree
}

fn serve(tree: &Path, args: &[&str]) -> Server {
    Server::start(["--listen", "127.0.0.1:0", tree.to_str().unwrap()].iter().chain(args))
}

/// Asks again until the answer is what is wanted: a change shows within a second (--cache-check).
#[track_caller]
fn eventually(server: &Server, target: &str, is_wanted: impl Fn(&Response) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_wanted(&server.connect().get(target).unwrap()) {
        assert!(Instant::now() < end, "{target} does not change");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// RFC 9110 §8.4: a coding that a page has is said of it under another status, too.
#[test]
fn a_page_that_is_coded_says_so() {
    let tree = tree();
    let coded = ["--header-for", "404.html", "Content-Encoding: gzip"];
    let pages = ["--error-page", "404,416=/404.html"];
    let server = serve(tree.path(), &[&coded[..], &pages[..]].concat());
    for (target, fields, status) in
        [("/none", "", 404), ("/hello.txt", "Range: bytes=99-\r\n", 416), ("/404.html", "", 200)]
    {
        let response = server.connect().request("GET", target, fields).unwrap();
        assert_eq!((response.status(), response.text()), (status, NOT_FOUND));
        assert_eq!(response.fields("Content-Encoding"), ["gzip"], "{status}");
    }
}

/// However many wait for it: a page that is sent from its file is open once.
#[test]
fn a_large_page_holds_one_descriptor_for_all() {
    let tree = tree();
    fs::File::create(tree.path().join("large.html")).unwrap().set_len(4 << 20).unwrap();
    let server = serve(tree.path(), &["--error-page", "416=/large.html"]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = descriptors();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = Client::connect_narrow(server.address);
            client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=99-\r\n\r\n");
            // The head has come, the body cannot yet: it is more than sockets hold.
            client.stream().peek(&mut [0; 16]).unwrap();
            client
        })
        .collect();
    let during = descriptors();
    // hello.txt is small; large.html is what is open.
    assert!(during <= before + clients.len() + 1, "{before} and then {during}");
    for mut client in clients {
        let response = client.response().unwrap();
        assert_eq!((response.status(), response.body.len()), (416, 4 << 20));
    }
}

#[test]
fn a_refusal_keeps_its_status_and_its_fields_and_has_the_page_for_a_body() {
    let tree = tree();
    let pages = ["--error-page", "404=/404.html", "--error-page", "405,412,416,500,503=/sub/oops.txt"];
    let server = serve(tree.path(), &pages);
    let mut client = server.connect();
    for (method, target, fields, status, page) in [
        ("GET", "/none", "", 404, NOT_FOUND),
        ("GET", "/.hidden", "", 404, NOT_FOUND),
        ("GET", "/sub/", "", 404, NOT_FOUND),
        ("PUT", "/hello.txt", "Content-Length: 0\r\n", 405, "oops"),
        ("GET", "/hello.txt", "If-Match: \"x\"\r\n", 412, "oops"),
        ("GET", "/hello.txt", "Range: bytes=99-\r\n", 416, "oops"),
    ] {
        let response = client.request(method, target, fields).unwrap();
        assert_eq!((response.status(), response.text()), (status, page), "{method} {target}");
        let content_type =
            if page == "oops" { "text/plain; charset=utf-8" } else { "text/html; charset=utf-8" };
        assert_eq!(response.field("Content-Type"), Some(content_type));
        assert_eq!(response.field("Connection"), Some("keep-alive"));
        assert_eq!(response.field("Allow"), (status == 405).then_some("GET, HEAD, OPTIONS"));
        assert_eq!(response.field("Content-Range"), (status == 416).then_some("bytes */5"));
        // What stands there is no representation of what was asked for.
        assert_eq!((response.field("ETag"), response.field("Last-Modified")), (None, None));
    }
    let head = client.request("HEAD", "/none", "").unwrap();
    assert_eq!((head.status(), head.field("Content-Length")), (404, Some(&*NOT_FOUND.len().to_string())));
    // The page's own address is that of any other file, and a refusal without a page has the usual one.
    let own = client.get("/404.html").unwrap();
    assert_eq!((own.status(), own.text()), (200, NOT_FOUND));
    let other = client.get("/%zz").unwrap();
    assert_eq!(other.status(), 400);
    assert!(other.text().contains("<h1>400 Bad Request</h1>"));
}

#[test]
fn a_malformed_request_gets_its_page_and_the_close() {
    let tree = tree();
    let server = serve(tree.path(), &["--error-page", "400,408=/sub/oops.txt", "--header-timeout", "50ms"]);
    for (bytes, status) in [("bad\r\n\r\n", 400), ("GET / HTTP/1.1\r\n", 408)] {
        let mut client = server.connect();
        client.send(bytes);
        let response = client.response().unwrap();
        assert_eq!((response.status(), response.text()), (status, "oops"));
        assert_eq!(response.field("Connection"), Some("close"));
        client.assert_closed();
    }
}

/// A page is as current as any file, of whatever size it is, and a refusal has a body without it.
#[test]
fn a_page_changes_goes_and_comes_back() {
    let tree = tree();
    let page = tree.path().join("404.html");
    let server = serve(tree.path(), &["--error-page", "404=/404.html"]);
    assert_eq!(server.connect().get("/none").unwrap().text(), NOT_FOUND);
    for len in [0, 100, 70_000, 1_000_000, 10] {
        let text = "x".repeat(len);
        let beside = tree.path().join("new");
        fs::write(&beside, &text).unwrap();
        fs::rename(&beside, &page).unwrap();
        eventually(&server, "/none", |response| response.status() == 404 && response.text() == text);
        // Two at once, and a close: the same bytes.
        let mut client = server.connect();
        client.send(
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        for _ in 0..2 {
            let response = client.response().unwrap();
            assert!(response.status() == 404 && response.text() == text, "{}", response.head);
        }
        client.assert_closed();
    }
    fs::remove_file(&page).unwrap();
    eventually(&server, "/none", |response| response.text().contains("<h1>404 Not Found</h1>"));
    fs::write(&page, NOT_FOUND).unwrap();
    eventually(&server, "/none", |response| response.text() == NOT_FOUND);
}

#[test]
fn a_page_that_is_not_there_is_said_at_start() {
    let tree = tree();
    let dir = tree.path().to_str().unwrap();
    for page in ["404=/none.html", "404=/sub", "404=/.git"] {
        let output = run(command().args(["--listen", "127.0.0.1:0", dir, "--error-page", page]));
        assert_eq!(output.status.code(), Some(2), "{page}");
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert!(
            sentence.contains(&format!("--error-page '{page}'")) && sentence.lines().count() == 1,
            "{sentence}"
        );
        assert!(output.stdout.is_empty());
    }
}

const HTML: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

/// A path that a script in the page is to make sense of gets the page; what the page asks for and is not
/// there does not.
#[test]
fn whoever_wants_html_gets_the_index_where_there_is_nothing() {
    let tree = tree();
    let server = serve(tree.path(), &["--spa"]);
    let mut client = server.connect();
    for (target, accept, status, text) in [
        ("/app/route", HTML, 200, "index"),
        ("/app/route?x=y", HTML, 200, "index"),
        ("/hello.txt/x", HTML, 200, "index"),
        ("/sub/", HTML, 200, "index"),
        ("/app/route", "Accept: TEXT/HTML\r\n", 200, "index"),
        ("/app/route", "Accept: image/*\r\nAccept: text/html;level=1;q=0.3\r\n", 200, "index"),
        ("/hello.txt", HTML, 200, "hello"),
        ("/app/data.json", "Accept: application/json\r\n", 404, ""),
        ("/app/data.json", "Accept: */*\r\n", 404, ""),
        ("/app/data.json", "", 404, ""),
        ("/app/route", "Accept: text/html;q=0\r\n", 404, ""),
        ("/app/route", "Accept: text/html; Q=0.000, */*\r\n", 404, ""),
        ("/.hidden", HTML, 200, "index"),
        ("/search/a%2Fb", HTML, 200, "index"),
        ("/sub%2F", HTML, 200, "index"),
        ("/.hidden", "Accept: */*\r\n", 404, ""),
        ("/%zz", HTML, 400, ""),
    ] {
        let response = client.request("GET", target, accept).unwrap();
        assert_eq!(response.status(), status, "{target} {accept}");
        if status == 200 {
            assert_eq!(response.text(), text, "{target} {accept}");
        }
        // RFC 9110 §12.5.5: a cache must not give one client what another one wanted.
        let varies = response.fields("Vary").contains(&"Accept");
        assert_eq!(varies, text != "hello" && status != 400, "{target} {accept}");
    }
    let head = client.request("HEAD", "/app/route", HTML).unwrap();
    assert_eq!((head.status(), head.field("Content-Length")), (200, Some("5")));
    assert_eq!(client.request("PUT", "/app/route", HTML).unwrap().status(), 404);
    assert_eq!(client.request("GET", "/sub", HTML).unwrap().status(), 301);
    let tag = client.get("/").unwrap().field("ETag").unwrap().to_owned();
    let same = client.request("GET", "/app/route", &format!("{HTML}If-None-Match: {tag}\r\n")).unwrap();
    assert_eq!(same.status(), 304);
    fs::remove_file(tree.path().join("index.html")).unwrap();
    let end = Instant::now() + PATIENCE;
    while client.request("GET", "/app/route", HTML).unwrap().status() != 404 {
        assert!(Instant::now() < end, "the index is gone");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_page_and_the_index_go_together() {
    let tree = tree();
    let server = serve(tree.path(), &["--spa", "--error-page", "404=/404.html"]);
    let mut client = server.connect();
    assert_eq!(client.request("GET", "/route", HTML).unwrap().text(), "index");
    let missing = client.request("GET", "/a.png", "Accept: image/png\r\n").unwrap();
    assert_eq!((missing.status(), missing.text(), missing.field("Vary")), (404, NOT_FOUND, Some("Accept")));
}
