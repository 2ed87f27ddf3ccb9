//! The sandbox: what is served without it is served within it. What cannot be done within it is tested next to
//! the code.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tared::sandbox::{Bounds, Sandbox};

use crate::client::Client;
use crate::command_line::check_usage;
use crate::server::{PATIENCE, Server, command, skip, temporary};

/// Whether the kernel has what `--sandbox on` takes.
fn is_there(test: &str) -> bool {
    let entered = thread::spawn(|| Sandbox::On.enter(Bounds::default())).join().expect("it ends");
    if let Err(failure) = &entered {
        skip(test, &failure.to_string());
    }
    entered.is_ok()
}

#[test]
fn what_is_beneath_the_directory_is_served_and_goes_on_being() {
    if !is_there("what_is_beneath_the_directory_is_served_and_goes_on_being") {
        return;
    }
    let dir = temporary();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("root/sub")).expect("it is ours");
    for (name, text) in [("root/index.html", "index"), ("root/sub/index.html", "sub"), ("secret", "secret")] {
        fs::write(path(name), text).expect("it is ours");
    }
    fs::write(path("root/large"), vec![b'a'; 2 * 1024 * 1024]).expect("it is ours");
    symlink("sub/index.html", path("root/link")).expect("a link");
    symlink(path("root/sub/index.html"), path("root/absolute")).expect("a link");
    symlink("../root/sub", path("root/round")).expect("a link");
    symlink("../secret", path("root/out")).expect("a link");

    let socket = format!("unix:{}", path("socket").display());
    let args = ["--sandbox", "on", "--workers", "2", "--listen", "127.0.0.1:0", "--listen", &socket];
    let mut server = Server::spawn_with(command().args(args).arg(path("root")), 2);
    let get = |server: &Server, target: &str| server.connect().get(target).expect("an answer");
    for (target, text) in
        [("/", "index"), ("/sub/", "sub"), ("/link", "sub"), ("/absolute", "sub"), ("/round/", "sub")]
    {
        assert_eq!(get(&server, target).text(), text, "{target}");
    }
    assert_eq!(get(&server, "/large").body.len(), 2 * 1024 * 1024);
    assert_eq!(get(&server, "/out").status(), 404);
    // What changes is opened again, and what is new too.
    fs::write(path("root/new"), "new").expect("it is ours");
    fs::write(path("root/other"), "newer").expect("it is ours");
    fs::rename(path("root/other"), path("root/index.html")).expect("it is ours");
    fs::rename(path("root"), path("moved")).expect("it is ours");
    assert_eq!(get(&server, "/new").text(), "new");
    let end = Instant::now() + PATIENCE;
    while get(&server, "/").text() != "newer" {
        assert!(Instant::now() < end, "it is not opened again");
        thread::sleep(Duration::from_millis(20));
    }
    let socket = path("socket");
    Client::connect_unix(&socket).expect("it accepts").assert_open();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!socket.exists(), "its name is removed from within");
}

#[test]
fn a_fixed_response_needs_nothing() {
    if !is_there("a_fixed_response_needs_nothing") {
        return;
    }
    let dir = temporary();
    fs::write(dir.path().join("body"), "from a file").expect("it is ours");
    let body = format!("@{}", dir.path().join("body").display());
    let server = Server::fixed(&["--sandbox", "on", "--body", &body]);
    fs::remove_file(dir.path().join("body")).expect("it is ours");
    assert_eq!(server.connect().get("/").expect("an answer").text(), "from a file");
    let server = Server::fixed(&["--sandbox", "on", "--size", "1m", "--workers", "2"]);
    assert_eq!(server.connect().get("/").expect("an answer").body.len(), 1024 * 1024);
}

/// As a path relative to where it was started, by whom root has become.
#[test]
fn it_goes_with_another_user() {
    let is_root = fs::metadata("/root/.").is_ok_and(|_| fs::read_dir("/root").is_ok());
    if !is_root || !is_there("it_goes_with_another_user") {
        return skip("it_goes_with_another_user", "we are not root, or there is no Landlock");
    }
    let args = ["--sandbox", "on", "--user", "65534:65534", "--listen", "127.0.0.1:0", "fixtures"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let server = Server::spawn(command().args(args).current_dir(here));
    assert_eq!(server.connect().get("/hello.txt").expect("an answer").text(), "Hello World\n");
}

#[test]
fn it_can_be_left_and_is_named_well() {
    for value in ["off", "auto"] {
        let server = Server::fixed(&["--sandbox", value]);
        server.connect().assert_open();
    }
    for value in ["", "yes", "ON", "1"] {
        let given = format!("--sandbox={value}");
        check_usage(&["--fixed", &given], &["--sandbox", &format!("'{value}'"), "auto"]);
    }
}
