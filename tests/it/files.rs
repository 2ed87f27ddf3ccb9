//! A directory: what is found under a name, what is said of it, and what is never shown.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::{Client, Response};
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{Server, command, fixtures, skip, temporary};

/// Lies beside the root, and in hidden places below it; no answer may hold it.
const SECRET: &str = "the secret that nobody may read";

/// Writes `content` to `path` beneath `root`, with the directories on the way.
fn write(root: &Path, path: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
    let path = root.join(Path::new(path.as_ref()));
    fs::create_dir_all(path.parent().expect("it is beneath the root")).expect("it is ours");
    fs::write(path, content).expect("it is ours");
}

#[track_caller]
fn get(server: &Server, target: impl AsRef<[u8]>) -> Response {
    let mut client = server.connect();
    client.send([b"GET ", target.as_ref(), b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    client.response().expect("an answer")
}

#[track_caller]
fn check_found(server: &Server, target: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
    let response = get(server, &target);
    let target = String::from_utf8_lossy(target.as_ref()).into_owned();
    assert_eq!(response.status(), 200, "{target}: {}", response.head);
    assert!(response.body == content.as_ref(), "{target} has another content");
}

#[track_caller]
fn check_status(server: &Server, target: impl AsRef<[u8]>, status: u16) {
    let response = get(server, &target);
    let target = String::from_utf8_lossy(target.as_ref()).into_owned();
    assert_eq!(response.status(), status, "{target}: {}", response.head);
}

#[test]
fn the_type_goes_by_the_extension_and_only_text_has_a_charset() {
    let dir = temporary();
    for name in ["UPPER.HTML", "two.tar.css", "sub.css/image.png", "lib.mjs", "page.htm"] {
        write(dir.path(), name, "x");
    }
    for (server, target, content_type) in [
        (&Server::fixtures(), "/", "text/html; charset=utf-8"),
        (&Server::fixtures(), "/hello.txt", "text/plain; charset=utf-8"),
        (&Server::fixtures(), "/0k.txt", "text/plain; charset=utf-8"),
        (&Server::fixtures(), "/lipsum.html", "text/html; charset=utf-8"),
        (&Server::fixtures(), "/style.css", "text/css; charset=utf-8"),
        (&Server::fixtures(), "/app.js", "text/javascript; charset=utf-8"),
        (&Server::fixtures(), "/data.json", "application/json"),
        (&Server::fixtures(), "/logo.svg", "image/svg+xml"),
        (&Server::fixtures(), "/pixel.png", "image/png"),
        (&Server::fixtures(), "/add.wasm", "application/wasm"),
        (&Server::directory(dir.path()), "/UPPER.HTML", "text/html; charset=utf-8"),
        (&Server::directory(dir.path()), "/two.tar.css", "text/css; charset=utf-8"),
        (&Server::directory(dir.path()), "/sub.css/image.png", "image/png"),
        (&Server::directory(dir.path()), "/lib.mjs", "text/javascript; charset=utf-8"),
        (&Server::directory(dir.path()), "/page.htm", "text/html; charset=utf-8"),
    ] {
        let mut client = server.connect();
        for method in ["GET", "HEAD"] {
            let response = client.request(method, target, "").expect("an answer");
            assert_eq!(response.field("Content-Type"), Some(content_type), "{method} {target}");
        }
    }
}

#[test]
fn a_file_is_answered_whole_and_head_with_the_same_head() {
    let server = Server::fixtures();
    for name in
        ["index.html", "0k.txt", "hello.txt", "lipsum.html", "pixel.png", "add.wasm", "docs/index.html"]
    {
        let content = fs::read(fixtures().join(name)).expect("a fixture");
        let mut client = server.connect();
        let response = client.get(&format!("/{name}")).expect("an answer");
        assert!(response.head.starts_with("HTTP/1.1 200 OK\r\n"), "{}", response.head);
        assert_eq!(response.body, content, "{name}");
        // FACTS: ab needs exactly one space.
        assert!(
            response.head.contains(&format!("\r\nContent-Length: {}\r\n", content.len())),
            "{}",
            response.head
        );
        assert_eq!(response.field("Server"), Some("tared"));
        let date = httpdate::parse_http_date(response.field("Date").expect("a date")).expect("a date");
        let off = SystemTime::now().duration_since(date).unwrap_or_default();
        assert!(off < Duration::from_secs(3), "{off:?}");
        let head = client.request("HEAD", &format!("/{name}"), "").expect("an answer");
        assert_eq!(head.without_date().head, response.without_date().head, "RFC 9110 §9.3.2");
        client.end_input();
        client.assert_closed();
    }
}

#[test]
fn a_large_file_is_answered_whole() {
    let dir = temporary();
    let server = Server::directory(dir.path());
    // About the sizes at which something changes: pages, buffers, mappings.
    for len in [1, 2047, 2048, 2049, 4095, 4096, 4097, 65535, 65536, 65537, 70_001, 1 << 20, (6 << 20) + 1] {
        let content: Vec<u8> = (0..len).map(|at: u32| (at % 251) as u8).collect();
        write(dir.path(), format!("{len}.bin"), &content);
        check_found(&server, format!("/{len}.bin"), &content);
    }
}

#[test]
fn last_modified_is_the_time_of_the_file_but_never_in_the_future() {
    let dir = temporary();
    let server = Server::directory(dir.path());
    let set = |name: &str, at: SystemTime| {
        write(dir.path(), name, "Hello");
        File::options()
            .write(true)
            .open(dir.path().join(name))
            .expect("ours")
            .set_modified(at)
            .expect("ours");
    };
    let second = |n| UNIX_EPOCH + Duration::from_secs(n);
    for (name, at, text) in [
        ("2001", second(1_000_000_000), "Sun, 09 Sep 2001 01:46:40 GMT"),
        ("1994", second(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT"), // the example of RFC 9110 §5.6.7
        ("1970", UNIX_EPOCH, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("leap", second(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT"),
        ("fraction", second(1_000_000_000) + Duration::from_millis(999), "Sun, 09 Sep 2001 01:46:40 GMT"),
    ] {
        set(name, at);
        assert_eq!(get(&server, format!("/{name}")).field("Last-Modified"), Some(text), "{name}");
    }
    // RFC 9110 §8.8.2.1: not later than the Date of the message.
    set("future", SystemTime::now() + Duration::from_secs(86_400));
    let response = get(&server, "/future");
    let parsed = |name| response.field(name).map(|text| httpdate::parse_http_date(text).expect("a date"));
    assert!(parsed("Last-Modified") <= parsed("Date"), "{}", response.head);
    assert_eq!(response.text(), "Hello");
}

/// CVE-2020-25691 was a crash on such a time.
#[test]
fn an_absurd_time_of_a_file_does_no_harm() {
    // /dev/shm keeps times that ext4 cannot.
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    for dir in [Some(temporary()), shm].into_iter().flatten() {
        let mut server = Server::directory(dir.path());
        for (name, seconds) in [
            ("before 1970", -1),
            ("1901", -2_147_483_648),
            ("year 1", -62_135_596_800),
            ("year -1000", -93_692_592_000),
            ("2038", 2_147_483_648),
            ("end of year 9999", 253_402_300_799),
            ("year 10000", 253_402_300_800),
            ("much later", 1 << 40),
            ("end of time", i64::MAX),
            ("begin of time", i64::MIN),
        ] {
            write(dir.path(), name, "Hello");
            let path = dir.path().join(name);
            let at = Duration::from_secs(seconds.unsigned_abs());
            let at = if seconds < 0 { UNIX_EPOCH.checked_sub(at) } else { UNIX_EPOCH.checked_add(at) };
            let Some(at) = at else { continue };
            // Some file systems refuse, some round.
            let _ = File::options().write(true).open(&path).expect("ours").set_modified(at);
            let response = get(&server, format!("/{}", name.replace(' ', "%20")));
            assert_eq!((response.status(), response.text()), (200, "Hello"), "{name}");
            if let Some(text) = response.field("Last-Modified") {
                let parsed = httpdate::parse_http_date(text);
                assert!(parsed.is_ok_and(|parsed| parsed <= SystemTime::now()), "{name}: {text}");
            }
        }
        write(dir.path(), "index.html", "Hello");
        server.assert_alive();
    }
}

#[test]
fn a_header_is_added_to_successful_responses() {
    let dir = fixtures();
    let args =
        ["--listen=127.0.0.1:0", "--header=X-One: 1", "--header=Server: other", "--header=Content-Type: a/b"];
    let server = Server::spawn(command().args(args).arg(&dir));
    for target in ["/", "/hello.txt", "/lipsum.html"] {
        let response = get(&server, target);
        assert_eq!(response.field("X-One"), Some("1"), "{target}");
        assert_eq!(response.field("Server"), Some("other"), "{target}");
        assert_eq!(response.field("Content-Type"), Some("a/b"), "{target}");
    }
    assert_eq!(get(&server, "/nope").field("X-One"), None);
}

#[test]
fn a_name_is_decoded_once() {
    let dir = temporary();
    let root = dir.path();
    for name in [
        "with space.txt",
        "grüße.txt",
        "100%.txt",
        "%41.txt",
        "%2541.txt",
        "A.txt",
        "a?b.txt",
        "a#b.txt",
        "+.txt",
    ] {
        write(root, name, name);
    }
    write(root, OsStr::from_bytes(b"caf\xe9.txt"), "latin");
    write(root, "~!$&'()*+,;=:@-._", "marks");
    write(root, "back\\slash.txt", "back");
    write(root, "sub/file.txt", "sub");
    let server = Server::directory(root);
    for (target, content) in [
        ("/with%20space.txt", "with space.txt"),
        ("/gr%C3%BC%C3%9Fe.txt", "grüße.txt"),
        ("/gr%c3%bc%c3%9fe.txt", "grüße.txt"),
        ("/100%25.txt", "100%.txt"),
        ("/A.txt", "A.txt"),
        ("/%41.txt", "A.txt"),
        ("/%2541.txt", "%41.txt"),
        ("/%252541.txt", "%2541.txt"),
        ("/a%3Fb.txt", "a?b.txt"),
        ("/a%23b.txt", "a#b.txt"),
        ("/+.txt", "+.txt"),
        ("/%2B.txt", "+.txt"),
        ("/caf%E9.txt", "latin"),
        ("/~!$&'()*+,;=:@-._", "marks"),
        ("/%7e%21$&'()*+,;=:@-._", "marks"),
        ("/%73ub/file.txt", "sub"),
    ] {
        check_found(&server, target, content);
    }
    check_status(&server, "/with+space.txt", 404);
    check_status(&server, "/a.txt", 404);
    // No percent-encoding (RFC 3986 §2.1).
    for target in ["/%", "/%4", "/%zz", "/100%.txt", "/hello%2", "/%u0041.txt"] {
        check_status(&server, target, 400);
    }
    // Bytes beyond ASCII do not belong in a target, but they are there; whatever is said is no harm.
    let status = get(&server, "/grüße.txt").status();
    assert!(matches!(status, 200 | 400), "{status}");
}

#[test]
fn a_query_is_ignored() {
    let server = Server::fixtures();
    for target in [
        "/hello.txt?",
        "/hello.txt?a=b",
        "/hello.txt?a=b?c",
        "/hello.txt?/../x",
        "/hello.txt?%zz",
        "/hello.txt?a/b",
    ] {
        check_found(&server, target, "Hello World\n");
    }
    let index = fs::read(fixtures().join("index.html")).expect("a fixture");
    check_found(&server, "/?q", &index);
    check_found(&server, "/index.html?q", &index);
    check_status(&server, "/hello.txt%3Fa=b", 404);
}

#[test]
fn nothing_outside_the_root_is_ever_shown() {
    let dir = temporary();
    let root = dir.path().join("root");
    write(&root, "index.html", "index");
    write(&root, "sub/deep/file.txt", "file");
    write(dir.path(), "secret.txt", SECRET);
    write(dir.path(), "root-secret/secret.txt", SECRET);
    let server = Server::directory(&root);
    let absolute = dir.path().join("secret.txt");
    let absolute = absolute.to_str().expect("text");
    let targets = [
        "/..",
        "/../",
        "/../secret.txt",
        "//../secret.txt",
        "/./../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E/secret.txt",
        "/.%2e/secret.txt",
        "/%2e./secret.txt",
        "/..%2fsecret.txt",
        "/..%2Fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/%2e%2e%5csecret.txt",
        "\\..\\secret.txt",
        "/sub/../../secret.txt",
        "/sub/%2e%2e/%2e%2e/secret.txt",
        "/sub/..%2f..%2fsecret.txt",
        "/sub/deep/../../../secret.txt",
        "/sub/..\\..\\secret.txt",
        "/nope/../../secret.txt",
        "/index.html/../../secret.txt",
        "/%252e%252e/secret.txt",
        "/%252e%252e%252fsecret.txt",
        "/..%252fsecret.txt",
        "/%25252e%25252e/secret.txt",
        "/..%c0%afsecret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/%c0%ae%c0%ae%c0%afsecret.txt",
        "/%e0%80%ae%e0%80%ae/secret.txt",
        "/%uff0e%uff0e/secret.txt",
        "/..;/secret.txt",
        "/..;a=b/secret.txt",
        "/.../secret.txt",
        "/..../secret.txt",
        "/....//secret.txt",
        "/..%00/secret.txt",
        "/%00../secret.txt",
        "/..%00secret.txt",
        "/../secret.txt%00.html",
        "/../secret.txt%00",
        "/..%0d/secret.txt",
        "/..%20/secret.txt",
        "/.. /secret.txt",
        "/../root-secret/secret.txt",
        "/-secret/secret.txt",
        "/../secret.txt?",
        "/../secret.txt?/index.html",
        "/?/../../secret.txt",
        "/#/../secret.txt",
        "http://a/../secret.txt",
        "http://a/%2e%2e/secret.txt",
        "http://a/..%2fsecret.txt",
        "http://../secret.txt",
        "../secret.txt",
        "..",
        "secret.txt",
        "file:///secret.txt",
    ];
    let absolutes = [
        "",
        "/",
        "//",
        "/%2f",
        "/.//",
        "/%2e//",
        "/sub/",
        "/sub//",
        "/..",
        "file://",
        "http://a",
        "http://a/",
    ];
    let absolutes = absolutes.map(|before| format!("{before}{absolute}"));
    for target in targets.iter().copied().chain(absolutes.iter().map(String::as_str)) {
        for method in ["GET", "POST"] {
            let mut client = server.connect();
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            let answer = client.rest().expect("an answer");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with("HTTP/1.1 "), "{target}: {answer}");
            assert!(!answer.contains(SECRET), "{method} {target} shows it");
        }
    }
    for target in ["/../secret.txt", "/%2e%2e/secret.txt", "/sub/../../secret.txt", "/..%2fsecret.txt"] {
        let status = get(&server, target).status();
        assert!(matches!(status, 400 | 403 | 404), "{target}: {status}");
    }
    for target in ["/index.html%00", "/index.html%00.txt", "/sub%00/deep/file.txt", "/%00"] {
        let status = get(&server, target).status();
        assert!(matches!(status, 400 | 404), "{target}: {status}");
    }
    check_found(&server, "/sub/deep/file.txt", "file");
}

#[test]
fn links_within_the_root_work_and_others_do_not() {
    let dir = temporary();
    let root = dir.path().join("root");
    write(&root, "hello.txt", "Hello");
    write(&root, "sub/file.txt", "file");
    write(&root, "sub/index.html", "index");
    write(dir.path(), "secret.txt", SECRET);
    write(dir.path(), "root-secret/secret.txt", SECRET);
    write(dir.path(), "root-secret/index.html", SECRET);
    let link = |to: &Path, name: &str| symlink(to, root.join(name)).expect("a link");
    let beside = |name: &str| dir.path().join(name);

    link(Path::new("hello.txt"), "relative");
    link(Path::new("./sub/../hello.txt"), "winding");
    link(&root.join("hello.txt"), "absolute");
    link(Path::new("relative"), "twice");
    link(&root.join("absolute"), "twice-absolute");
    link(Path::new("../hello.txt"), "sub/up");
    link(&root.join("sub"), "sub-absolute");
    link(&root, "root-absolute");
    link(Path::new("sub"), "sub-relative");
    link(Path::new(".."), "sub/parent");
    let server = Server::directory(&root);
    for (target, content) in [
        ("/relative", "Hello"),
        ("/winding", "Hello"),
        ("/absolute", "Hello"),
        ("/twice", "Hello"),
        ("/twice-absolute", "Hello"),
        ("/sub/up", "Hello"),
        ("/sub-absolute/file.txt", "file"),
        ("/sub-relative/file.txt", "file"),
        ("/sub-relative/up", "Hello"),
        ("/sub-absolute/", "index"),
        ("/root-absolute/hello.txt", "Hello"),
        ("/root-absolute/root-absolute/sub/", "index"),
        ("/sub/parent/hello.txt", "Hello"),
    ] {
        check_found(&server, target, content);
    }
    check_status(&server, "/sub-absolute", 301);
    check_status(&server, "/root-absolute", 301);

    link(Path::new("../secret.txt"), "out");
    link(&beside("secret.txt"), "out-absolute");
    link(Path::new("sub/../../secret.txt"), "out-winding");
    link(Path::new("out"), "out-twice");
    link(Path::new(".."), "parent");
    link(Path::new("../.."), "sub/grandparent");
    link(dir.path(), "parent-absolute");
    link(&beside("root-secret"), "sibling");
    link(&beside("root-secret/secret.txt"), "sibling-file");
    link(&beside("root/../secret.txt"), "in-and-out");
    link(
        &Path::new("/proc/self/root").join(beside("secret.txt").strip_prefix("/").expect("absolute")),
        "magic",
    );
    link(Path::new("/proc/self/cwd"), "cwd");
    link(Path::new("/"), "slash");
    link(Path::new("nowhere"), "dangling");
    link(&root.join("nowhere"), "dangling-absolute");
    link(Path::new("loop"), "loop");
    link(Path::new("loop-two"), "loop-one");
    link(&root.join("loop-one"), "loop-two");
    link(Path::new("hello.txt/"), "file-as-directory");
    let inside = format!("/slash{}", beside("secret.txt").display());
    for target in [
        "/out",
        "/out-absolute",
        "/out-winding",
        "/out-twice",
        "/parent",
        "/parent/",
        "/parent/secret.txt",
        "/sub/grandparent/secret.txt",
        "/parent-absolute/secret.txt",
        "/sibling",
        "/sibling/",
        "/sibling/secret.txt",
        "/sibling-file",
        "/in-and-out",
        "/magic",
        "/cwd",
        "/cwd/",
        "/slash",
        "/slash/",
        "/slash/etc/passwd",
        &inside,
        "/dangling",
        "/dangling-absolute",
        "/dangling/x",
        "/loop",
        "/loop/",
        "/loop-one",
        "/loop-two",
        "/file-as-directory",
    ] {
        let response = get(&server, target);
        assert_eq!(response.status(), 404, "{target}: {}", response.head);
        assert!(!response.text().contains(SECRET), "{target}");
    }
}

#[test]
fn links_work_where_the_root_is_a_link_itself() {
    let dir = temporary();
    let root = dir.path().join("root");
    write(&root, "hello.txt", "Hello");
    symlink(&root, dir.path().join("link")).expect("a link");
    symlink("hello.txt", root.join("relative")).expect("a link");
    symlink(root.join("hello.txt"), root.join("absolute")).expect("a link");
    let server = Server::directory(&dir.path().join("link"));
    for target in ["/hello.txt", "/relative", "/absolute"] {
        check_found(&server, target, "Hello");
    }
}

#[test]
fn a_directory_without_its_slash_is_redirected_to_the_path_with_it() {
    let dir = temporary();
    let root = dir.path();
    for name in [
        "docs/index.html",
        "docs/deep/index.html",
        "with space/x",
        "gr\u{fc}n/x",
        "100%/x",
        "a?b/x",
        "evil.example/x",
    ] {
        write(root, name, "x");
    }
    write(root, "a\r\nX-Evil: y/x", "x");
    write(root, "\"><b>/x", "x");
    let server = Server::directory(root);
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?", "/docs/?"),
        ("/docs?a=b&c=%20d", "/docs/?a=b&c=%20d"),
        ("/docs?a/b", "/docs/?a/b"),
        ("/docs/deep", "/docs/deep/"),
        ("/with%20space", "/with%20space/"),
        ("/gr%C3%BCn", "/gr%C3%BCn/"),
        ("/100%25", "/100%25/"),
        ("/a%3Fb", "/a%3Fb/"),
        ("http://a/docs", "/docs/"),
        ("http://a/docs?q", "/docs/?q"),
    ] {
        for method in ["GET", "HEAD"] {
            let response = server.connect().request(method, target, "").expect("an answer");
            assert_eq!(response.status(), 301, "{method} {target}");
            assert_eq!(response.field("Location"), Some(location), "{method} {target}");
        }
    }
    // RFC 3986 §4.2: //host/ would lead to another host, and browsers take \ for /.
    for target in [
        "//evil.example",
        "///evil.example",
        "/%2fevil.example",
        "/%2Fevil.example",
        "/\\evil.example",
        "/%5cevil.example",
        "/.//evil.example",
        "/%2e//evil.example",
        "//evil.example?q",
        "/docs/..//evil.example",
        "http:////evil.example",
        "http://a//evil.example",
        "/%09/evil.example",
        "//docs",
        "/docs//deep",
    ] {
        let response = get(&server, target);
        if let Some(location) = response.field("Location") {
            let mut chars = location.chars();
            assert_eq!(chars.next(), Some('/'), "{target} leads to {location}");
            assert!(!matches!(chars.next(), Some('/' | '\\')), "{target} leads to {location}");
        }
    }
    for target in ["/a%0d%0aX-Evil:%20y", "/docs?a\rX-Evil:y", "/docs?a%0d%0aX-Evil:%20y", "/%22%3E%3Cb%3E"] {
        let response = get(&server, target);
        assert_eq!(response.field("X-Evil"), None, "{target}");
        assert!(!response.text().contains("<b>"), "{target}");
    }
}

#[test]
fn a_directory_is_answered_with_the_first_index_that_is_there() {
    let dir = temporary();
    let root = dir.path();
    for (name, content) in [
        ("both/a.html", "a"),
        ("both/b.txt", "b"),
        ("second/b.txt", "b"),
        ("neither/index.html", "index"),
        ("not-a-file/a.html/x", "x"),
        ("empty/a.html", ""),
    ] {
        write(root, name, content);
    }
    let server = Server::spawn(
        command().args(["--listen=127.0.0.1:0", "--index=a.html", "--index", "b.txt"]).arg(root),
    );
    check_found(&server, "/both/", "a");
    check_found(&server, "/second/", "b");
    check_found(&server, "/empty/", "");
    assert_eq!(get(&server, "/second/").field("Content-Type"), Some("text/plain; charset=utf-8"));
    for target in ["/neither/", "/not-a-file/", "/", "/nope/", "/both/a.html/"] {
        check_status(&server, target, 404);
    }
    let server = Server::directory(root);
    check_found(&server, "/neither/", "index");
    check_status(&server, "/both/", 404);
}

#[test]
fn names_that_begin_with_a_dot_are_not_there() {
    let dir = temporary();
    let root = dir.path();
    for name in [".env", ".git/config", "sub/.hidden", "...", ".well-known/.hidden", ".well-knownx"] {
        write(root, name, SECRET);
    }
    write(root, ".well-known/security.txt", "known");
    write(root, ".well-known/index.html", "index");
    write(root, "sub/.well-known/file", "known");
    let server = Server::directory(root);
    for target in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/.git",
        "/sub/.hidden",
        "/sub/%2ehidden",
        "/...",
        "/.well-known/.hidden",
        "/.well-knownx",
        "/.nope",
    ] {
        check_status(&server, target, 404);
    }
    check_found(&server, "/.well-known/security.txt", "known");
    check_found(&server, "/%2ewell-known/security.txt", "known");
    check_found(&server, "/.well-known/", "index");
    check_found(&server, "/sub/.well-known/file", "known");
    // Nor as an index.
    let server = Server::spawn(command().args(["--listen=127.0.0.1:0", "--index", "index.html"]).arg(root));
    check_status(&server, "/.git/", 404);
}

#[test]
fn what_is_no_regular_file_is_not_there_and_blocks_nobody() {
    let dir = temporary();
    let root = dir.path();
    write(root, "index.html", "index");
    fs::create_dir(root.join("sub")).expect("it is ours");
    for name in ["fifo", "sub/index.html"] {
        assert!(Command::new("mkfifo").arg(root.join(name)).status().expect("mkfifo runs").success());
    }
    let _socket = UnixListener::bind(root.join("socket")).expect("a socket");
    symlink("/dev/zero", root.join("zero")).expect("a link");
    symlink("fifo", root.join("link")).expect("a link");
    // Only root may make one, and not everywhere.
    let _ = Command::new("mknod").arg(root.join("device")).args(["c", "1", "5"]).output();
    let mut server = Server::directory(root);
    for _ in 0..2 {
        for target in ["/fifo", "/socket", "/zero", "/device", "/link", "/sub/", "/sub/index.html"] {
            let start = Instant::now();
            check_status(&server, target, 404);
            assert!(start.elapsed() < Duration::from_secs(1), "{target} takes {:?}", start.elapsed());
        }
    }
    // Opening a FIFO wakes one who waits to write, so it should not stay open either: without a reader
    // a writer that does not wait is refused (fifo(7)).
    let writer = Command::new("dd")
        .args(["if=/dev/null", "oflag=nonblock", "status=none"])
        .arg(format!("of={}", root.join("fifo").display()))
        .output();
    if let Ok(output) = writer {
        assert!(!output.status.success(), "somebody holds the FIFO open");
    }
    server.assert_alive();
}

#[test]
fn what_may_not_be_read_is_403() {
    let Some(mut command) = unprivileged() else {
        return skip("what_may_not_be_read_is_403", NO_OTHER_USER);
    };
    let dir = temporary();
    let root = dir.path();
    write(root, "closed.txt", SECRET);
    write(root, "closed/file.txt", SECRET);
    write(root, "index/index.html", SECRET);
    write(root, "open.txt", "open");
    for name in ["closed.txt", "closed", "index/index.html"] {
        fs::set_permissions(root.join(name), PermissionsExt::from_mode(0o000)).expect("it is ours");
    }
    let server = Server::spawn(command.arg("--listen=127.0.0.1:0").arg(root));
    for target in ["/closed.txt", "/closed/file.txt", "/index/", "/index/index.html"] {
        let mut client = server.connect();
        let response = client.get(target).expect("an answer");
        assert_eq!(response.status(), 403, "{target}");
        assert!(!response.text().contains(SECRET), "{target}");
        let response = client.get("/open.txt").expect("it is kept");
        assert_eq!(response.text(), "open");
    }
    // So that the directory can be removed.
    fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o700)).expect("it is ours");
}

#[test]
fn only_get_and_head_are_answered_with_what_is_there() {
    let server = Server::fixtures();
    let mut client = server.connect();
    for method in ["POST", "PUT", "DELETE", "PATCH", "BREW", "get", "Get", "HEADS", "GE", "~!"] {
        for target in ["/hello.txt", "/", "/docs/", "/lipsum.html?q"] {
            let response = client.request(method, target, "").expect("an answer");
            assert_eq!(response.status(), 405, "{method} {target}");
            assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method} {target}");
        }
        for target in ["/nope", "/nope/", "/hello.txt/", "/docs/nope"] {
            assert_eq!(
                client.request(method, target, "").expect("an answer").status(),
                404,
                "{method} {target}"
            );
        }
    }
}

#[test]
fn an_error_says_its_status_in_words_and_echoes_nothing() {
    const CANARY: &str = "zzcanary";
    let server = Server::fixtures();
    let long = "a".repeat(9000);
    let fields = "X: y\r\n".repeat(200);
    for (request, status, phrase) in [
        (format!("GET /docs?{CANARY} HTTP/1.1\r\nHost: a\r\n\r\n"), 301, "Moved Permanently"),
        (format!("GET /%zz{CANARY} HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "Bad Request"),
        (format!("GET /{CANARY} HTTP/1.1\r\n\r\n"), 400, "Bad Request"),
        (format!("GET /<script>{CANARY}</script> HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "Not Found"),
        (format!("GET /%3Cscript%3E{CANARY}%3C/script%3E HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "Not Found"),
        (format!("{CANARY} /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "Method Not Allowed"),
        (format!("GET /{CANARY}{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "URI Too Long"),
        (
            format!("GET /{CANARY} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"),
            431,
            "Request Header Fields Too Large",
        ),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {CANARY}\r\n\r\n"), 501, "Not Implemented"),
        (format!("GET /{CANARY} HTTP/3.0\r\nHost: a\r\n\r\n"), 505, "HTTP Version Not Supported"),
    ] {
        let mut client: Client = server.connect();
        client.send(&request);
        let response = client.response().expect("an answer");
        let shown = &request[..request.len().min(99)];
        assert!(
            response.head.starts_with(&format!("HTTP/1.1 {status} {phrase}\r\n")),
            "{shown}: {}",
            response.head
        );
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{shown}");
        assert_eq!(response.field("Server"), Some("tared"), "{shown}");
        let body = response.text();
        assert!(body.starts_with('<') && body.contains(phrase), "{shown}: {body}");
        assert!(body.len() < 1024, "{shown}: {} bytes", body.len());
        assert!(!body.contains(CANARY) && !body.contains("<script"), "{shown}: {body}");
        // A redirect leads where the client wanted to go; nothing else repeats it.
        assert!(status == 301 || !response.head.contains(CANARY), "{shown}: {}", response.head);
    }
}

#[test]
fn the_root_itself_may_have_any_name() {
    let dir = temporary();
    for name in [OsStr::new("with space"), OsStr::new(".hidden"), OsStr::from_bytes(b"caf\xe9")] {
        let root = dir.path().join(name);
        match fs::create_dir(&root) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => continue,
            created => created.expect("it is ours"),
        }
        write(&root, "hello.txt", "Hello");
        let server = Server::directory(&root);
        check_found(&server, "/hello.txt", "Hello");
    }
}
