//! The names in a directory → a page for people, or JSON for programs. Pure.
//!
//! A page comes in pieces, so that whoever writes a long one can pause between them: [`Page::begin`], a
//! [`Page::row`] for each name, [`Page::end`].

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use percent_encoding::percent_encode;
use serde::Serialize;

use crate::accept;
use crate::clock::imf_fixdate;
use crate::request::Fields;
use crate::target::SEGMENT_ENCODED;

/// How a listing is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// By what it is sorted, behind directories first.
    pub key: Key,
    /// Whether what is greatest comes first.
    pub is_descending: bool,
    /// In which form it comes.
    pub format: Format,
}

/// What a listing is sorted by. Where it is the same, and for directories by size, the name counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The name, whatever its case.
    Name,
    /// Bytes.
    Size,
    /// The time of the last modification.
    Time,
}

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A page.
    Html,
    /// An array of objects.
    Json,
}

impl Wish {
    /// What the query and the Accept field say. What neither knows is by name, ascending, HTML.
    pub fn of(query: Option<&str>, head: &[u8]) -> Self {
        let value = |name: &str| {
            let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(other, _)| *other == name).map(|(_, value)| value).next_back()
        };
        let accept = || Fields::of_head(head).values("accept");
        let prefers_json =
            || accept::of_type(accept(), "application", "json") > accept::of_type(accept(), "text", "html");
        Self {
            key: match value("sort") {
                Some("size") => Key::Size,
                Some("time") => Key::Time,
                _ => Key::Name,
            },
            is_descending: value("order") == Some("desc"),
            format: match value("format") {
                Some("json") => Format::Json,
                Some("html") => Format::Html,
                _ if prefers_json() => Format::Json,
                _ => Format::Html,
            },
        }
    }
}

impl Format {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// A name in a directory. Their order is that in which they are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What it is sorted by, if not by its name alone.
    rank: i64,
    folded: Box<str>,
    name: Box<[u8]>,
    is_directory: bool,
    size: u64,
    modified_s: i64,
}

impl Entry {
    /// The entry `name`, of `size` bytes and changed `modified_s` seconds after 1970, where a listing is
    /// sorted by `key`.
    pub fn new(name: &[u8], is_directory: bool, size: u64, modified_s: i64, key: Key) -> Self {
        let rank = match key {
            Key::Name => 0,
            Key::Size if is_directory => 0,
            Key::Size => i64::try_from(size).unwrap_or(i64::MAX),
            Key::Time => modified_s,
        };
        let folded = String::from_utf8_lossy(name).to_lowercase().into();
        Self { rank, folded, name: name.into(), is_directory, size, modified_s }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Its address, relative to that of its directory: nothing in it has a meaning in a URL.
    fn href(&self) -> String {
        format!("{}{}", percent_encode(&self.name, SEGMENT_ENCODED), if self.is_directory { "/" } else { "" })
    }

    /// RFC 3339, in UTC; nothing where that or an HTTP-date cannot say it.
    fn modified(&self) -> Option<String> {
        let time: SystemTime =
            UNIX_EPOCH.checked_add(Duration::from_secs(self.modified_s.try_into().ok()?))?;
        imf_fixdate(time)?;
        Some(humantime::format_rfc3339_seconds(time).to_string())
    }
}

/// The listing of one directory, being written, and what it holds so far.
#[derive(Debug)]
pub struct Page {
    wish: Wish,
    directories: u64,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Row<'r> {
    name: &'r str,
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    mtime: Option<&'r str>,
    href: &'r str,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--soft:#59636e;--line:#8883;--link:#0b57d0;--mark:#8881}\
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e6e6e3;--soft:#a0a6b0;--link:#8ab4f8}}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:56rem;margin:0 auto;padding:1rem;background:var(--paper);color:var(--ink)}\
h1{font-size:1.25rem;font-weight:600;margin:.5rem 0;overflow-wrap:anywhere}\
a{color:var(--link);text-decoration:none}\
a:hover{text-decoration:underline}\
a:focus-visible{outline:2px solid;outline-offset:-2px;border-radius:4px}\
nav a{display:inline-block;padding:.375rem .25rem;min-width:1rem}\
nav a:first-child{padding-left:.5rem;min-width:.75rem}\
a[aria-current]{color:inherit}\
bdi{white-space:pre-wrap}\
table{width:100%;border-collapse:collapse}\
th{padding:0;text-align:left;border-bottom:1px solid var(--line);font-size:.875rem;font-weight:400}\
th a{display:block;padding:.625rem .5rem;color:var(--soft)}\
th[aria-sort] a{color:inherit;font-weight:600}\
td{border-bottom:1px solid var(--line);padding:.5rem;color:var(--soft)}\
td:first-child{padding:0}\
td a{display:block;padding:.5rem .5rem .5rem 2.125rem;overflow-wrap:anywhere}\
td a::before{content:'';display:inline-block;width:.75rem;height:.9375rem;margin:0 .75rem 0 -1.5rem;vertical-align:-.125rem;\
background:var(--soft);opacity:.5;clip-path:polygon(0 0,60% 0,100% 32%,100% 100%,0 100%)}\
td a[href$='/']::before{width:1rem;height:.8125rem;margin:0 .625rem 0 -1.625rem;vertical-align:-.0625rem;\
background:var(--link);opacity:.8;clip-path:polygon(0 0,40% 0,52% 20%,100% 20%,100% 100%,0 100%)}\
td a[rel]::before{clip-path:polygon(50% 0,100% 55%,65% 55%,65% 100%,35% 100%,35% 55%,0 55%)}\
tr:hover td{background:var(--mark)}\
td+td,th+th{width:1%;padding-left:1rem;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
footer{color:var(--soft);margin:.75rem .5rem;font-size:.875rem}\
@media(max-width:36rem){body{padding:.25rem}td+td,th+th{padding-left:0;font-size:.875rem}td+td+td,th+th+th{width:5.5rem;white-space:normal}}";

impl Page {
    /// A listing as it is wished for.
    pub fn new(wish: Wish) -> Self {
        Self { wish, directories: 0, files: 0, bytes: 0 }
    }

    /// Writes what comes before the names in the directory `path`, which is decoded, and empty for the root.
    pub fn begin(&self, path: &[u8], out: &mut Vec<u8>) {
        if self.wish.format == Format::Json {
            out.push(b'[');
            return;
        }
        let title = text(path);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>/{title}</title>\n\
             <style>{STYLE}</style>\n<h1><nav aria-label=\"Path\">"
        );
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        crumb(&mut page, names.len(), "/");
        for (at, name) in names.iter().enumerate() {
            crumb(&mut page, names.len() - 1 - at, &format!("<bdi>{}</bdi>/", text(name)));
        }
        let _ = write!(page, "</nav></h1>\n<table aria-label=\"Names in /{title}\">\n<thead><tr>");
        self.put_column(&mut page, Key::Name, "name", "Name");
        self.put_column(&mut page, Key::Size, "size", "Size");
        self.put_column(&mut page, Key::Time, "time", "Modified (UTC)");
        page.push_str("</thead>\n<tbody>\n");
        if !names.is_empty() {
            page.push_str("<tr><td><a href=\"../\" rel=\"up\">../</a><td><td>\n");
        }
        out.extend_from_slice(page.as_bytes());
    }

    /// A column's head, which sorts by it, or turns the order where it is sorted already.
    fn put_column(&self, page: &mut String, key: Key, name: &str, label: &str) {
        let is_sorted = self.wish.key == key;
        let (order, state, arrow) = match (is_sorted, self.wish.is_descending) {
            (false, _) => ("asc", "", ""),
            (true, false) => {
                ("desc", " aria-sort=\"ascending\"", " <span aria-hidden=\"true\">\u{25b4}</span>")
            }
            (true, true) => {
                ("asc", " aria-sort=\"descending\"", " <span aria-hidden=\"true\">\u{25be}</span>")
            }
        };
        let _ = write!(
            page,
            "<th scope=\"col\"{state}><a href=\"?sort={name}&amp;order={order}\">{label}{arrow}</a>"
        );
    }

    /// Writes one name.
    pub fn row(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let is_first = self.directories + self.files == 0;
        match entry.is_directory {
            true => self.directories += 1,
            false => (self.files, self.bytes) = (self.files + 1, self.bytes.saturating_add(entry.size)),
        }
        let (href, modified) = (entry.href(), entry.modified());
        if self.wish.format == Format::Json {
            let row = Row {
                name: &String::from_utf8_lossy(&entry.name),
                kind: if entry.is_directory { "directory" } else { "file" },
                size: (!entry.is_directory).then_some(entry.size),
                mtime: modified.as_deref(),
                href: &href,
            };
            out.extend_from_slice(if is_first { b"\n" } else { b",\n" });
            // A row of texts and numbers always has a form, and a Vec takes it.
            let _ = serde_json::to_writer(out, &row);
            return;
        }
        let slash = if entry.is_directory { "/" } else { "" };
        let _ = write!(out, "<tr><td><a href=\"{href}\"><bdi>{}</bdi>{slash}</a><td>", text(&entry.name));
        if !entry.is_directory {
            let _ =
                write!(out, "<data value=\"{}\">{}</data>", entry.size, ByteSize(entry.size).display().iec());
        }
        out.extend_from_slice(b"<td>");
        if let Some(modified) = modified {
            let (day, time) = (&modified[..10], &modified[11..16]);
            let _ = write!(out, "<time datetime=\"{modified}\">{day} {time}</time>");
        }
        out.push(b'\n');
    }

    /// Writes what comes behind the names; `is_cut` says that not all of them are there.
    pub fn end(&self, is_cut: bool, out: &mut Vec<u8>) {
        if self.wish.format == Format::Json {
            out.extend_from_slice(b"\n]\n");
            return;
        }
        let count = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let _ = write!(
            out,
            "</tbody></table>\n<footer>{}, {}, {}{}</footer>\n</html>\n",
            count(self.directories, "directory", "directories"),
            count(self.files, "file", "files"),
            ByteSize(self.bytes).display().iec(),
            if is_cut { ". There are more names than are listed here." } else { "" },
        );
    }
}

/// A link so many directories up, or the last one, which leads nowhere else.
fn crumb(page: &mut String, up: usize, label: &str) {
    let _ = match up {
        0 => write!(page, "<a href=\"./\" aria-current=\"page\">{label}</a>"),
        up => write!(page, "<a href=\"{}\">{label}</a>", "../".repeat(up)),
    };
}

/// Bytes as text of HTML, be it between tags or in an attribute with double quotes: nothing in it is markup,
/// and control characters have their pictures.
fn text(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\0'..='\x1f' => escaped.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or(' ')),
            '\x7f' => escaped.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const JANUARY_1999: i64 = 915_148_800;

    fn wish(query: &str, accept: &str) -> Wish {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
        Wish::of((!query.is_empty()).then_some(query), head.as_bytes())
    }

    /// The listing of `entries` in the directory `path`, as it is wished for.
    fn listing(path: &[u8], entries: &[(&[u8], bool, u64, i64)], query: &str) -> String {
        let wish = wish(query, "");
        let mut sorted: Vec<Entry> = entries
            .iter()
            .map(|&(name, is_directory, size, modified_s)| {
                Entry::new(name, is_directory, size, modified_s, wish.key)
            })
            .collect();
        sorted.sort();
        let (mut page, mut out) = (Page::new(wish), Vec::new());
        page.begin(path, &mut out);
        sorted.iter().for_each(|entry| page.row(entry, &mut out));
        page.end(false, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_wished_for() {
        let (html, json) = (Format::Html, Format::Json);
        for (query, accept, key, is_descending, format) in [
            ("", "", Key::Name, false, html),
            ("sort=size&order=desc", "", Key::Size, true, html),
            ("order=asc&sort=time", "", Key::Time, false, html),
            ("sort=&order=&format=", "", Key::Name, false, html),
            ("sort=SIZE&order=up&format=xml&x", "", Key::Name, false, html),
            ("sort=size&sort=time", "", Key::Time, false, html),
            ("format=json", "Accept: text/html\r\n", Key::Name, false, json),
            ("format=html", "Accept: application/json\r\n", Key::Name, false, html),
            ("", "Accept: application/json\r\n", Key::Name, false, json),
            ("", "Accept: application/json, text/html;q=0.9\r\n", Key::Name, false, json),
            ("", "Accept: */*\r\n", Key::Name, false, html),
            ("", "Accept: text/html, application/json\r\n", Key::Name, false, html),
        ] {
            assert_eq!(wish(query, accept), Wish { key, is_descending, format }, "{query} {accept}");
        }
    }

    #[test]
    fn the_order_of_each_key_has_directories_first() {
        let entries: [(&[u8], bool, u64, i64); 5] = [
            (b"b", false, 1, 30),
            (b"C", false, 3, 20),
            (b"a", false, 3, 10),
            (b"z", true, 9, 40),
            (b"Y", true, 8, 50),
        ];
        for (query, expected) in [
            ("format=json", ["Y", "z", "a", "b", "C"]),
            ("format=json&sort=size", ["Y", "z", "b", "a", "C"]),
            ("format=json&sort=time", ["z", "Y", "a", "C", "b"]),
        ] {
            // Directories are kept apart by whoever sorts.
            let (directories, files): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.1);
            let names: Vec<String> = [directories, files]
                .iter()
                .flat_map(|part| {
                    let json = listing(b"", part, query);
                    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
                    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(names, expected, "{query}");
        }
    }

    /// Whatever a name holds, it is the text of one link and leads nowhere but to itself.
    #[test]
    fn a_name_stays_in_its_place() {
        for (name, href, shown) in [
            (&b"a b.txt"[..], "a%20b.txt", "a b.txt"),
            (b"<script>alert(1)", "%3Cscript%3Ealert%281%29", "&lt;script&gt;alert(1)"),
            (b"\"onmouseover=\"x", "%22onmouseover%3D%22x", "&quot;onmouseover=&quot;x"),
            (b"it's & co", "it%27s%20%26%20co", "it&#39;s &amp; co"),
            (b"javascript:x", "javascript%3Ax", "javascript:x"),
            (b"a?b#c%41", "a%3Fb%23c%2541", "a?b#c%41"),
            (b"\\\\host", "%5C%5Chost", "\\\\host"),
            (b"new\nline\x1b[2J\x7f", "new%0Aline%1B%5B2J%7F", "new\u{240a}line\u{241b}[2J\u{2421}"),
            (b"bad\xff\xc2\x85", "bad%FF%C2%85", "bad\u{fffd}\u{fffd}"),
            ("\u{202e}gnp.exe".as_bytes(), "%E2%80%AEgnp.exe", "\u{202e}gnp.exe"),
        ] {
            let page = listing(b"", &[(name, false, 0, 0)], "");
            let row = format!("<tr><td><a href=\"{href}\"><bdi>{shown}</bdi></a><td>");
            assert!(page.contains(&row), "{row} is not in {page}");
            assert_eq!(page.matches("<a ").count(), 1 + 3 + 1, "{page}");
            let json = listing(b"", &[(name, false, 0, 0)], "format=json");
            let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
            assert_eq!(rows[0]["name"].as_str().unwrap(), String::from_utf8_lossy(name));
            assert_eq!(rows[0]["href"].as_str().unwrap(), href);
            // The same name as that of the directory.
            let above = listing(&[name, b"/"].concat(), &[], "");
            assert!(above.contains(&format!("aria-current=\"page\"><bdi>{shown}</bdi>/</a>")), "{above}");
            assert_eq!(above.matches('<').count(), listing(b"x/", &[], "").matches('<').count(), "{above}");
        }
    }

    #[test]
    fn a_page_says_what_there_is_and_how_to_sort_it() {
        let entries: [(&[u8], bool, u64, i64); 3] =
            [(b"sub", true, 4096, JANUARY_1999), (b"a", false, 1536, JANUARY_1999), (b"b", false, 1, -1)];
        let page = listing(b"x/y/", &entries, "sort=size&order=desc");
        for part in [
            "<title>/x/y/</title>",
            "<a href=\"../../\">/</a><a href=\"../\"><bdi>x</bdi>/</a><a href=\"./\" aria-current=\"page\"><bdi>y</bdi>/</a>",
            "<th scope=\"col\"><a href=\"?sort=name&amp;order=asc\">Name</a>",
            "<th scope=\"col\" aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size ",
            "<a href=\"../\" rel=\"up\">../</a>",
            "<a href=\"sub/\"><bdi>sub</bdi>/</a><td><td><time datetime=\"1999-01-01T00:00:00Z\">1999-01-01 00:00</time>",
            "<data value=\"1536\">1.5 KiB</data>",
            "<bdi>b</bdi></a><td><data value=\"1\">1 B</data><td>\n",
            "<footer>1 directory, 2 files, 1.5 KiB</footer>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!listing(b"", &[], "").contains("../"), "there is no way up from the root");
        assert_eq!(listing(b"", &[], "format=json"), "[\n]\n");
    }

    #[test]
    fn times_that_cannot_be_said_are_left_out() {
        for modified_s in [i64::MIN, -1, 253_402_300_800, i64::MAX] {
            let json = listing(b"", &[(b"a", false, 0, modified_s)], "format=json");
            assert!(json.contains("\"mtime\":null"), "{json}");
        }
    }
}
