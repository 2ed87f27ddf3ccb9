//! What becomes of the directory that is served, while it is served.
//!
//! What is expected was written down first. What was opened at start is served, wherever it goes, and nothing
//! that takes its name.
//!
//! | the directory, or one above it | answers then |
//! | --- | --- |
//! | is renamed | as before; an absolute link leads nowhere: 404 |
//! | is renamed, and another one takes its name | as before, and never a byte of the other one |
//! | is removed | 404 when it is looked up again; what is being sent comes whole |
//! | is removed, and made anew | 404: it is another one |
//! | may not be entered any more, and then may again | 403 when it is looked up again, and then as before |

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{Server, command, skip, temporary};

/// How long a file is believed here.
const CHECK: &str = "100ms";

/// An answer asked for so long after a change shows it.
const STALE_MAX: Duration = Duration::from_millis(100);

/// Larger than what the kernel holds of a connection that is not read from.
const LARGE: usize = 24 * 1024 * 1024;

/// Makes a site at `root` whose files say whose they are.
fn make(root: &Path, whose: &str) {
    fs::create_dir_all(root.join("sub")).expect("it is ours");
    for name in ["index.html", "a.txt", "sub/b.txt"] {
        fs::write(root.join(name), format!("{whose} {name}")).expect("it is ours");
    }
    symlink("a.txt", root.join("relative")).expect("a link");
    symlink(root.join("sub/b.txt"), root.join("absolute")).expect("a link");
    fs::write(root.join("large"), vec![whose.as_bytes()[0]; LARGE]).expect("it is ours");
}

/// A site two directories deep in a temporary one.
fn site() -> (tempfile::TempDir, PathBuf) {
    let dir = temporary();
    let root = dir.path().join("above/root");
    make(&root, "ours");
    (dir, root)
}

fn serve(mut command: Command, root: &Path) -> Server {
    Server::spawn(command.args(["--listen", "127.0.0.1:0", "--cache-check", CHECK]).arg(root))
}

/// Begins to read the large file.
fn begin(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().expect("an answer").status(), 200);
    client
}

/// Reads it to its end.
#[track_caller]
fn finish(client: &mut Client) {
    let body = client.take(LARGE).expect("all of it");
    assert!(body.iter().all(|&byte| byte == b'o'), "it holds what is not ours");
}

#[track_caller]
fn check_ours(server: &Server) {
    for (target, name) in
        [("/", "index.html"), ("/a.txt", "a.txt"), ("/sub/b.txt", "sub/b.txt"), ("/relative", "a.txt")]
    {
        let response = server.connect().get(target).expect("an answer");
        assert_eq!((response.status(), response.text()), (200, &*format!("ours {name}")), "{target}");
    }
}

/// In time `target` is answered with `status`, and meanwhile with what was.
#[track_caller]
fn check_becomes(server: &Server, target: &str, status: u16) {
    let start = Instant::now();
    let mut client = server.connect();
    loop {
        let asked = Instant::now();
        let response = client.get(target).expect("an answer");
        if response.status() == status {
            return;
        }
        assert!(response.text().starts_with("ours"), "{target}: {}", response.head);
        assert!(asked - start < STALE_MAX, "{target} is still answered with {}", response.status());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Longer than an entry is believed.
fn until_looked_up_again() {
    std::thread::sleep(STALE_MAX + Duration::from_millis(50));
}

#[test]
fn a_renamed_root_goes_on_and_what_takes_its_name_is_not_served() {
    for is_above in [false, true] {
        let (dir, root) = site();
        let server = serve(command(), &root);
        check_ours(&server);
        assert_eq!(server.connect().get("/absolute").expect("an answer").text(), "ours sub/b.txt");
        let mut slow = begin(&server);
        let from = if is_above { dir.path().join("above") } else { root.clone() };
        fs::rename(from, dir.path().join("moved")).expect("it is ours");
        until_looked_up_again();
        check_ours(&server);
        // It says where the root was.
        assert_eq!(server.connect().get("/absolute").expect("an answer").status(), 404);

        make(&root, "theirs");
        fs::write(root.join("only-theirs"), "theirs").expect("it is ours");
        until_looked_up_again();
        check_ours(&server);
        assert_eq!(server.connect().get("/only-theirs").expect("an answer").status(), 404);
        let absolute = server.connect().get("/absolute").expect("an answer");
        assert!(!absolute.text().contains("theirs"), "{}", absolute.text());
        finish(&mut slow);
    }
}

#[test]
fn a_removed_root_has_nothing_and_one_made_anew_is_another() {
    let (dir, root) = site();
    let mut server = serve(command(), &root);
    check_ours(&server);
    let mut slow = begin(&server);
    fs::remove_dir_all(dir.path().join("above")).expect("it is ours");
    for target in ["/a.txt", "/", "/sub/b.txt", "/relative"] {
        check_becomes(&server, target, 404);
    }
    finish(&mut slow);
    make(&root, "theirs");
    until_looked_up_again();
    for target in ["/", "/a.txt", "/sub/", "/sub", "/absolute", "/large"] {
        assert_eq!(slow.get(target).expect("an answer").status(), 404, "{target}");
    }
    server.assert_alive();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_root_that_may_not_be_entered_is_403_until_it_may() {
    let Some(unprivileged) = unprivileged() else {
        return skip("a_root_that_may_not_be_entered_is_403_until_it_may", NO_OTHER_USER);
    };
    let (_dir, root) = site();
    let mode = |mode| fs::set_permissions(&root, PermissionsExt::from_mode(mode)).expect("it is ours");
    let server = serve(unprivileged, &root);
    check_ours(&server);
    let mut slow = begin(&server);
    mode(0o000);
    for target in ["/a.txt", "/", "/sub/b.txt", "/relative"] {
        check_becomes(&server, target, 403);
    }
    finish(&mut slow);
    mode(0o755);
    check_ours(&server);
}
