//! Steps of the wall clock, by a day, while it serves.
//!
//! What is expected was written down first.
//!
//! | the wall clock steps forward, or back | |
//! | --- | --- |
//! | Date | follows within a second |
//! | connections and their deadlines, the end of a run | as if nothing had happened: they are measured by another clock |
//! | how long a file is believed | the same |
//! | Last-Modified | never later than Date (RFC 9110 §8.8.2.1) |
//! | a validator from before the step | 304 only while the file is the same; an entity tag that is weak now is no strong match |
//!
//! The binary is given a wall clock that we can set (`clocks.c`). Files whose times lie far ahead or behind are in
//! `files`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::client::{Client, Response};
use crate::server::{PATIENCE, Server, command, run, skip, temporary};

const DAY_S: i64 = 86_400;

/// An answer asked for so long after a step shows it.
const STALE_MAX: Duration = Duration::from_secs(1);

/// How far a Date may be off: it is cut to its second, and machines are busy.
const NEAR: Duration = Duration::from_secs(5);

const NO_CLOCK: &str = "there is no cc, or the binary loads no library";

/// A server whose wall clock is set here.
struct Clocked {
    server: Server,
    off: File,
    dir: tempfile::TempDir,
}

impl Clocked {
    /// Starts the binary with `args`; `None` where its clock cannot be had.
    fn start(args: &[&str]) -> Option<Self> {
        let dir = temporary();
        let (library, off) = (dir.path().join("clock.so"), dir.path().join("off"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clocks.c");
        let mut compiler = Command::new("sh");
        compiler.args(["-c", "exec cc -shared -fPIC -o \"$0\" \"$1\""]).arg(&library).arg(source);
        if !run(&mut compiler).status.success() {
            return None;
        }
        fs::write(&off, 0i64.to_ne_bytes()).expect("it is ours");
        fs::create_dir(dir.path().join("site")).expect("it is ours");
        fs::write(dir.path().join("site/index.html"), "index").expect("it is ours");
        let mut command = command();
        command.env("LD_PRELOAD", &library).env("TEST_CLOCK", &off).args(["--listen", "127.0.0.1:0"]);
        let server = Server::spawn(command.args(args).arg(dir.path().join("site")));
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).expect("it is alive");
        let off = File::options().write(true).open(off).expect("it is ours");
        maps.contains("clock.so").then_some(Self { server, off, dir })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("site").join(name)
    }

    /// Sets its wall clock to `seconds` from now.
    fn step(&self, seconds: i64) {
        self.off.write_all_at(&seconds.to_ne_bytes(), 0).expect("it is ours");
    }
}

fn now_and(seconds: i64) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
}

fn date(response: &Response, name: &str) -> SystemTime {
    let text = response.field(name).unwrap_or_else(|| panic!("no {name}: {}", response.head));
    httpdate::parse_http_date(text).expect("a date")
}

/// Asks on one connection until Date is near the clock that is off by `seconds`, for a second at the most.
#[track_caller]
fn until_date(client: &mut Client, seconds: i64) {
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        let date = date(&client.get("/").expect("the connection is kept"), "Date");
        let now = now_and(seconds);
        let off = now.duration_since(date).unwrap_or_else(|ahead| ahead.duration());
        if off < NEAR {
            return;
        }
        assert!(asked - start < STALE_MAX, "Date is {off:?} from a clock that is off by {seconds} s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const STEPS: [i64; 3] = [DAY_S, -DAY_S, 0];

#[test]
fn date_follows_a_step_and_connections_do_not_notice() {
    let Some(clocked) = Clocked::start(&["--keep-alive", "2s"]) else {
        return skip("date_follows_a_step_and_connections_do_not_notice", NO_CLOCK);
    };
    let mut client = clocked.server.connect();
    until_date(&mut client, 0);
    for seconds in STEPS {
        clocked.step(seconds);
        until_date(&mut client, seconds);
    }
}

#[test]
fn deadlines_do_not_move_with_a_step() {
    const IDLE: Duration = Duration::from_millis(500);
    const HEAD: Duration = Duration::from_millis(700);
    let args = ["--keep-alive", "500ms", "--header-timeout", "700ms", "--duration", "4s"];
    let begun = Instant::now();
    let Some(mut clocked) = Clocked::start(&args) else {
        return skip("deadlines_do_not_move_with_a_step", NO_CLOCK);
    };
    for seconds in [DAY_S, -DAY_S] {
        let server = &clocked.server;
        let (mut idle, mut midway) = (server.connect(), server.connect());
        idle.assert_open();
        midway.assert_open();
        midway.send("GET / HTTP/1.1\r\nHost: a\r\n");
        let start = Instant::now();
        clocked.step(seconds);
        until_date(&mut server.connect(), seconds);
        idle.assert_closed();
        let took = start.elapsed();
        // Looks are 250 ms apart.
        assert!(took >= IDLE - Duration::from_millis(20) && took < 4 * IDLE, "{seconds}: {took:?}");
        assert_eq!(midway.response().expect("an answer").status(), 408);
        let took = start.elapsed();
        assert!(took >= HEAD - Duration::from_millis(20) && took < 4 * HEAD, "{seconds}: {took:?}");
    }
    assert_eq!(clocked.server.wait().code(), Some(0));
    let took = begun.elapsed();
    assert!((Duration::from_secs(4)..PATIENCE / 2).contains(&took), "{took:?}");
}

/// Asks for `/file` with `fields`.
fn ask(client: &mut Client, fields: &str) -> Response {
    let response = client.request("GET", "/file", fields).expect("an answer");
    if let Some(modified) = response.field("Last-Modified") {
        let modified = httpdate::parse_http_date(modified).expect("a date");
        assert!(modified <= date(&response, "Date"), "it is later than Date: {}", response.head);
    }
    response
}

/// Longer than a file is believed here, and than its times take to settle.
const CHECKED: Duration = Duration::from_millis(150);

#[test]
fn a_step_makes_no_validator_wrong() {
    let Some(clocked) = Clocked::start(&["--cache-check", "100ms"]) else {
        return skip("a_step_makes_no_validator_wrong", NO_CLOCK);
    };
    let path = clocked.path("file");
    let write = |text: &str, ago: u64| {
        // In place, so that nothing but its times tells it from what it was.
        let file = File::options().write(true).create(true).truncate(false).open(&path).expect("it is ours");
        file.write_all_at(text.as_bytes(), 0).expect("it is ours");
        file.set_modified(SystemTime::now() - Duration::from_secs(ago)).expect("it is ours");
    };
    let mut client = clocked.server.connect();
    for (at, seconds) in STEPS.into_iter().enumerate() {
        let text = format!("text {at}");
        // Its time is ahead of a clock that has stepped back.
        write(&text, 60);
        std::thread::sleep(CHECKED);
        let before = ask(&mut client, "");
        assert_eq!(before.text(), text);
        let tag = before.field("ETag").expect("a tag").to_owned();
        clocked.step(seconds);
        until_date(&mut client, seconds);
        std::thread::sleep(CHECKED);
        // It is the same: the tag still says so, and where it matches strongly now it did so before.
        let same = ask(&mut client, &format!("If-None-Match: {tag}\r\n"));
        assert_eq!(same.status(), 304, "{seconds}: {}", same.head);
        let part = ask(&mut client, &format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n"));
        let is_strong = !part.field("ETag").expect("a tag").starts_with("W/") && !tag.starts_with("W/");
        assert_eq!(part.status(), if is_strong { 206 } else { 200 }, "{seconds}: {}", part.head);

        let text = format!("late {at}");
        write(&text, 60);
        let start = Instant::now();
        loop {
            let asked = Instant::now();
            let changed = ask(&mut client, &format!("If-None-Match: {tag}\r\n"));
            if changed.status() == 200 {
                assert_eq!(changed.text(), text);
                break;
            }
            assert_eq!(changed.status(), 304);
            assert!(asked - start < CHECKED, "{seconds}: a change is not seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        let part = ask(&mut client, &format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n"));
        assert_eq!((part.status(), part.text()), (200, &*text), "{seconds}");
    }
}

/// What is measured is measured by the clock that does not step, and only one room reads the other one.
#[test]
fn no_room_but_the_clock_reads_the_wall_clock() {
    let rooms = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut readers = Vec::new();
    for room in fs::read_dir(rooms).expect("it is ours") {
        let path = room.expect("it is ours").path();
        let text = fs::read_to_string(&path).expect("text");
        let without_tests = text.split("#[cfg(test)]").next().expect("a part");
        if without_tests.contains("SystemTime::now") {
            readers.push(path.file_name().expect("a name").to_owned());
        }
    }
    assert_eq!(readers, ["clock.rs"]);
}
