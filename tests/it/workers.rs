//! Several workers: one address, nothing else in common.

use std::collections::HashSet;
use std::fs;

use crate::server::{Server, command, fixtures, run};

fn two_workers(more: &[&str]) -> Server {
    let fixtures = fixtures();
    let args = ["--workers", "2", "--listen", "127.0.0.1:0", fixtures.to_str().unwrap()];
    Server::start(args.iter().chain(more))
}

/// The CPUs on which each thread of `server` may run.
fn affinities(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let cpus = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    status.map(cpus).collect()
}

/// How often each thread of `server` has waited.
fn voluntary_switches(server: &Server) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    status.map(count).collect()
}

#[test]
fn every_worker_answers() {
    let server = two_workers(&[]);
    let before = voluntary_switches(&server);
    assert_eq!(before.len(), 2, "two threads and no other");
    // The kernel chooses a worker by a hash of the client's port: 40 connections miss one of two in
    // one run of 2³⁹.
    for _ in 0..40 {
        assert_eq!(server.connect().get("/hello.txt").unwrap().text(), "Hello World\n");
    }
    let after = voluntary_switches(&server);
    assert!(before.iter().zip(&after).all(|(before, after)| after > before), "{before:?} {after:?}");
}

#[test]
fn pinned_workers_stay_on_different_cores() {
    let server = two_workers(&["--pin"]);
    let cpus = affinities(&server);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cpus.iter().all(|list| list.parse::<usize>().is_ok()), "one core each: {cpus:?}");
    let different: HashSet<_> = cpus.iter().collect();
    assert_eq!(different.len(), cores.min(2), "{cpus:?}");
}

#[test]
fn a_signal_ends_all_workers_in_order() {
    let mut server = two_workers(&[]);
    let mut kept: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut kept {
        client.get("/").unwrap();
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    for client in &mut kept {
        client.assert_closed();
    }
}

/// SO_REUSEPORT would let two programs share a port unnoticed.
#[test]
fn an_address_in_use_is_refused_also_to_those_who_share() {
    let fixtures = fixtures();
    for (first, second) in [("1", "2"), ("2", "1"), ("2", "2")] {
        let server =
            Server::start(["--workers", first, "--listen", "127.0.0.1:0", fixtures.to_str().unwrap()]);
        let address = server.address.to_string();
        let output = run(command().args(["--workers", second, "--listen", &address, "--fixed"]));
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{first} and {second}: {sentence}");
        assert!(sentence.contains(&address) && sentence.contains("address already in use"), "{sentence}");
    }
}

#[test]
fn zero_workers_are_one_per_core() {
    let server = Server::fixed(&["--workers", "0"]);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(affinities(&server).len(), cores);
    assert_eq!(server.connect().get("/").unwrap().status(), 200);
}

#[test]
fn a_number_of_workers_that_is_none_is_refused() {
    for value in ["-1", "x", "", "1.5", "100000"] {
        let output = run(command().arg(format!("--workers={value}")).arg("--fixed"));
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(sentence.starts_with(&format!("tared: --workers '{value}': ")), "{sentence}");
    }
}
