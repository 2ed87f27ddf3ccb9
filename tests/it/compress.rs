//! `--compress`: siblings are written beforehand.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use crate::command_line::{REFUSED, USAGE, check_refusal};
use crate::privilege::{NO_OTHER_USER, unprivileged};
use crate::server::{PATIENCE, QUIET, Server, command, run, skip, temporary};

fn text(len: usize) -> Vec<u8> {
    b"It was the best of times, it was the worst of times.\n".iter().copied().cycle().take(len).collect()
}

/// Bytes that no coding makes fewer.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn compress(dir: &Path) -> String {
    let output = run(command().env_remove("TARED_QUIET").arg("--compress").arg(dir));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
    String::from_utf8(output.stdout).unwrap()
}

/// Every file beneath `dir`, and what tells its states apart.
fn states(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut states = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            states.extend(self::states(&path));
        } else {
            states.insert(path, (metadata.ino(), metadata.ctime(), metadata.ctime_nsec()));
        }
    }
    states
}

fn decoded(path: &Path) -> Vec<u8> {
    let coded = fs::read(path).unwrap();
    let mut plain = Vec::new();
    match path.extension().unwrap().to_str().unwrap() {
        "gz" => flate2::read::GzDecoder::new(&*coded).read_to_end(&mut plain).map(drop).unwrap(),
        "br" => brotli::Decompressor::new(&*coded, 4096).read_to_end(&mut plain).map(drop).unwrap(),
        "zst" => plain = zstd::stream::decode_all(&*coded).unwrap(),
        other => panic!("{other}"),
    }
    plain
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

const SUFFIXES: [&str; 3] = [".zst", ".br", ".gz"];

#[test]
fn siblings_are_what_their_files_are_and_no_larger() {
    let tree = temporary();
    let at = |name: &str| tree.path().join(name);
    fs::create_dir_all(at("sub/.hidden")).unwrap();
    fs::create_dir_all(at(".well-known")).unwrap();
    for (name, bytes) in [
        ("a.html", text(5000)),
        ("sub/b.js", text(300_000)),
        // The one hidden name that is served.
        (".well-known/e.txt", text(5000)),
        ("noise.txt", noise(3000)),
        ("empty.txt", vec![]),
        ("photo.jpg", text(5000)),
        ("sub/.hidden/c.html", text(5000)),
        (".d.html", text(5000)),
    ] {
        fs::write(at(name), bytes).unwrap();
    }
    fs::set_permissions(at("a.html"), PermissionsExt::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::options().write(true).open(at("a.html")).unwrap().set_modified(time).unwrap();
    symlink("a.html", at("link.html")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo.html"), rustix::fs::Mode::from_raw_mode(0o644)).unwrap();

    let summary = compress(tree.path());
    assert!(summary.starts_with("5 files of a type that can be compressed\n"), "{summary}");
    for coding in ["zstd", "br", "gzip"] {
        let line = summary.lines().find(|line| line.starts_with(coding)).expect("a line for each");
        assert!(
            line.contains(" 3 written (") && line.ends_with(", 0 up to date, 2 would not be smaller"),
            "{line}"
        );
    }
    for suffix in SUFFIXES {
        for name in ["a.html", "sub/b.js", ".well-known/e.txt"] {
            let path = sibling(&at(name), suffix);
            assert_eq!(decoded(&path), fs::read(at(name)).unwrap(), "{}", path.display());
            assert!(fs::metadata(&path).unwrap().len() < fs::metadata(at(name)).unwrap().len());
        }
        let metadata = fs::metadata(sibling(&at("a.html"), suffix)).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.modified().unwrap()), (0o640, time));
    }
    let files = states(tree.path());
    assert_eq!(files.len(), 8 + 2 + 3 * 3, "and nothing else was written: {files:?}");
    // What it made is not compressed again, and what is up to date stays as it is.
    let summary = compress(tree.path());
    assert!(summary.contains("gzip  0 written, 3 up to date, 2 would not be smaller"), "{summary}");
    assert_eq!(states(tree.path()), files);

    // What it wrote is what is served.
    let server = Server::start(["--listen", "127.0.0.1:0", "--precompressed", tree.path().to_str().unwrap()]);
    let response = server.connect().request("GET", "/sub/b.js", "Accept-Encoding: br\r\n").unwrap();
    assert_eq!(response.field("Content-Encoding"), Some("br"));
    assert!(response.body == fs::read(at("sub/b.js.br")).unwrap());
}

#[test]
fn what_is_outdated_is_made_anew_or_goes() {
    let tree = temporary();
    let at = |name: &str| tree.path().join(name);
    fs::write(at("a.txt"), text(4000)).unwrap();
    fs::write(at("b.txt"), text(4000)).unwrap();
    compress(tree.path());
    let later = SystemTime::now() + Duration::from_secs(5);
    for (name, bytes) in [("a.txt", text(9000)), ("b.txt", noise(4000))] {
        fs::write(at(name), bytes).unwrap();
        File::options().write(true).open(at(name)).unwrap().set_modified(later).unwrap();
    }
    compress(tree.path());
    for suffix in SUFFIXES {
        assert_eq!(decoded(&sibling(&at("a.txt"), suffix)), text(9000));
        assert!(!sibling(&at("b.txt"), suffix).exists(), "it would say something else than its file");
    }
}

/// Whoever reads meanwhile sees the sibling that was, or the one that is, and each of them whole.
#[test]
fn a_sibling_is_never_seen_in_part() {
    let tree = temporary();
    let path = tree.path().join("a.txt");
    let mut child = None;
    for round in 0..3u64 {
        let len = 200_000 + round as usize * 1000;
        fs::write(&path, text(len)).unwrap();
        let later = SystemTime::now() + Duration::from_secs(round * 5);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        let mut running = command().arg("--compress").arg(tree.path()).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while running.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it does not end");
            for suffix in SUFFIXES {
                let sibling = sibling(&path, suffix);
                if sibling.exists() {
                    let seen = decoded(&sibling).len();
                    assert!(seen == len || (round > 0 && seen == len - 1000), "{seen}");
                }
            }
        }
        child = Some(running.wait().unwrap());
    }
    assert!(child.is_some_and(|status| status.success()));
}

#[test]
fn what_goes_wrong_is_said_and_the_rest_is_done() {
    let tree = temporary();
    fs::create_dir(tree.path().join("closed")).unwrap();
    for name in ["closed/a.txt", "b.txt"] {
        fs::write(tree.path().join(name), text(4000)).unwrap();
    }
    fs::set_permissions(tree.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let Some(mut command) = unprivileged() else {
        return skip("what_goes_wrong_is_said_and_the_rest_is_done", NO_OTHER_USER);
    };
    let output = run(command.env_remove(QUIET).arg("--compress").arg(tree.path()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.starts_with("2 files"), "{summary}");
    for line in summary.lines().skip(1) {
        assert!(line.contains(" 1 written (") && line.ends_with(", 1 failed"), "{line}");
    }
    let closed = said.lines().filter(|line| line.contains("closed/a.txt': permission denied")).count();
    assert_eq!((closed, said.lines().count()), (3, 4), "{said}");
    assert!(SUFFIXES.iter().all(|suffix| sibling(&tree.path().join("b.txt"), suffix).exists()));
}

/// Whoever made a link, or anything that is no file, where a sibling would be meant something by it.
#[test]
fn what_is_no_file_is_not_replaced() {
    let (tree, outside) = (temporary(), temporary());
    let at = |name: &str| tree.path().join(name);
    fs::write(at("a.txt"), text(4000)).unwrap();
    fs::write(outside.path().join("elsewhere"), "elsewhere").unwrap();
    symlink(outside.path().join("elsewhere"), at("a.txt.gz")).unwrap();
    fs::create_dir(at("a.txt.br")).unwrap();
    let output = run(command().arg("--compress").arg(tree.path()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    for suffix in [".gz", ".br"] {
        assert!(said.contains(&format!("a.txt{suffix}' is something else than a file")), "{said}");
    }
    assert!(fs::symlink_metadata(at("a.txt.gz")).unwrap().is_symlink());
    assert_eq!(fs::read(outside.path().join("elsewhere")).unwrap(), b"elsewhere");
    assert!(fs::metadata(at("a.txt.br")).unwrap().is_dir());
    assert_eq!(decoded(&at("a.txt.zst")), text(4000), "the rest is done");
}

#[test]
fn a_directory_that_cannot_be_read_is_said_and_the_rest_is_done() {
    const NAME: &str = "a_directory_that_cannot_be_read_is_said_and_the_rest_is_done";
    let tree = temporary();
    let closed = tree.path().join("closed");
    fs::create_dir(&closed).unwrap();
    for path in [closed.join("a.txt"), tree.path().join("b.txt")] {
        fs::write(path, text(4000)).unwrap();
    }
    fs::set_permissions(tree.path(), PermissionsExt::from_mode(0o777)).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    let Some(mut command) = unprivileged() else {
        return skip(NAME, NO_OTHER_USER);
    };
    let output = run(command.arg("--compress").arg(tree.path()));
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let sentence = format!("tared: cannot look at '{}': permission denied", closed.display());
    assert_eq!((output.status.code(), said.lines().next()), (Some(REFUSED), Some(&*sentence)), "{said}");
    assert!(SUFFIXES.iter().all(|suffix| sibling(&tree.path().join("b.txt"), suffix).exists()));
    assert_eq!(states(&closed).len(), 1);
}

/// Root's siblings are not for root alone.
#[test]
fn a_sibling_has_the_owner_of_its_file() {
    let tree = temporary();
    let path = tree.path().join("a.txt");
    fs::write(&path, text(4000)).unwrap();
    if let Err(error) = std::os::unix::fs::chown(&path, Some(65534), Some(65534)) {
        return skip("a_sibling_has_the_owner_of_its_file", &format!("cannot give a file away: {error}"));
    }
    compress(tree.path());
    for suffix in SUFFIXES {
        let metadata = fs::metadata(sibling(&path, suffix)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65534));
    }
}

/// How long a decoder must look back: RFC 8878 §3.1.1.1.2, for at most 8 MiB (RFC 9659) and no more than the
/// file has.
#[test]
fn zstd_says_its_length_and_needs_no_large_window() {
    let tree = temporary();
    let path = tree.path().join("a.txt");
    for len in [4000, 200_000, 9 << 20] {
        fs::write(&path, text(len)).unwrap();
        let status = run(command().arg("--compress").arg(tree.path())).status;
        assert!(status.success());
        let coded = fs::read(sibling(&path, ".zst")).unwrap();
        assert_eq!(zstd::decompressed_size(&coded), Some(len as u64));
        let mut decoder = zstd::Decoder::new(&*coded).unwrap();
        decoder.window_log_max(23).unwrap();
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).unwrap();
        assert!(plain == text(len));
        SUFFIXES.iter().for_each(|suffix| fs::remove_file(sibling(&path, suffix)).unwrap());
    }
}

/// Runs it on a tree of `a.txt`, which `change` happens to while it is read, and `b.txt`; what it said.
fn changed_meanwhile(tree: &Path, change: impl Fn(&Path)) -> String {
    let path = tree.join("a.txt");
    fs::write(tree.join("b.txt"), text(4000)).unwrap();
    // Slow to compress, and so still being read.
    let mut lines = String::new();
    (0..20_000u32).for_each(|n| lines.push_str(&format!("{}\n", n.wrapping_mul(2_654_435_761))));
    fs::write(&path, lines).unwrap();
    let mut command = command();
    let command = command.arg("--compress").arg(tree).stderr(Stdio::piped()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let signal = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal);
    let end = Instant::now() + PATIENCE;
    while !states(tree).keys().any(|path| is_unfinished(path)) {
        assert!(Instant::now() < end, "it has not begun");
    }
    signal(rustix::process::Signal::STOP).unwrap();
    change(&path);
    signal(rustix::process::Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    assert!(!states(tree).keys().any(|path| is_unfinished(path)), "{said}");
    let b = tree.join("b.txt");
    assert!(SUFFIXES.iter().all(|suffix| decoded(&sibling(&b, suffix)) == text(4000)), "{said}");
    said
}

#[test]
fn a_file_that_changes_meanwhile_is_left_out_and_said() {
    let append = |path: &Path| {
        File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
    };
    let truncate = |path: &Path| File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
    // With the time that the file had.
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::write(&other, text(5000)).unwrap();
        let time = fs::metadata(path).unwrap().modified().unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(&other, path).unwrap();
    };
    for change in [&append as &dyn Fn(&Path), &truncate, &replace] {
        let tree = temporary();
        let path = tree.path().join("a.txt");
        let said = changed_meanwhile(tree.path(), change);
        assert!(said.contains("a.txt' changed while it was compressed (run it again)"), "{said}");
        for suffix in SUFFIXES.iter().filter(|suffix| sibling(&path, suffix).exists()) {
            assert!(decoded(&sibling(&path, suffix)) == fs::read(&path).unwrap(), "{suffix}");
        }
    }
}

#[test]
fn a_file_that_vanishes_meanwhile_has_no_siblings() {
    let tree = temporary();
    let said = changed_meanwhile(tree.path(), |path| fs::remove_file(path).unwrap());
    assert_eq!(said.matches("a.txt': no such file or directory").count(), 3, "{said}");
    assert_eq!(states(tree.path()).len(), 4, "b.txt and its siblings");
}

/// Whether a sibling of this name is being written.
fn is_unfinished(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with(".tared-")
}

/// A signal ends it soon, and nothing is left behind that has no name of its own.
#[test]
fn a_signal_leaves_nothing_unfinished() {
    let tree = temporary();
    for at in 0..40 {
        let mut file = File::create(tree.path().join(format!("{at}.txt"))).unwrap();
        (0..400).for_each(|n| {
            file.write_all(format!("{}\n", (at * 1000 + n) * 7919).repeat(500).as_bytes()).unwrap()
        });
    }
    for signal in ["INT", "TERM"] {
        let mut child = command().arg("--compress").arg(tree.path()).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while !states(tree.path()).keys().any(|path| is_unfinished(path)) {
            assert!(
                Instant::now() < end && child.try_wait().unwrap().is_none(),
                "it has not begun, or has ended"
            );
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            if signal == "INT" { rustix::process::Signal::INT } else { rustix::process::Signal::TERM },
        )
        .unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(REFUSED) && said.contains("stopped by a signal"), "{said}");
        assert!(!states(tree.path()).keys().any(|path| is_unfinished(path)));
    }
}

#[test]
fn what_cannot_be_compressed_is_refused() {
    let tree = temporary();
    let file = tree.path().join("file");
    fs::write(&file, "").unwrap();
    let dir = tree.path().to_str().unwrap();
    for args in
        [&["--list"][..], &["."], &["--fixed"], &["--listen", "127.0.0.1:0"], &["--max-connections", "3"]]
    {
        check_refusal(
            command().args(["--compress", dir]).args(args),
            USAGE,
            &["--compress", args[0].trim_start_matches('.')],
        );
    }
    check_refusal(command().args(["--compress", "/none"]), REFUSED, &["'/none'"]);
    check_refusal(command().arg("--compress").arg(&file), REFUSED, &["not a directory"]);
}
