//! A full accept queue: the server is stopped while clients come, more of them than the backlog holds.
//!
//! What is expected was written down first: whoever the kernel has let in is answered, and those who were not
//! come again by themselves, as their kernels do after a while (RFC 6298 §5), and are answered too; nobody is
//! refused and nobody has another's answer. The report counts that the queue was full.

use std::fs;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::reported::{Reported, count};
use crate::server::{PATIENCE, temporary};

const CLIENTS: usize = 16;

/// One more may wait; those who come again at the same moment are let in so many at a time.
const BACKLOG: &str = "4";

/// Between one client and the next, so that they do not come again all at the same moment.
const APART: Duration = Duration::from_millis(10);

#[test]
fn everybody_is_answered_after_the_queue_was_full() {
    let dir = temporary();
    for at in 0..CLIENTS {
        fs::write(dir.path().join(at.to_string()), format!("for {at}")).expect("it is ours");
    }
    let server = Reported::start(&["--backlog", BACKLOG, dir.path().to_str().expect("text")]);
    let before = count(&server.on_demand(), "kernel.listen_overflows");
    let address = server.server.address;
    let stopped = Stopped::new(&server);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            std::thread::sleep(APART);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let response = client.get(&format!("/{at}")).expect("an answer");
                assert_eq!((response.status(), response.text()), (200, &*format!("for {at}")));
            })
        })
        .collect();
    // Until the kernel says that the queue was full; others in this system may have filled theirs.
    let end = Instant::now() + PATIENCE;
    while overflows() <= stopped.overflows {
        assert!(Instant::now() < end, "the queue is never full");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(clients.iter().all(|client| !client.is_finished()), "a stopped server answers nobody");
    drop(stopped);
    for client in clients {
        client.join().expect("it was answered");
    }
    let report = server.on_demand();
    assert!(count(&report, "kernel.listen_overflows") > before, "{report}");
    assert_eq!(count(&report, "requests.by_status.2xx"), CLIENTS as u64);
    assert_eq!(count(&report, "connections.reset"), 0, "{report}");
}

/// A server that is stopped, until this goes out of scope.
struct Stopped<'s> {
    server: &'s Reported,
    /// Overflows until then.
    overflows: u64,
}

impl<'s> Stopped<'s> {
    fn new(server: &'s Reported) -> Self {
        server.server.signal("STOP");
        let stat = format!("/proc/{}/stat", server.server.pid());
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(&stat).expect("it is alive").contains(") T ") {
            assert!(Instant::now() < end, "it does not stop");
        }
        Self { server, overflows: overflows() }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.server.server.signal("CONT");
    }
}

/// Overflows of all accept queues of this system, as /proc/net/netstat counts them.
fn overflows() -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").expect("the kernel tells");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "ListenOverflows").expect("it is counted");
    value.parse().expect("a number")
}
