//! Validators and preconditions (RFC 9110 §8.8, §13) as a client meets them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::Response;
use crate::server::{PATIENCE, Server};

const HELLO: &str = "Hello World\n";

/// A tree whose file is old enough for its clock to tell changes apart, and a server of it.
fn served() -> (tempfile::TempDir, Server) {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("hello.txt"), HELLO).unwrap();
    let server = Server::directory(tree.path());
    strong_etag(&server, "/hello.txt");
    (tree, server)
}

fn get(server: &Server, target: &str, fields: &str) -> Response {
    server.connect().request("GET", target, fields).unwrap()
}

fn etag(response: &Response) -> String {
    response.field("ETag").expect("an entity tag").to_owned()
}

/// The entity tag of `target`, as soon as it is a strong one.
fn strong_etag(server: &Server, target: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let tag = etag(&get(server, target, ""));
        if !tag.starts_with("W/") {
            return tag;
        }
        assert!(Instant::now() < end, "{tag} stays weak");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_304_has_what_a_cache_updates_and_no_body() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("hello.txt"), HELLO).unwrap();
    let dir = tree.path().to_str().unwrap();
    let own = ["Cache-Control: no-cache", "Vary: Accept", "X-Own: 1"];
    let mut args = vec!["--listen", "127.0.0.1:0", dir];
    args.extend(own.iter().flat_map(|field| ["--header", field]));
    let server = Server::start(args);
    let tag = strong_etag(&server, "/hello.txt");
    let mut client = server.connect();
    for method in ["GET", "HEAD"] {
        let response = client.request(method, "/hello.txt", &format!("If-None-Match: {tag}\r\n")).unwrap();
        // RFC 9110 §15.4.5
        assert_eq!(response.status(), 304);
        assert_eq!(response.field("ETag"), Some(&*tag));
        assert_eq!(response.field("Cache-Control"), Some("no-cache"));
        assert_eq!(response.field("Vary"), Some("Accept"));
        assert!(response.field("Date").is_some());
        for name in ["Content-Type", "Content-Length", "Last-Modified", "X-Own"] {
            assert_eq!(response.field(name), None);
        }
    }
    // The connection is in step: there was no body.
    assert_eq!(client.get("/hello.txt").unwrap().text(), HELLO);
}

#[test]
fn conditions_that_fail_and_hold() {
    let (_tree, server) = served();
    let tag = strong_etag(&server, "/hello.txt");
    let modified = get(&server, "/hello.txt", "").field("Last-Modified").unwrap().to_owned();
    for (fields, status) in [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: \"a\", W/{tag}"), 304),
        (format!("If-None-Match: \"a\"\r\nIf-None-Match: {tag}"), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"a\"".to_owned(), 200),
        (format!("If-Modified-Since: {modified}"), 304),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(), 200),
        (format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {modified}"), 200),
        (format!("If-Match: {tag}"), 200),
        ("If-Match: *".to_owned(), 200),
        ("If-Match: \"a\"".to_owned(), 412),
        (format!("If-Match: W/{tag}"), 412),
        (format!("If-Unmodified-Since: {modified}"), 200),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(), 412),
        (format!("If-Match: \"a\"\r\nIf-None-Match: {tag}"), 412),
    ] {
        let mut client = server.connect();
        let response = client.request("GET", "/hello.txt", &format!("{fields}\r\n")).unwrap();
        assert_eq!(response.status(), status, "{fields}");
        assert_eq!(client.get("/hello.txt").unwrap().status(), 200, "{fields} kept the connection");
    }
    // §13.2.1: conditions are not looked at where there would be no success without them.
    assert_eq!(get(&server, "/none", "If-None-Match: *\r\n").status(), 404);
    assert_eq!(get(&server, "/none", "If-Match: \"a\"\r\n").status(), 404);
}

/// Polls until hello.txt has the body `body`; the tag that came with it.
fn tag_of(server: &Server, body: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let response = get(server, "/hello.txt", "");
        if response.text() == body {
            return etag(&response);
        }
        assert!(Instant::now() < end, "the change is not seen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// RFC 9110 §8.8.1: a strong validator changes with every observable change of the content, also
/// within a second and at the same size.
#[test]
fn a_strong_tag_never_stands_for_two_contents() {
    type Change = fn(&Path, &str);
    let changes: [Change; 3] = [
        |path, text| fs::write(path, text).unwrap(),
        |path, text| {
            let other = path.with_extension("new");
            fs::write(&other, text).unwrap();
            fs::rename(other, path).unwrap();
        },
        |path, text| {
            // The time of modification is set back, as rsync and tar do.
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            fs::write(path, text).unwrap();
            fs::File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
        },
    ];
    for change in changes {
        let (tree, server) = served();
        let path = tree.path().join("hello.txt");
        let mut tags = vec![strong_etag(&server, "/hello.txt")];
        for text in ["Hello Earth\n", "Hello Venus\n"] {
            change(&path, text);
            let tag = tag_of(&server, text);
            tags.push(tag.trim_start_matches("W/").to_owned());
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 3, "{tags:?}");
    }
}

/// A file that may change again without a trace in its times says so.
#[test]
fn a_file_that_has_just_changed_has_a_weak_tag() {
    let tree = tempfile::tempdir().unwrap();
    let server = Server::directory(tree.path());
    let mut client = server.connect();
    // A stalled machine may let the file grow old in between, so a few tries.
    let was_weak = (0..20).any(|n| {
        fs::write(tree.path().join(format!("{n}.txt")), HELLO).unwrap();
        etag(&client.get(&format!("/{n}.txt")).unwrap()).starts_with("W/")
    });
    assert!(was_weak);
    let tag = strong_etag(&server, "/0.txt");
    assert_eq!(get(&server, "/0.txt", &format!("If-None-Match: W/{tag}\r\n")).status(), 304);
}

#[test]
fn a_tag_tells_nothing_of_the_file_system() {
    use std::os::unix::fs::MetadataExt;
    let (tree, server) = served();
    let inode = fs::metadata(tree.path().join("hello.txt")).unwrap().ino();
    let tag = strong_etag(&server, "/hello.txt");
    assert!(!tag.contains(&format!("{inode:x}")) && !tag.contains(&inode.to_string()), "{tag}");
}
