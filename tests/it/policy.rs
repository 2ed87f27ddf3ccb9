//! What the operator wants said with responses: cache fields, fields by path, CORS, types.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::client::Response;
use crate::server::{PATIENCE, Server, command, temporary};

fn tree() -> tempfile::TempDir {
    let tree = temporary();
    fs::create_dir(tree.path().join("css")).unwrap();
    for (name, text) in [
        ("index.html", "index"),
        ("css/a.css", "a"),
        ("css/b.css", "b"),
        ("notes.md", "# n"),
        ("raw.qqq", "?"),
    ] {
        fs::write(tree.path().join(name), text).unwrap();
    }
    tree
}

fn serve(tree: &Path, args: &[&str]) -> Server {
    Server::start(["--listen", "127.0.0.1:0", tree.to_str().unwrap()].iter().chain(args))
}

fn date(response: &Response, name: &str) -> SystemTime {
    httpdate::parse_http_date(response.field(name).expect("a date")).expect("an HTTP-date")
}

/// Reads until two responses have different dates: what is stamped moves with them.
fn a_second_later(server: &Server, target: &str, fields: &str) -> [Response; 2] {
    let mut client = server.connect();
    let first = client.request("GET", target, fields).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let next = client.request("GET", target, fields).unwrap();
        if date(&next, "Date") != date(&first, "Date") {
            return [first, next];
        }
        assert!(Instant::now() < end, "the date stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// ngx_http_headers_module, `expires time`: so long after the response, and max-age to match; RFC 9110
/// §15.4.5 wants both in a 304.
#[test]
fn a_response_expires_so_long_after_it_was_sent() {
    let tree = tree();
    let server = serve(tree.path(), &["--expires", "30d", "--frozen"]);
    let month = Duration::from_secs(30 * 86_400);
    let tag = server.connect().get("/").unwrap().field("ETag").unwrap().to_owned();
    for (fields, status) in [
        (String::new(), 200),
        ("Range: bytes=1-2\r\n".to_owned(), 206),
        ("Range: bytes=0-0,2-2\r\n".to_owned(), 206),
        (format!("If-None-Match: {tag}\r\n"), 304),
    ] {
        for response in a_second_later(&server, "/", &fields) {
            assert_eq!(response.status(), status);
            assert_eq!(date(&response, "Expires"), date(&response, "Date") + month, "{}", response.head);
            assert_eq!(response.field("Cache-Control"), Some("max-age=2592000"));
        }
    }
    for target in ["/none", "/css"] {
        let response = server.connect().get(target).unwrap();
        assert_eq!(response.fields("Expires"), [""; 0], "{}", response.head);
    }
    let fixed = Server::fixed(&["--expires", "1h", "--cache-control", "public"]);
    let response = fixed.connect().get("/").unwrap();
    assert_eq!(date(&response, "Expires"), date(&response, "Date") + Duration::from_secs(3600));
    assert_eq!(response.field("Cache-Control"), Some("max-age=3600, public"));
}

#[test]
fn a_response_that_has_always_been_or_never_is_expired() {
    let tree = tree();
    for (expires, date, control) in [
        ("epoch", "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"),
        ("max", "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"),
    ] {
        let response = serve(tree.path(), &["--expires", expires]).connect().get("/").unwrap();
        assert_eq!(response.field("Expires"), Some(date));
        assert_eq!(response.field("Cache-Control"), Some(control));
    }
}

#[test]
fn fields_go_with_the_paths_they_are_for() {
    let tree = tree();
    let args = ["--cache-control", "no-cache", "--header", "X-Which: all"];
    let rules = [
        ["--header-for", "*.css", "Cache-Control: immutable"],
        ["--header-for", "css/*", "X-Which: css"],
        ["--header-for", "/css/b.css", "X-Which: b"],
        ["--header-for", "index.html", "X-Index: 1"],
    ];
    let args: Vec<&str> = args.into_iter().chain(rules.into_iter().flatten()).collect();
    let server = serve(tree.path(), &args);
    for (target, control, which, index) in [
        ("/", "no-cache", "all", Some("1")),
        ("/css/a.css", "immutable", "css", None),
        ("/css/b.css", "immutable", "b", None),
        ("/notes.md", "no-cache", "all", None),
    ] {
        let response = server.connect().get(target).unwrap();
        assert_eq!(response.field("Cache-Control"), Some(control), "{target}");
        assert_eq!(response.field("X-Which"), Some(which), "{target}");
        assert_eq!(response.field("X-Index"), index, "{target}");
        let tag = response.field("ETag").unwrap();
        let not_modified =
            server.connect().request("GET", target, &format!("If-None-Match: {tag}\r\n")).unwrap();
        assert_eq!(not_modified.field("Cache-Control"), Some(control), "{target}");
    }
    assert!(server.connect().get("/css/none.css").unwrap().fields("X-Which").is_empty());
}

/// A repeatable option's variable has one value a line; here a value is a pair.
#[test]
fn fields_for_paths_come_from_the_environment_too() {
    let tree = tree();
    let mut command = command();
    command.env("TARED_HEADER_FOR", "*.css X-A: 1\ncss/b.css X-A: 2").args(["--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command.arg(tree.path()));
    let value = |target: &str| server.connect().get(target).unwrap().field("X-A").map(str::to_owned);
    assert_eq!(value("/css/a.css").as_deref(), Some("1"));
    assert_eq!(value("/css/b.css").as_deref(), Some("2"));
    assert_eq!(value("/"), None);
}

/// Fetch §3.2: a response is kept from a script of another origin unless it says otherwise itself, be it a
/// redirect, a refusal or a 304; §3.2.3: a preflight needs the method and the fields allowed.
#[test]
fn the_scripts_of_every_site_may_read_every_response() {
    let tree = tree();
    let server = serve(tree.path(), &["--cors"]);
    let tag = server.connect().get("/").unwrap().field("ETag").unwrap().to_owned();
    for (method, target, fields, status) in [
        ("GET", "/", "", 200),
        ("HEAD", "/", "", 200),
        ("GET", "/", &*format!("If-None-Match: {tag}\r\n"), 304),
        ("GET", "/", "Range: bytes=0-1\r\n", 206),
        ("GET", "/", "Range: bytes=9-\r\n", 416),
        ("GET", "/", "If-Match: \"x\"\r\n", 412),
        ("GET", "/css", "", 301),
        ("GET", "/none", "", 404),
        ("PUT", "/", "", 405),
        ("OPTIONS", "/", "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n", 204),
        ("OPTIONS", "*", "", 204),
        // A preflight whose own request is to be read, and be it a 404.
        ("OPTIONS", "/none", "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n", 204),
        ("OPTIONS", "/.hidden", "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n", 204),
        ("GET", "/%zz", "", 400),
    ] {
        let response = server.connect().request(method, target, fields).unwrap();
        assert_eq!(response.status(), status, "{method} {target} {fields}");
        assert_eq!(response.field("Access-Control-Allow-Origin"), Some("*"), "{method} {target} {fields}");
        let methods = response.field("Access-Control-Allow-Methods");
        assert_eq!(methods, (status == 204).then_some("GET, HEAD, OPTIONS"));
        assert_eq!(response.field("Access-Control-Allow-Headers"), (status == 204).then_some("*"));
    }
    let mut malformed = server.connect();
    malformed.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(malformed.response().unwrap().field("Access-Control-Allow-Origin"), Some("*"));
    let fixed = Server::fixed(&["--cors"]);
    let preflight = "Origin: http://a\r\nAccess-Control-Request-Method: PUT\r\n";
    let response = fixed.connect().request("OPTIONS", "/x", preflight).unwrap();
    assert_eq!(response.status(), 200);
    for name in ["Origin", "Methods", "Headers"].map(|name| format!("Access-Control-Allow-{name}")) {
        assert_eq!(response.field(&name), Some("*"), "{name}");
    }
    let closed = serve(tree.path(), &[]);
    assert_eq!(closed.connect().get("/").unwrap().field("Access-Control-Allow-Origin"), None);
    assert_eq!(closed.connect().request("OPTIONS", "/none", "").unwrap().status(), 404);
}

#[test]
fn types_are_the_operators_the_tables_or_the_default() {
    let tree = tree();
    let args = [
        "--mime",
        "md=text/markdown; charset=utf-8",
        "--mime",
        ".CSS=text/x-css",
        "--default-type",
        "text/plain",
    ];
    let server = serve(tree.path(), &args);
    for (target, expected) in [
        ("/", "text/html; charset=utf-8"),
        ("/notes.md", "text/markdown; charset=utf-8"),
        ("/css/a.css", "text/x-css"),
        ("/raw.qqq", "text/plain"),
    ] {
        assert_eq!(server.connect().get(target).unwrap().field("Content-Type"), Some(expected), "{target}");
    }
}
