//! Files that change while they are cached, or while they are being sent: never wrong bytes under an
//! old length, and seen anew within a second.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::client::Client;
use crate::inherited::start;
use crate::leaving::narrow_listener;
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{Server, skip, temporary};

/// An answer asked for so long after a change shows it.
const STALE_MAX: Duration = Duration::from_secs(1);

/// Read from our memory with their head, read apart from it, mapped and sent at once, and mapped and
/// sent in many pieces.
const SIZES: [usize; 5] = [12, 3000, 40 * 1024, 200 * 1024 + 5, 6 * 1024 * 1024 + 5];

/// Larger than what the kernel holds of a connection that is not read from.
const LARGE: usize = 24 * 1024 * 1024;

/// The same of a connection whose server's side holds little; small enough to be mapped.
const MAPPED: usize = 700_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Another file takes its name.
    Renamed,
    /// Other bytes, as many; the same file.
    Rewritten,
    /// The same, and its mtime is set back.
    RewrittenSecretly,
    Grown,
    /// To a half.
    Halved,
    /// By a byte, so that its last page is there as before.
    Trimmed,
    Emptied,
    Deleted,
    /// A directory takes its name.
    Directory,
    Fifo,
    /// A link that leads out of the root takes its name.
    Link,
}

const CHANGES: [Change; 11] = {
    use Change::*;
    [Renamed, Rewritten, RewrittenSecretly, Grown, Halved, Trimmed, Emptied, Deleted, Directory, Fifo, Link]
};

/// What a name is answered with.
#[derive(Clone, PartialEq)]
enum Seen {
    Content(Vec<u8>),
    Status(u16),
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seen::Content(bytes) => {
                let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
                write!(f, "{} bytes, {zeros} of them zero, the first {:?}", bytes.len(), bytes.first())
            }
            Seen::Status(status) => write!(f, "{status}"),
        }
    }
}

fn content(letter: u8, len: usize) -> Vec<u8> {
    vec![letter; len]
}

/// Makes `change` to the file at `path`, which holds `len` times `o`; what is then there.
fn make(change: Change, path: &Path, len: usize) -> Seen {
    let open = || File::options().write(true).open(path).expect("it is ours");
    match change {
        Change::Renamed => {
            let other = path.with_extension("new");
            fs::write(&other, content(b'n', len + 3)).expect("it is ours");
            fs::rename(&other, path).expect("it is ours");
            Seen::Content(content(b'n', len + 3))
        }
        Change::Rewritten | Change::RewrittenSecretly => {
            let modified = open().metadata().and_then(|metadata| metadata.modified()).expect("a time");
            open().write_all_at(&content(b'n', len), 0).expect("it is ours");
            if change == Change::RewrittenSecretly {
                open().set_modified(modified).expect("it is ours");
            }
            Seen::Content(content(b'n', len))
        }
        Change::Grown => {
            open().write_all_at(&content(b'n', 5000), len as u64).expect("it is ours");
            Seen::Content([content(b'o', len), content(b'n', 5000)].concat())
        }
        Change::Halved | Change::Trimmed | Change::Emptied => {
            let left = match change {
                Change::Halved => len / 2,
                Change::Trimmed => len - 1,
                _ => 0,
            };
            open().set_len(left as u64).expect("it is ours");
            Seen::Content(content(b'o', left))
        }
        Change::Deleted => {
            fs::remove_file(path).expect("it is ours");
            Seen::Status(404)
        }
        Change::Directory => {
            fs::remove_file(path).and_then(|()| fs::create_dir(path)).expect("it is ours");
            Seen::Status(301)
        }
        Change::Fifo => {
            fs::remove_file(path).expect("it is ours");
            assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
            Seen::Status(404)
        }
        Change::Link => {
            fs::remove_file(path).and_then(|()| symlink("/etc/passwd", path)).expect("it is ours");
            Seen::Status(404)
        }
    }
}

/// What `target` is answered with.
#[track_caller]
fn look(client: &mut Client, target: &str) -> Seen {
    let response = client.get(target).expect("a whole answer");
    match response.status() {
        200 => Seen::Content(response.body),
        status => Seen::Status(status),
    }
}

/// A file of `len` bytes is asked for until it is cached, changed, and asked for again until the
/// change is seen: every answer is wholly what was, or wholly what is.
#[track_caller]
fn check_seen(server: &Server, root: &Path, change: Change, len: usize) {
    let name = format!("{change:?}-{len}");
    let (path, target) = (root.join(&name), format!("/{name}"));
    fs::write(&path, content(b'o', len)).expect("it is ours");
    // In the past, so that nothing about the file looks fresh.
    let hour = Duration::from_secs(3600);
    File::options()
        .write(true)
        .open(&path)
        .expect("ours")
        .set_modified(SystemTime::now() - hour)
        .expect("ours");
    let old = Seen::Content(content(b'o', len));
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(look(&mut client, &target), old, "{name} at first");
    }
    let new = make(change, &path, len);
    let changed = Instant::now();
    loop {
        let asked = Instant::now();
        let seen = look(&mut client, &target);
        if seen == new {
            break;
        }
        assert_eq!(seen, old, "{name} is neither old nor new");
        assert!(asked - changed < STALE_MAX, "{name} is {seen:?} after {:?}", asked - changed);
        std::thread::sleep(Duration::from_millis(5));
    }
    // And from then on.
    assert_eq!(look(&mut client, &target), new, "{name} at last");
}

#[test]
fn a_changed_file_is_seen_within_a_second_and_whole() {
    let dir = temporary();
    let mut server = Server::directory(dir.path());
    for len in SIZES {
        std::thread::scope(|scope| {
            let (server, root) = (&server, dir.path());
            let threads = CHANGES.map(|change| scope.spawn(move || check_seen(server, root, change, len)));
            let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
            assert_eq!(failed, 0, "changes of {len} bytes that went wrong");
        });
    }
    fs::write(dir.path().join("index.html"), "alive").expect("it is ours");
    server.assert_alive();
}

#[test]
fn a_file_that_comes_is_seen_within_a_second() {
    let dir = temporary();
    let server = Server::directory(dir.path());
    let mut client = server.connect();
    let see = |client: &mut Client, target: &str, body: &str| {
        let start = Instant::now();
        loop {
            let asked = Instant::now();
            let response = client.get(target).expect("an answer");
            if response.status() == 200 {
                assert_eq!(response.text(), body);
                break;
            }
            assert_eq!(response.status(), 404);
            assert!(asked - start < STALE_MAX, "{target} is not seen");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for target in ["/file", "/", "/sub/file"] {
        assert_eq!(client.get(target).expect("an answer").status(), 404);
    }
    fs::write(dir.path().join("file"), "file").expect("it is ours");
    see(&mut client, "/file", "file");
    fs::write(dir.path().join("index.html"), "index").expect("it is ours");
    see(&mut client, "/", "index");
    fs::create_dir(dir.path().join("sub")).expect("it is ours");
    fs::write(dir.path().join("sub/file"), "sub").expect("it is ours");
    see(&mut client, "/sub/file", "sub");
}

#[test]
fn a_link_that_is_turned_is_seen_within_a_second() {
    // How sites are deployed: current -> release.
    let dir = temporary();
    for release in ["one", "two"] {
        fs::create_dir(dir.path().join(release)).expect("it is ours");
        fs::write(dir.path().join(release).join("index.html"), release).expect("it is ours");
    }
    std::os::unix::fs::symlink("one", dir.path().join("current")).expect("a link");
    let server = Server::directory(dir.path());
    let mut client = server.connect();
    assert_eq!(client.get("/current/").expect("an answer").text(), "one");
    std::os::unix::fs::symlink("two", dir.path().join("next")).expect("a link");
    fs::rename(dir.path().join("next"), dir.path().join("current")).expect("it is ours");
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        let response = client.get("/current/").expect("an answer");
        if response.text() == "two" {
            break;
        }
        assert_eq!(response.text(), "one");
        assert!(asked - start < STALE_MAX, "the new release is not seen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The kinds of end that a download may come to.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Cut,
}

/// Begins to read a file that is sent in many pieces, changes it, and reads on: one that the kernel sends
/// alone, and one that is mapped. How it ends is told, and is the same for both.
#[track_caller]
fn download(change: Change) -> End {
    let [large, mapped] = [LARGE, MAPPED].map(|len| download_of(change, len));
    assert_eq!(large, mapped, "{change:?} of a mapped file");
    large
}

/// The same with a file of `len` bytes. Every byte received is one that the file held at that place.
#[track_caller]
fn download_of(change: Change, len: usize) -> End {
    let dir = temporary();
    let path = dir.path().join("large");
    fs::write(&path, content(b'o', len)).expect("it is ours");
    fs::write(dir.path().join("index.html"), "alive").expect("it is ours");
    let mut server = start(&narrow_listener(), &[dir.path().to_str().expect("text")]);
    let mut client = Client::connect_narrow(server.address);
    client.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = client.response_to_head().expect("an answer");
    assert_eq!(head.field("Content-Length"), Some(&*len.to_string()));
    let begun = client.take(64 * 1024).expect("its begin");
    // Far from over: the server waits for the client.
    let new = make(change, &path, len);
    server.assert_alive();
    let mut received = begun;
    let end = loop {
        // It either ends as a stream does, or with a reset; both are seen to be too short.
        match client.take(1) {
            Ok(byte) => received.extend(byte),
            Err(_) => break if received.len() < len { End::Cut } else { End::Whole },
        }
        received.extend(client.take_received());
    };
    assert!(received.len() <= len, "{change:?}: {} bytes too many", received.len() - len);
    let wrong = received.iter().position(|byte| !matches!(byte, b'o' | b'n'));
    assert_eq!(
        wrong,
        None,
        "{change:?}: {:?} at {wrong:?} of {}",
        wrong.map(|at| received[at]),
        received.len()
    );
    if !matches!(change, Change::Rewritten | Change::RewrittenSecretly) {
        assert!(!received.contains(&b'n'), "{change:?} shows what is of another length");
    }
    // Others see the file as it is now.
    let start = Instant::now();
    let mut client = server.connect();
    while look(&mut client, "/large") != new {
        assert!(start.elapsed() < 2 * STALE_MAX, "{change:?} is not seen");
    }
    server.assert_alive();
    end
}

#[test]
fn a_file_replaced_while_it_is_sent_is_sent_to_its_end() {
    for change in [Change::Renamed, Change::Deleted, Change::Directory, Change::Fifo, Change::Link] {
        assert_eq!(download(change), End::Whole, "{change:?}");
    }
}

#[test]
fn a_file_changed_in_place_while_it_is_sent_keeps_its_length() {
    for change in [Change::Grown, Change::Rewritten, Change::RewrittenSecretly] {
        assert_eq!(download(change), End::Whole, "{change:?}");
    }
}

#[test]
fn a_file_truncated_while_it_is_sent_is_cut_and_never_wrong() {
    for change in [Change::Halved, Change::Emptied] {
        assert_eq!(download(change), End::Cut, "{change:?}");
    }
    // The end may have been on its way already.
    download_of(Change::Trimmed, LARGE);
    download_of(Change::Trimmed, MAPPED);
}

/// The end of the connection says that a response is cut. A reset, which is what closing with requests unread
/// sends, would say the same and take along what the kernel still has of the responses before it.
#[test]
fn what_came_before_a_file_that_is_cut_arrives_whole() {
    let mut cuts = 0;
    // About as much as the kernel takes at once, so that a part of it is still there.
    for before in [400_000, 600_000, 800_000, 1_000_000] {
        let dir = temporary();
        let file = dir.path().join("file");
        fs::write(&file, content(b'f', LARGE)).expect("it is ours");
        fs::write(dir.path().join("before"), content(b'b', before)).expect("it is ours");
        fs::write(dir.path().join("small"), "small").expect("it is ours");
        let server = Server::directory(dir.path());
        let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut client = server.connect();
        client.send(get("/before") + &get("/file"));
        // Who is answered behind these says that they have been looked at.
        server.connect().get("/small").expect("an answer");
        client.send(get("/small").repeat(3));
        File::options().write(true).open(&file).and_then(|file| file.set_len(4096)).expect("it is ours");
        assert!(client.response().expect("an answer").body == content(b'b', before), "{before}");
        let begun = client.response_to_head().expect("an answer");
        let rest = client.rest().expect("it ends without a reset");
        if begun.field("Content-Length") == Some(&*LARGE.to_string()) {
            assert!(rest.len() < LARGE, "{before}");
            cuts += 1;
        }
    }
    assert!(cuts > 0, "each cut was seen in time");
}

/// Whoever has begun to read it may go on; nobody else is given what may not be read any more.
#[test]
fn a_file_made_unreadable_while_it_is_sent_is_sent_to_its_end_and_then_403() {
    for len in [LARGE, MAPPED] {
        let Some(mut command) = unprivileged() else {
            return skip("a_file_made_unreadable_while_it_is_sent", NO_OTHER_USER);
        };
        let dir = temporary();
        let path = dir.path().join("file");
        fs::write(&path, content(b'o', len)).expect("it is ours");
        let server = Server::spawn(command.args(["--listen", "127.0.0.1:0"]).arg(dir.path()));
        let mut client = Client::connect_narrow(server.address);
        client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().expect("an answer").status(), 200);
        client.take(64 * 1024).expect("its begin");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).expect("it is ours");
        let changed = Instant::now();
        let mut other = server.connect();
        while look(&mut other, "/file") != Seen::Status(403) {
            assert!(changed.elapsed() < 2 * STALE_MAX, "it is still given to others");
        }
        let rest = client.take(len - 64 * 1024).expect("the rest of it");
        assert!(rest == content(b'o', len - 64 * 1024));
    }
}

#[test]
fn a_file_written_over_and_over_never_shows_what_was_not_there() {
    // The file is at any time some `a`s or some `b`s, by rename.
    let dir = temporary();
    let path = dir.path().join("file");
    let server = Server::directory(dir.path());
    let write = |round: usize| {
        let (letter, len) = if round.is_multiple_of(2) { (b'a', 100_000) } else { (b'b', 70_000) };
        fs::write(path.with_extension("new"), content(letter, len)).expect("it is ours");
        fs::rename(path.with_extension("new"), &path).expect("it is ours");
    };
    write(0);
    let mut client = server.connect();
    let start = Instant::now();
    let mut seen = [0, 0];
    for round in 1.. {
        write(round);
        let body = client.get("/file").expect("an answer").body;
        let which = usize::from(body.first() == Some(&b'b'));
        assert!(body == content([b'a', b'b'][which], [100_000, 70_000][which]), "{} bytes", body.len());
        seen[which] += 1;
        if (seen[0] > 0 && seen[1] > 0) || start.elapsed() > 5 * STALE_MAX {
            break;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}: it never changes");
}
