//! The live line: once a second, while there is traffic.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::privilege::ROOT_WARNING;
use crate::server::{PATIENCE, QUIET, Server, command, run, share_environment, skip};

/// The lines that a metered server says.
fn metered(args: &[&str]) -> (Server, Receiver<String>) {
    let mut command = command();
    command.args(["--fixed", "--listen", "127.0.0.1:0", "--meter"]).args(args).stderr(Stdio::piped());
    let mut server = Server::spawn(&mut command);
    let stderr = BufReader::new(server.take_stderr());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines =
            stderr.lines().filter(|line| !line.as_ref().is_ok_and(|line| *line == ROOT_WARNING.trim_end()));
        for line in lines {
            if line.map(|line| sender.send(line)).is_err() {
                return;
            }
        }
    });
    (server, receiver)
}

/// The figures of a line, each before its unit.
#[track_caller]
fn figures(line: &str) -> [String; 5] {
    let words: Vec<&str> = line.split_whitespace().collect();
    let figure = |unit: &[&str]| {
        let at = words.windows(unit.len()).position(|words| words == unit);
        let at = at.unwrap_or_else(|| panic!("there is no {unit:?} in {line:?}"));
        words[at - 1].to_owned()
    };
    [&["requests/s"][..], &["connections"], &["MB/s"], &["%", "busy"], &["µs", "of", "CPU/request"]]
        .map(figure)
}

#[test]
fn a_second_with_traffic_is_a_line_and_a_silent_one_is_none() {
    for workers in ["1", "2"] {
        let (mut server, lines) = metered(&["--size", "100k", "--workers", workers]);
        let mut clients = [server.connect(), server.connect()];
        for client in &mut clients {
            for _ in 0..50 {
                client.get("/").expect("an answer");
            }
        }
        // The second begins with its traffic and is over by itself.
        let mut requests = 0.0;
        let mut connections = 0;
        let line = lines.recv_timeout(PATIENCE).expect("a line");
        let [per_s, open, megabytes, busy, us] = figures(&line);
        requests += per_s.parse::<f64>().expect("a number");
        connections += open.parse::<usize>().expect("a number");
        let megabytes: f64 = megabytes.parse().expect("a number");
        assert!(requests > 0.0 && (1..=2).contains(&connections), "{line}");
        let kilobytes_each = megabytes * 1e3 / requests;
        assert!((90.0..115.0).contains(&kilobytes_each), "100 KiB each: {line}");
        assert!(busy.parse::<f64>().expect("a number") < 100.5, "{line}");
        assert!(us.parse::<f64>().expect("a number") > 0.0, "{line}");
        if workers == "1" {
            // That nothing is said can only be seen by waiting; two seconds would be two lines.
            let silence = lines.recv_timeout(Duration::from_millis(2100));
            assert!(silence.is_err(), "a silent second is repeated: {silence:?}");
            clients[0].get("/").expect("an answer");
            let [_, open, ..] = figures(&lines.recv_timeout(PATIENCE).expect("a line"));
            assert_eq!(open, "2");
        }
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// A terminal is had of script(1), which copies it to its standard output.
#[test]
fn on_a_terminal_the_line_is_rewritten_and_the_report_begins_its_own() {
    const TEST: &str = "on_a_terminal_the_line_is_rewritten_and_the_report_begins_its_own";
    if !run(Command::new("sh").args(["-c", "exec script -qec true /dev/null"])).status.success() {
        return skip(TEST, "there is no script(1) (apt-get install bsdutils)");
    }
    // It runs a line of the shell, and the binary is a variable in it.
    let line = "exec \"$BINARY\" --fixed --listen 127.0.0.1:0 --meter --duration 4s";
    let mut through = Command::new("script");
    through.args(["-qefc", line, "/dev/null"]).env("BINARY", command().get_program());
    share_environment(&mut through);
    let mut server = Server::spawn(through.env_remove(QUIET));
    let mut client = server.connect();
    // The second of the meter begins with its traffic: there are two of them, one after the other.
    client.get("/").expect("an answer");
    std::thread::sleep(Duration::from_millis(1200));
    client.get("/").expect("an answer");
    let printed = server.printed();
    let meter: Vec<&str> = printed.split("\r\u{1b}[K").skip(1).collect();
    assert_eq!(meter.len(), 2, "{printed:?}");
    assert!(!meter[0].contains('\n'), "it is written over: {printed:?}");
    let (line, report) = meter[1].split_once("\r\n").expect("lines");
    figures(line);
    assert!(!line.contains("window"), "the report begins its own line: {printed:?}");
    assert!(report.trim_start().starts_with("window"), "{printed:?}");
}
