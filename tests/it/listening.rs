//! Where it listens: several addresses at once.

use std::net::{Ipv4Addr, SocketAddr};

use crate::client::Client;
use crate::command_line::{REFUSED, check_refusal, check_usage};
use crate::server::{Server, address, command, fixtures};

#[test]
fn every_address_answers_and_has_a_line() {
    let fixtures = fixtures();
    for workers in ["1", "2"] {
        let args =
            ["--workers", workers, "--listen", "127.0.0.1:0", "--listen", ":0", "--listen", "127.0.0.1:0"];
        let server = Server::spawn_with(command().args(args).arg(&fixtures), 3);
        let version = env!("CARGO_PKG_VERSION");
        let mut ports = Vec::new();
        for line in [&server.ready_line].into_iter().chain(&server.more_lines) {
            let begin = format!("tared {version} serving {} on http://", fixtures.display());
            assert!(line.starts_with(&begin) && line.ends_with("/\n"), "{line:?}");
            let port = address(line).expect("an address").port();
            assert!(!ports.contains(&port), "{line:?}");
            ports.push(port);
        }
        for _ in 0..20 {
            for &port in &ports {
                let mut client = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
                assert_eq!(client.get("/hello.txt").unwrap().text(), "Hello World\n");
            }
        }
    }
}

#[test]
fn every_address_is_let_go_when_it_ends() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut server = Server::spawn_with(command().args(args), 2);
    let addresses = [server.address, address(&server.more_lines[0]).expect("an address")];
    let mut kept: Vec<_> = addresses.into_iter().map(Client::connect).collect();
    kept.iter_mut().for_each(Client::assert_open);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    kept.iter_mut().for_each(Client::assert_closed);
    let again = addresses.map(|address| format!("--listen={address}"));
    let again = Server::spawn_with(command().arg("--fixed").args(again), 2);
    again.connect().assert_open();
}

#[test]
fn when_descriptors_run_out_every_address_rests_and_goes_on() {
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -n 40 && exec \"$0\" --fixed --listen 127.0.0.1:0 --listen 127.0.0.1:0 2>&-";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tared")]).stdin(std::process::Stdio::null());
    let server = Server::spawn_with(&mut command, 2);
    let addresses = [server.address, address(&server.more_lines[0]).expect("an address")];
    let mut clients: Vec<_> = (0..60).map(|at| Client::connect(addresses[at % 2])).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Who goes makes room for who waits, wherever that is.
    let mut waiting = clients.split_off(clients.len() - 10);
    drop(clients);
    for client in &mut waiting {
        assert_eq!(client.response().expect("an answer").status(), 200);
    }
    drop(waiting);
    for address in addresses {
        Client::connect(address).assert_open();
    }
}

#[test]
fn the_variable_holds_an_address_a_line() {
    let listen = "127.0.0.1:0\n127.0.0.1:0\n";
    let server = Server::spawn_with(command().arg("--fixed").env("TARED_LISTEN", listen), 2);
    Client::connect(address(&server.more_lines[0]).expect("an address")).assert_open();
}

#[test]
fn an_address_that_is_there_twice_is_refused() {
    let twice = ["--fixed", "--listen", "127.0.0.1:18080", "--listen", "127.0.0.1:18080"];
    check_usage(&twice, &["--listen '127.0.0.1:18080'", "twice"]);
}

#[test]
fn one_bad_address_among_good_ones_is_refused() {
    check_usage(&["--listen", "127.0.0.1:0", "--listen", "nowhere"], &["--listen 'nowhere'"]);
    let server = Server::fixed(&[]);
    let taken = server.address.to_string();
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--listen", &taken];
    check_refusal(command().args(args), REFUSED, &["--listen", &taken, "address already in use"]);
    check_refusal(command().arg("--fixed").env("TARED_LISTEN", ""), 2, &["--listen"]);
}
