//! The file that holds the number of the process: when it is there, and whose it is.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use crate::command_line::{REFUSED, check_refusal};
use crate::server::{Server, command, run, skip, temporary};

fn start(path: &Path, args: &[&str]) -> Server {
    Server::spawn(command().args(["--fixed", "--listen", "127.0.0.1:0", "--pid-file"]).arg(path).args(args))
}

fn in_directory() -> (tempfile::TempDir, PathBuf) {
    let dir = temporary();
    let path = dir.path().join("tared.pid");
    (dir, path)
}

/// What the file says, once the ready line is there.
#[track_caller]
fn check(server: &Server, path: &Path) {
    assert_eq!(fs::read_to_string(path).expect("it is there"), format!("{}\n", server.pid()));
}

#[test]
fn it_is_there_from_the_ready_line_to_an_orderly_end() {
    let (dir, path) = in_directory();
    for workers in ["1", "2"] {
        let mut server = start(&path, &["--workers", workers]);
        check(&server, &path);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(fs::read_dir(dir.path()).expect("it is ours").count(), 0, "nothing is left behind");
    }
    // By itself.
    let mut server = start(&path, &["--duration", "50ms"]);
    server.wait();
    assert!(!path.exists());
}

#[test]
fn what_a_dead_program_has_left_behind_is_replaced() {
    let (_dir, path) = in_directory();
    let mut server = start(&path, &[]);
    server.signal("KILL");
    server.wait();
    check(&server, &path);
    let mut next = start(&path, &[]);
    check(&next, &path);
    next.signal("INT");
    next.wait();
    assert!(!path.exists());
    // A link stays one, and what is behind it is replaced.
    let behind = path.with_extension("behind");
    fs::write(&behind, "1\n").expect("it is ours");
    std::os::unix::fs::symlink(&behind, &path).expect("a link");
    let server = start(&path, &[]);
    check(&server, &path);
    check(&server, &behind);
}

#[test]
fn another_ones_is_left_alone() {
    let (_dir, path) = in_directory();
    let mut first = start(&path, &[]);
    let mut second = start(&path, &[]);
    first.signal("TERM");
    first.wait();
    check(&second, &path);
    fs::remove_file(&path).expect("it is ours");
    fs::write(&path, "somebody's").expect("it is ours");
    second.signal("TERM");
    assert_eq!(second.wait().code(), Some(0));
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "somebody's");
}

#[test]
fn it_goes_with_the_sandbox_and_is_the_users() {
    const TEST: &str = "it_goes_with_the_sandbox_and_is_the_users";
    let (_dir, path) = in_directory();
    let mut probe = command();
    probe.args(["--fixed", "--listen", "127.0.0.1:0", "--sandbox", "on", "--duration", "1ms"]);
    if run(&mut probe).status.success() {
        let mut server = start(&path, &["--sandbox", "on"]);
        check(&server, &path);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        assert!(!path.exists());
    } else {
        skip(TEST, "there is no Landlock");
    }
    if fs::read_dir("/root").is_err() {
        return skip(TEST, "only root can give up root");
    }
    let (theirs, path) = in_directory();
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--user", "65534:65534", "--pid-file"];
    check_refusal(
        command().args(args).arg(&path),
        REFUSED,
        &["--pid-file", path.to_str().expect("text"), "permission denied", "let the user"],
    );
    chown(theirs.path(), Some(65534), Some(65534)).expect("we are root");
    let mut server = start(&path, &["--user", "65534:65534"]);
    check(&server, &path);
    server.signal("TERM");
    server.wait();
    assert!(!path.exists());
}

#[test]
fn one_that_cannot_be_written_is_refused_before_anybody_is_told() {
    let (dir, _) = in_directory();
    let ready = dir.path().join("ready");
    for (path, cause) in [
        (dir.path().join("missing/tared.pid"), "no such file or directory"),
        (dir.path().to_path_buf(), "is a directory"),
        (PathBuf::from("/dev/null"), "no regular file"),
    ] {
        let mut command = command();
        command.args(["--fixed", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready);
        command.arg("--pid-file").arg(&path);
        check_refusal(&mut command, REFUSED, &["--pid-file", path.to_str().expect("text"), cause]);
        assert!(!ready.exists(), "somebody was told");
    }
}
