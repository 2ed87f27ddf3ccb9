//! The command line: what it takes, what it refuses and how it says so.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::client::Client;
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{Server, command, fixtures, run, skip, temporary, unwarned};

pub(crate) const USAGE: i32 = 2;
pub(crate) const REFUSED: i32 = 1;

/// A refusal is one sentence on standard error and nothing on standard output, with every one of `parts` in it (option, value, cause)
/// and, in parentheses at its end, what to try.
#[track_caller]
pub(crate) fn check_refusal(command: &mut Command, status: i32, parts: &[&str]) {
    let Output { status: ended, stdout, stderr } = run(command);
    let sentence = String::from_utf8(stderr).expect("text");
    assert_eq!(ended.code(), Some(status), "{command:?}: {sentence}");
    assert_eq!(String::from_utf8_lossy(&stdout), "", "{command:?}");
    assert!(sentence.starts_with("tared: ") && sentence.ends_with(")\n"), "{command:?}: {sentence:?}");
    assert_eq!(sentence.lines().count(), 1, "{command:?}: {sentence:?}");
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is not in {sentence:?}");
    }
}

#[track_caller]
pub(crate) fn check_usage(args: &[&str], parts: &[&str]) {
    check_refusal(command().args(args), USAGE, parts);
}

#[test]
fn a_bad_address_is_refused() {
    for address in [
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:http",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:+80",
        "127.0.0.1: 80",
        "::1:8080",
        "[::1]",
        "[::1]8080",
        "[localhost]:0",
        "[127.0.0.1]:0",
        "a b:0",
        "http://127.0.0.1:0",
    ] {
        check_usage(&["--listen", address], &["--listen", &format!("'{address}'"), "(try "]);
    }
}

#[test]
fn a_bad_header_is_refused() {
    for (header, shown) in [
        ("", "''"),
        ("no colon", "'no colon'"),
        (": value", "': value'"),
        ("two words: value", "'two words: value'"),
        ("Name : value", "'Name : value'"),
        ("Näme: value", "'Näme: value'"),
        ("X: a\r\nY: b", "X: a"),
        ("X: a\nY: b", "X: a"),
        ("X: a\rY: b", "X: a"),
        ("X\n: a", "X"),
        ("X: a\u{1}b", "X: a"),
        ("Content-Length: 3", "'Content-Length: 3'"),
        ("content-length: 3", "'content-length: 3'"),
        ("Transfer-Encoding: chunked", "'Transfer-Encoding: chunked'"),
        ("Connection: close", "'Connection: close'"),
        ("Date: today", "'Date: today'"),
    ] {
        check_usage(&["--header", header], &["--header", shown]);
        check_usage(&["--fixed", "--header", header], &["--header", shown]);
    }
    check_usage(&["--header", "Last-Modified: today"], &["--header", "'Last-Modified: today'"]);
}

#[test]
fn a_bad_value_of_another_option_is_refused() {
    for (option, value) in [
        ("--backlog", "many"),
        ("--backlog", "-1"),
        ("--backlog", "1.5"),
        ("--backlog", "4294967296"),
        ("--index", ""),
        ("--index", "sub/index.html"),
        ("--index", ".."),
        ("--index", ".index.html"),
        ("--status", ""),
        ("--status", "ok"),
        ("--status", "99"),
        ("--status", "100"),
        ("--status", "101"),
        ("--status", "1000"),
        ("--status", "0200"),
        ("--status", "+20"),
        ("--size", ""),
        ("--size", "k"),
        ("--size", "-1"),
        ("--size", "+1"),
        ("--size", "1q"),
        ("--size", "1kk"),
        ("--size", "1.5k"),
        ("--size", "99999999999999999999"),
        ("--size", "17179869184g"),
        ("--body", r"\x"),
        ("--body", r"ends in \"),
        ("--type", ""),
    ] {
        let fixed = if option == "--backlog" || option == "--index" { None } else { Some("--fixed") };
        // With an equals sign, so that what begins with a dash is a value.
        let given = format!("{option}={value}");
        let args: Vec<&str> = fixed.into_iter().chain([&*given]).collect();
        check_usage(&args, &[option, &format!("'{value}'")]);
    }
    check_usage(&["--fixed", "--type", "text/plain\r\nX: y"], &["--type", "text/plain"]);
}

#[test]
fn what_cannot_be_said_with_a_response_is_refused() {
    for (option, values) in [
        ("--cache-control", &["", " ", "a\r\nX: y", "a=\"\\\nX: y\"", "a\u{1}", "a b", "\"", "max-age="][..]),
        ("--expires", &["", "30", "-1s", "soon", "EPOCH", "1000000y"]),
        ("--mime", &["", "md", "=a/b", "md=", "md=text", "a.b=a/b", "md=a/b; x"]),
        ("--default-type", &["", "text", "a/b\r\nX: y", "a/b; x=\""]),
        ("--error-page", &["", "404", "404=", "404=a.html", "200=/a", "600=/a", "404=/.git", "x=/a"]),
    ] {
        for value in values {
            let given = format!("{option}={value}");
            let shown = value.replace('\r', "\\r").replace('\n', "\\n").replace('\u{1}', "\\u{1}");
            check_usage(&["--listen=127.0.0.1:0", &given], &[option, &format!("'{shown}'")]);
        }
    }
    check_usage(&["--error-page", "404=/a", "--error-page", "500,404=/b"], &["--error-page", "404"]);
    check_usage(&["--expires", "1h", "--cache-control", "max-age=3"], &["--cache-control", "'max-age=3'"]);
    // RFC 9111 §5.2: the names of directives have no case.
    check_usage(&["--expires=1h", "--cache-control", "public, MAX-AGE=3"], &["--cache-control", "MAX-AGE=3"]);
    let own = "access-control-allow-origin: https://a";
    check_usage(&["--cors", "--header", own], &["--cors"]);
    check_usage(&["--cors", "--header-for", "*", own], &["--cors"]);
    for (glob, field) in [
        ("", "X: y"),
        ("a[", "X: y"),
        ("***", "X: y"),
        ("*.{css,js}", "X: y"),
        ("fonts/", "X: y"),
        ("*", "no colon"),
        ("*", "Content-Type: text"),
        ("*", "content-type:"),
        ("*", "ETag: x"),
        ("*", "Content-Length: 3"),
        ("*", "X: a\nY: b"),
    ] {
        check_usage(&["--header-for", glob, field], &["--header-for"]);
    }
    check_usage(&["--header-for", "*.css"], &["--header-for"]);
    let parts = ["--header-for", "'*.css'"];
    check_refusal(command().env("TARED_HEADER_FOR", "*.css"), USAGE, &parts);
    for args in [
        &["--header-for", "*", "X: y"][..],
        &["--mime", "a=b/c"],
        &["--default-type", "b/c"],
        &["--error-page", "404=/a"],
        &["--spa"],
        &["--list"],
    ] {
        let args: Vec<&str> = ["--fixed"].iter().chain(args).copied().collect();
        check_usage(&args, &["--fixed", args[1]]);
    }
}

#[test]
fn a_bad_measure_is_refused() {
    for (option, values) in [
        ("--duration", &["", "10", "-1s", "0s", "0ms", "abc", "s", "1000000y", "10 parsecs"][..]),
        ("--max-requests", &["", "0", "-1", "x", "1k", "1.5", "99999999999999999999"]),
        ("--report", &["", "xml", "JSON", "json "]),
        ("--ready-fd", &["", "x", "0", "-1", "3.5", "99999999999"]),
        ("--max-connections", &["", "0", "-1", "+1", "x", "99999999999999999999"]),
        ("--max-requests-per-connection", &["", "0", "-1", "x"]),
        ("--keep-alive", &["", "65", "-1s", "x", "1000000y"]),
        ("--header-timeout", &["", "0", "0s", "10", "x"]),
        ("--body-timeout", &["0", "x"]),
        ("--write-timeout", &["0", "x"]),
        ("--grace", &["", "10", "x"]),
        ("--cache-entries", &["", "0", "x"]),
        ("--cache-idle", &["", "0", "x"]),
        ("--cache-check", &["", "1", "x"]),
    ] {
        for value in values {
            let given = format!("{option}={value}");
            check_usage(&["--fixed", "--listen=127.0.0.1:0", &given], &[option, &format!("'{value}'")]);
        }
    }
}

/// What is told about a run must have its place before the run begins; and nobody is told of one that does
/// not begin.
#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_begins() {
    let dir = temporary();
    let missing = dir.path().join("missing/file");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("it is ours");
    let below_file = file.join("below");
    // A name with a slash behind it can only be that of a directory.
    let slash = dir.path().join("new/");
    for option in ["--report-file", "--ready-file"] {
        for (path, cause) in [
            (&missing, "no such file or directory"),
            (&dir.path().to_path_buf(), "is a directory"),
            (&below_file, "not a directory"),
            (&slash, "is a directory"),
        ] {
            let ready = dir.path().join("ready");
            let mut command = command();
            command.args(["--fixed", "--listen", "127.0.0.1:0", option]).arg(path);
            if option != "--ready-file" {
                command.arg("--ready-file").arg(&ready);
            }
            check_refusal(&mut command, REFUSED, &[option, path.to_str().expect("text"), cause]);
            assert!(!ready.exists(), "somebody was told");
        }
    }
    let left: Vec<_> = fs::read_dir(&dir).expect("it is ours").collect();
    assert_eq!(left.len(), 1, "nothing is left behind: {left:?}");
}

#[test]
fn a_directory_that_may_not_be_written_to_is_refused() {
    let dir = temporary();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).expect("it is ours");
    let path = dir.path().join("file");
    for option in ["--report-file", "--ready-file"] {
        let Some(mut command) = unprivileged() else {
            return skip("a_directory_that_may_not_be_written_to_is_refused", NO_OTHER_USER);
        };
        command.args(["--fixed", "--listen", "127.0.0.1:0", option]).arg(&path);
        check_refusal(&mut command, REFUSED, &[option, path.to_str().expect("text"), "permission denied"]);
    }
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let dir = fixtures();
    let dir = dir.to_str().expect("text");
    check_usage(&["--fixed", dir], &["--fixed", dir]);
    check_usage(&["--body", "Hi", dir], &["--body", "'Hi'", "--fixed"]);
    check_usage(&["--size", "3k", dir], &["--size", "'3k'", "--fixed"]);
    check_usage(&["--status", "404", dir], &["--status", "'404'", "--fixed"]);
    check_usage(&["--type", "a/b", dir], &["--type", "'a/b'", "--fixed"]);
    check_usage(&["--fixed", "--index", "a.html"], &["--index", "'a.html'", "--fixed"]);
    check_usage(&["--fixed", "--body", "Hi", "--size", "3"], &["--body", "--size"]);
    // RFC 9110 §15.3.5, §15.4.5: these never have content.
    check_usage(&["--fixed", "--status", "204", "--body", "Hi"], &["--status", "'204'"]);
    check_usage(&["--fixed", "--status", "304", "--size", "1"], &["--status", "'304'"]);
}

#[test]
fn what_is_no_option_is_refused() {
    check_usage(&["--nope"], &["--nope"]);
    check_usage(&["-x"], &["-x"]);
    check_usage(&["--listen"], &["--listen"]);
    check_usage(&["one", "two"], &["two"]);
    check_usage(&["--backlog", "1", "--backlog", "2"], &["--backlog"]);
}

#[test]
fn a_refusal_is_one_line_even_if_the_value_is_not() {
    let line_breaks = [
        "--listen=a\nb:80",
        "--index=a\n/b",
        "--backlog=1\n",
        "--header=a\nb",
        "a\nb",
        "--no\npe",
        "--index=a\r/b",
    ];
    for arg in line_breaks {
        let status = if arg.starts_with('-') { USAGE } else { REFUSED };
        check_refusal(command().arg(arg), status, &[]);
    }
    for arg in ["--status=2\n0", "--size=1\n", "--body=a\nb\\x", "--body=@a\nb", "--type=a\nb"] {
        let status = if arg.contains('@') { REFUSED } else { USAGE };
        check_refusal(command().args(["--fixed", arg]), status, &[]);
    }
}

#[test]
fn a_value_that_is_no_text_is_refused_by_its_option() {
    for (option, rest) in
        [("--listen=", ":80"), ("--header=", ": a"), ("--index=", ".html"), ("--backlog=", "")]
    {
        let arg = [option.as_bytes(), b"\xff", rest.as_bytes()].concat();
        check_refusal(command().arg(OsStr::from_bytes(&arg)), USAGE, &[option.trim_end_matches('=')]);
    }
}

#[test]
fn a_directory_that_cannot_be_served_is_refused() {
    let dir = temporary();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("it is ours");
    for (path, cause) in [(&missing, "no such file or directory"), (&file, "not a directory")] {
        let parts = ["DIR", path.to_str().expect("text"), cause];
        check_refusal(command().args(["--listen", "127.0.0.1:0"]).arg(path), REFUSED, &parts);
    }
    check_usage(&["--listen", "127.0.0.1:0", ""], &["DIR"]);
}

#[test]
fn an_unreadable_directory_is_refused() {
    let Some(mut command) = unprivileged() else {
        return skip("an_unreadable_directory_is_refused", NO_OTHER_USER);
    };
    let dir = temporary();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).expect("it is ours");
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).expect("it is ours");
    let parts = ["DIR", closed.to_str().expect("text"), "permission denied"];
    check_refusal(command.args(["--listen", "127.0.0.1:0"]).arg(&closed), REFUSED, &parts);
}

#[test]
fn a_body_file_that_cannot_be_read_is_refused() {
    let dir = temporary();
    let missing = format!("@{}", dir.path().join("missing").display());
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--body", &missing];
    check_refusal(command().args(args), REFUSED, &["--body", &missing, "no such file or directory"]);
    let directory = format!("@{}", dir.path().display());
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--body", &directory];
    check_refusal(command().args(args), REFUSED, &["--body", &directory, "is a directory"]);
}

#[test]
fn a_size_that_cannot_be_had_is_refused() {
    let args = ["--fixed", "--listen", "127.0.0.1:0", "--size", "8000000000g"];
    check_refusal(command().args(args), REFUSED, &["--size", "8000000000g"]);
}

#[test]
fn a_port_in_use_is_refused() {
    let server = Server::fixed(&[]);
    let address = server.address.to_string();
    let parts = ["--listen", &address, "address already in use"];
    check_refusal(command().args(["--fixed", "--listen", &address]), REFUSED, &parts);
}

#[test]
fn an_address_of_another_machine_is_refused() {
    // RFC 5737: for documentation, so nobody's.
    let parts = ["--listen", "203.0.113.1:0", "cannot assign requested address"];
    check_refusal(command().args(["--fixed", "--listen", "203.0.113.1:0"]), REFUSED, &parts);
}

#[test]
fn a_privileged_port_is_refused() {
    let lowest = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let lowest = lowest.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    let address = "127.0.0.1:1";
    match unprivileged() {
        _ if lowest <= 1 => skip("a_privileged_port_is_refused", "no port is privileged here"),
        None => skip("a_privileged_port_is_refused", NO_OTHER_USER),
        Some(mut command) => {
            let parts = ["--listen", address, "permission denied", "--listen 127.0.0.1:8080"];
            check_refusal(command.args(["--fixed", "--listen", address]), REFUSED, &parts);
        }
    }
}

#[test]
fn help_fits_80_columns_and_names_every_option_with_its_variable() {
    for arg in ["--help", "-h"] {
        let Output { status, stdout, stderr } = run(command().arg(arg).env("COLUMNS", "200"));
        let help = String::from_utf8(stdout).expect("text");
        assert_eq!((status.code(), &*String::from_utf8_lossy(&stderr)), (Some(0), ""));
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        let names = [
            "fixed",
            "listen",
            "unix-mode",
            "user",
            "sandbox",
            "pid-file",
            "log",
            "log-format",
            "real-ip",
            "index",
            "header",
            "header-for",
            "cache-control",
            "expires",
            "cors",
            "mime",
            "default-type",
            "error-page",
            "spa",
            "list",
            "precompressed",
            "backlog",
            "body",
            "size",
            "status",
            "type",
        ];
        let measuring =
            ["duration", "max-requests", "report", "report-file", "quiet", "meter", "ready-file", "ready-fd"];
        let limits = [
            "max-connections",
            "max-requests-per-connection",
            "keep-alive",
            "header-timeout",
            "body-timeout",
            "write-timeout",
            "grace",
            "cache-entries",
            "cache-idle",
            "cache-check",
            "frozen",
        ];
        for name in names.into_iter().chain(measuring).chain(limits) {
            assert!(help.contains(&format!("--{name}")), "--{name} is not in {help}");
            let variable = format!("TARED_{}", name.to_uppercase().replace('-', "_"));
            // The summary has no room for them.
            assert_eq!(help.contains(&variable), arg == "--help", "{variable} in {help}");
        }
        for part in ["DIR", "--help", "--version", "127.0.0.1:8080", "index.html", "4096", "200", "text/html"]
        {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }
}

#[test]
fn help_begins_with_what_tared_is_and_shows_the_options_in_groups() {
    for arg in ["--help", "-h"] {
        let help = String::from_utf8(run(command().arg(arg)).stdout).expect("text");
        assert!(help.starts_with("A minimal raw-socket static file server"), "{help}");
        let groups =
            ["Arguments", "Serving", "Responses", "Listening", "Limits", "Measuring", "With --fixed"];
        let groups = groups.into_iter().chain(["Process", "Other", "Examples"]);
        let places: Vec<_> = groups.map(|group| help.find(&format!("\n{group}:\n"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {help}");
        assert!(!help.contains("\nOptions:\n"), "an option has no group: {help}");
    }
}

#[test]
fn version_is_one_line() {
    for arg in ["--version", "-V"] {
        let Output { status, stdout, stderr } = run(command().arg(arg));
        assert_eq!((status.code(), stderr.len()), (Some(0), 0));
        assert_eq!(String::from_utf8_lossy(&stdout), format!("tared {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn every_option_reads_a_variable_and_the_command_line_wins() {
    /// Starts a server with `variables` and `args`, and looks for `parts` in the head of its answer.
    #[track_caller]
    fn check(variables: &[(&str, &str)], args: &[&str], parts: &[&str]) {
        let args = args.iter().map(OsStr::new).chain([OsStr::new("--listen=127.0.0.1:0")]);
        let server = Server::spawn(command().envs(variables.iter().copied()).args(args));
        let response = server.connect().request("HEAD", "/", "").expect("an answer");
        for part in parts {
            assert!(response.head.contains(part), "{part:?} is not in {}", response.head);
        }
    }
    const FIXED: (&str, &str) = ("TARED_FIXED", "1");
    check(&[FIXED], &[], &["Content-Length: 0\r\n"]);
    check(&[FIXED, ("TARED_BODY", "Hello")], &[], &["Content-Length: 5\r\n"]);
    check(&[FIXED, ("TARED_BODY", "Hello")], &["--body", "Hi"], &["Content-Length: 2\r\n"]);
    check(&[FIXED, ("TARED_SIZE", "3k")], &[], &["Content-Length: 3072\r\n"]);
    check(&[FIXED, ("TARED_SIZE", "3k")], &["--size", "4"], &["Content-Length: 4\r\n"]);
    check(&[FIXED, ("TARED_STATUS", "404")], &[], &["HTTP/1.1 404 "]);
    check(&[FIXED, ("TARED_STATUS", "404")], &["--status", "503"], &["HTTP/1.1 503 "]);
    check(&[FIXED, ("TARED_TYPE", "a/b")], &[], &["Content-Type: a/b\r\n"]);
    check(&[FIXED, ("TARED_TYPE", "a/b")], &["--type", "c/d"], &["Content-Type: c/d\r\n"]);
    check(&[FIXED, ("TARED_HEADER", "X: env")], &[], &["X: env\r\n"]);
    check(&[FIXED, ("TARED_HEADER", "X: env")], &["--header", "X: arg"], &["X: arg\r\n"]);
    check(&[FIXED, ("TARED_BACKLOG", "16")], &[], &["200 "]);
    check(&[("TARED_BACKLOG", "x")], &["--fixed", "--backlog", "16"], &["200 "]);
    check(&[("TARED_LISTEN", "x")], &["--fixed"], &["200 "]);
    let dir = fixtures();
    let dir = dir.to_str().expect("text");
    check(&[("TARED_INDEX", "hello.txt")], &[dir], &["Content-Length: 12\r\n"]);
    check(&[("TARED_INDEX", "hello.txt")], &["--index", "0k.txt", dir], &["Content-Length: 0\r\n"]);
}

#[test]
fn the_listen_variable_is_where_it_listens() {
    let server = Server::spawn(command().args(["--fixed"]).env("TARED_LISTEN", "127.0.0.1:0"));
    assert_ne!(server.address.port(), 8080);
    server.connect().assert_open();
}

#[test]
fn a_bad_variable_is_refused_by_its_option() {
    for (variable, value, option) in [
        ("TARED_LISTEN", "nowhere", "--listen"),
        ("TARED_HEADER", "no colon", "--header"),
        ("TARED_BACKLOG", "many", "--backlog"),
        ("TARED_STATUS", "ok", "--status"),
        ("TARED_SIZE", "big", "--size"),
        ("TARED_BODY", r"\x", "--body"),
        ("TARED_DURATION", "10", "--duration"),
        ("TARED_MAX_REQUESTS", "0", "--max-requests"),
        ("TARED_REPORT", "xml", "--report"),
        ("TARED_READY_FD", "x", "--ready-fd"),
    ] {
        let mut command = command();
        check_refusal(command.arg("--fixed").env(variable, value), USAGE, &[option, value]);
    }
}

#[test]
fn the_ready_line_says_what_is_served_and_where() {
    let dir = fixtures();
    let version = env!("CARGO_PKG_VERSION");
    let server = Server::directory(&dir);
    let port = server.address.port();
    let line = format!("tared {version} serving {} on http://127.0.0.1:{port}/\n", dir.display());
    assert_eq!(server.ready_line, line);
    assert_ne!(port, 0);

    for (args, what) in [
        (&["--body", r"Hello World\n"][..], "answering 200, 12 bytes,"),
        (&["--status", "404", "--size", "3k"], "answering 404, 3072 bytes,"),
        (&[], "answering 200, 0 bytes,"),
    ] {
        let server = Server::fixed(args);
        let port = server.address.port();
        assert_eq!(server.ready_line, format!("tared {version} {what} on http://127.0.0.1:{port}/\n"));
    }
}

#[test]
fn the_ready_line_is_one_line_whatever_the_directory_is_called() {
    let dir = temporary();
    for name in [OsStr::new("with space"), OsStr::new("two\nlines"), OsStr::from_bytes(b"caf\xe9")] {
        let root = dir.path().join(name);
        fs::create_dir(&root).expect("it is ours");
        fs::write(root.join("index.html"), "index").expect("it is ours");
        let mut server = Server::directory(&root);
        server.assert_alive();
        server.signal("TERM");
        assert_eq!(server.printed(), "", "{name:?}: {:?}", server.ready_line);
    }
}

#[test]
fn nothing_is_printed_after_the_ready_line() {
    let mut server = Server::fixtures();
    let mut client = server.connect();
    for target in ["/", "/nope", "/docs", "*"] {
        client.get(target).expect("an answer");
    }
    server.signal("TERM");
    assert_eq!(server.printed(), "");
    assert!(server.wait().success());
}

#[test]
fn the_default_is_the_current_directory() {
    let server = Server::spawn(command().args(["--listen", "127.0.0.1:0"]).current_dir(fixtures()));
    assert_eq!(server.connect().get("/hello.txt").expect("an answer").text(), "Hello World\n");
}

#[test]
fn a_directory_may_be_named_relatively_and_through_a_link() {
    let dir = temporary();
    std::os::unix::fs::symlink(fixtures(), dir.path().join("link")).expect("a link");
    for name in ["link", "./link/", "link/docs/.."] {
        let server = Server::spawn(command().args(["--listen", "127.0.0.1:0", name]).current_dir(&dir));
        assert_eq!(server.connect().get("/hello.txt").expect("an answer").text(), "Hello World\n", "{name}");
    }
}

#[test]
fn a_port_alone_is_every_address_of_both_kinds() {
    let server = Server::start(["--fixed", "--listen", ":0"]);
    let port = server.address.port();
    assert_ne!(port, 0);
    Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).assert_open();
    if has_v6("a_port_alone_is_every_address_of_both_kinds, IPv6") {
        Client::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).assert_open();
    }
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    if has_v6("an_ipv6_address_stands_in_brackets") {
        let server = Server::start(["--fixed", "--listen", "[::1]:0"]);
        assert!(server.ready_line.contains(" on http://[::1]:"), "{}", server.ready_line);
        server.connect().assert_open();
    }
}

#[test]
fn a_host_may_be_a_name() {
    let server = Server::start(["--fixed", "--listen", "localhost:0"]);
    assert!(server.address.ip().is_loopback());
    server.connect().assert_open();
}

#[test]
fn a_backlog_that_the_kernel_caps_is_said_so() {
    let Ok(cap) = fs::read_to_string("/proc/sys/net/core/somaxconn") else {
        return skip("a_backlog_that_the_kernel_caps_is_said_so", "there is no net.core.somaxconn");
    };
    let cap: u32 = cap.trim().parse().expect("a number");
    for (backlog, is_said) in [(cap, false), (cap + 1, true)] {
        let dir = temporary();
        let stderr = fs::File::create(dir.path().join("stderr")).expect("it is ours");
        let backlog = backlog.to_string();
        let args = ["--fixed", "--listen", "127.0.0.1:0", "--backlog", &backlog];
        let server = Server::spawn(command().args(args).stderr(stderr));
        server.connect().assert_open();
        let said = fs::read_to_string(dir.path().join("stderr")).expect("it is ours");
        let said = unwarned(&said);
        let says = |part: &str| said.contains(part);
        assert_eq!(says("--backlog") && says(&backlog) && says(&cap.to_string()), is_said, "{said:?}");
        assert_eq!(said.is_empty(), !is_said, "{said:?}");
    }
}

fn has_v6(test: &str) -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        skip(test, "IPv6 is off here");
    }
    has
}
