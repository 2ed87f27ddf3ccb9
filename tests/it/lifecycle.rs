//! Connections that begin, linger and end in every way; and the end of the server.

use std::fs;
use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::server::{PATIENCE, Server, command, command_through, fixtures, run, skip, temporary};

/// Larger than what the kernel holds of a connection that is not read from.
const LARGE: usize = 24 * 1024 * 1024;

/// A byte that tells where it stands.
fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// A directory with a large file, besides an index.
fn with_large() -> tempfile::TempDir {
    let dir = temporary();
    fs::write(dir.path().join("large"), (0..LARGE).map(byte_at).collect::<Vec<_>>()).expect("it is ours");
    fs::write(dir.path().join("index.html"), "index").expect("it is ours");
    dir
}

/// Begins to read the large file, slowly.
fn slow_reader(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.response_to_head().expect("an answer");
    assert_eq!(head.field("Content-Length"), Some(&*LARGE.to_string()));
    client
}

/// Reads the large file from `at`, in pieces, and does something after each.
#[track_caller]
fn read_large(client: &mut Client, mut at: usize, mut after_each: impl FnMut(usize)) {
    while at < LARGE {
        let piece = client.take((256 * 1024).min(LARGE - at)).expect("more of it");
        let wrong = piece.iter().zip(at..).position(|(&byte, at)| byte != byte_at(at));
        assert_eq!(wrong, None, "behind {at}");
        at += piece.len();
        after_each(at);
    }
}

#[test]
fn a_client_that_sends_no_more_still_has_its_answer() {
    let dir = with_large();
    fs::write(dir.path().join("hello.txt"), "Hello World\n").expect("it is ours");
    let server = Server::directory(dir.path());
    for (target, len) in [("/hello.txt", 12), ("/large", LARGE), ("/nope", 0)] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.end_input();
        let response = client.response().expect("an answer");
        assert!(response.status() == 404 || response.body.len() == len, "{target}");
        client.assert_closed();
    }
    // Also where the server has to wait for the client.
    let mut client = slow_reader(&server);
    client.end_input();
    read_large(&mut client, 0, |_| ());
    client.assert_closed();
}

#[test]
fn a_client_that_sends_no_more_has_all_its_answers() {
    let server = Server::fixtures();
    for target in ["/hello.txt", "/lipsum.html"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(3));
        client.end_input();
        for _ in 0..3 {
            assert_eq!(client.response().expect("an answer").status(), 200);
        }
        client.assert_closed();
    }
}

#[test]
fn an_idle_connection_ends_when_its_client_ends_it() {
    for server in [Server::fixtures(), Server::fixed(&[])] {
        let mut unused = server.connect();
        unused.end_input();
        unused.assert_closed();
        let mut used = server.connect();
        used.assert_open();
        used.end_input();
        used.assert_closed();
        let mut midway = server.connect();
        midway.send("GET / HTTP/1.1\r\nHo");
        midway.end_input();
        midway.rest().expect("it ends without a reset");
    }
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let dir = with_large();
    let mut server = Server::directory(dir.path());
    server.assert_alive();
    let descriptors =
        |server: &Server| fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it is alive").count();
    // With the large file mapped and its descriptor held.
    slow_reader(&server).reset();
    settle(&server, |server| descriptors(server) <= 32);
    let before = descriptors(&server);
    for sent in [
        "",
        "G",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhal",
        "no request\r\n\r\n",
    ] {
        for _ in 0..5 {
            let mut resets = server.connect();
            resets.send(sent);
            resets.reset();
            let mut closes = server.connect();
            closes.send(sent);
            drop(closes);
        }
        let mut midway = slow_reader(&server);
        midway.take(64 * 1024).expect("its begin");
        midway.reset();
        let mut midway = slow_reader(&server);
        midway.take(64 * 1024).expect("its begin");
        drop(midway);
        server.assert_alive();
    }
    settle(&server, |server| descriptors(server) <= before);
}

/// Waits, for a bounded time, until `is_so`.
#[track_caller]
fn settle(server: &Server, is_so: impl Fn(&Server) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so(server) {
        assert!(Instant::now() < end, "it does not settle");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_slow_reader_has_every_byte_and_others_do_not_wait() {
    let dir = with_large();
    let server = Server::directory(dir.path());
    let mut slow = slow_reader(&server);
    let mut other = server.connect();
    read_large(&mut slow, 0, |_| {
        let start = Instant::now();
        assert_eq!(other.get("/").expect("an answer").text(), "index");
        assert!(start.elapsed() < Duration::from_secs(1), "others wait {:?}", start.elapsed());
    });
    // And the connection is kept.
    slow.assert_open();
}

#[test]
fn two_hundred_connections_are_served_at_once() {
    for server in [Server::fixtures(), Server::fixed(&["--body", "Hello"])] {
        let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
        for _ in 0..3 {
            for client in &mut clients {
                client.send("GET /lipsum.html HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            for client in clients.iter_mut().rev() {
                assert_eq!(client.response().expect("an answer").status(), 200);
            }
        }
    }
}

/// Waits until nobody is let in any more.
#[track_caller]
pub(crate) fn until_refused(address: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(address) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            // One that was still let in is closed again.
            Ok(stream) => drop(stream.shutdown(Shutdown::Both)),
            Err(_) => {}
        }
        assert!(Instant::now() < end, "it goes on accepting");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_signal_ends_it_in_order_and_idle_connections_with_it() {
    for signal in ["INT", "TERM", "QUIT"] {
        for mut server in [Server::fixtures(), Server::fixed(&[])] {
            // A connection on which nothing was ever sent is not the server's yet: the kernel holds it back.
            let mut used = server.connect();
            used.assert_open();
            let mut midway = server.connect();
            midway.send("GET / HT");
            used.assert_open();
            let start = Instant::now();
            server.signal(signal);
            used.assert_closed();
            assert_eq!(server.wait().code(), Some(0), "{signal}");
            assert!(start.elapsed() < Duration::from_secs(5), "{signal}: {:?}", start.elapsed());
            drop(midway);
        }
    }
}

#[test]
fn a_signal_lets_the_responses_in_flight_come_to_their_ends() {
    let dir = with_large();
    for signal in ["INT", "TERM", "QUIT"] {
        let mut server = Server::directory(dir.path());
        let mut slow = slow_reader(&server);
        slow.take(64 * 1024).map(|begun| assert_eq!(begun.len(), 64 * 1024)).expect("its begin");
        let mut idle = server.connect();
        idle.assert_open();
        server.signal(signal);
        until_refused(server.address);
        idle.assert_closed();
        read_large(&mut slow, 64 * 1024, |_| ());
        slow.assert_closed();
        assert_eq!(server.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_signal_lets_a_response_run_for_ten_seconds_at_most() {
    let dir = with_large();
    let mut server = Server::directory(dir.path());
    let _never_reads = slow_reader(&server);
    let start = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let took = start.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(13)).contains(&took), "{took:?}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = with_large();
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT"), ("QUIT", "QUIT")] {
        let mut server = Server::directory(dir.path());
        let _never_reads = slow_reader(&server);
        server.signal(first);
        until_refused(server.address);
        let start = Instant::now();
        server.signal(second);
        assert_eq!(server.wait().code(), Some(1), "{first}, {second}");
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

/// With `setsid` it has no terminal: nobody has hung up.
#[test]
fn without_a_terminal_a_hang_up_does_not_concern_it() {
    let setsid = Command::new("setsid");
    let mut server = Server::spawn(command_through(setsid).args(["--fixed", "--listen", "127.0.0.1:0"]));
    for _ in 0..10 {
        server.signal("HUP");
        server.assert_alive();
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

/// Runs the binary in a terminal, of script(1), behind `before`, and hangs up on it, which ends it or does
/// not. `None` if that cannot be had.
fn hang_up(before: &str, ends: bool) -> Option<()> {
    let is_there =
        |name: &str| run(Command::new("sh").args(["-c", &format!("command -v {name}")])).status.success();
    if !is_there("script") || !is_there("nohup") {
        return None;
    }
    let dir = temporary();
    let (pid, out) = (dir.path().join("pid"), dir.path().join("out"));
    let line = format!(
        "echo $$ >{}; exec {before} {} --fixed --listen 127.0.0.1:0 >{}",
        pid.display(),
        command().get_program().display(),
        out.display()
    );
    let mut script = Command::new("script");
    script.args(["-q", "-c", &line, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut script = script.stderr(Stdio::null()).spawn().expect("script starts");
    let end = Instant::now() + PATIENCE;
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    while !read(&out).ends_with('\n') {
        assert!(Instant::now() < end, "it does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    let daemon = Daemon(read(&pid).trim().to_owned());
    let kill = |signal: &str| daemon.kill(signal);
    assert!(kill("HUP"));
    // nohup puts what is said to a terminal there, too.
    let told = read(&out);
    let address = crate::server::address(told.lines().next().unwrap_or_default()).expect("an address");
    if !ends {
        for _ in 0..10 {
            Client::connect(address).assert_open();
        }
        assert!(kill("TERM"));
    }
    let end = Instant::now() + PATIENCE;
    // Of the server, and not of script(1), which is not what is tested.
    let has_ended = |status: &str| status.is_empty() || status.contains("\nState:\tZ");
    loop {
        let status = read(Path::new(&format!("/proc/{}/status", daemon.0)));
        if has_ended(&status) {
            break;
        }
        assert!(Instant::now() < end, "{before:?}: it does not end: {status}");
        std::thread::sleep(Duration::from_millis(2));
    }
    script.kill().expect("it is our child");
    script.wait().expect("it is our child");
    Some(())
}

/// A process that is not our child, and does not outlive its test, however that ends.
struct Daemon(String);

impl Daemon {
    fn kill(&self, signal: &str) -> bool {
        run(Command::new("kill").args(["-s", signal, &self.0])).status.success()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has ended, or should have.
        self.kill("KILL");
    }
}

#[test]
fn a_terminal_that_hangs_up_ends_it_unless_nohup_is_before_it() {
    for (before, ends) in [("", true), ("nohup", false)] {
        if hang_up(before, ends).is_none() {
            return skip("a_terminal_that_hangs_up_ends_it", "there is no script or nohup");
        }
    }
}

/// Signals that are ignored, as in proc_pid_status(5).
#[test]
fn a_broken_pipe_is_ignored() {
    let server = Server::fixed(&[]);
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it is alive");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a number");
    assert_ne!(ignored & 1 << (13 - 1), 0, "SIGPIPE is number 13: {ignored:x}");
}

#[test]
fn its_port_is_free_again_at_once() {
    let mut server = Server::fixtures();
    server.connect().get("/").expect("an answer");
    // The server closes first, so that the address is left in TIME-WAIT.
    let mut client = server.connect();
    client.request("GET", "/", "Connection: close\r\n").expect("an answer");
    client.assert_closed();
    drop(client);
    server.signal("TERM");
    server.wait();
    let again = server.address.to_string();
    let again = Server::start(["--fixed", "--listen", &again]);
    assert_eq!(again.address, server.address);
    again.connect().assert_open();
}

#[test]
fn as_process_1_it_heeds_signals() {
    const TEST: &str = "as_process_1_it_heeds_signals";
    // Root may have a namespace of processes; others may within one of users.
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let through = |way: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec unshare \"$@\"", "sh"]).args(way);
        command.args(["--pid", "--fork", "--kill-child", "--"]);
        command
    };
    let Some(way) = ways.into_iter().find(|way| run(through(way).arg("true")).status.success()) else {
        return skip(TEST, "unshare cannot make a namespace of processes here");
    };
    for signal in ["INT", "TERM"] {
        let mut unshare = command_through(through(way));
        unshare.args(["--listen", "127.0.0.1:0"]).arg(fixtures());
        let mut server = Server::spawn(&mut unshare);
        server.connect().assert_open();
        let children = format!("/proc/{0}/task/{0}/children", server.pid());
        let Ok(children) = fs::read_to_string(Path::new(&children)) else {
            return skip(TEST, "the kernel does not tell a process's children");
        };
        let pid = children.trim();
        assert!(pid.parse::<u32>().is_ok(), "{pid:?}");
        assert!(Command::new("kill").args(["-s", signal, pid]).status().expect("kill runs").success());
        assert_eq!(server.wait().code(), Some(0), "{signal}");
    }
}

/// A request whose head has come is heard to its end.
#[test]
fn a_body_on_its_way_is_waited_for_at_the_end() {
    let mut server = Server::fixed(&[]);
    let mut client = server.connect();
    client.get("/").unwrap();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx");
    server.signal("TERM");
    // Longer than idle connections are left open.
    std::thread::sleep(Duration::from_millis(600));
    client.send("y");
    let response = client.response().unwrap();
    assert_eq!((response.status(), response.field("Connection")), (200, Some("close")));
    assert_eq!(server.wait().code(), Some(0));
}
