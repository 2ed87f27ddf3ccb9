//! Request bodies, which are skipped: where does the next request begin?
//!
//! In come the bytes behind a head, in pieces of any size; out comes how many of them belong to the
//! body. Nothing is kept but a count and a state, and every part of a body is bounded
//! (RFC 9112 §6.3, §7.1).

use crate::refusal::Refusal;

/// Bytes of a request body, chunk lines and trailers included, that are skipped so that the
/// connection lives on. Beyond it the connection costs more than a new one; 16 MiB is arbitrary.
pub const BODY_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a chunk's size line and of the trailer section in all. As much as nginx reads of a
/// head by default; arbitrary.
const LINES_MAX: u32 = 8 * 1024;

/// What the head says about the body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// This many bytes (RFC 9112 §6.2).
    Length(u64),
    /// Chunks (RFC 9112 §7.1).
    Chunked,
}

/// How far a body was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// All the bytes given belong to the body, and there is more of it.
    All,
    /// The body ended after this many of them.
    Ended(usize),
    /// This is no chunked body, or too large a one.
    Refused(Refusal),
}

/// A body on its way through.
#[derive(Clone, Copy, Debug)]
pub enum Skip {
    /// This many bytes are to come.
    Length(u64),
    /// A chunked body.
    Chunked(Chunked),
}

impl Skip {
    /// The beginning of a body framed like this.
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(n) => Skip::Length(n),
            Framing::Chunked => {
                Skip::Chunked(Chunked { part: Part::Size { digits: 0, size: 0 }, total: 0, lines: 0 })
            }
        }
    }

    /// Skips what of `bytes` belongs to the body.
    pub fn feed(&mut self, bytes: &[u8]) -> Skipped {
        match self {
            Skip::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= n as u64;
                if *left == 0 { Skipped::Ended(n) } else { Skipped::All }
            }
            Skip::Chunked(chunked) => chunked.feed(bytes),
        }
    }
}

/// Where in a chunked body we are (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug)]
pub struct Chunked {
    part: Part,
    /// Bytes seen in all, at most [`BODY_MAX`].
    total: u64,
    /// Bytes of lines seen, at most [`LINES_MAX`] since the last chunk's data.
    lines: u32,
}

/// What comes next. `size` is that of the chunk whose line this is.
#[derive(Clone, Copy, Debug)]
enum Part {
    Size { digits: u32, size: u64 },
    Extension { at: Extension, size: u64 },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
}

/// Where in `chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS value ] )` (RFC 9112 §7.1.1). BWS is
/// white space, and a value is a token or a quoted string (RFC 9110 §5.6).
#[derive(Clone, Copy, Debug)]
enum Extension {
    BeforeSemicolon,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    QuotedPair,
    AfterQuoted,
}

/// Hexadecimal digits of the largest chunk size that a `u64` holds.
const SIZE_DIGITS_MAX: u32 = 16;

impl Chunked {
    fn feed(&mut self, bytes: &[u8]) -> Skipped {
        let mut at = 0;
        while at < bytes.len() {
            let n = match self.part {
                Part::Data { left } => {
                    let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    let left = left - n as u64;
                    self.part = if left == 0 { Part::DataCr } else { Part::Data { left } };
                    self.lines = 0;
                    n
                }
                part => {
                    let Some(next) = part.after(bytes[at]) else {
                        return Skipped::Refused(Refusal::ChunkMalformed);
                    };
                    self.lines += 1;
                    if self.lines > LINES_MAX {
                        return Skipped::Refused(Refusal::BodyTooLarge);
                    }
                    match next {
                        Step::End => return Skipped::Ended(at + 1),
                        Step::Part(next) => self.part = next,
                    }
                    1
                }
            };
            at += n;
            self.total += n as u64;
            if self.total > BODY_MAX {
                return Skipped::Refused(Refusal::BodyTooLarge);
            }
        }
        Skipped::All
    }
}

enum Step {
    Part(Part),
    End,
}

impl Part {
    /// The part that follows `byte`, or `None` where the grammar has no such byte.
    fn after(self, byte: u8) -> Option<Step> {
        let part = match (self, byte) {
            (Part::Size { digits, size }, byte) if byte.is_ascii_hexdigit() => {
                let digit = u64::from((byte as char).to_digit(16)?);
                // Leading zeros are digits too (chunk-size = 1*HEXDIG): bounded with the line.
                let digits = if size == 0 && digit == 0 { 1 } else { digits.max(1) + u32::from(size > 0) };
                if digits > SIZE_DIGITS_MAX {
                    return None;
                }
                Part::Size { digits, size: size << 4 | digit }
            }
            (Part::Size { digits: 1.., size }, b'\r') => Part::SizeLf { size },
            (Part::Size { digits: 1.., size }, byte) => {
                Part::Extension { at: Extension::BeforeSemicolon.after(byte)?, size }
            }
            (Part::Extension { at, size }, b'\r') if at.may_end() => Part::SizeLf { size },
            (Part::Extension { at, size }, byte) => Part::Extension { at: at.after(byte)?, size },
            (Part::SizeLf { size: 0 }, b'\n') => Part::TrailerStart,
            (Part::SizeLf { size }, b'\n') => Part::Data { left: size },
            (Part::DataCr, b'\r') => Part::DataLf,
            (Part::DataLf, b'\n') => Part::Size { digits: 0, size: 0 },
            (Part::TrailerStart, b'\r') => Part::EndLf,
            (Part::TrailerStart | Part::TrailerName, byte) if is_tchar(byte) => Part::TrailerName,
            (Part::TrailerName, b':') => Part::TrailerValue,
            (Part::TrailerValue, b'\r') => Part::TrailerLf,
            (Part::TrailerValue, byte) if is_text(byte) => Part::TrailerValue,
            (Part::TrailerLf, b'\n') => Part::TrailerStart,
            (Part::EndLf, b'\n') => return Some(Step::End),
            _ => return None,
        };
        Some(Step::Part(part))
    }
}

impl Extension {
    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Extension::Name | Extension::Value | Extension::AfterQuoted)
    }

    fn after(self, byte: u8) -> Option<Self> {
        use Extension::*;
        Some(match (self, byte) {
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => QuotedPair,
            (Quoted | QuotedPair, byte) if is_text(byte) => Quoted,
            (Quoted | QuotedPair, _) => return None,
            (BeforeSemicolon | BeforeName | AfterName | BeforeValue, b' ' | b'\t') => self,
            (Name, b' ' | b'\t') => AfterName,
            (Value | AfterQuoted, b' ' | b'\t') => BeforeSemicolon,
            (BeforeSemicolon | Name | AfterName | Value | AfterQuoted, b';') => BeforeName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeName | Name, byte) if is_tchar(byte) => Name,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Value, byte) if is_tchar(byte) => Value,
            _ => return None,
        })
    }
}

/// RFC 9110 §5.6.2
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Anything but control octets other than HTAB (RFC 9110 §5.5, §5.6.4).
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `piece_len`; the length of the body, or why it is refused.
    fn skip(framing: Framing, bytes: &[u8], piece_len: usize) -> Option<Result<usize, Refusal>> {
        let mut skip = Skip::new(framing);
        let mut seen = 0;
        for piece in bytes.chunks(piece_len) {
            match skip.feed(piece) {
                Skipped::All => seen += piece.len(),
                Skipped::Ended(n) => return Some(Ok(seen + n)),
                Skipped::Refused(refusal) => return Some(Err(refusal)),
            }
        }
        None
    }

    #[track_caller]
    fn check_chunked(body: impl AsRef<[u8]>, expected: Option<Result<usize, Refusal>>) {
        let body = body.as_ref();
        for piece_len in 1..=body.len() {
            let text = String::from_utf8_lossy(body);
            assert_eq!(skip(Framing::Chunked, body, piece_len), expected, "{text:?} by {piece_len}");
        }
    }

    #[test]
    fn a_counted_body_ends_where_it_was_said_to() {
        for length in 0..9u64 {
            for piece_len in 1..12 {
                let expected = Some(Ok(length as usize));
                assert_eq!(skip(Framing::Length(length), b"123456789", piece_len), expected);
            }
        }
        assert_eq!(skip(Framing::Length(10), b"123456789", 4), None);
        assert_eq!(skip(Framing::Length(u64::MAX), b"123456789", 4), None);
    }

    /// RFC 9112 §7.1; what stands behind the body is never taken for a part of it.
    #[test]
    fn chunked_bodies_that_are_whole() {
        for body in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "A\r\n0123456789\r\n1\r\n.\r\n000\r\n\r\n",
            "00000000000000000000a\r\n0123456789\r\n0\r\n\r\n",
            "5;name=value;flag\r\nhello\r\n0;last\r\n\r\n",
            "5 ; a = \"b;\\\"\u{e9} c\" ;d\r\nhello\r\n0\r\n\r\n",
            "5\t;\ta=b\t;c=\"\"\r\nhello\r\n0\r\n\r\n",
            "0\r\nTrailer: x\r\nOther:\ty\r\nEmpty:\r\n\r\n",
            "2\r\n\r\n\r\n0\r\n\r\n",
        ] {
            check_chunked(format!("{body}GET / HTTP/1.1\r\n"), Some(Ok(body.len())));
            for cut in 1..body.len() {
                check_chunked(&body.as_bytes()[..cut], None);
            }
        }
    }

    #[test]
    fn chunked_bodies_that_are_none() {
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x5\r\nhello\r\n",
            ";a\r\n",
            " 5\r\nhello\r\n",
            "5\nhello\r\n",
            "5\r\nhello!0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n",
            "5;\u{0}\r\n",
            "5 \r\nhello\r\n",
            "5 5\r\nhello\r\n",
            "5;\r\nhello\r\n",
            "5;;a\r\nhello\r\n",
            "5;a \r\nhello\r\n",
            "5;a=\r\nhello\r\n",
            "5;a=b \r\nhello\r\n",
            "5;a=b c\r\nhello\r\n",
            "5;a=\"b\r\nhello\r\n",
            "5;a=\"b\"c\r\nhello\r\n",
            "5;\u{e9}\r\nhello\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\nTrailer : x\r\n\r\n",
            "0\r\n folded\r\n\r\n",
            "0\r\nT: x\r\n folded\r\n\r\n",
            "0\r\n: x\r\n\r\n",
            "10000000000000000\r\n",
            "fffffffffffffffff\r\n",
            "0\r\nTrailer: x\n\r\n",
            "0\r\n\r\r",
            "0\r\n\n",
        ] {
            check_chunked(body, Some(Err(Refusal::ChunkMalformed)));
        }
    }

    #[test]
    fn every_part_of_a_chunked_body_is_bounded() {
        let lines = "x".repeat(LINES_MAX as usize);
        for body in [
            format!("5;{lines}"),
            format!("0\r\n{lines}"),
            format!("{}5", "0".repeat(LINES_MAX as usize + 1)),
            format!("0\r\n{}", "a: b\r\n".repeat(LINES_MAX as usize / 6 + 1)),
        ] {
            assert_eq!(skip(Framing::Chunked, body.as_bytes(), 1000), Some(Err(Refusal::BodyTooLarge)));
        }
        let mut skip = Skip::new(Framing::Chunked);
        assert_eq!(skip.feed(b"ffffffffffffffff\r\n"), Skipped::All);
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..15 {
            assert_eq!(skip.feed(&piece), Skipped::All);
        }
        assert_eq!(skip.feed(&piece), Skipped::Refused(Refusal::BodyTooLarge));
    }
}
