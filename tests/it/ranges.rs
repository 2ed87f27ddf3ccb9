//! Ranges (RFC 9110 §14) as a client meets them: the bytes, the fields, the bounds.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::client::Response;
use crate::server::Server;

/// Bytes that tell where they stand.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Lengths on all roads: inlined in the template, from our memory, from a mapping; and no byte at all.
const LENGTHS: [usize; 4] = [0, 500, 40_000, 300_000];

fn served() -> (tempfile::TempDir, Server) {
    let tree = tempfile::tempdir().unwrap();
    for len in LENGTHS {
        fs::write(tree.path().join(format!("{len}.bin")), pattern(len)).unwrap();
    }
    let server = Server::directory(tree.path());
    (tree, server)
}

fn get(server: &Server, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    let response = client.request("GET", target, fields).unwrap();
    assert_eq!(client.request("HEAD", "/0.bin", "").unwrap().status(), 200, "the connection is in step");
    response
}

#[test]
fn one_range() {
    let (_tree, server) = served();
    for len in LENGTHS {
        let target = format!("/{len}.bin");
        let whole = pattern(len);
        for (range, start, end) in [
            ("0-4", 0, 5),
            ("0-0", 0, 1),
            ("100-", 100, len),
            ("-100", len.saturating_sub(100), len),
            (&*format!("{}-{}", len / 2, len / 2 + 99), len / 2, len / 2 + 100),
            (&*format!("{}-", len.max(1) - 1), len.max(1) - 1, len),
            ("0-", 0, len),
            ("0-99999999999999999999", 0, len),
            ("-99999999999999999999", 0, len),
        ] {
            let response = get(&server, &target, &format!("Range: bytes={range}\r\n"));
            match len {
                // No Content-Range can say a part of nothing.
                0 if range.starts_with('-') => assert_eq!((response.status(), response.body.len()), (200, 0)),
                0 => {
                    assert_eq!(response.status(), 416, "{range}");
                    assert_eq!(response.field("Content-Range"), Some("bytes */0"));
                }
                _ => {
                    assert_eq!(response.status(), 206, "{range} of {len}");
                    assert_eq!(
                        response.field("Content-Range"),
                        Some(&*format!("bytes {start}-{}/{len}", end - 1))
                    );
                    assert!(response.body == whole[start..end], "{range} of {len}");
                    assert!(response.field("ETag").is_some() && response.field("Last-Modified").is_some());
                }
            }
        }
        let response = get(&server, &target, &format!("Range: bytes={len}-\r\n"));
        assert_eq!(response.status(), 416);
        assert_eq!(response.field("Content-Range"), Some(&*format!("bytes */{len}")));
    }
}

#[test]
fn several_ranges() {
    let (_tree, server) = served();
    for len in [500usize, 40_000, 300_000] {
        let whole = pattern(len);
        let target = format!("/{len}.bin");
        let response = get(&server, &target, "Range: bytes=300-349, 0-9, -20, 10-19\r\n");
        assert_eq!(response.status(), 206);
        assert_eq!(response.field("Content-Range"), None, "§14.4: not in the head of a multipart response");
        let content_type = response.field("Content-Type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        // 0-9 and 10-19 adjoin and are one.
        let mut expected = Vec::new();
        for (start, end) in [(300, 350), (0, 20), (len - 20, len)] {
            let lead = if expected.is_empty() { "" } else { "\r\n" };
            expected.extend_from_slice(
                format!(
                    "{lead}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                     Content-Range: bytes {start}-{}/{len}\r\n\r\n",
                    end - 1
                )
                .as_bytes(),
            );
            expected.extend_from_slice(&whole[start..end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(response.body == expected, "of {len}");
    }
}

#[test]
fn what_is_of_no_account_brings_the_whole() {
    let (_tree, server) = served();
    let many: Vec<String> = (0..17).map(|at| format!("{}-{}", 2 * at, 2 * at)).collect();
    for range in [
        "bytes=5-4",
        "bytes=a-b",
        "lines=0-4",
        "bytes=0-,0-",
        "bytes=+0-4",
        &format!("bytes={}", many.join(",")),
    ] {
        let response = get(&server, "/500.bin", &format!("Range: {range}\r\n"));
        assert_eq!((response.status(), response.body.len()), (200, 500), "{range}");
        assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
    }
    // §14.2: defined for GET only.
    let response = server.connect().request("HEAD", "/500.bin", "Range: bytes=0-4\r\n").unwrap();
    assert_eq!((response.status(), response.field("Content-Length")), (200, Some("500")));
    // §13.1.5: a validator that is not the current strong one.
    for validator in ["\"a\"", "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT", "nonsense"] {
        let fields = format!("Range: bytes=0-4\r\nIf-Range: {validator}\r\n");
        assert_eq!(get(&server, "/500.bin", &fields).status(), 200, "{validator}");
    }
    assert_eq!(get(&server, "/none", "Range: bytes=0-4\r\n").status(), 404);
}

#[test]
fn offsets_beyond_4_gib() {
    const LEN: u64 = (5 << 30) + 123;
    let tree = tempfile::tempdir().unwrap();
    let file = File::create(tree.path().join("sparse")).unwrap();
    if let Err(error) = file.set_len(LEN) {
        eprintln!("skipped: no sparse file of 5 GiB here: {error}");
        return;
    }
    let mark = b"beyond 4 GiB";
    let mark_at: u64 = (4 << 30) + 7;
    file.write_all_at(mark, mark_at).unwrap();
    file.write_all_at(b"end", LEN - 3).unwrap();
    let server = Server::directory(tree.path());
    let mut client = server.connect();
    let head = client.request("HEAD", "/sparse", "").unwrap();
    assert_eq!(head.field("Content-Length"), Some(&*LEN.to_string()));
    let last = mark_at + mark.len() as u64 - 1;
    let part = client.request("GET", "/sparse", &format!("Range: bytes={mark_at}-{last}\r\n")).unwrap();
    assert_eq!((part.status(), &*part.body), (206, &mark[..]));
    assert_eq!(part.field("Content-Range"), Some(&*format!("bytes {mark_at}-{last}/{LEN}")));
    let end = client.request("GET", "/sparse", "Range: bytes=-3\r\n").unwrap();
    assert_eq!(end.text(), "end");
    let both = client.request("GET", "/sparse", &format!("Range: bytes={mark_at}-{last},-3\r\n")).unwrap();
    assert!(
        both.text().contains("beyond 4 GiB") && both.text().contains("\r\n\r\nend\r\n--"),
        "{}",
        both.text()
    );
    let past = client.request("GET", "/sparse", &format!("Range: bytes={LEN}-\r\n")).unwrap();
    assert_eq!(past.status(), 416);
}
