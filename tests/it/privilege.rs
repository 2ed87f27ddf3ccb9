//! Running the binary as a user whom the system refuses something, and as root who gives that up.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::client::Client;
use crate::command_line::{REFUSED, check_refusal, check_usage};
use crate::server::{Server, address, command, command_through, fixtures, run, skip, temporary};

/// What is said when root serves.
pub(crate) const ROOT_WARNING: &str = "tared: serving as root (give it up with --user NAME)\n";

/// Of nobody, by number, who need not have an entry.
const NOBODY: &str = "65534:65534";

const NO_ROOT: &str = "only root can give up root";

/// The binary, run by a user other than root: as we are, or as nobody. `None` if that cannot be had.
pub(crate) fn unprivileged() -> Option<Command> {
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return Some(command());
    }
    run(as_nobody().arg("--version")).status.success().then(as_nobody)
}

/// Why [`unprivileged`] is `None`.
pub(crate) const NO_OTHER_USER: &str =
    "root is refused nothing, and setpriv cannot start the binary as nobody";

fn as_nobody() -> Command {
    let mut through = Command::new("sh");
    // A missing setpriv is then an exit status and not a panic.
    through.args(["-c", "exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"", "sh"]);
    command_through(through)
}

fn we_are_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// The lines of `/proc/PID/task/TID/status` that begin with `name`, of every thread.
fn of_threads(server: &Server, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it is alive");
    let status = tasks.map(|task| fs::read_to_string(task.expect("a thread").path().join("status")));
    let line = |status: String| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.expect("a line").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    status.map(|status| line(status.expect("it is alive"))).collect()
}

#[test]
fn root_is_given_up_by_every_thread_and_for_good() {
    if !we_are_root() {
        return skip("root_is_given_up_by_every_thread_and_for_good", NO_ROOT);
    }
    for user in [NOBODY, "nobody", "65534"] {
        let dir = fixtures();
        let args = ["--user", user, "--workers", "3", "--listen", "127.0.0.1:0", dir.to_str().expect("text")];
        let stderr = tempfile::NamedTempFile::new().expect("a file");
        let said = stderr.reopen().expect("it is ours");
        let server = Server::spawn(command().args(args).stderr(said));
        assert_eq!(of_threads(&server, "Uid"), ["65534 65534 65534 65534"; 3], "{user}");
        assert_eq!(of_threads(&server, "NoNewPrivs"), ["1"; 3]);
        for gids in of_threads(&server, "Gid") {
            assert!(gids.split(' ').all(|gid| gid != "0"), "{user}: {gids}");
        }
        for own in of_threads(&server, "Groups") {
            assert!(own.split(' ').all(|gid| gid != "0"), "{user}: {own}");
        }
        for sets in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(of_threads(&server, sets), ["0000000000000000"; 3], "{user}: {sets}");
        }
        assert_eq!(server.connect().get("/hello.txt").unwrap().text(), "Hello World\n");
        assert_eq!(fs::read_to_string(stderr.path()).expect("it is ours"), "");
    }
}

/// Bound as root, read as the user.
#[test]
fn what_takes_root_is_done_before_and_files_are_read_after() {
    const TEST: &str = "what_takes_root_is_done_before_and_files_are_read_after";
    if !we_are_root() {
        return skip(TEST, NO_ROOT);
    }
    let dir = temporary();
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("it is ours");
    fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).expect("it is ours");
    fs::write(root.join("open"), "open").expect("it is ours");
    fs::write(root.join("closed"), "closed").expect("it is ours");
    fs::set_permissions(root.join("open"), PermissionsExt::from_mode(0o644)).expect("it is ours");
    fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o600)).expect("it is ours");
    // Only root may make a socket here; it then is the user's.
    let socket = dir.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let args = ["--user", NOBODY, "--unix-mode", "0660", "--listen", "127.0.0.1:0", "--listen", &listen];
    let mut server = Server::spawn_with(command().args(args).arg(&root), 2);
    let metadata = fs::metadata(&socket).expect("it is there");
    assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o777), (65534, 65534, 0o660));
    let by_socket = Client::connect_unix(&socket).expect("it accepts");
    for mut client in [server.connect(), by_socket] {
        assert_eq!(client.get("/open").unwrap().text(), "open");
        assert_eq!(client.get("/closed").unwrap().status(), 403);
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    // Whom it has become could not remove the name; the next start does.
    assert!(socket.exists());
    let again = Server::spawn_with(command().args(args).arg(&root), 2);
    assert!(address(&again.ready_line).is_some());

    fs::set_permissions(&root, PermissionsExt::from_mode(0o700)).expect("it is ours");
    let args = ["--user", NOBODY, "--listen", "127.0.0.1:0", root.to_str().expect("text")];
    check_refusal(command().args(args), REFUSED, &["DIR", args[4], "permission denied", "let the user"]);
}

#[test]
fn root_is_warned_and_nobody_else() {
    let said = |command: &mut Command| {
        let stderr = tempfile::NamedTempFile::new().expect("a file");
        let args = ["--fixed", "--listen", "127.0.0.1:0"];
        let mut server = Server::spawn(command.args(args).stderr(stderr.reopen().expect("it is ours")));
        assert_eq!(of_threads(&server, "NoNewPrivs"), ["1"], "always");
        // The warning comes behind the line about the place.
        server.signal("TERM");
        server.wait();
        fs::read_to_string(stderr.path()).expect("it is ours")
    };
    match unprivileged() {
        Some(mut command) => assert_eq!(said(&mut command), ""),
        None => skip("root_is_warned_and_nobody_else, nobody else", NO_OTHER_USER),
    }
    match we_are_root() {
        true => assert_eq!(said(&mut command()), ROOT_WARNING),
        false => skip("root_is_warned_and_nobody_else, root", "we are not root"),
    }
}

#[test]
fn a_user_that_cannot_be_had_is_refused() {
    for typed in ["", ":", "nobody:", ":nogroup", "a:b:c", "../nobody"] {
        let given = format!("--user={typed}");
        check_usage(&["--fixed", &given], &["--user", &format!("'{typed}'"), "NAME"]);
    }
    for (typed, cause) in [
        ("no-such-user", "no such user"),
        ("65534:no-such-group", "no such group"),
        ("root", "root"),
        ("0", "root"),
        ("65534:0", "root"),
        ("3999999999", "no group"),
    ] {
        let args = ["--fixed", "--listen", "127.0.0.1:0", "--user", typed];
        check_refusal(command().args(args), REFUSED, &["--user", &format!("'{typed}'"), cause]);
    }
    let Some(mut command) = unprivileged() else {
        return skip("a_user_that_cannot_be_had_is_refused, by others than root", NO_OTHER_USER);
    };
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--user", "1:1"];
    check_refusal(command.args(args), REFUSED, &["--user '1:1'", "operation not permitted", "root"]);
}

/// A capability that outlives the change of users: then the way back is found, and nothing is served.
#[test]
fn a_way_back_is_refused() {
    const TEST: &str = "a_way_back_is_refused";
    if !we_are_root() {
        return skip(TEST, NO_ROOT);
    }
    let mut through = Command::new("sh");
    // SECBIT_NO_SETUID_FIXUP: users change, capabilities stay.
    through.args(["-c", "exec setpriv --securebits +no_setuid_fixup -- \"$@\"", "sh"]);
    let mut probe = Command::new("sh");
    probe.args(["-c", "exec setpriv --securebits +no_setuid_fixup -- true"]);
    if !run(&mut probe).status.success() {
        return skip(TEST, "setpriv cannot set that securebit");
    }
    through.arg(command().get_program()).args(["--fixed", "--listen", "127.0.0.1:0", "--user", NOBODY]);
    check_refusal(&mut through, REFUSED, &["--user", NOBODY, "way back"]);
}
