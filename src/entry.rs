//! One line of the access log: what is known of a request and its answer → bytes, in one of three formats.
//! Pure.
//!
//! ```text
//! common    192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /a HTTP/1.1" 200 2326
//! combined  the same, and behind it "https://example.org/" "curl/8.0"
//! json      {"time":"1994-11-06T08:49:37.042Z","remote_addr":"192.0.2.7","method":"GET","target":"/a", … }
//! ```
//! Whatever a client sends, a line is one line, and moves no cursor. In common and combined a quote, a
//! backslash and every byte that is no printable ASCII is written `\xHH`, as nginx does, so that every byte can
//! be read back. JSON is Unicode: what is no UTF-8 is U+FFFD there, and control characters are escaped, those
//! among them that JSON would allow.

use std::fmt::{self, Display};
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

use crate::clock::{self, Clock, Date};
use crate::failure::Failure;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Common Log Format.
    Common,
    /// The same, with Referer and User-Agent.
    Combined,
    /// A JSON object.
    Json,
}

impl Format {
    /// What was typed behind `--log-format`.
    ///
    /// # Errors
    /// A sentence naming the value and what to try.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "common" => Ok(Self::Common),
            "combined" => Ok(Self::Combined),
            "json" => Ok(Self::Json),
            _ => Err(Failure::usage(format!(
                "--log-format '{text}': this is no format (try common, combined or json)"
            ))),
        }
    }
}

/// When requests are answered, as a line says it; in UTC.
#[derive(Debug)]
pub struct Stamp {
    date: Date,
    common: [u8; clock::COMMON_LEN],
    iso: [u8; clock::ISO_LEN],
    millis: u16,
}

impl Stamp {
    /// As of the clock's last tick.
    pub fn of(clock: &Clock) -> Self {
        let date = clock.dates().date;
        Self { date, common: clock::common(&date), iso: clock::iso(&date), millis: clock.millis() }
    }

    /// The same again; its text is made anew once a second.
    pub fn follow(&mut self, clock: &Clock) {
        match self.date == clock.dates().date {
            true => self.millis = clock.millis(),
            false => *self = Self::of(clock),
        }
    }
}

/// What is known of a request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e, C> {
    /// Who asked.
    pub client: C,
    /// When it was answered.
    pub time: &'e Stamp,
    /// The request line, as far as it was read.
    pub line: &'e [u8],
    /// The three digits of the answer's status.
    pub status: &'e [u8],
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Referer, if the request has one.
    pub referer: Option<&'e [u8]>,
    /// User-Agent, if the request has one.
    pub user_agent: Option<&'e [u8]>,
}

impl<C: Display> Entry<'_, C> {
    /// Appends it to `out`, as one line.
    pub fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Common => self.write_common(out),
            Format::Combined => {
                self.write_common(out);
                for value in [self.referer, self.user_agent] {
                    out.push(b' ');
                    quote(value.unwrap_or_default(), out);
                }
            }
            Format::Json => self.write_json(out),
        }
        out.push(b'\n');
    }

    /// The same with no more than the first `len` bytes of what the client has sent in each place.
    pub fn cut(self, len: usize) -> Self {
        let cut = |value: &mut &[u8]| *value = &value[..value.len().min(len)];
        let Self { mut line, mut referer, mut user_agent, .. } = self;
        cut(&mut line);
        referer.as_mut().map(cut);
        user_agent.as_mut().map(cut);
        Self { line, referer, user_agent, ..self }
    }

    fn write_common(&self, out: &mut Vec<u8>) {
        put(out, &self.client);
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(&self.time.common);
        out.extend_from_slice(b"] ");
        quote(self.line, out);
        out.push(b' ');
        out.extend_from_slice(self.status);
        out.push(b' ');
        match self.body_bytes {
            0 => out.push(b'-'),
            bytes => put(out, &bytes),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        // RFC 9112 §3: two spaces and three parts, or no request line.
        let mut parts = self.line.split(|&byte| byte == b' ');
        let (method, target, protocol) = match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(method), Some(target), Some(protocol), None] => (Some(method), target, Some(protocol)),
            _ => (None, self.line, None),
        };
        let json = Json {
            time: Shown(&Rfc3339(self.time)),
            remote_addr: Shown(&self.client),
            method: method.map(Text),
            target: Text(target),
            protocol: protocol.map(Text),
            status: self.status.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')),
            bytes: self.body_bytes,
            referer: self.referer.map(Text),
            user_agent: self.user_agent.map(Text),
        };
        let mut serializer = serde_json::Serializer::with_formatter(out, OneLine);
        json.serialize(&mut serializer).expect("memory takes text and numbers");
    }
}

/// `value` in quotes, and a dash for none, as Apache and nginx have it.
fn quote(value: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    if value.is_empty() {
        out.push(b'-');
    }
    let mut rest = value;
    while let Some(at) = rest.iter().position(|&byte| !IS_PLAIN[usize::from(byte)]) {
        let byte = usize::from(rest[at]);
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', b'x', HEX[byte >> 4], HEX[byte & 15]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Printable ASCII, but for the quote and the backslash.
const IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        table[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    table
};

fn put(out: &mut Vec<u8>, value: &impl Display) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
}

#[derive(Serialize)]
struct Json<'e> {
    time: Shown<'e>,
    remote_addr: Shown<'e>,
    method: Option<Text<'e>>,
    target: Text<'e>,
    protocol: Option<Text<'e>>,
    status: u16,
    bytes: u64,
    referer: Option<Text<'e>>,
    user_agent: Option<Text<'e>>,
}

/// What is written as it is displayed.
struct Shown<'e>(&'e dyn Display);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// Bytes of a client.
struct Text<'e>(&'e [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

/// RFC 3339 §5.6, with milliseconds.
struct Rfc3339<'e>(&'e Stamp);

impl Display for Rfc3339<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { iso, millis, .. } = self.0;
        write!(f, "{}.{millis:03}Z", String::from_utf8_lossy(iso))
    }
}

/// JSON that is one line to everybody, and moves no cursor: RFC 8259 §7 allows DEL, the C1 controls (U+009B
/// begins a terminal's commands) and the separators of Unicode as they are.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| must_be_escaped(c)) {
            write!(out, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// All of these are below U+10000. The last ones turn the direction of what follows them.
fn must_be_escaped(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37.042
    fn stamp() -> Stamp {
        let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
        Stamp { date, common: clock::common(&date), iso: clock::iso(&date), millis: 42 }
    }

    fn entry<'e>(line: &'e [u8], time: &'e Stamp) -> Entry<'e, &'static str> {
        let client = "127.0.0.1";
        Entry { client, time, line, status: b"200", body_bytes: 2326, referer: None, user_agent: None }
    }

    fn written(entry: &Entry<'_, &str>, format: Format) -> String {
        let mut out = b"before\n".to_vec();
        entry.write(format, &mut out);
        let line = String::from_utf8(out).unwrap().strip_prefix("before\n").unwrap().to_owned();
        assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?}");
        line
    }

    /// The examples of Apache's documentation (Log Files, "Access Log"), but for the user, whom nobody asks
    /// for here, and the zone.
    #[test]
    fn the_documented_examples() {
        let date = *b"Tue, 10 Oct 2000 13:55:36 GMT";
        let time = Stamp { date, common: clock::common(&date), iso: clock::iso(&date), millis: 0 };
        let entry = Entry {
            referer: Some(b"http://www.example.com/start.html"),
            user_agent: Some(b"Mozilla/4.08 [en] (Win98; I ;Nav)"),
            ..entry(b"GET /apache_pb.gif HTTP/1.0", &time)
        };
        let common = "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /apache_pb.gif HTTP/1.0\" 200 2326";
        assert_eq!(written(&entry, Format::Common), format!("{common}\n"));
        assert_eq!(
            written(&entry, Format::Combined),
            format!("{common} \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I ;Nav)\"\n")
        );
    }

    #[test]
    fn what_is_not_there_is_a_dash_and_in_json_null() {
        let time = stamp();
        let empty = Entry { status: b"408", body_bytes: 0, ..entry(b"", &time) };
        assert_eq!(
            written(&empty, Format::Combined),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"-\" 408 - \"-\" \"-\"\n"
        );
        assert_eq!(
            written(&empty, Format::Json),
            "{\"time\":\"1994-11-06T08:49:37.042Z\",\"remote_addr\":\"127.0.0.1\",\"method\":null,\
             \"target\":\"\",\"protocol\":null,\"status\":408,\"bytes\":0,\"referer\":null,\
             \"user_agent\":null}\n"
        );
    }

    #[test]
    fn a_line_that_is_none_stands_whole_in_the_target() {
        let time = stamp();
        for (line, method, target) in [
            ("GET /a HTTP/1.1", Some("GET"), "/a"),
            ("GET /a", None, "GET /a"),
            ("GET  /a HTTP/1.1", None, "GET  /a HTTP/1.1"),
            ("", None, ""),
            ("nonsense", None, "nonsense"),
        ] {
            let json = written(&entry(line.as_bytes(), &time), Format::Json);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!((json["method"].as_str(), json["target"].as_str()), (method, Some(target)), "{line}");
            assert_eq!(json["protocol"].is_null(), method.is_none());
        }
    }

    /// Every byte, in every place where a client's bytes stand: what is written is printable ASCII, and says
    /// which byte it was.
    #[test]
    fn every_byte_is_quoted_so_that_it_can_be_read_back() {
        let time = stamp();
        for byte in 0..=255u8 {
            let value = [b'a', byte, b'z'];
            let plain = (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
            let shown = if plain { format!("a{}z", byte as char) } else { format!("a\\x{byte:02X}z") };
            let entry = Entry { referer: Some(&value), user_agent: Some(&value), ..entry(&value, &time) };
            let line = written(&entry, Format::Combined);
            let (_, behind) = line.split_once("] ").unwrap();
            assert_eq!(behind, format!("\"{shown}\" 200 2326 \"{shown}\" \"{shown}\"\n"));
        }
    }

    /// The same in JSON: it is what it was, and no control character stands in it as it is.
    #[test]
    fn every_character_is_the_same_in_json_and_no_control_character_is_bare() {
        let time = stamp();
        let separators = ['\u{2028}', '\u{2029}', '\u{fffd}', '\u{1f980}'];
        // Unicode Standard Annex #9, §2: what turns the direction of a text.
        let turns: Vec<char> =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
                .chars()
                .collect();
        for c in (0..0x180u32).filter_map(char::from_u32).chain(separators).chain(turns.clone()) {
            let value = format!("a{c}z");
            let entry = Entry { user_agent: Some(value.as_bytes()), ..entry(b"GET / HTTP/1.1", &time) };
            let line = written(&entry, Format::Json);
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(json["user_agent"], value);
            let bare: Vec<char> = line.trim_end_matches('\n').chars().filter(|c| c.is_control()).collect();
            assert!(bare.is_empty() && !line.contains(['\u{2028}', '\u{2029}']), "{c:?}: {bare:?}");
            assert!(!line.contains(&*turns), "{c:?}");
        }
        for byte in 0x80..=0xff {
            let entry = Entry { referer: Some(&[b'a', byte, b'z']), ..entry(b"GET / HTTP/1.1", &time) };
            let json: serde_json::Value = serde_json::from_str(&written(&entry, Format::Json)).unwrap();
            assert_eq!(json["referer"], "a\u{fffd}z");
        }
    }

    #[test]
    fn a_cut_entry_has_the_begin_of_each_value() {
        let time = stamp();
        let long = "x".repeat(300);
        let entry = Entry { user_agent: Some(long.as_bytes()), ..entry(long.as_bytes(), &time) };
        let line = written(&entry.cut(200), Format::Combined);
        assert_eq!((line.matches(&"x".repeat(200)).count(), line.contains(&"x".repeat(201))), (2, false));
        assert!(line.contains(" \"-\" "), "what is not there stays away: {line}");
    }

    #[test]
    fn the_time_follows_the_clock() {
        let clock = Clock::start();
        let mut stamp = Stamp { millis: 1000, ..stamp() };
        stamp.follow(&clock);
        let date = clock.dates().date;
        assert_eq!((stamp.date, stamp.common), (date, clock::common(&date)));
        assert!(stamp.millis < 1000);
    }
}
