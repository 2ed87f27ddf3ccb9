//! Siblings with a content coding (RFC 9110 §8.4, §12.5.3). What they hold is their own matter: here each says
//! of which file it is.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::client::Response;
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{PATIENCE, Server, command, skip, temporary};
use crate::supervised::{NO_SUPERVISOR, Supervised};

/// All are of the same time, as `gzip -k` leaves them, and old enough for their times to tell.
fn tree() -> tempfile::TempDir {
    let tree = temporary();
    let time = SystemTime::now() - Duration::from_secs(100);
    for (name, text) in [
        ("index.html", "the index itself, which is long"),
        ("index.html.gz", "gz of the index"),
        ("a.js", "a.js itself, which is longer than others"),
        ("a.js.gz", "gz of a.js, the longest"),
        ("a.js.br", "br of a.js"),
        ("a.js.zst", "zst of a.js, middling"),
        ("plain.txt", "plain, without siblings"),
    ] {
        write(&tree.path().join(name), text.as_bytes(), time);
    }
    tree
}

fn write(path: &Path, bytes: &[u8], modified: SystemTime) {
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn serve(tree: &Path, args: &[&str]) -> Server {
    Server::start(["--listen", "127.0.0.1:0", "--precompressed", tree.to_str().unwrap()].iter().chain(args))
}

fn get(server: &Server, target: &str, accepted: &str) -> Response {
    server.connect().request("GET", target, &format!("Accept-Encoding: {accepted}\r\n")).unwrap()
}

fn coding(response: &Response) -> Option<&str> {
    response.field("Content-Encoding")
}

/// The entity tag of a form of `/a.js`, as soon as its file is old enough for a strong one.
fn strong_etag(server: &Server, accepted: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let tag = get(server, "/a.js", accepted).field("ETag").unwrap().to_owned();
        if tag.starts_with('"') {
            return tag;
        }
        assert!(Instant::now() < end, "{tag} stays weak");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for what shows in whatever is asked for a second after it was done.
#[track_caller]
fn eventually(server: &Server, target: &str, is_wanted: impl Fn(&Response) -> bool) {
    let end = Instant::now() + Duration::from_secs(1);
    loop {
        let asked = Instant::now();
        if is_wanted(&get(server, target, "gzip, br, zstd")) {
            return;
        }
        assert!(asked < end, "{target} does not change");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_client_gets_the_form_that_it_wants() {
    let tree = tree();
    let server = serve(tree.path(), &[]);
    for (target, accepted, expected, text) in [
        ("/a.js", "gzip, deflate, br, zstd", Some("br"), "br of a.js"),
        ("/a.js", "gzip", Some("gzip"), "gz of a.js, the longest"),
        ("/a.js", "zstd, gzip;q=0.9", Some("zstd"), "zst of a.js, middling"),
        ("/a.js", "*", Some("br"), "br of a.js"),
        ("/a.js", "gzip;q=0.5, identity", None, "a.js itself, which is longer than others"),
        ("/a.js", "identity;q=0, gzip;q=0.1", Some("gzip"), "gz of a.js, the longest"),
        ("/a.js", "gzip;q=0", None, "a.js itself, which is longer than others"),
        ("/a.js", "deflate", None, "a.js itself, which is longer than others"),
        ("/a.js", "", None, "a.js itself, which is longer than others"),
        ("/", "gzip", Some("gzip"), "gz of the index"),
        ("/index.html", "br", None, "the index itself, which is long"),
        ("/plain.txt", "gzip, br, zstd", None, "plain, without siblings"),
        // By its own name it is a file like any other.
        ("/a.js.gz", "gzip", None, "gz of a.js, the longest"),
    ] {
        let response = get(&server, target, accepted);
        assert_eq!(
            (response.status(), coding(&response), response.text()),
            (200, expected, text),
            "{target} {accepted}"
        );
        let content_type = match target {
            "/a.js" => "text/javascript; charset=utf-8",
            "/plain.txt" => "text/plain; charset=utf-8",
            "/a.js.gz" => "application/gzip",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(response.field("Content-Type"), Some(content_type), "{target}");
        let varies = !["/plain.txt", "/a.js.gz"].contains(&target);
        assert_eq!(response.field("Vary"), varies.then_some("Accept-Encoding"), "{target}");
        let head =
            server.connect().request("HEAD", target, &format!("Accept-Encoding: {accepted}\r\n")).unwrap();
        assert_eq!(head.without_date().head, response.without_date().head, "{target} {accepted}");
    }
    let without_a_field = server.connect().get("/a.js").unwrap();
    assert_eq!((coding(&without_a_field), without_a_field.field("Vary")), (None, Some("Accept-Encoding")));
    let not_asked_for = Server::directory(tree.path());
    assert_eq!(coding(&get(&not_asked_for, "/a.js", "gzip, br, zstd")), None);
}

/// RFC 9110 §8.8.3.3: an entity tag of its own for each form; §13.1: conditions are held against the form that
/// would be sent.
#[test]
fn each_form_has_its_own_validators() {
    let tree = tree();
    let server = serve(tree.path(), &["--cache-control", "no-cache"]);
    let tags = ["", "gzip", "br", "zstd"].map(|accepted| strong_etag(&server, accepted));
    for (at, accepted) in ["", "gzip", "br", "zstd"].into_iter().enumerate() {
        for (other, tag) in tags.iter().enumerate() {
            let fields = format!("Accept-Encoding: {accepted}\r\nIf-None-Match: {tag}\r\n");
            let response = server.connect().request("GET", "/a.js", &fields).unwrap();
            assert_eq!(response.status(), if at == other { 304 } else { 200 }, "{accepted} {tag}");
            assert_eq!(response.field("ETag"), Some(&*tags[at]));
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            let fields = format!("Accept-Encoding: {accepted}\r\nIf-Match: {tag}\r\n");
            let response = server.connect().request("GET", "/a.js", &fields).unwrap();
            assert_eq!(response.status(), if at == other { 200 } else { 412 }, "{accepted} {tag}");
        }
    }
}

#[test]
fn a_range_is_of_the_file_itself_unless_a_form_goes_on() {
    let tree = tree();
    let server = serve(tree.path(), &[]);
    let [gzip, own] = ["gzip", ""].map(|accepted| strong_etag(&server, accepted));
    for (fields, status, expected, text) in [
        ("Accept-Encoding: gzip\r\nRange: bytes=0-3\r\n".to_owned(), 206, None, "a.js"),
        (
            format!("Accept-Encoding: gzip\r\nRange: bytes=3-\r\nIf-Range: {gzip}\r\n"),
            206,
            Some("gzip"),
            "of a.js, the longest",
        ),
        (format!("Accept-Encoding: gzip\r\nRange: bytes=-6\r\nIf-Range: {own}\r\n"), 206, None, "others"),
        // Whoever goes on only with what it has (RFC 9110 §13.1.1) means that form, too.
        (
            format!("Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-Match: {gzip}\r\n"),
            206,
            Some("gzip"),
            "gz",
        ),
        (format!("Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-Match: {own}\r\n"), 206, None, "a."),
        (format!("Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: {gzip}\r\n"), 304, None, ""),
        (
            format!("Range: bytes=0-1\r\nIf-Range: {gzip}\r\n"),
            200,
            None,
            "a.js itself, which is longer than others",
        ),
        (
            "Accept-Encoding: gzip, identity;q=0\r\nRange: bytes=0-1\r\n".to_owned(),
            200,
            Some("gzip"),
            "gz of a.js, the longest",
        ),
        ("Accept-Encoding: gzip\r\nRange: bytes=999-\r\n".to_owned(), 416, None, ""),
    ] {
        let response = server.connect().request("GET", "/a.js", &fields).unwrap();
        assert_eq!((response.status(), coding(&response)), (status, expected), "{fields}");
        if status != 416 {
            assert_eq!(response.text(), text, "{fields}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{fields}");
        }
    }
}

/// RFC 9110 §8.8.1, §13.1.5: a date that several forms share tells nobody which of them is being continued.
#[test]
fn a_date_continues_no_form() {
    let tree = tree();
    let server = serve(tree.path(), &[]);
    for target in ["/a.js", "/plain.txt"] {
        // Where a file has no other form its date does, as soon as it is old enough.
        let first = get(&server, target, "gzip");
        let date = first.field("Last-Modified").unwrap().to_owned();
        eventually(&server, "/plain.txt", |response| response.field("ETag").unwrap().starts_with('"'));
        let fields = format!("Accept-Encoding: gzip\r\nRange: bytes=3-\r\nIf-Range: {date}\r\n");
        let response = server.connect().request("GET", target, &fields).unwrap();
        assert_eq!(response.status(), if target == "/a.js" { 200 } else { 206 }, "{target}");
    }
}

/// RFC 9110 §14.2: with HEAD a Range is of no account, so it does not choose the form either.
#[test]
fn a_range_chooses_nothing_for_head() {
    let tree = tree();
    let server = serve(tree.path(), &[]);
    let fields = "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\n";
    let response = server.connect().request("HEAD", "/a.js", fields).unwrap();
    assert_eq!((response.status(), coding(&response)), (200, Some("gzip")));
    assert_eq!(response.field("Content-Length"), Some("23"));
}

/// Of every way in which a form is kept: in its head's buffer, in memory, mapped, and open.
#[test]
fn a_form_of_any_size_goes_on() {
    for len in [1000, 40_000, 200_000, 900_000] {
        let tree = tree();
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        write(&tree.path().join("a.js.gz"), &bytes, SystemTime::now() - Duration::from_secs(90));
        let server = serve(tree.path(), &[]);
        let fields = format!("Accept-Encoding: gzip\r\nIf-Range: {}\r\n", strong_etag(&server, "gzip"));
        let ask = |range: &str| {
            let fields = format!("{fields}Range: bytes={range}\r\n");
            server.connect().request("GET", "/a.js", &fields).unwrap()
        };
        let rest = ask("777-");
        assert_eq!((rest.status(), coding(&rest)), (206, Some("gzip")), "{len}");
        assert_eq!(rest.field("Content-Range"), Some(&*format!("bytes 777-{}/{len}", len - 1)));
        assert!(rest.body == bytes[777..], "{len}");
        let several = ask("1-2,900-998");
        assert_eq!((several.status(), coding(&several)), (206, Some("gzip")), "{len}");
        assert!(several.body.windows(99).any(|window| window == &bytes[900..999]), "{len}");
        let beyond = ask(&format!("{len}-"));
        assert_eq!(beyond.field("Content-Range"), Some(&*format!("bytes */{len}")));
        // The same part, as a request for the file itself has it.
        let own = server.connect().request("GET", "/a.js", "Range: bytes=0-3\r\n").unwrap();
        assert_eq!((own.text(), coding(&own)), ("a.js", None));
    }
}

/// A file whose bytes have a coding of their own, as `.svgz` has, is not given another.
#[test]
fn a_file_that_is_said_to_be_coded_has_no_siblings() {
    let tree = tree();
    let server = serve(tree.path(), &["--header-for", "*.js", "Content-Encoding: gzip"]);
    let response = get(&server, "/a.js", "gzip, br, zstd");
    assert_eq!(response.text(), "a.js itself, which is longer than others");
    assert_eq!((coding(&response), response.field("Vary")), (Some("gzip"), None));
    assert_eq!(coding(&get(&server, "/", "gzip, br")), Some("gzip"));
    assert_eq!(get(&server, "/", "gzip, br").text(), "gz of the index");
}

/// What could not be opened for a moment is not missing for good.
#[test]
fn a_sibling_that_cannot_be_opened_for_a_moment_is_looked_for_again() {
    const NAME: &str = "a_sibling_that_cannot_be_opened_for_a_moment_is_looked_for_again";
    let tree = tree();
    let mut command = command();
    command.args(["--listen", "127.0.0.1:0", "--precompressed", "--frozen"]).arg(tree.path());
    let Some(site) = Supervised::spawn(command, &[libc::SYS_openat2, libc::SYS_fcntl], None) else {
        return skip(NAME, NO_SUPERVISOR);
    };
    // A target for each, since nothing is looked at again once it is kept.
    let targets = [(libc::EMFILE, "/a.js"), (libc::ENFILE, "/"), (libc::ENOMEM, "/index.html")];
    for (errno, target) in targets {
        let mut calls = 0;
        // The file itself is opened; none of its siblings is, with the descriptor in reserve or without.
        site.rule(libc::SYS_openat2, move |_| {
            calls += 1;
            (calls > 1).then_some(errno)
        });
        let response = get(&site.server, target, "gzip");
        assert_eq!((response.status(), coding(&response)), (200, None), "{errno}");
        site.lift(libc::SYS_openat2);
        assert_eq!(coding(&get(&site.server, target, "gzip")), Some("gzip"), "{errno}");
    }
}

#[test]
fn a_sibling_that_is_not_fit_is_not_there() {
    let (tree, outside) = (tree(), temporary());
    let now = SystemTime::now();
    let at = |name: &str| tree.path().join(name);
    fs::write(outside.path().join("out.gz"), "outside").unwrap();
    for name in ["older", "linked", "directory", "fifo", "empty", "within"] {
        write(&at(name), b"itself", now - Duration::from_secs(50));
    }
    write(&at("older.gz"), b"of an earlier state", now - Duration::from_secs(51));
    symlink(outside.path().join("out.gz"), at("linked.gz")).unwrap();
    fs::create_dir(at("directory.gz")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo.gz"), rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    write(&at("empty.gz"), b"", now);
    write(&at("target.bin"), b"of within", now);
    symlink("target.bin", at("within.gz")).unwrap();
    let server = serve(tree.path(), &[]);
    for name in ["older", "linked", "directory", "fifo", "empty"] {
        let response = get(&server, &format!("/{name}"), "gzip");
        assert_eq!((response.text(), response.field("Vary")), ("itself", None), "{name}");
    }
    assert_eq!(get(&server, "/within", "gzip").text(), "of within");
    // With hidden files and refusals nothing changes.
    assert_eq!(get(&server, "/.git", "gzip").status(), 404);
    assert_eq!(get(&server, "/none", "gzip").status(), 404);
}

#[test]
fn a_sibling_that_may_not_be_read_is_not_there() {
    let tree = tree();
    fs::set_permissions(tree.path().join("a.js.br"), PermissionsExt::from_mode(0o000)).unwrap();
    let Some(mut command) = unprivileged() else {
        return skip("a_sibling_that_may_not_be_read_is_not_there", NO_OTHER_USER);
    };
    command.args(["--listen", "127.0.0.1:0", "--precompressed"]).arg(tree.path());
    assert_eq!(coding(&get(&Server::spawn(&mut command), "/a.js", "br, gzip;q=0.5")), Some("gzip"));
}

/// Siblings come, change, fall behind and go, each seen within the second; of every size, and in the midst
/// of a batch.
#[test]
fn siblings_are_as_current_as_files() {
    let tree = tree();
    let path = tree.path().join("plain.txt.gz");
    let beside = tree.path().join("new");
    let server = serve(tree.path(), &[]);
    assert_eq!(coding(&get(&server, "/plain.txt", "gzip")), None);
    for len in [10, 3000, 70_000, 900_000, 20] {
        let bytes = vec![b'g'; len];
        write(&beside, &bytes, SystemTime::now());
        fs::rename(&beside, &path).unwrap();
        eventually(&server, "/plain.txt", |response| {
            response.body == bytes && coding(response) == Some("gzip")
        });
        let mut client = server.connect();
        let one = |accepted: &str| {
            format!("GET /plain.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n")
        };
        client.send([one("gzip"), one(""), one("br"), one("gzip")].concat());
        for is_coded in [true, false, false, true] {
            let response = client.response().unwrap();
            assert_eq!(coding(&response).is_some(), is_coded);
            let expected = if is_coded { &bytes[..] } else { b"plain, without siblings" };
            assert!(response.body == expected, "{}", response.head);
        }
    }
    write(
        &tree.path().join("plain.txt"),
        b"newer than its sibling",
        SystemTime::now() + Duration::from_secs(5),
    );
    eventually(&server, "/plain.txt", |response| {
        response.text() == "newer than its sibling" && coding(response).is_none()
    });
    write(&path, b"up to date", SystemTime::now() + Duration::from_secs(6));
    eventually(&server, "/plain.txt", |response| response.text() == "up to date");
    fs::remove_file(&path).unwrap();
    eventually(&server, "/plain.txt", |response| response.text() == "newer than its sibling");
}

/// The largest forms hold descriptors: those of many files together stay within their bound.
#[test]
fn forms_that_stay_open_are_few() {
    let tree = temporary();
    let time = SystemTime::now() - Duration::from_secs(100);
    for at in 0..40 {
        for suffix in ["", ".gz", ".br", ".zst"] {
            let path = tree.path().join(format!("f{at}{suffix}"));
            fs::write(&path, "").unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(800_000).unwrap();
            file.set_modified(time).unwrap();
        }
    }
    let server = serve(tree.path(), &[]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = descriptors();
    for at in 0..40 {
        assert_eq!(get(&server, &format!("/f{at}"), "gzip").body.len(), 800_000);
    }
    let after = descriptors();
    assert!(after <= before + 64 + 4, "{before} and then {after}");
}
