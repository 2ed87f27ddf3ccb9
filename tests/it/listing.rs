//! Listings of directories, as clients meet them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::client::Response;
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::reported::{Reported, count};
use crate::server::{PATIENCE, Server, command, skip, temporary};
use crate::supervised::{NO_SUPERVISOR, Number, Supervised};

/// `/index/` has an index and `/open/` has none; outside lies what must not be seen.
fn tree() -> (tempfile::TempDir, tempfile::TempDir) {
    let (tree, outside) = (temporary(), temporary());
    let at = |name: &str| tree.path().join(name);
    fs::write(outside.path().join("secret"), "secret").unwrap();
    fs::create_dir(at("index")).unwrap();
    fs::write(at("index/index.html"), "the index").unwrap();
    fs::create_dir_all(at("open/sub")).unwrap();
    for (name, len) in [("b.txt", 1), ("A.txt", 2000), ("c.txt", 3)] {
        fs::write(at("open").join(name), "x".repeat(len)).unwrap();
    }
    fs::write(at("open/.hidden"), "").unwrap();
    symlink("A.txt", at("open/link-in")).unwrap();
    symlink("../index", at("open/link-dir")).unwrap();
    symlink(tree.path(), at("open/link-root")).unwrap();
    symlink(outside.path().join("secret"), at("open/link-out")).unwrap();
    symlink(outside.path(), at("open/dir-out")).unwrap();
    symlink("nowhere", at("open/dangling")).unwrap();
    symlink("loop", at("open/loop")).unwrap();
    mkfifoat(CWD, at("open/fifo"), Mode::from_raw_mode(0o644)).unwrap();
    (tree, outside)
}

fn serve(tree: &Path, args: &[&str]) -> Server {
    Server::start(["--listen", "127.0.0.1:0", "--list", tree.to_str().unwrap()].iter().chain(args))
}

fn rows(response: &Response) -> Vec<Value> {
    assert_eq!((response.status(), response.field("Content-Type")), (200, Some("application/json")));
    serde_json::from_str(response.text()).expect("JSON")
}

fn names(response: &Response) -> Vec<String> {
    rows(response).iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// What is listed is what is served: every link of a listing leads to a 200, or to a directory of its own.
#[test]
fn what_is_served_is_listed_and_nothing_else() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &[]);
    let mut client = server.connect();
    let listing = client.get("/open/?format=json").unwrap();
    assert_eq!(names(&listing), ["link-dir", "link-root", "sub", "A.txt", "b.txt", "c.txt", "link-in"]);
    for row in rows(&listing) {
        let is_directory = row["type"] == "directory";
        let found = client.get(&format!("/open/{}", row["href"].as_str().unwrap())).unwrap();
        assert_eq!(found.status(), 200, "{row}");
        assert_eq!(row["size"].as_u64(), (!is_directory).then_some(found.body.len() as u64), "{row}");
        if let (false, Some(modified)) = (is_directory, found.field("Last-Modified")) {
            let modified = httpdate::parse_http_date(modified).unwrap();
            assert_eq!(
                row["mtime"].as_str().unwrap(),
                humantime::format_rfc3339_seconds(modified).to_string()
            );
        }
    }
    let page = client.get("/open/").unwrap();
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    for hidden in [".hidden", "link-out", "dir-out", "dangling", "loop", "fifo", "secret"] {
        assert!(!page.text().contains(hidden), "{hidden} is in {}", page.text());
    }
    // RFC 9110 §12.5.5, and nothing in a page can be run.
    assert_eq!(page.field("Vary"), Some("Accept"));
    assert!(page.field("Content-Security-Policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(page.field("X-Content-Type-Options"), Some("nosniff"));
}

/// `--header-for` is for files; what is said with every success is said with a listing.
#[test]
fn a_listing_has_no_fields_of_files() {
    let (tree, _outside) = tree();
    let of_files = ["--header-for", "*", "Content-Disposition: attachment"];
    let server = serve(tree.path(), &[&of_files[..], &["--header", "X-Own: 1"]].concat());
    let fields = |target: &str| {
        let response = server.connect().get(target).unwrap();
        ["Content-Disposition", "X-Own"].map(|name| response.field(name).is_some())
    };
    assert_eq!((fields("/open/"), fields("/open/b.txt")), ([false, true], [true, true]));
}

#[test]
fn an_index_comes_first_and_nothing_is_listed_unless_asked_for() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &[]);
    assert_eq!(server.connect().get("/index/").unwrap().text(), "the index");
    let redirect = server.connect().get("/open?sort=size").unwrap();
    assert_eq!((redirect.status(), redirect.field("Location")), (301, Some("/open/?sort=size")));
    assert_eq!(names(&server.connect().get("/?format=json").unwrap()), ["index", "open"]);
    for (method, target, status) in [
        ("GET", "/none/", 404),
        ("GET", "/open/A.txt/", 404),
        ("GET", "/.git/", 404),
        ("GET", "/open/dir-out/", 404),
        ("OPTIONS", "/open/", 204),
        ("PUT", "/open/", 405),
        ("DELETE", "/none/", 404),
    ] {
        assert_eq!(
            server.connect().request(method, target, "").unwrap().status(),
            status,
            "{method} {target}"
        );
    }
    let closed = Server::directory(tree.path());
    assert_eq!(closed.connect().get("/open/").unwrap().status(), 404);
}

#[test]
fn a_listing_is_sorted_as_it_is_asked_for() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &[]);
    for (query, expected) in [
        ("sort=name&order=desc", ["sub", "link-root", "link-dir", "link-in", "c.txt", "b.txt", "A.txt"]),
        ("sort=size&order=asc", ["link-dir", "link-root", "sub", "b.txt", "c.txt", "A.txt", "link-in"]),
        ("order=desc&sort=size", ["sub", "link-root", "link-dir", "link-in", "A.txt", "c.txt", "b.txt"]),
        ("sort=x&order=y", ["link-dir", "link-root", "sub", "A.txt", "b.txt", "c.txt", "link-in"]),
    ] {
        let listing = server.connect().get(&format!("/open/?format=json&{query}")).unwrap();
        assert_eq!(names(&listing), expected, "{query}");
    }
    for (accept, is_json) in
        [("application/json", true), ("*/*", false), ("text/html, application/json;q=0.9", false)]
    {
        let response = server.connect().request("GET", "/open/", &format!("Accept: {accept}\r\n")).unwrap();
        assert_eq!(response.field("Content-Type") == Some("application/json"), is_json, "{accept}");
    }
}

#[test]
fn a_listing_is_a_representation_like_any_other() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &["--cache-control", "no-cache", "--header", "X-Own: 1"]);
    let mut client = server.connect();
    let whole = client.get("/open/").unwrap();
    assert_eq!((whole.field("Cache-Control"), whole.field("X-Own")), (Some("no-cache"), Some("1")));
    let head = client.request("HEAD", "/open/", "").unwrap();
    assert_eq!(head.without_date().head, whole.clone().without_date().head);
    let tag = whole.field("ETag").unwrap();
    let same = client.request("GET", "/open/", &format!("If-None-Match: {tag}\r\n")).unwrap();
    assert_eq!((same.status(), same.field("Vary")), (304, Some("Accept")));
    let part = client.request("GET", "/open/", "Range: bytes=0-8\r\n").unwrap();
    assert_eq!((part.status(), part.text()), (206, "<!doctype"));
    let json = client.get("/open/?format=json").unwrap();
    assert_ne!(json.field("ETag"), Some(tag));
    // Several on one connection, in order, the last one with the close.
    client.send("GET /open/ HTTP/1.1\r\nHost: a\r\n\r\nGET /open/b.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send("GET /open/sub/?format=json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().unwrap().body, whole.body);
    assert_eq!(client.response().unwrap().text(), "x");
    assert_eq!(client.response().unwrap().text(), "[\n]\n");
    client.assert_closed();
}

#[test]
fn a_change_shows_within_its_time_and_a_directory_may_go() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &[]);
    let eventually = |is_wanted: &dyn Fn(Response) -> bool| {
        let end = Instant::now() + PATIENCE;
        while !is_wanted(server.connect().get("/open/sub/?format=json").unwrap()) {
            assert!(Instant::now() < end, "the change does not show");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    eventually(&|listing| names(&listing).is_empty());
    let name = OsStr::from_bytes(b"\"<new>\n\xff");
    fs::write(tree.path().join("open/sub").join(name), "12345").unwrap();
    eventually(&|listing| {
        rows(&listing).iter().any(|row| row["href"] == "%22%3Cnew%3E%0A%FF" && row["size"] == 5)
    });
    assert_eq!(server.connect().get("/open/sub/%22%3Cnew%3E%0A%FF").unwrap().text(), "12345");
    fs::remove_dir_all(tree.path().join("open/sub")).unwrap();
    eventually(&|listing| listing.status() == 404);
}

#[test]
fn what_may_not_be_read_is_refused() {
    let (tree, _outside) = tree();
    fs::set_permissions(tree.path().join("open/sub"), PermissionsExt::from_mode(0o311)).unwrap();
    let Some(mut command) = unprivileged() else {
        return skip("what_may_not_be_read_is_refused", NO_OTHER_USER);
    };
    command.args(["--listen", "127.0.0.1:0", "--list"]).arg(tree.path());
    let server = Server::spawn(&mut command);
    assert_eq!(server.connect().get("/open/sub/").unwrap().status(), 403);
    assert_eq!(server.connect().get("/open/").unwrap().status(), 200);
    fs::set_permissions(tree.path().join("open/sub"), PermissionsExt::from_mode(0o755)).unwrap();
}

/// The sandbox lets directories be read, and what lies outside is as far away as ever.
#[test]
fn a_sandbox_does_not_stand_in_the_way() {
    let (tree, _outside) = tree();
    let server = serve(tree.path(), &["--sandbox", "auto"]);
    assert_eq!(names(&server.connect().get("/open/?format=json").unwrap()).len(), 7);
}

/// Names that fill many bites: while they are being listed others are answered, whoever waits for the listing
/// gets all of it, and whoever goes away leaves nothing behind.
#[test]
fn a_large_directory_stops_nobody() {
    const NAMES: usize = 20_000;
    let tree = temporary();
    let many = tree.path().join("many");
    fs::create_dir(&many).unwrap();
    fs::write(tree.path().join("one"), "1").unwrap();
    for at in 0..NAMES {
        fs::write(many.join(format!("file-{at:06}.txt")), "1").unwrap();
    }
    let dir = tree.path().to_str().unwrap();
    let reported = Reported::start(&["--list", "--cache-check", "0", dir]);
    let server = &reported.server;
    let asking = "GET /many/?format=json HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut gone = server.connect();
    gone.send(asking);
    gone.reset();
    let mut waiting = [server.connect(), server.connect()];
    waiting.iter_mut().for_each(|client| client.send(asking));
    let mut other = server.connect();
    let (mut answers, mut longest) = (0, Duration::ZERO);
    let end = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        assert_eq!(other.get("/one").unwrap().text(), "1");
        (answers, longest) = (answers + 1, longest.max(began.elapsed()));
        // Seen without waiting: the listing has begun to arrive.
        let mut byte = [0];
        waiting[0].stream().set_nonblocking(true).unwrap();
        let has_come = waiting[0].stream().peek(&mut byte).is_ok();
        waiting[0].stream().set_nonblocking(false).unwrap();
        if has_come {
            break;
        }
        assert!(Instant::now() < end, "the listing does not come");
    }
    assert!(answers > 10, "others were answered {answers} times while it was made");
    assert!(longest < Duration::from_millis(500), "and waited for {longest:?}");
    for client in &mut waiting {
        let mut listed = names(&client.response().unwrap());
        assert_eq!(listed.len(), NAMES);
        assert_eq!(listed.pop().as_deref(), Some("file-019999.txt"));
    }
    let report = reported.on_demand();
    assert!(count(&report, "system_calls.by_kind.getdents64") > 10, "{report}");
    // The response to the one that is gone may have been made before it was seen to be gone.
    assert!((answers + 2..=answers + 3).contains(&count(&report, "requests.total")), "{report}");
}

/// A server of `tree` that keeps no listing, and of which `calls` are supervised.
fn supervise(tree: &Path, calls: &[Number], test: &str) -> Option<Supervised> {
    let mut command = command();
    command.args(["--list", "--cache-check", "0", "--listen", "127.0.0.1:0"]).arg(tree);
    let supervised = Supervised::spawn(command, calls, None);
    if supervised.is_none() {
        skip(test, NO_SUPERVISOR);
    }
    supervised
}

/// However long a look at a name takes, others are answered between one and the next.
#[test]
fn a_slow_disk_stops_nobody() {
    const NAMES: usize = 200;
    const LOOK: Duration = Duration::from_millis(4);
    let tree = temporary();
    fs::create_dir(tree.path().join("many")).unwrap();
    for at in 0..NAMES {
        fs::write(tree.path().join(format!("many/{at}")), "").unwrap();
    }
    let Some(site) = supervise(tree.path(), &[libc::SYS_statx], "a_slow_disk_stops_nobody") else { return };
    let mut waiting = site.server.connect();
    let mut other = site.server.connect();
    site.rule(libc::SYS_statx, |_| {
        std::thread::sleep(LOOK);
        None
    });
    waiting.send("GET /many/?format=json HTTP/1.1\r\nHost: a\r\n\r\n");
    waiting.stream().set_nonblocking(true).unwrap();
    let (mut answers, end) = (0, Instant::now() + PATIENCE);
    // What is not there costs no look.
    while waiting.stream().peek(&mut [0]).is_err() {
        assert!(Instant::now() < end, "the listing does not come");
        assert_eq!(other.get("/none").unwrap().status(), 404);
        answers += 1;
    }
    waiting.stream().set_nonblocking(false).unwrap();
    assert_eq!(names(&waiting.response().unwrap()).len(), NAMES);
    assert!(answers > NAMES / 4, "others were answered {answers} times while {NAMES} names were looked at");
}

/// What cannot be had now is not left out as if it were not there.
#[test]
fn a_listing_is_whole_or_refused() {
    let (tree, _outside) = tree();
    let calls = [libc::SYS_getdents64, libc::SYS_openat2, libc::SYS_statx];
    let Some(site) = supervise(tree.path(), &calls, "a_listing_is_whole_or_refused") else { return };
    let mut client = site.server.connect();
    let mut get = || client.get("/open/?format=json").unwrap();
    let whole = names(&get());
    assert_eq!(whole.len(), 7);
    // A listing is kept for a while even so; what counts is the answer for which a call has failed.
    let mut get_failed = || {
        let (end, (_, failed)) = (Instant::now() + PATIENCE, site.counts());
        loop {
            let response = get();
            if site.counts().1 > failed {
                return response;
            }
            assert!(Instant::now() < end, "no call fails");
        }
    };
    for (call, errno, status) in [
        (libc::SYS_getdents64, libc::EIO, 500),
        (libc::SYS_getdents64, libc::ENOMEM, 503),
        (libc::SYS_statx, libc::ENOMEM, 503),
    ] {
        site.fail(call, errno, 1, |_| true);
        assert_eq!(get_failed().status(), status, "call {call}, error {errno}");
    }
    // There is a descriptor for the directory, but none for what its links lead to.
    for errno in [libc::EMFILE, libc::ENOMEM] {
        let has_names = Arc::new(AtomicBool::new(false));
        let is_read = Arc::clone(&has_names);
        site.rule(libc::SYS_getdents64, move |_| {
            is_read.store(true, Ordering::Relaxed);
            None
        });
        site.rule(libc::SYS_openat2, move |_| has_names.load(Ordering::Relaxed).then_some(errno));
        assert_eq!(get_failed().status(), 503, "{errno}");
        site.lift(libc::SYS_openat2);
    }
    // A name of which nothing can be known is left out: the others are there.
    site.fail(libc::SYS_statx, libc::EIO, 1, |_| true);
    assert_eq!(names(&get_failed()).len(), whole.len() - 1);
    let end = Instant::now() + PATIENCE;
    while names(&get()) != whole {
        assert!(Instant::now() < end, "it is not whole again");
    }
}
