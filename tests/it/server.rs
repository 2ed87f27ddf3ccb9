//! Starts and ends the real binary.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::Client;
use crate::privilege::ROOT_WARNING;

/// A bound on everything that is waited for; nothing takes nearly as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The variable that keeps the report at the end back.
pub(crate) const QUIET: &str = "TARED_QUIET";

/// A running tared. It is killed when it goes out of scope.
pub(crate) struct Server {
    child: Killed,
    /// The line that it printed when it was ready, the first one of several.
    pub(crate) ready_line: String,
    /// Those for further places.
    pub(crate) more_lines: Vec<String>,
    /// What else it prints, once it has ended.
    printed: Option<JoinHandle<String>>,
    /// Where it listens; port 0 if its ready line names no port.
    pub(crate) address: SocketAddr,
}

/// The address in what ends in a URL.
pub(crate) fn address(line: &str) -> Option<SocketAddr> {
    line.trim_end().rsplit_once("http://")?.1.trim_end_matches('/').parse().ok()
}

impl Server {
    /// Serves `dir`.
    pub(crate) fn directory(dir: &Path) -> Self {
        Self::start([OsStr::new("--listen"), OsStr::new("127.0.0.1:0"), dir.as_os_str()])
    }

    /// Serves the repository's fixtures.
    pub(crate) fn fixtures() -> Self {
        Self::directory(&fixtures())
    }

    /// Answers everything alike.
    pub(crate) fn fixed(args: &[&str]) -> Self {
        Self::start(["--fixed", "--listen", "127.0.0.1:0"].iter().chain(args))
    }

    /// Starts the binary with `args` and waits for its ready line.
    pub(crate) fn start(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::spawn(command().args(args))
    }

    /// Starts `command`, which is [`command`] with more to it.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command.stdin(Stdio::null()), 1)
    }

    /// The same with its own standard input, and with ready lines for `places`.
    pub(crate) fn spawn_with(command: &mut Command, places: usize) -> Self {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = Killed(child.expect("the binary starts"));
        let stdout = child.0.stdout.take().expect("it was piped");
        let (sender, receiver) = mpsc::channel();
        let printed = std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            for _ in 0..places {
                let mut line = String::new();
                let _ = stdout.read_line(&mut line).map(|_| sender.send(line));
            }
            // The rest is read to the end, so that the server never meets a closed pipe.
            let mut rest = String::new();
            stdout.read_to_string(&mut rest).map(|_| rest).unwrap_or_default()
        });
        let ready_line = || receiver.recv_timeout(PATIENCE).expect("a ready line within the bound");
        let (ready_line, more_lines) = (ready_line(), (1..places).map(|_| ready_line()).collect());
        assert!(ready_line.starts_with("tared "), "{ready_line:?}");
        let address = address(&ready_line).unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
        Self { child, ready_line, more_lines, printed: Some(printed), address }
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// How many descriptors it has open, those apart that were handed down to it from beyond its limit.
    pub(crate) fn descriptors(&self) -> usize {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.pid())).expect("it runs");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
        let limit: usize =
            limit.split_whitespace().next().and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX);
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs");
        let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<usize>().ok());
        numbers.filter(|&number| number < limit).count()
    }

    /// CPU time of all of its threads so far (proc_pid_stat(5)), in ticks of 10 ms, as every Linux has them.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        // utime and stime are the 14th and the 15th; the name was the second.
        let ticks: u64 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Its standard error, if that is piped.
    pub(crate) fn take_stderr(&mut self) -> ChildStderr {
        self.child.0.stderr.take().expect("it is piped")
    }

    /// What it printed behind the ready line, once it has ended.
    pub(crate) fn printed(&mut self) -> String {
        self.wait();
        self.printed.take().expect("asked for once").join().expect("it is read")
    }

    /// Sends it a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.0.try_wait().expect("it is our child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it does not end");
    }

    /// Panics unless it is alive and answers.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        if let Some(status) = self.child.0.try_wait().expect("it is our child") {
            panic!("it ended: {status}, signal {:?}", status.signal());
        }
        self.connect().get("/").expect("it answers");
    }
}

/// A child that does not outlive its test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The binary, without any variable of ours in its environment but the one that keeps its report back:
/// most tests ask for none.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tared"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TARED_") {
            command.env_remove(name);
        }
    }
    command.env(QUIET, "1");
    command
}

/// The binary as another program starts it, to which it is added here, in the same environment.
pub(crate) fn command_through(mut outer: Command) -> Command {
    share_environment(&mut outer);
    outer.arg(command().get_program());
    outer
}

/// Gives `outer` the environment of [`command`].
pub(crate) fn share_environment(outer: &mut Command) {
    for (name, value) in command().get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
}

/// Runs `command` to its end; for command lines with which it does not serve. One that does is ended
/// after the bound.
pub(crate) fn run(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && child.try_wait().expect("it is our child").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill(); // It has ended, or should have.
    child.wait_with_output().expect("it is our child")
}

/// A directory for a test, which every user may read.
pub(crate) fn temporary() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    dir
}

/// Lets this process have as many descriptors as the system allows it; whether those are `least`.
pub(crate) fn may_have_descriptors(least: u64) -> bool {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("the soft limit is ours to raise");
    maximum.is_none_or(|maximum| maximum >= least)
}

/// The binary with no more than so many descriptors.
pub(crate) fn command_with_descriptors(most: u64) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\"")]);
    command_through(shell)
}

/// What is said on standard error, without what is said to root.
pub(crate) fn unwarned(said: &str) -> String {
    said.split_inclusive('\n').filter(|line| *line != ROOT_WARNING).collect()
}

/// Says why a test does not run here; past the test harness, which keeps back what is printed.
pub(crate) fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

/// The repository's fixtures.
pub(crate) fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
