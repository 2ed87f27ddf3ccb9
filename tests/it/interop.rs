//! A second opinion: an independent HTTP client.

use std::fs;

use crate::server::{Server, fixtures};

fn agent(redirects_max: u32) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(redirects_max);
    config.max_redirects_will_error(false).build().new_agent()
}

/// Status and body of the answer to a GET.
#[track_caller]
fn get(agent: &ureq::Agent, server: &Server, target: &str) -> (u16, Vec<u8>) {
    let url = format!("http://{}{target}", server.address);
    let mut response = agent.get(url).call().expect("an answer");
    (response.status().as_u16(), response.body_mut().read_to_vec().expect("a body"))
}

#[test]
fn ureq_reads_the_fixtures() {
    let server = Server::fixtures();
    let agent = agent(5);
    for (target, file) in [
        ("/", "index.html"),
        ("/0k.txt", "0k.txt"),
        ("/hello.txt", "hello.txt"),
        ("/lipsum.html", "lipsum.html"),
        ("/pixel.png", "pixel.png"),
        ("/with%20space.txt", "with space.txt"),
        ("/gr%C3%BC%C3%9Fe.txt", "grüße.txt"),
        ("/100%25.txt", "100%.txt"),
    ] {
        let content = fs::read(fixtures().join(file)).expect("a fixture");
        assert_eq!(get(&agent, &server, target), (200, content), "{target}");
    }
    assert_eq!(get(&agent, &server, "/nope").0, 404);
    let head = agent.head(format!("http://{}/lipsum.html", server.address)).call().expect("an answer");
    assert_eq!(head.headers()["content-length"], "33792");
    let url = format!("http://{}/hello.txt", server.address);
    let posted = agent.post(url).send("a body").expect("an answer");
    assert_eq!(posted.status().as_u16(), 405);
}

#[test]
fn ureq_follows_the_redirect() {
    let server = Server::fixtures();
    let docs = fs::read(fixtures().join("docs/index.html")).expect("a fixture");
    assert_eq!(get(&agent(5), &server, "/docs?q").0, 200);
    assert_eq!(get(&agent(5), &server, "/docs"), (200, docs));
    assert_eq!(get(&agent(0), &server, "/docs").0, 301);
}

#[test]
fn ureq_keeps_its_connection() {
    for server in [Server::fixtures(), Server::fixed(&["--body", "Hello"])] {
        let sockets = || {
            let entries = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it is alive");
            let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
        };
        let before = sockets();
        let agent = agent(5);
        for _ in 0..50 {
            for target in ["/hello.txt", "/lipsum.html", "/"] {
                assert_eq!(get(&agent, &server, target).0, 200);
            }
            assert_eq!(sockets(), before + 1);
        }
    }
}
