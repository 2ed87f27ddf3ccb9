//! The binary under strace, where there is one.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::server::{PATIENCE, Server, command_through, run, temporary};

/// A server whose system calls are written down.
pub(crate) struct Traced {
    pub(crate) server: Server,
    dir: tempfile::TempDir,
}

/// Why [`Traced::start`] is `None`.
pub(crate) const NO_STRACE: &str = "there is no strace, or it may not trace (apt-get install strace)";

impl Traced {
    /// Starts the binary with `args`; `None` where it cannot be traced.
    pub(crate) fn start(args: &[&str]) -> Option<Self> {
        let probe = || run(Command::new("sh").args(["-c", "exec strace -D -o /dev/null true"]));
        if !probe().status.success() {
            return None;
        }
        let dir = temporary();
        let mut traced = Command::new("strace");
        // -D: the server is our child and strace its companion, not the other way about.
        traced.args(["-D", "-s", "64", "-o"]).arg(dir.path().join("calls"));
        let mut traced = command_through(traced);
        traced.args(["--listen", "127.0.0.1:0"]).args(args.iter().map(OsStr::new));
        Some(Self { server: Server::spawn(&mut traced), dir })
    }

    /// The calls made after the one that received `from` and before the one that received `to`, once
    /// the server has ended.
    pub(crate) fn calls_between(self, from: &str, to: &str) -> Vec<String> {
        let calls = self.calls();
        let after = calls.lines().skip_while(|call| !call.contains(from)).skip(1);
        after.take_while(|call| !call.contains(to)).map(str::to_owned).collect()
    }

    /// All calls, one a line, once the server has ended.
    pub(crate) fn calls(mut self) -> String {
        self.server.signal("TERM");
        self.server.wait();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            // strace writes a call down when it is over, and this last.
            let calls = fs::read_to_string(self.dir.path().join("calls")).expect("strace writes it");
            if calls.contains("+++ exited") {
                return calls;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("strace does not end");
    }
}

/// The name of a traced call.
pub(crate) fn name(call: &str) -> &str {
    call.split('(').next().unwrap_or_default()
}
