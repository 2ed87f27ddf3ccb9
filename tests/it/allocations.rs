//! A warm keep-alive request allocates nothing. The server runs on the thread that counts, through
//! the library, with the real loop and real sockets; the client is on another.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use tared::address::{Address, Host};
use tared::bind;
use tared::clock::Clock;
use tared::server::Limits;
use tared::server::{Ended, Occasion, Orders, Server};
use tared::socket_file::Access;
use tared::{cli, open};

use crate::server::{self, PATIENCE, fixtures};

const WARM_UP: usize = 20;

/// How long a cached file is believed.
const CHECK: Duration = Duration::from_secs(1);

/// Tries to have a run on a machine that is not stalled for a second.
const TRIES_MAX: usize = 5;

/// Allocations of a server that answers `requests` requests for `target` on one connection, within
/// the second for which a cached entry is not checked.
fn allocations(args: &[&str], target: &str, requests: usize) -> u64 {
    for _ in 0..TRIES_MAX {
        let start = Instant::now();
        let count = count_allocations(args, target, requests);
        if start.elapsed() < CHECK {
            return count;
        }
    }
    panic!("{requests} requests take more than {CHECK:?} each time");
}

fn count_allocations(args: &[&str], target: &str, requests: usize) -> u64 {
    let args = ["tared"].iter().chain(args).map(Into::into);
    let settings = cli::settings(args).unwrap();
    let clock = Clock::start();
    let (site, _) = open::site(&settings, &clock).unwrap();
    let address = Address::Tcp(Host::Named("127.0.0.1".into()), 0);
    let listeners = bind::listeners(&address, Access::default(), 16, 1).unwrap();
    let address = server::address(listeners[0].name()).unwrap();
    let signals = || {
        let (signals, sender) = UnixStream::pair().unwrap();
        signals.set_nonblocking(true).unwrap();
        (mio::net::UnixStream::from_std(signals), sender)
    };
    let ((stop, mut stopper), (report, _reporter)) = (signals(), signals());
    let limits =
        Limits { connections: 16, requests_each: None, patience: settings.patience, grace: settings.grace };
    let (log, reopen) = (None, None);
    let orders =
        Orders { stop, report, log, reopen, duration: None, budget: None, is_metered: false, limits };
    let mut server = Server::new(listeners, site, clock, orders).unwrap();

    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n");
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut response = vec![0; 64 * 1024];
        let mut response_len = 0;
        for _ in 0..requests {
            stream.write_all(request.as_bytes()).unwrap();
            if response_len == 0 {
                response_len = stream.read(&mut response).unwrap();
                assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
            } else {
                stream.read_exact(&mut response[..response_len]).unwrap();
            }
        }
        drop(stream);
        stopper.write_all(&[0]).unwrap();
    });
    let info =
        allocation_counter::measure(|| assert_eq!(server.run().unwrap(), Occasion::Ended(Ended::InOrder)));
    client.join().unwrap();
    info.count_total
}

#[track_caller]
fn check(args: &[&str], target: &str) {
    let few = allocations(args, target, WARM_UP);
    let many = allocations(args, target, WARM_UP + 1000);
    assert!(few > 0, "the counter counts: the first request needs a slot");
    // A run allocates one more or less as its first bytes arrive in one piece or two.
    assert!(many <= few + 5, "1,000 more requests for {target} allocate {} times", many - few);
}

#[test]
fn a_warm_request_allocates_nothing_in_fixed_mode() {
    check(&["--fixed", "--body", "Success"], "/");
    check(&["--fixed", "--size", "30k"], "/");
}

#[test]
fn a_warm_request_allocates_nothing_in_directory_mode() {
    let fixtures = fixtures();
    let dir = fixtures.to_str().unwrap();
    for target in ["/0k.txt", "/hello.txt", "/with%20space.txt", "/docs/?query"] {
        check(&[dir], target);
    }
}
