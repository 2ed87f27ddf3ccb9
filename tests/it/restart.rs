//! A restart that nobody notices: the listening socket is handed down to one program after the other, and
//! clients ask all the while, on connections that they keep and on new ones.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::inherited::start;
use crate::server::{PATIENCE, Server};

const CLIENTS_OF_EACH_KIND: usize = 4;
const RESTARTS: usize = 3;

/// Requests between two steps.
const REQUESTS: usize = 300;

/// How long a server that ends waits for idle connections to ask once more.
const IDLE_GRACE: Duration = Duration::from_millis(250);

const BODY: &str = "Hello World";

/// Clients who ask until they are told to stop.
struct Load {
    answered: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn on(address: SocketAddr) -> Self {
        let (answered, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let clients = (0..2 * CLIENTS_OF_EACH_KIND).map(|at| {
            let (answered, is_over) = (Arc::clone(&answered), Arc::clone(&is_over));
            thread::spawn(move || {
                let ask = if at % 2 == 0 { ask_anew } else { ask_again };
                let mut kept = None;
                while !is_over.load(Ordering::Relaxed) {
                    let response = ask(address, &mut kept);
                    assert_eq!((response.status(), response.text()), (200, BODY));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let clients = clients.collect();
        Self { answered, is_over, clients }
    }

    /// Waits until some more requests have been answered.
    #[track_caller]
    fn go_on(&self) {
        let enough = self.answered.load(Ordering::Relaxed) + REQUESTS;
        let end = Instant::now() + PATIENCE;
        while self.answered.load(Ordering::Relaxed) < enough {
            assert!(Instant::now() < end, "nobody answers");
            assert!(self.clients.iter().all(|client| !client.is_finished()), "a client was let down");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request was answered");
        }
    }
}

/// On a new connection.
fn ask_anew(address: SocketAddr, _: &mut Option<(Client, Instant)>) -> Response {
    Client::connect(address).request("GET", "/", "Connection: close\r\n").expect("an answer")
}

/// On the connection that is kept, until the server has said that it closes it.
fn ask_again(address: SocketAddr, kept: &mut Option<(Client, Instant)>) -> Response {
    let (mut client, answered) = kept.take().unwrap_or_else(|| (Client::connect(address), Instant::now()));
    let idle = answered.elapsed();
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let response = match client.try_send(request).and_then(|()| client.response()) {
        Ok(response) => response,
        // This client was not given the processor for longer than a server waits for idle ones. To ask once
        // more is then its part: RFC 9112 §9.3.1.
        Err(_) if idle >= IDLE_GRACE / 2 => return ask_anew(address, kept),
        Err(error) => panic!("no answer to a request after {idle:?}: {error}"),
    };
    if response.field("Connection") != Some("close") {
        *kept = Some((client, Instant::now()));
    }
    response
}

#[test]
fn a_restart_under_load_loses_nothing() {
    for workers in ["1", "2"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let args = ["--fixed", "--body", BODY, "--workers", workers];
        let mut server = start(&listener, &args);
        let load = Load::on(server.address);
        load.go_on();
        for _ in 0..RESTARTS {
            let next = start(&listener, &args);
            load.go_on();
            server.signal("TERM");
            load.go_on();
            assert_eq!(server.wait().code(), Some(0));
            load.go_on();
            server = next;
        }
        load.end();
    }
}

/// With nobody in between: what comes meanwhile waits in the queue.
#[test]
fn who_comes_between_two_servers_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let args = ["--fixed", "--body", BODY];
    let mut first = start(&listener, &args);
    first.connect().assert_open();
    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0));
    let mut waiting: Vec<_> = (0..20).map(|_| Client::connect(first.address)).collect();
    waiting.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    let _second = start(&listener, &args);
    for client in &mut waiting {
        assert_eq!(client.response().expect("an answer").text(), BODY);
    }
}

/// Also of a server without a successor: it does not close on a request that is on its way.
#[test]
fn a_client_that_asks_on_is_told_of_the_end() {
    for _ in 0..20 {
        let mut server = Server::fixed(&["--body", BODY]);
        let mut busy: Vec<_> = (0..8).map(|_| server.connect()).collect();
        busy.iter_mut().for_each(Client::assert_open);
        server.signal("TERM");
        let end = Instant::now() + PATIENCE;
        while let Some(mut client) = busy.pop() {
            let response = client.get("/").expect("an answer");
            assert_eq!(response.text(), BODY);
            match response.field("Connection") {
                Some("close") => client.assert_closed(),
                _ => busy.insert(0, client),
            }
            assert!(Instant::now() < end, "it does not end");
        }
        assert_eq!(server.wait().code(), Some(0));
    }
}
