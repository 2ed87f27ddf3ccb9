//! A server whose report is read.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{PATIENCE, Server, command, fixtures, temporary};

/// A server that reports to a file, as JSON.
pub(crate) struct Reported {
    pub(crate) server: Server,
    dir: tempfile::TempDir,
}

impl Reported {
    /// Starts the binary with `args`.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(command().args(args))
    }

    /// Starts `command`, which is [`command`] with more to it.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let dir = temporary();
        let report = dir.path().join("report.json");
        command.args(["--listen", "127.0.0.1:0", "--report", "json", "--report-file"]).arg(report);
        Self { server: Server::spawn(command), dir }
    }

    /// Serves the repository's fixtures.
    pub(crate) fn fixtures(args: &[&str]) -> Self {
        let fixtures = fixtures();
        Self::start(&[args, &[fixtures.to_str().expect("text")]].concat())
    }

    /// Where the report is written.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("report.json")
    }

    /// What is in the directory of the report.
    pub(crate) fn beside(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).expect("it is ours");
        entries.map(|entry| entry.expect("it is ours").file_name().to_string_lossy().into_owned()).collect()
    }

    /// The report so far, on SIGUSR1.
    #[track_caller]
    pub(crate) fn on_demand(&self) -> Value {
        // The last one may not be taken for this one.
        let _ = fs::remove_file(self.path());
        self.server.signal("USR1");
        let end = Instant::now() + PATIENCE;
        loop {
            if let Ok(text) = fs::read_to_string(self.path()) {
                return parse(&text);
            }
            assert!(Instant::now() < end, "there is no report");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The first report of which `is_so`, for a bounded time.
    #[track_caller]
    pub(crate) fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let report = self.on_demand();
            if is_so(&report) {
                return report;
            }
            assert!(Instant::now() < end, "it does not come to be: {report}");
        }
    }

    /// Waits until no connection is open: the server has counted how each of them ended.
    #[track_caller]
    pub(crate) fn settle(&self) {
        self.until(|report| count(report, "connections.open") == 0);
    }

    /// The report at the end, which SIGTERM brings about, in order.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Value {
        self.server.signal("TERM");
        self.ended()
    }

    /// The report at the end, which it comes to by itself, in order.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Value {
        assert_eq!(self.server.wait().code(), Some(0));
        parse(&fs::read_to_string(self.path()).expect("a report"))
    }
}

/// A report: one JSON object on one line.
#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "this is not one line: {text:?}");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// The value at `path`, whose parts are parted by dots.
#[track_caller]
pub(crate) fn at<'v>(report: &'v Value, path: &str) -> &'v Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    report.pointer(&pointer).unwrap_or_else(|| panic!("there is no {path} in {report}"))
}

/// The count at `path`.
#[track_caller]
pub(crate) fn count(report: &Value, path: &str) -> u64 {
    at(report, path).as_u64().unwrap_or_else(|| panic!("{path} is no count in {report}"))
}

/// The number at `path`.
#[track_caller]
pub(crate) fn number(report: &Value, path: &str) -> f64 {
    at(report, path).as_f64().unwrap_or_else(|| panic!("{path} is no number in {report}"))
}

/// The verdict.
#[track_caller]
pub(crate) fn verdict(report: &Value) -> &str {
    at(report, "verdict").as_str().expect("text")
}
