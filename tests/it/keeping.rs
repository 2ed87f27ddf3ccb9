//! How files are kept: how many, how long, and how long they are believed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::server::{Server, command, temporary};

/// Longer than a kept file is believed by default.
const WHILE: Duration = Duration::from_millis(1200);

fn serve(dir: &Path, args: &[&str]) -> Server {
    Server::spawn(command().args(["--listen", "127.0.0.1:0"]).args(args).arg(dir))
}

/// What is served for a file whose content has been replaced, after `wait`.
fn seen_after(wait: Duration, args: &[&str]) -> String {
    let dir = temporary();
    fs::write(dir.path().join("a"), "old").expect("it is ours");
    let server = serve(dir.path(), args);
    let mut client = server.connect();
    assert_eq!(client.get("/a").expect("an answer").text(), "old");
    fs::write(dir.path().join("a"), "young").expect("it is ours");
    std::thread::sleep(wait);
    client.get("/a").expect("an answer").text().to_owned()
}

#[test]
fn a_kept_file_is_believed_as_long_as_asked() {
    assert_eq!(seen_after(WHILE, &[]), "young");
    assert_eq!(seen_after(Duration::ZERO, &["--cache-check", "0"]), "young");
    assert_eq!(seen_after(WHILE, &["--cache-check", "60s"]), "old");
    assert_eq!(seen_after(WHILE, &["--frozen"]), "old");
}

#[test]
fn no_more_files_are_kept_than_asked() {
    let dir = temporary();
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), name).expect("it is ours");
    }
    for (entries, fills) in [("1", 6), ("2", 2)] {
        let report = temporary();
        let path = report.path().join("report.json");
        let path = path.to_str().expect("text");
        let args = ["--cache-entries", entries, "--frozen", "--report", "json", "--report-file", path];
        let mut server = serve(dir.path(), &args);
        let mut client = server.connect();
        for _ in 0..3 {
            assert_eq!(client.get("/a").expect("an answer").text(), "a");
            assert_eq!(client.get("/b").expect("an answer").text(), "b");
        }
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        let report: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).expect("a report")).expect("JSON");
        assert_eq!(report["cache"]["fills"], fills, "--cache-entries {entries}: {}", report["cache"]);
    }
}

#[test]
fn a_file_that_nobody_asks_for_is_dropped() {
    let dir = temporary();
    // Large enough that it stays open while it is kept.
    fs::write(dir.path().join("a"), vec![b'a'; 100_000]).expect("it is ours");
    let server = serve(dir.path(), &["--cache-idle", "500ms"]);
    let mut client = server.connect();
    client.get("/a").expect("an answer");
    let is_open = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.any(|target| target.ends_with("a"))
    };
    assert!(is_open());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!is_open());
}
