//! The access log, read back by a reader of its own: what is in a line, that none is lost or torn, and that
//! nobody waits for it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::command_line::{USAGE, check_refusal, check_usage};
use crate::privilege::unprivileged;
use crate::reported::{Reported, count};
use crate::server::{
    PATIENCE, Server, command, command_through, fixtures, run, share_environment, skip, temporary, unwarned,
};
use crate::trace::{self, NO_STRACE, Traced};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    client: String,
    time: String,
    line: Vec<u8>,
    status: u16,
    bytes: u64,
    /// Referer and User-Agent; none where the format has none.
    fields: Vec<Vec<u8>>,
}

/// Reads a line of the Common Log Format, with or without further values in quotes.
#[track_caller]
fn read_back(line: &str) -> Said {
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    let (client, rest) = line.split_once(" - - [").unwrap_or_else(|| panic!("{line:?}"));
    let (time, rest) = rest.split_once("] ").expect("a time");
    let (request, rest) = unquoted(rest);
    let mut words = rest.trim_start().splitn(3, ' ');
    let status = words.next().expect("a status").parse().expect("a number");
    let bytes = match words.next().expect("bytes") {
        "-" => 0,
        bytes => bytes.parse().ok().filter(|&bytes| bytes > 0).expect("a number"),
    };
    let mut fields = Vec::new();
    let mut rest = words.next().unwrap_or_default();
    while !rest.is_empty() {
        let (field, behind) = unquoted(rest);
        fields.push(field);
        rest = behind.trim_start();
    }
    Said { client: client.into(), time: time.into(), line: request, status, bytes, fields }
}

/// What stands in quotes at the begin of `text`, and what follows it.
fn unquoted(text: &str) -> (Vec<u8>, &str) {
    let text = text.strip_prefix('"').unwrap_or_else(|| panic!("no quote: {text:?}"));
    let (quoted, rest) = text.split_once('"').expect("another quote");
    let mut parts = quoted.split('\\');
    let mut value = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let hex = part.strip_prefix('x').expect("only \\xHH");
        value.push(u8::from_str_radix(&hex[..2], 16).expect("two digits"));
        value.extend_from_slice(&hex.as_bytes()[2..]);
    }
    (value, rest)
}

/// The lines of the file at `path` as soon as there are `least`; a line that is not whole is none.
#[track_caller]
fn lines(path: &Path, least: usize) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read(path).map(|bytes| String::from_utf8(bytes).expect("text")).unwrap_or_default();
        let whole: Vec<String> = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .map(str::to_owned)
            .collect();
        if whole.len() >= least {
            return whole;
        }
        assert!(Instant::now() < end, "there are no {least} lines: {text}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A server that logs to a file in a directory of its own.
struct Logged {
    server: Server,
    dir: tempfile::TempDir,
}

impl Logged {
    fn start(args: &[&str]) -> Self {
        let dir = temporary();
        let fixtures = fixtures();
        let fixed = args.contains(&"--fixed");
        let mut command = command();
        command.args(["--listen", "127.0.0.1:0", "--log"]).arg(dir.path().join("log")).args(args);
        if !fixed {
            command.arg(fixtures);
        }
        Self { server: Server::spawn(&mut command), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    #[track_caller]
    fn lines(&self, least: usize) -> Vec<String> {
        let lines = lines(&self.path(), least);
        assert_eq!(lines.len(), least, "{lines:#?}");
        lines
    }
}

/// Asks in every way, and returns for each what was asked and what came: line, status, bytes of the body.
fn ask(server: &Server) -> Vec<(&'static str, u16, u64)> {
    let mut client = server.connect();
    let mut asked = Vec::new();
    let etag = client.get("/hello.txt").expect("an answer");
    let etag = format!("If-None-Match: {}\r\n", etag.field("ETag").expect("a tag"));
    asked.push(("GET /hello.txt HTTP/1.1", 200, 12));
    for (method, target, fields, line) in [
        ("HEAD", "/hello.txt", "", "HEAD /hello.txt HTTP/1.1"),
        ("GET", "/lipsum.html", "", "GET /lipsum.html HTTP/1.1"),
        ("GET", "/hello.txt", "Range: bytes=1-3\r\n", "GET /hello.txt HTTP/1.1"),
        ("GET", "/lipsum.html", "Range: bytes=0-0,9-30\r\n", "GET /lipsum.html HTTP/1.1"),
        ("GET", "/hello.txt", &etag, "GET /hello.txt HTTP/1.1"),
        ("GET", "/nope?q=%0a", "", "GET /nope?q=%0a HTTP/1.1"),
        ("HEAD", "/nope", "", "HEAD /nope HTTP/1.1"),
        ("DELETE", "/", "", "DELETE / HTTP/1.1"),
        ("OPTIONS", "*", "", "OPTIONS * HTTP/1.1"),
        ("POST", "/hello.txt", "Content-Length: 3\r\n\r\nabc", "POST /hello.txt HTTP/1.1"),
    ] {
        let body = fields.split_once("\r\n\r\n");
        let (fields, body) = body.map_or((fields, ""), |(fields, body)| (fields, body));
        let fields = if body.is_empty() { fields.to_owned() } else { format!("{fields}\r\n") };
        let more = format!("{fields}Referer: http://a/?\"\r\nUser-Agent: it \\ \u{fc}\r\n");
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{more}\r\n{body}"));
        let response =
            if method == "HEAD" { client.response_to_head() } else { client.response() }.expect("an answer");
        asked.push((line, response.status(), response.body.len() as u64));
    }
    asked
}

#[test]
fn each_format_says_what_was_asked_and_what_came() {
    for (format, fields) in [("common", 0), ("combined", 2)] {
        let logged = Logged::start(&["--log-format", format]);
        let asked = ask(&logged.server);
        for (at, (line, (request, status, bytes))) in logged.lines(asked.len()).iter().zip(&asked).enumerate()
        {
            let said = read_back(line);
            assert_eq!(
                (&*said.client, &*said.line, said.status, said.bytes, said.fields.len()),
                ("127.0.0.1", request.as_bytes(), *status, *bytes, fields),
                "{line}"
            );
            check_time(&said.time);
            let expected = [&b"http://a/?\""[..], b"it \\ \xc3\xbc"];
            assert!(fields == 0 || at == 0 || said.fields == expected, "{line}");
        }
    }
    // Combined is what there is without a word.
    let logged = Logged::start(&[]);
    logged.server.connect().get("/hello.txt").expect("an answer");
    assert_eq!(read_back(&logged.lines(1)[0]).fields, [b"-", b"-"]);

    let logged = Logged::start(&["--log-format", "json"]);
    let asked = ask(&logged.server);
    for (at, (line, (request, status, bytes))) in logged.lines(asked.len()).iter().zip(&asked).enumerate() {
        let json: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| json[name].as_str().unwrap_or_else(|| panic!("{name}: {line}"));
        let parts = [text("method"), text("target"), text("protocol")].join(" ");
        let (told, body) = (json["status"].as_u64(), json["bytes"].as_u64());
        assert_eq!((&*parts, told, body), (*request, Some((*status).into()), Some(*bytes)), "{line}");
        assert_eq!(text("remote_addr"), "127.0.0.1");
        match at {
            0 => assert!(json["referer"].is_null() && json["user_agent"].is_null(), "{line}"),
            _ => assert_eq!((text("referer"), text("user_agent")), ("http://a/?\"", "it \\ \u{fc}")),
        }
        let time = text("time");
        assert!(time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T" && &time[19..20] == ".");
        let second = humantime::parse_rfc3339(time).expect("a time");
        let age = second.elapsed().unwrap_or_default();
        assert!(age < PATIENCE, "{time}");
    }
}

/// `06/Nov/1994:08:49:37 +0000`, and just now.
#[track_caller]
fn check_time(time: &str) {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, of_day) = time.split_once(':').expect("a day");
    let parts: Vec<&str> = date.split('/').collect();
    let month = MONTHS.iter().position(|&name| name == parts[1]).expect("a month") + 1;
    let of_day = of_day.strip_suffix(" +0000").expect("UTC");
    let time = format!("{}-{month:02}-{}T{of_day}Z", parts[2], parts[0]);
    let age = humantime::parse_rfc3339(&time).expect("a time").elapsed().unwrap_or_default();
    assert!(age < PATIENCE, "{time}");
}

/// What is no request is logged with what was read of its first line, and it remains one line.
#[test]
fn what_is_refused_is_logged_too_whatever_it_is() {
    let logged = Logged::start(&["--header-timeout", "300ms", "--body-timeout", "300ms"]);
    let long = format!("GET /{} HTTP/1.1", "x".repeat(8 * 1024));
    let cases: [(&[u8], &[u8], u16); 9] = [
        (b"no request\r\n\r\n", b"no request", 400),
        (b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1", 400),
        (b"\r\n\r\nGET / HTTP/2.0\r\n\r\n", b"GET / HTTP/2.0", 505),
        (b"GET /\x1b[2J\" HTTP/1.1\r\n\r\n", b"GET /\x1b[2J\" HTTP/1.1", 400),
        (
            b"\x16\x03\x01\x02\x00\xff\n127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1\n\n",
            b"\x16\x03\x01\x02\x00\xff",
            400,
        ),
        (b"GET /a\rb HTTP/1.1\r\n\r\n", b"GET /a\rb HTTP/1.1", 400),
        (long.as_bytes(), long.as_bytes(), 414),
        (b"GET /slow HTTP/1.1\r\nHost: a\r\nX: ", b"GET /slow HTTP/1.1", 408),
        (b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", b"POST /slow HTTP/1.1", 408),
    ];
    for (at, (sent, line, status)) in cases.iter().enumerate() {
        let mut client = logged.server.connect();
        client.send(sent);
        client.send(if *status == 414 { "\r\nHost: a\r\n\r\n" } else { "" });
        let response = client.response().expect("an answer");
        assert_eq!(response.status(), *status);
        let said = read_back(&logged.lines(at + 1)[at]);
        assert_eq!((said.status, said.bytes), (*status, response.body.len() as u64));
        assert_eq!(said.line, *line, "{:?}", String::from_utf8_lossy(line));
        assert_eq!(said.fields, [b"-", b"-"], "what was not read whole is not believed");
    }
}

#[test]
fn requests_of_a_batch_stand_in_their_order_and_each_once() {
    let logged = Logged::start(&["--workers", "2"]);
    let mut client = logged.server.connect();
    let targets: Vec<String> = (0..100).map(|at| format!("/hello.txt?{at}")).collect();
    for batch in targets.chunks(25) {
        client.send(
            batch
                .iter()
                .map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .collect::<String>(),
        );
        batch.iter().for_each(|_| assert_eq!(client.response().expect("an answer").status(), 200));
    }
    let asked = logged.lines(targets.len());
    for (line, target) in asked.iter().zip(&targets) {
        assert_eq!(read_back(line).line, format!("GET {target} HTTP/1.1").as_bytes());
    }
}

/// A response that could not begin is taken back and made when it can: it is one answer.
#[test]
fn a_response_that_is_taken_back_is_logged_once() {
    let dir = temporary();
    let site = dir.path().join("site");
    fs::create_dir(&site).expect("it is ours");
    fs::write(site.join("large"), vec![b'x'; 24 * 1024 * 1024]).expect("it is ours");
    let log = dir.path().join("log");
    let mut reported = Reported::spawn(command().arg("--log").arg(&log).arg(&site));
    let mut client = Client::connect_narrow(reported.server.address);
    let number = 3;
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(number));
    for _ in 0..number {
        assert_eq!(client.response().expect("an answer").body.len(), 24 * 1024 * 1024);
    }
    let report = reported.end();
    assert_eq!(count(&report, "requests.total"), number as u64);
    assert_eq!((count(&report, "log.lines"), count(&report, "log.dropped")), (number as u64, 0));
    let said = lines(&log, number);
    assert_eq!(said.len(), number);
    assert!(said.iter().all(|line| read_back(line).bytes == 24 * 1024 * 1024));
}

#[test]
fn it_goes_to_standard_output_behind_the_ready_line() {
    let mut server = Server::fixed(&["--log", "-", "--body", "Hello"]);
    assert!(server.ready_line.starts_with("tared "));
    let mut client = server.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/").expect("an answer").text(), "Hello"));
    server.signal("TERM");
    let printed = server.printed();
    let said: Vec<Said> = printed.lines().map(read_back).collect();
    assert_eq!(said.len(), 5, "{printed}");
    assert!(said.iter().all(|said| said.line == b"GET / HTTP/1.1" && said.bytes == 5));
}

/// The shell, or whoever else has the same pipe, does not find it non-blocking.
#[test]
fn what_was_handed_down_stays_as_it_was() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = command();
    command.args(["--fixed", "--listen", "127.0.0.1:0", "--log", "-"]).stdin(Stdio::null());
    let mut child = command.stdout(writer.try_clone().expect("a copy")).spawn().expect("the binary starts");
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a ready line");
    let address = crate::server::address(&line).expect("an address");
    Client::connect(address).get("/").expect("an answer");
    line.clear();
    reader.read_line(&mut line).expect("a line of the log");
    assert_eq!(read_back(line.trim_end()).status, 200);
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", writer.as_raw_fd())).expect("it is open");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
    let flags = i32::from_str_radix(flags.trim(), 8).expect("octal");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert_eq!(flags & libc::O_NONBLOCK, 0);
}

const REQUESTS: usize = 400;

/// Asks so often, with heads that make long lines, and none waits longer than one does without a log.
fn ask_at_length(server: &Server, user_agent_len: usize) {
    let fields = format!("User-Agent: {}\r\n", "a".repeat(user_agent_len));
    let mut client = server.connect();
    for _ in 0..REQUESTS {
        let start = Instant::now();
        assert_eq!(client.request("GET", "/", &fields).expect("an answer").status(), 200);
        assert!(start.elapsed() < Duration::from_secs(2), "it waits for somebody");
    }
}

/// A server that logs to `log`, what it reports in the end, and what it has said on standard error.
fn observed(log: &Path, args: &[&str], during: impl FnOnce(&Reported)) -> (Value, String) {
    let stderr = tempfile::NamedTempFile::new().expect("a file");
    let mut command = command();
    command.args(["--fixed", "--log"]).arg(log).args(args).stderr(stderr.reopen().expect("it is ours"));
    let mut reported = Reported::spawn(&mut command);
    during(&reported);
    let report = reported.end();
    (report, unwarned(&fs::read_to_string(stderr.path()).expect("it is ours")))
}

/// Every answer is a line or is counted as dropped; warnings are whole and say how many.
#[track_caller]
fn check_drops((report, said): &(Value, String), cause: &str) -> (u64, u64) {
    let (written, dropped) = (count(report, "log.lines"), count(report, "log.dropped"));
    assert_eq!(written + dropped, count(report, "requests.total"));
    let told: u64 = said
        .lines()
        .map(|line| {
            assert!(line.starts_with("tared: --log '") && line.ends_with(cause), "{line}");
            let number = line.split("': ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
            number.replace('a', "1").parse::<u64>().expect("a number")
        })
        .sum();
    assert_eq!(told, dropped, "{said}");
    (written, dropped)
}

fn fifo(dir: &Path) -> (PathBuf, File) {
    let path = dir.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    (path, reader.expect("it is ours"))
}

#[test]
fn a_reader_that_is_behind_costs_lines_and_nobody_time() {
    for workers in ["1", "2"] {
        let dir = temporary();
        let (path, mut reader) = fifo(dir.path());
        let start = Instant::now();
        let observed = observed(&path, &["--workers", workers], |reported| {
            // Several connections, so that each worker has some.
            (0..4).for_each(|_| ask_at_length(&reported.server, 3000));
        });
        let seconds = start.elapsed().as_secs() as usize + 1;
        let (written, dropped) = check_drops(&observed, "its reader is behind");
        assert!(written > 0 && dropped > 0, "{written} {dropped}");
        assert!(observed.1.lines().count() <= seconds + 1 + workers.len(), "once a second: {}", observed.1);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("what was taken");
        assert!(text.ends_with('\n'));
        assert!(text.lines().all(|line| read_back(line).fields[1].len() == 3000), "none is torn");
        assert_eq!(text.lines().count() as u64, written);
    }
}

/// A reader that comes again has what was kept for it, though nobody asks meanwhile.
#[test]
fn a_reader_that_is_behind_for_a_moment_loses_nothing() {
    let dir = temporary();
    let (path, mut reader) = fifo(dir.path());
    let observed = observed(&path, &[], |reported| {
        let fields = format!("User-Agent: {}\r\n", "a".repeat(3000));
        let mut client = reported.server.connect();
        // More than a pipe holds, and less than is kept.
        for _ in 0..60 {
            client.request("GET", "/", &fields).expect("an answer");
        }
        let (mut text, end) = (Vec::new(), Instant::now() + PATIENCE);
        while text.iter().filter(|&&byte| byte == b'\n').count() < 60 {
            assert!(Instant::now() < end, "the rest does not come");
            if reader.read_to_end(&mut text).is_err() {
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
    assert_eq!(check_drops(&observed, ""), (60, 0));
}

#[test]
fn a_reader_that_is_gone_costs_lines_and_nothing_else() {
    let dir = temporary();
    let (path, mut reader) = fifo(dir.path());
    let observed = observed(&path, &[], |reported| {
        reported.server.connect().get("/").expect("an answer");
        // The line comes behind the answer.
        let end = Instant::now() + PATIENCE;
        while !matches!(reader.read(&mut [0; 4096]), Ok(1..)) {
            assert!(Instant::now() < end, "there is no line");
            thread::sleep(Duration::from_millis(2));
        }
        drop(reader);
        ask_at_length(&reported.server, 10);
    });
    let (written, dropped) = check_drops(&observed, "broken pipe");
    assert_eq!((written, dropped), (1, REQUESTS as u64));
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let start = Instant::now();
    let observed = observed(Path::new("/dev/full"), &[], |reported| ask_at_length(&reported.server, 10));
    assert_eq!(check_drops(&observed, "no space left on device"), (0, REQUESTS as u64));
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert!(observed.1.lines().count() <= seconds + 1, "once a second: {}", observed.1);
}

/// A file that may not grow ends in the midst of a line, as one on a full disk does; when it may again, the line
/// is finished before another one begins.
#[test]
fn a_line_that_the_disk_had_no_room_for_is_finished_first() {
    const TEST: &str = "a_line_that_the_disk_had_no_room_for_is_finished_first";
    if !run(Command::new("sh").args(["-c", "exec prlimit --version"])).status.success() {
        return skip(TEST, "there is no prlimit (apt-get install util-linux)");
    }
    let dir = temporary();
    let log = dir.path().join("log");
    let mut through = Command::new("prlimit");
    through.args(["--fsize=5000:unlimited", "--"]);
    let mut through = command_through(through);
    through.args(["--fixed", "--quiet", "--listen", "127.0.0.1:0", "--log"]).arg(&log).stderr(Stdio::piped());
    let mut server = Server::spawn(&mut through);
    ask_at_length(&server, 10);
    assert_eq!(fs::metadata(&log).expect("it is there").len(), 5000);
    let before = fs::read_to_string(&log).expect("text");
    assert!(!before.ends_with('\n'), "else there is nothing to see");
    let pid = server.pid().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status();
    assert!(lifted.expect("it runs").success());
    ask_at_length(&server, 10);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let text = fs::read_to_string(&log).expect("text");
    assert!(text.starts_with(&before) && text.ends_with('\n'));
    assert!(text.lines().all(|line| read_back(line).fields[1].len() == 10), "none is torn");
    // The last line before may have been written behind its answer, when there was room again.
    let more = text.lines().count() - before.lines().count();
    assert!((REQUESTS..=REQUESTS + 1).contains(&more), "{more}");
    let mut said = String::new();
    server.take_stderr().read_to_string(&mut said).expect("text");
    assert!(said.contains("file too large"), "{said}");
}

/// On a pipe a line that is more than one piece would be mixed with another's: each of its values is cut.
#[test]
fn no_line_on_a_pipe_is_longer_than_a_piece_and_in_a_file_it_is_whole() {
    let long = "\u{fc}".repeat(1500);
    let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\nUser-Agent: {long}\r\n\r\n", "x".repeat(4000));
    let ask = |reported: &Reported| {
        let mut client = reported.server.connect();
        client.send(&request);
        client.response().expect("an answer");
    };
    let dir = temporary();
    let (path, mut reader) = fifo(dir.path());
    for format in ["combined", "json"] {
        let mut text = String::new();
        observed(&path, &["--log-format", format], ask);
        reader.read_to_string(&mut text).expect("what was taken");
        assert!(text.len() <= 4096 && text.lines().count() == 1, "{text}");
        assert!(text.contains(&"x".repeat(100)) && !text.contains(&"x".repeat(300)));
        assert!(format != "json" || serde_json::from_str::<Value>(&text).is_ok());
    }
    let log = dir.path().join("log");
    observed(&log, &[], ask);
    let said = read_back(&lines(&log, 1)[0]);
    assert_eq!((said.line.len(), &*said.fields[1]), (4014, long.as_bytes()));
}

/// Clients who ask, each request with a number of its own, while `during` happens; how many requests there were.
fn under_load(server: &Server, during: impl FnOnce()) -> usize {
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|at| {
            let (is_over, mut client) = (Arc::clone(&is_over), server.connect());
            thread::spawn(move || {
                let mut asked = 0;
                while !is_over.load(Ordering::Relaxed) || asked < 10 {
                    let target = format!("/{at}/{asked}");
                    assert_eq!(client.get(&target).expect("an answer").status(), 200);
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    during();
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().map(|client| client.join().expect("every request was answered")).sum()
}

/// Renames the log and says so; then waits for the new one.
#[track_caller]
fn rotate(server: &Server, log: &Path, at: usize) -> PathBuf {
    let old = log.with_extension(at.to_string());
    lines(log, 1);
    fs::rename(log, &old).expect("it is ours");
    server.signal("HUP");
    // The first worker has made it, but each of them goes on in it.
    lines(log, 1);
    old
}

#[track_caller]
fn check_rotation(command: &mut Command, dir: &Path) {
    let log = dir.join("log");
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--log"];
    let mut server = Server::spawn(command.args(args).arg(&log));
    let mut files = Vec::new();
    let asked = under_load(&server, || {
        files.extend((0..5).map(|at| rotate(&server, &log, at)));
    });
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    files.push(log);
    let said: Vec<Said> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).expect("it is there");
            assert!(text.ends_with('\n'), "{file:?} ends in the midst of a line");
            text.lines().map(read_back).collect::<Vec<_>>()
        })
        .collect();
    let mut targets: Vec<_> = said.iter().map(|said| said.line.clone()).collect();
    targets.sort();
    targets.dedup();
    assert_eq!((said.len(), targets.len()), (asked, asked), "none is lost, and none is there twice");
}

#[test]
fn rotation_under_load_loses_and_tears_nothing() {
    for workers in ["1", "2"] {
        let dir = temporary();
        check_rotation(command().args(["--workers", workers]), dir.path());
    }
}

#[test]
fn rotation_goes_with_the_sandbox_and_another_user() {
    const TEST: &str = "rotation_goes_with_the_sandbox_and_another_user";
    let dir = temporary();
    let mut probe = command();
    probe.args(["--fixed", "--listen", "127.0.0.1:0", "--sandbox", "on", "--duration", "1ms"]);
    if run(&mut probe).status.success() {
        check_rotation(command().args(["--sandbox", "on"]), dir.path());
    } else {
        skip(TEST, "there is no Landlock");
    }
    if fs::read_dir("/root").is_err() {
        return skip(TEST, "only root can give up root");
    }
    let theirs = temporary();
    chown(theirs.path(), Some(65534), Some(65534)).expect("we are root");
    check_rotation(command().args(["--user", "65534:65534"]), theirs.path());
    // Who may not make a file is told before anybody is served.
    let log = dir.path().join("theirs");
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--user", "65534:65534", "--log"];
    let parts = ["--log", log.to_str().expect("text"), "permission denied"];
    check_refusal(command().args(args).arg(&log), USAGE, &parts);
    assert!(!log.exists());
}

/// It goes on in the old file, and says so.
#[test]
fn a_log_that_cannot_be_opened_anew_is_not_lost() {
    let dir = temporary();
    fs::create_dir(dir.path().join("logs")).expect("it is ours");
    let log = dir.path().join("logs/log");
    let old = dir.path().join("moved/log");
    let (report, said) = observed(&log, &[], |reported| {
        reported.server.connect().get("/").expect("an answer");
        fs::rename(dir.path().join("logs"), dir.path().join("moved")).expect("it is ours");
        reported.server.signal("HUP");
        // A report asked for later is given later.
        reported.on_demand();
        reported.server.connect().get("/").expect("an answer");
        lines(&old, 2);
    });
    assert_eq!((count(&report, "log.lines"), count(&report, "log.dropped")), (2, 0));
    let parts = ["--log '", "anew", "no such file or directory", "old file"];
    assert!(said.lines().count() == 1 && parts.iter().all(|part| said.contains(part)), "{said}");
}

/// What a terminal takes cannot be told beforehand, and one of somebody else's cannot be opened anew so that it
/// does not keep the loop waiting.
#[test]
fn a_terminal_of_somebody_else_is_refused() {
    const TEST: &str = "a_terminal_of_somebody_else_is_refused";
    let is_there = |line: &str| run(Command::new("sh").args(["-c", line])).status.success();
    if unprivileged().is_none() || !is_there("test $(id -u) = 0 && exec script -qec true /dev/null") {
        return skip(TEST, "it takes root, setpriv and script(1)");
    }
    let line = "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$BINARY\" --fixed --listen 127.0.0.1:0 --log -";
    let mut through = Command::new("script");
    through.args(["-qefc", line, "/dev/null"]).env("BINARY", command().get_program());
    share_environment(&mut through);
    let output = run(&mut through);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write --log '-': permission denied (name a file)"), "{said}");
}

/// Also of a program that has a terminal, which SIGHUP would end otherwise.
#[test]
fn whoever_rotates_does_not_end_it() {
    const TEST: &str = "whoever_rotates_does_not_end_it";
    if !run(Command::new("sh").args(["-c", "exec script -qec true /dev/null"])).status.success() {
        return skip(TEST, "there is no script(1) (apt-get install bsdutils)");
    }
    let dir = temporary();
    let log = dir.path().join("log");
    let line = "exec \"$BINARY\" --fixed --listen 127.0.0.1:0 --log \"$LOG\" --pid-file \"$LOG.pid\"";
    let mut through = Command::new("script");
    through.args(["-qefc", line, "/dev/null"]).env("BINARY", command().get_program()).env("LOG", &log);
    share_environment(&mut through);
    let server = Server::spawn(&mut through);
    let pid = fs::read_to_string(log.with_extension("pid")).expect("it is there");
    server.connect().get("/").expect("an answer");
    let old = log.with_extension("0");
    lines(&log, 1);
    fs::rename(&log, &old).expect("it is ours");
    for _ in 0..3 {
        let status = Command::new("kill").args(["-s", "HUP", pid.trim()]).status();
        assert!(status.expect("kill runs").success());
        server.connect().get("/").expect("an answer");
    }
    let end = Instant::now() + PATIENCE;
    while !log.exists() {
        assert!(Instant::now() < end, "it is not opened anew");
        thread::sleep(Duration::from_millis(2));
    }
    let status = Command::new("kill").args(["-s", "TERM", pid.trim()]).status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn the_client_is_who_has_connected_unless_a_stated_proxy_says_otherwise() {
    let chain = "X-Forwarded-For: 192.0.2.1, 198.51.100.9\r\nX-Forwarded-For: 10.0.0.2\r\n";
    for (real_ip, fields, expected) in [
        (&[][..], chain, "127.0.0.1"),
        (&["10.0.0.0/8"], chain, "127.0.0.1"),
        (&["unix"], chain, "127.0.0.1"),
        (&["127.0.0.1"], chain, "10.0.0.2"),
        (&["127.0.0.0/8", "10.0.0.0/8"], chain, "198.51.100.9"),
        (&["127.0.0.0/8"], "X-Forwarded-For: 2001:DB8::1\r\n", "2001:db8::1"),
        (&["127.0.0.0/8"], "", "127.0.0.1"),
        (&["127.0.0.0/8"], "X-Forwarded-For: 1.2.3.4, \"x\r\n", "127.0.0.1"),
        (&["127.0.0.0/8"], "X-Forwarded-For: unknown\r\n", "127.0.0.1"),
        (&["127.0.0.0/8"], "X-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n", "127.0.0.1"),
    ] {
        let args: Vec<&str> = real_ip.iter().flat_map(|network| ["--real-ip", network]).collect();
        for (format, name) in [("common", None), ("json", Some("remote_addr"))] {
            let logged = Logged::start(&[&args[..], &["--fixed", "--log-format", format]].concat());
            logged.server.connect().request("GET", "/", fields).expect("an answer");
            let line = &logged.lines(1)[0];
            let client = match name {
                None => read_back(line).client,
                Some(name) => {
                    serde_json::from_str::<Value>(line).expect("JSON")[name].as_str().unwrap().to_owned()
                }
            };
            assert_eq!(client, expected, "{real_ip:?} {fields}");
        }
    }
}

#[test]
fn who_comes_by_a_unix_socket_has_no_address_of_its_own() {
    let dir = temporary();
    let (socket, log) = (dir.path().join("socket"), dir.path().join("log"));
    let listen = format!("unix:{}", socket.display());
    for (real_ip, expected) in [(None, "unix:"), (Some("unix"), "198.51.100.9"), (Some("0.0.0.0/0"), "unix:")]
    {
        let mut command = command();
        command.args(["--fixed", "--listen", &listen, "--log"]).arg(&log);
        command.args(real_ip.map(|value| format!("--real-ip={value}")));
        let _server = Server::spawn(&mut command);
        let mut client = Client::connect_unix(&socket).expect("it accepts");
        client.request("GET", "/", "X-Forwarded-For: 198.51.100.9\r\n").expect("an answer");
        assert_eq!(read_back(&lines(&log, 1)[0]).client, expected);
        fs::remove_file(&log).expect("it is ours");
    }
}

/// One write for a turn, whatever came in it; and nothing else.
#[test]
fn a_turn_is_one_write() {
    let dir = temporary();
    let log = dir.path().join("log");
    let Some(traced) = Traced::start(&["--fixed", "--log", log.to_str().expect("text")]) else {
        return skip("a_turn_is_one_write", NO_STRACE);
    };
    let mut client = traced.server.connect();
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for batch in ["GET /begin HTTP/1.1\r\nHost: a\r\n\r\n", &request.repeat(20), request, request] {
        client.send(batch);
        let number = batch.matches("GET ").count();
        (0..number).for_each(|_| assert_eq!(client.response().expect("an answer").status(), 200));
    }
    client.get("/end").expect("an answer");
    lines(&log, 24);
    let calls = traced.calls_between("GET /begin", "GET /end");
    // Without the answer to /begin, and what is made of its connection then; memory is the allocator's matter.
    let of_memory = ["brk", "mmap", "munmap", "mremap"];
    let names: Vec<&str> = calls
        .iter()
        // Where its connection was registered after a read, the event of that finds nothing.
        .filter(|call| !call.contains("= -1 EAGAIN"))
        .map(|call| trace::name(call))
        .skip_while(|&name| name != "recvfrom")
        .filter(|name| !name.starts_with("epoll_") && !of_memory.contains(name))
        .collect();
    let turn = ["recvfrom", "sendto", "write"];
    assert_eq!(names, [turn; 3].concat(), "{calls:#?}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_begins() {
    let dir = temporary();
    let file = dir.path().join("file");
    fs::write(&file, "").expect("it is ours");
    let ready = dir.path().join("ready");
    for (path, cause) in [
        (dir.path().join("missing/log"), "no such file or directory"),
        (dir.path().to_path_buf(), "is a directory"),
        (file.join("log"), "not a directory"),
    ] {
        let mut command = command();
        command.args(["--fixed", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready);
        command.arg("--log").arg(&path);
        check_refusal(&mut command, USAGE, &["--log", path.to_str().expect("text"), cause]);
        assert!(!ready.exists(), "somebody was told");
    }
    check_usage(&["--fixed", "--log="], &["--log"]);
    let log = file.to_str().expect("text");
    for format in ["", "apache", "JSON", "json "] {
        let given = format!("--log-format={format}");
        check_usage(&["--fixed", "--log", log, &given], &["--log-format", &format!("'{format}'"), "json"]);
    }
    for network in ["", "10.0.0.0/33", "proxy", "unix:"] {
        let given = format!("--real-ip={network}");
        check_usage(&["--fixed", "--log", log, &given], &["--real-ip", &format!("'{network}'")]);
    }
    check_usage(&["--fixed", "--log-format", "json"], &["--log-format 'json'", "--log FILE"]);
    check_usage(&["--fixed", "--real-ip", "10.0.0.0/8"], &["--real-ip '10.0.0.0/8'", "--log FILE"]);
}

#[test]
fn a_directory_that_may_not_be_written_to_is_refused_by_status_2() {
    let dir = temporary();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).expect("it is ours");
    let Some(mut command) = crate::privilege::unprivileged() else {
        return skip(
            "a_directory_that_may_not_be_written_to_is_refused_by_status_2",
            crate::privilege::NO_OTHER_USER,
        );
    };
    let log = dir.path().join("log");
    command.args(["--fixed", "--listen", "127.0.0.1:0", "--log"]).arg(&log);
    check_refusal(&mut command, USAGE, &["--log", log.to_str().expect("text"), "permission denied"]);
}
