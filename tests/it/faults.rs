//! System calls that fail, each call of the path of a request with each error that it may have.
//!
//! What is expected was written down first. *Whole*: the client has the right answer, as if nothing had
//! happened. *Cut*: the connection ends before its answer does, and what has come is the begin of the right
//! one. A number is the status of an answer after which the connection goes on. *Waits*: the client is let in
//! and answered when the fault is over. In every case another client has the right bytes meanwhile, the next
//! request on a new connection is answered, no descriptor is lost, and a fault that lasts costs a bounded
//! number of calls.
//!
//! | call | error | once | while it lasts |
//! | --- | --- | --- | --- |
//! | accept4 | EMFILE ENFILE ENOBUFS ENOMEM | waits | waits |
//! | accept4 | ECONNABORTED EPERM EIO EINTR | whole: the next try | waits |
//! | poll (does somebody wait?) | EINTR ENOMEM, with accept4 | waits | waits |
//! | epoll_wait | EINTR | whole | – |
//! | epoll_wait | any other | the program ends, with a sentence and status 1 | – |
//! | epoll_ctl | ENOMEM ENOSPC | an answer that fits the socket is whole, then the connection ends; others are cut | the same |
//! | recvfrom | ENOMEM ENOBUFS EIO ECONNRESET ETIMEDOUT | cut | cut |
//! | recvfrom, sendto, writev, sendfile | EINTR EAGAIN | whole | – |
//! | sendto, writev, sendfile | ENOMEM ENOBUFS EPIPE | cut | cut |
//! | writev of a mapping | EFAULT | whole: the file is looked up again | cut |
//! | sendto, writev, sendfile | EIO: what is to be sent cannot be read | whole: it is tried again | cut |
//! | openat2, openat | EMFILE ENFILE | whole: a descriptor is kept for that | 503 |
//! | openat2, openat, readlinkat | ENOMEM | 503 | 503 |
//! | openat2, openat, readlinkat | EIO · EACCES | 500 · 403 | 500 · 403 |
//! | openat2, openat, readlinkat | EINTR EAGAIN | whole: it is tried again | 503 |
//! | openat2 | ENOSYS or EPERM from the begin | whole, by hand; what leads out is 404 | the same |
//! | fcntl (a descriptor to keep) | EMFILE, with openat2 | 503, and whole when there is one again | – |
//! | statx | EIO · ENOMEM EINTR | 500 · 503 | 500 · 503 |
//! | statx between two writes of a mapping | EIO | cut | cut |
//! | pread64 | EIO · ENOMEM | 500 · 503 | 500 · 503 |
//! | pread64 | EINTR | whole | – |
//! | mmap of a file | ENOMEM EAGAIN ENODEV EPERM ENFILE | whole: what cannot be mapped is sent by sendfile | the same |
//! | shutdown | ENOTCONN EIO ENOMEM | whole, then the connection ends | the same |
//! | close | EIO EINTR | whole | whole |
//!
//! And what happens to a file just before any one of the calls that serve it: the answer is wholly of one state
//! of the file, or cut short of the old one.
//!
//! Elsewhere: descriptors that have really run out, in `arrivals` and `listening`; files changed while they
//! are kept, and slowly sent, in `freshness`; directories that cannot be read, in `listing`. Our own memory is
//! not among it: a program in Rust ends when its allocator has none.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tared::files::READ_MAX;

use crate::client::{Client, Response};
use crate::server::{PATIENCE, command, skip, temporary, unwarned};
use crate::supervised::{Args, NO_SUPERVISOR, Number, Supervised};

#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: Number = libc::SYS_epoll_wait;
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: Number = libc::SYS_epoll_pwait;

/// Every call of the path of a request, so that one that is made over and over is seen.
const CALLS: [Number; 17] = [
    EPOLL_WAIT,
    libc::SYS_epoll_ctl,
    libc::SYS_ppoll,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_writev,
    libc::SYS_sendfile,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_openat2,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_fcntl,
    libc::SYS_statx,
    libc::SYS_pread64,
    libc::SYS_mmap,
];

/// In the answer's own buffer, in memory beside it, mapped, and read by the kernel alone.
const FILES: [(&str, usize); 4] =
    [("/small", 12), ("/middle", 40 * 1024), ("/mapped", 200_000), ("/large", 1024 * 1024 + 5)];

/// How long a fault lasts.
const WHILE: Duration = Duration::from_millis(50);

/// Supervised calls in [`WHILE`], at the most: four bites of accepting, which are the dearest. A loop that does
/// not wait makes more than ten times as many.
const CALLS_MAX: usize = 1024;

/// A byte of the file of `len` bytes, which tells where it stands and in which file.
fn byte_at(len: usize, at: usize) -> u8 {
    ((at + len) % 251) as u8
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| byte_at(len, at)).collect()
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    Status(u16),
    Cut,
}

use Outcome::{Cut, Status, Whole};

/// A server of [`FILES`] that keeps none of them, so that every request makes every call.
struct Site {
    supervised: Supervised,
    dir: tempfile::TempDir,
    /// Descriptors before there was a connection.
    descriptors: usize,
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        Self::start_without(test, None)
    }

    fn start_without(test: &str, missing: Option<(Number, i32)>) -> Option<Self> {
        let dir = temporary();
        fs::create_dir(dir.path().join("sub")).expect("it is ours");
        for (name, len) in FILES {
            fs::write(dir.path().join(&name[1..]), content(len)).expect("it is ours");
        }
        fs::write(dir.path().join("index.html"), "index").expect("it is ours");
        symlink("../middle", dir.path().join("sub/link")).expect("a link");
        symlink("/etc/passwd", dir.path().join("sub/out")).expect("a link");
        let mut command = command();
        command
            .args(["--listen", "127.0.0.1:0", "--cache-entries", "1", "--cache-check", "0"])
            .arg(dir.path());
        let Some(supervised) = Supervised::spawn(command, &CALLS, missing) else {
            skip(test, NO_SUPERVISOR);
            return None;
        };
        let mut site = Self { supervised, dir, descriptors: 0 };
        site.descriptors = site.descriptors();
        site.check_well();
        Some(site)
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.supervised.server.pid())).expect("it is alive").count()
    }

    fn connect(&self) -> Client {
        self.supervised.server.connect()
    }

    /// Waits until as many descriptors are open as in the begin, and `more`.
    #[track_caller]
    fn settle(&self, more: usize) {
        let end = Instant::now() + PATIENCE;
        while self.descriptors() != self.descriptors + more {
            let (now, then) = (self.descriptors(), self.descriptors);
            assert!(Instant::now() < end, "{now} descriptors are open, {then} were");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Everything is answered on new connections; the last file is one that does not stay open.
    #[track_caller]
    fn check_well(&self) {
        for (target, _) in FILES.iter().rev() {
            assert_eq!(ask(&mut self.connect(), target), Whole, "{target} afterwards");
        }
        self.settle(0);
    }

    /// Another client, in the midst of a head: so it is not idle, nor closed to make room for somebody.
    #[track_caller]
    fn bystander(&self) -> Client {
        let mut client = self.connect();
        // What comes in the same turn as a connection may be answered before that is waited for.
        assert_eq!((ask(&mut client, "/small"), ask(&mut client, "/small")), (Whole, Whole));
        client.send("GET /middle HTTP/1.1\r\n");
        // Whoever is accepted later is answered later.
        // And none of the files is kept.
        assert_eq!(self.connect().get("/").expect("an answer").text(), "index");
        self.settle(1);
        client
    }

    /// `call` fails with `errno` when `target` is asked for: once, and for a while.
    #[track_caller]
    fn check(&self, call: Number, errno: i32, target: &str, once: Outcome, lasting: Option<Outcome>) {
        for (times, expected) in [(1, Some(once)), (usize::MAX, lasting)] {
            let Some(expected) = expected else { continue };
            let shown = format!("{target}: call {call} fails with {errno}, {times} times at the most");
            let mut bystander = self.bystander();
            let (seen, failed) = self.supervised.counts();
            self.supervised.fail(call, errno, times, is_meant(call));
            let mut client = self.connect();
            let start = Instant::now();
            assert_eq!(ask(&mut client, target), expected, "{shown}");
            if times > 1 {
                std::thread::sleep(WHILE.saturating_sub(start.elapsed()));
                let calls = self.supervised.counts().0 - seen;
                assert!(calls < CALLS_MAX, "{shown}: {calls} calls");
            }
            self.supervised.lift(call);
            assert!(self.supervised.counts().1 > failed, "{shown}: it did not come to that");
            check_bystander(&mut bystander);
            if expected != Cut {
                assert_eq!(ask(&mut client, target), Whole, "{shown}: on the same connection");
            }
            drop((client, bystander));
            self.check_well();
        }
    }

    #[track_caller]
    fn check_all(&self, call: Number, errors: &[i32], target: &str, once: Outcome, lasting: Option<Outcome>) {
        for &errno in errors {
            self.check(call, errno, target, once, lasting);
        }
    }
}

/// Its head ends, and it has its answer.
#[track_caller]
fn check_bystander(client: &mut Client) {
    client.send("Host: a\r\n\r\n");
    let response = client.response().expect("another client has an answer");
    assert!(response.body == content(FILES[1].1), "another client has wrong bytes");
}

/// Which of the calls of a kind are on the path of a request: mappings of files, and copies of descriptors.
fn is_meant(call: Number) -> fn(&Args) -> bool {
    match call {
        libc::SYS_mmap => |args| args[4] as i32 >= 0,
        libc::SYS_fcntl => |args| args[1] as i32 == libc::F_DUPFD_CLOEXEC,
        _ => |_| true,
    }
}

/// Asks for one of [`FILES`] and sees that what comes is right as far as it goes.
#[track_caller]
fn ask(client: &mut Client, target: &str) -> Outcome {
    let len = FILES.iter().find(|(name, _)| *name == target).map_or(FILES[1].1, |(_, len)| *len);
    if client.try_send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).is_err() {
        return Cut;
    }
    let head = match client.response_to_head() {
        Ok(head) => head,
        Err(_) => {
            let begin = client.take_received();
            assert!(begin.is_empty(), "a part of a head: {:?}", String::from_utf8_lossy(&begin));
            return Cut;
        }
    };
    let promised: usize = head.field("Content-Length").expect("a length").parse().expect("a length");
    let (body, is_whole) = match client.take(promised) {
        Ok(body) => (body, true),
        Err(_) => (client.take_received(), false),
    };
    if head.status() != 200 {
        assert!(is_whole, "an error of which a part came: {}", head.head);
        return Status(head.status());
    }
    assert_eq!(promised, len, "{}", head.head);
    let wrong = body.iter().enumerate().find(|&(at, &byte)| byte != byte_at(len, at));
    assert_eq!(wrong, None, "of {} bytes", body.len());
    if is_whole { Whole } else { Cut }
}

#[test]
fn reading_a_request_fails() {
    let Some(site) = Site::start("reading_a_request_fails") else { return };
    let broken = [libc::ENOMEM, libc::ENOBUFS, libc::EIO, libc::ECONNRESET, libc::ETIMEDOUT];
    site.check_all(libc::SYS_recvfrom, &broken, "/small", Cut, Some(Cut));
    site.check_all(libc::SYS_recvfrom, &[libc::EINTR, libc::EAGAIN], "/small", Whole, None);
}

#[test]
fn sending_an_answer_fails() {
    let Some(site) = Site::start("sending_an_answer_fails") else { return };
    let broken = [libc::ENOMEM, libc::ENOBUFS, libc::EPIPE];
    for (call, target) in [
        (libc::SYS_sendto, "/small"),
        // Its head.
        (libc::SYS_sendto, "/large"),
        (libc::SYS_sendfile, "/large"),
        (libc::SYS_writev, "/middle"),
        (libc::SYS_writev, "/mapped"),
    ] {
        site.check_all(call, &broken, target, Cut, Some(Cut));
        site.check(call, libc::EIO, target, Whole, Some(Cut));
        site.check_all(call, &[libc::EINTR, libc::EAGAIN], target, Whole, None);
    }
    site.check(libc::SYS_writev, libc::EFAULT, "/mapped", Whole, Some(Cut));
}

#[test]
fn opening_a_file_fails() {
    let Some(site) = Site::start("opening_a_file_fails") else { return };
    check_opening(&site, libc::SYS_openat2, "/small");
    // The descriptor that is kept for it is not there again at once.
    let no_copy = is_meant(libc::SYS_fcntl);
    site.supervised.fail(libc::SYS_fcntl, libc::EMFILE, usize::MAX, no_copy);
    site.supervised.fail(libc::SYS_openat2, libc::EMFILE, 1, |_| true);
    assert_eq!(ask(&mut site.connect(), "/small"), Whole);
    site.supervised.fail(libc::SYS_openat2, libc::EMFILE, 2, |_| true);
    assert_eq!(ask(&mut site.connect(), "/small"), Status(503));
    site.supervised.lift(libc::SYS_openat2);
    assert_eq!(ask(&mut site.connect(), "/small"), Whole);
    site.supervised.lift(libc::SYS_fcntl);
    site.check_well();
}

/// Before Linux 5.6 openat2 is missing; a sandbox that does not know it may say that it is not permitted.
#[test]
fn opening_a_file_fails_where_paths_are_walked_by_hand() {
    const TEST: &str = "opening_a_file_fails_where_paths_are_walked_by_hand";
    for errno in [libc::ENOSYS, libc::EPERM] {
        let Some(site) = Site::start_without(TEST, Some((libc::SYS_openat2, errno))) else { return };
        assert_eq!(ask(&mut site.connect(), "/sub/link"), Whole);
        for (target, status) in [("/sub/out", 404), ("/nope", 404), ("/small/x", 404), ("/sub", 301)] {
            assert_eq!(ask(&mut site.connect(), target), Status(status), "{target}");
        }
        assert_eq!(site.connect().get("/").expect("an answer").text(), "index");
        if errno == libc::EPERM {
            continue;
        }
        check_opening(&site, libc::SYS_openat, "/sub/link");
        let call = libc::SYS_readlinkat;
        site.check(call, libc::ENOMEM, "/sub/link", Status(503), Some(Status(503)));
        site.check(call, libc::EIO, "/sub/link", Status(500), Some(Status(500)));
        site.check(call, libc::EACCES, "/sub/link", Status(403), Some(Status(403)));
        site.check(call, libc::EINTR, "/sub/link", Whole, Some(Status(503)));
    }
}

#[track_caller]
fn check_opening(site: &Site, call: Number, target: &str) {
    site.check_all(call, &[libc::EMFILE, libc::ENFILE], target, Whole, Some(Status(503)));
    site.check(call, libc::ENOMEM, target, Status(503), Some(Status(503)));
    site.check(call, libc::EIO, target, Status(500), Some(Status(500)));
    site.check(call, libc::EACCES, target, Status(403), Some(Status(403)));
    site.check_all(call, &[libc::EINTR, libc::EAGAIN], target, Whole, Some(Status(503)));
}

#[test]
fn looking_at_a_file_fails() {
    let Some(site) = Site::start("looking_at_a_file_fails") else { return };
    for (target, _) in FILES {
        site.check(libc::SYS_statx, libc::EIO, target, Status(500), Some(Status(500)));
        site.check_all(libc::SYS_statx, &[libc::ENOMEM, libc::EINTR], target, Status(503), Some(Status(503)));
    }
    // The second look, when it has been read.
    for (errno, status) in [(libc::EIO, 500), (libc::ENOMEM, 503)] {
        let mut looks = 0;
        site.supervised.rule(libc::SYS_statx, move |_| {
            looks += 1;
            (looks == 2).then_some(errno)
        });
        assert_eq!(ask(&mut site.connect(), "/middle"), Status(status));
        site.supervised.lift(libc::SYS_statx);
        site.check_well();
    }
}

#[test]
fn reading_a_file_fails() {
    let Some(site) = Site::start("reading_a_file_fails") else { return };
    for target in ["/small", "/middle"] {
        site.check(libc::SYS_pread64, libc::EIO, target, Status(500), Some(Status(500)));
        site.check(libc::SYS_pread64, libc::ENOMEM, target, Status(503), Some(Status(503)));
        site.check(libc::SYS_pread64, libc::EINTR, target, Whole, None);
    }
    // As some file systems that lie elsewhere cannot map (ENODEV).
    let errors = [libc::ENOMEM, libc::EAGAIN, libc::ENODEV, libc::EPERM, libc::ENFILE];
    site.check_all(libc::SYS_mmap, &errors, "/mapped", Whole, Some(Whole));
    for errno in [libc::EIO, libc::EINTR] {
        // The injected error is all that becomes of the call, so this one descriptor stays open.
        let Some(site) = Site::start("reading_a_file_fails") else { return };
        site.supervised.fail(libc::SYS_close, errno, 1, |_| true);
        let mut client = site.connect();
        assert_eq!((ask(&mut client, "/small"), ask(&mut client, "/middle")), (Whole, Whole));
        assert_eq!(site.supervised.counts().1, 1);
        drop(client);
        site.settle(1);
    }
}

#[test]
fn a_connection_that_cannot_be_waited_for_is_cut() {
    let Some(site) = Site::start("a_connection_that_cannot_be_waited_for_is_cut") else { return };
    for errno in [libc::ENOMEM, libc::ENOSPC] {
        for times in [1, usize::MAX] {
            let mut bystander = site.bystander();
            let fail = || site.supervised.fail(libc::SYS_epoll_ctl, errno, times, |_| true);
            fail();
            // It comes with its request, so it is answered before it would be waited for.
            let mut prompt = site.connect();
            assert_eq!(ask(&mut prompt, "/small"), Whole);
            prompt.assert_closed();
            fail();
            let mut midway = site.connect();
            midway.send("GET /small HT");
            assert!(midway.rest().is_ok_and(|rest| rest.is_empty()) || times > 0);
            check_bystander(&mut bystander);
            site.supervised.lift(libc::SYS_epoll_ctl);
            drop(bystander);
            site.check_well();
        }
    }
}

#[test]
fn an_answer_comes_whole_though_the_end_of_its_connection_fails() {
    let Some(site) = Site::start("an_answer_comes_whole_though_the_end_of_its_connection_fails") else {
        return;
    };
    for errno in [libc::ENOTCONN, libc::EIO, libc::ENOMEM] {
        let (_, failed) = site.supervised.counts();
        site.supervised.fail(libc::SYS_shutdown, errno, usize::MAX, |_| true);
        let mut client = site.connect();
        client.send("no request\r\n\r\n");
        assert_eq!(client.response().expect("an answer").status(), 400);
        client.assert_closed();
        let mut client = site.connect();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.response().expect("an answer").body == content(FILES[3].1));
        client.assert_closed();
        assert_eq!(site.supervised.counts().1, failed + 2);
        site.supervised.lift(libc::SYS_shutdown);
        site.check_well();
    }
}

#[test]
fn whoever_comes_while_nobody_can_be_accepted_waits() {
    const TEST: &str = "whoever_comes_while_nobody_can_be_accepted_waits";
    let errors = [
        [libc::EMFILE, libc::ENFILE],
        [libc::ENOBUFS, libc::ENOMEM],
        // Of the client's own trouble the next try knows nothing.
        [libc::ECONNABORTED, libc::EPERM],
        [libc::EIO, libc::EINTR],
    ];
    // What rests is waited for by all of them together.
    let check = |errors: [i32; 2]| {
        let Some(site) = Site::start(TEST) else { return };
        for errno in errors {
            site.check(libc::SYS_accept4, errno, "/small", Whole, None);
            check_waits(&site, errno);
        }
    };
    std::thread::scope(|scope| errors.map(|errors| scope.spawn(move || check(errors))).map(|_| ()));
}

/// Who cannot be told whether somebody waits must not take it that nobody does.
#[test]
fn whoever_comes_while_nobody_can_tell_waits() {
    let Some(site) = Site::start("whoever_comes_while_nobody_can_tell_waits") else { return };
    for errno in [libc::EINTR, libc::ENOMEM] {
        site.supervised.fail(libc::SYS_ppoll, errno, usize::MAX, |_| true);
        check_waits(&site, libc::EMFILE);
        site.supervised.lift(libc::SYS_ppoll);
    }
}

/// While nobody is accepted for `errno` those who are there are served, and the others when it is over.
#[track_caller]
fn check_waits(site: &Site, errno: i32) {
    let mut bystander = site.bystander();
    let (seen, failed) = site.supervised.counts();
    site.supervised.fail(libc::SYS_accept4, errno, usize::MAX, |_| true);
    let mut waiting: Vec<_> = (0..3).map(|_| site.connect()).collect();
    for client in &mut waiting {
        client.send("GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    std::thread::sleep(WHILE);
    check_bystander(&mut bystander);
    let (calls, failures) = site.supervised.counts();
    assert!(failures > failed, "nobody was to be accepted");
    assert!(calls - seen < CALLS_MAX, "{errno}: {} calls", calls - seen);
    site.supervised.lift(libc::SYS_accept4);
    for client in &mut waiting {
        assert!(client.response().expect("an answer").body == content(FILES[0].1), "{errno}");
    }
    drop((waiting, bystander));
    site.check_well();
}

#[test]
fn waiting_that_is_interrupted_goes_on() {
    let Some(site) = Site::start("waiting_that_is_interrupted_goes_on") else { return };
    let (_, failed) = site.supervised.counts();
    site.supervised.fail(EPOLL_WAIT, libc::EINTR, 3, |_| true);
    let mut client = site.connect();
    for _ in 0..5 {
        assert_eq!(ask(&mut client, "/small"), Whole);
    }
    assert_eq!(site.supervised.counts().1, failed + 3);
    drop(client);
    site.check_well();
}

/// What becomes of a file, and what is then there.
#[derive(Clone, Copy, Debug)]
enum Change {
    Emptied,
    Halved,
    Grown,
    /// In place, to other bytes and as many.
    Rewritten,
    Renamed,
    Deleted,
    Fifo,
    /// A link that leads out takes its name.
    Link,
}

impl Change {
    /// Makes it to the file at `path`, which is the `content` of `len`; what is then there, if it is a file.
    fn make(self, path: &Path, len: usize) -> Option<Vec<u8>> {
        let open = || fs::File::options().append(true).open(path).expect("it is ours");
        let (half, old) = (len / 2 / PAGE * PAGE, content(len));
        match self {
            Change::Emptied => open().set_len(0).expect("it is ours"),
            Change::Halved => open().set_len(half as u64).expect("it is ours"),
            Change::Grown => open().write_all(b"grown").expect("it is ours"),
            Change::Rewritten => {
                let file = fs::File::options().write(true).open(path).expect("it is ours");
                file.write_all_at(&content(len + 1)[..len], 0).expect("it is ours");
            }
            Change::Renamed => {
                fs::write(path.with_extension("new"), content(len + 1)).expect("it is ours");
                fs::rename(path.with_extension("new"), path).expect("it is ours");
            }
            Change::Deleted | Change::Fifo | Change::Link => {
                fs::remove_file(path).expect("it is ours");
            }
        }
        match self {
            Change::Emptied => Some(Vec::new()),
            Change::Halved => Some(old[..half].to_vec()),
            Change::Grown => Some([&old[..], b"grown"].concat()),
            Change::Rewritten => Some(content(len + 1)[..len].to_vec()),
            Change::Renamed => Some(content(len + 1)),
            Change::Deleted => None,
            Change::Fifo => {
                let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
                assert!(made.success());
                None
            }
            Change::Link => {
                symlink("/etc/passwd", path).expect("a link");
                None
            }
        }
    }
}

const PAGE: usize = 4096;

/// A cut that leaves a part of a page may show the zeros behind it, if it comes after the last look at the
/// file and before it leaves from its mapping; so files are cut at pages here.
#[test]
fn a_file_that_changes_between_two_steps_is_never_mixed_with_another() {
    use Change::*;
    const TEST: &str = "a_file_that_changes_between_two_steps_is_never_mixed_with_another";
    let Some(site) = Site::start(TEST) else { return };
    let steps = [
        ("small", 12, [libc::SYS_statx, libc::SYS_pread64, libc::SYS_sendto]),
        ("middle", 40 * 1024, [libc::SYS_statx, libc::SYS_pread64, libc::SYS_writev]),
        ("mapped", 200_000, [libc::SYS_statx, libc::SYS_mmap, libc::SYS_writev]),
        ("large", 1024 * 1024 + 5, [libc::SYS_statx, libc::SYS_sendto, libc::SYS_sendfile]),
    ];
    let mut ends = [0, 0, 0, 0];
    for (name, len, calls) in steps {
        for call in calls {
            for (count, change) in
                [Emptied, Halved, Grown, Rewritten, Renamed, Deleted, Fifo, Link].into_iter().enumerate()
            {
                let shown = format!("{name}: {change:?} before call {call}");
                let target = format!("/{name}-{call}-{count}");
                let path = site.dir.path().join(&target[1..]);
                fs::write(&path, content(len)).expect("it is ours");
                let (made, new) = mpsc::channel();
                let mut first = Some((path, made));
                site.supervised.rule(call, move |args| {
                    let (path, made) = first.take_if(|_| is_meant(call)(args))?;
                    let _ = made.send(change.make(&path, len));
                    None
                });
                let mut client = site.connect();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                let response = client.response();
                let new = new.recv_timeout(PATIENCE).expect("it has come to that");
                // What is read by us has the tag of its own state; what the kernel reads later may be younger.
                let tag = |response: &Response| {
                    let tag = response.field("ETag").expect("a tag");
                    tag.strip_prefix("W/").unwrap_or(tag).to_owned()
                };
                let mut tag_then = None;
                let end = match response {
                    Ok(response) if response.status() == 404 => 3,
                    Ok(response) => {
                        assert_eq!(response.status(), 200, "{shown}");
                        let (is_old, is_new) =
                            (response.body == content(len), Some(&response.body) == new.as_ref());
                        assert!(is_old || is_new, "{shown}: {} bytes of neither", response.body.len());
                        tag_then = (is_new && len as u64 <= READ_MAX).then(|| tag(&response));
                        usize::from(is_new)
                    }
                    Err(_) => {
                        assert!(matches!(change, Emptied | Halved), "{shown}: it was cut");
                        let begin = client.take_received();
                        assert!(content(len).starts_with(&begin), "{shown}: another begin");
                        2
                    }
                };
                ends[end] += 1;
                site.supervised.lift(call);
                let then = site.connect().get(&target).expect("an answer");
                match new {
                    Some(new) => {
                        assert!(then.body == new, "{shown}: afterwards");
                        assert!(tag_then.is_none_or(|given| given == tag(&then)), "{shown}: another's tag");
                    }
                    None => assert_eq!(then.status(), 404, "{shown}: afterwards"),
                }
            }
        }
    }
    // Each of the ends is met: as it was, as it is, cut, and gone.
    assert!(ends[..3].iter().all(|&end| end > 0), "{ends:?}");
    site.check_well();
}

/// The one error that ends it, and it is said.
#[test]
fn waiting_that_fails_ends_it_with_a_sentence() {
    let dir = temporary();
    for workers in ["1", "2"] {
        let mut command = command();
        command
            .args(["--listen", "127.0.0.1:0", "--workers", workers])
            .arg(dir.path())
            .stderr(Stdio::piped());
        let Some(mut supervised) = Supervised::spawn(command, &[EPOLL_WAIT], None) else {
            return skip("waiting_that_fails_ends_it_with_a_sentence", NO_SUPERVISOR);
        };
        supervised.fail(EPOLL_WAIT, libc::ENOMEM, 1, |_| true);
        // It wakes one of the workers, who then waits again; the other one is asked to end in order.
        let _ = supervised.server.connect().try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(supervised.server.wait().code(), Some(1), "{workers} workers");
        let mut said = String::new();
        supervised.server.take_stderr().read_to_string(&mut said).expect("it is text");
        assert_eq!(unwarned(&said), "tared: waiting for events failed: cannot allocate memory\n");
    }
}
