//! A failure to start: one sentence for a person, and the exit status that goes with it.

use std::fmt;
use std::io;

/// Why tared did not start, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    status: u8,
}

impl Failure {
    /// What was typed makes no sense: exit status 2.
    pub fn usage(sentence: impl AsRef<str>) -> Self {
        Self { sentence: one_line(sentence.as_ref()), status: 2 }
    }

    /// The system refused: exit status 1.
    pub fn refused(sentence: impl AsRef<str>) -> Self {
        Self { sentence: one_line(sentence.as_ref()), status: 1 }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tared: {}", self.sentence)
    }
}

/// `text` with its control characters written as in a Rust literal: whatever stands in a name or a
/// value, a sentence is one line and moves no cursor.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// What the system said, in lower case and without its number.
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_one_line() {
        let failure = Failure::usage("--listen 'a\n\r\t\u{1b}[2J\u{85}\'ü'");
        assert_eq!(failure.to_string(), "tared: --listen 'a\\n\\r\\t\\u{1b}[2J\\u{85}'ü'");
    }

    #[test]
    fn a_cause_is_the_systems_word_for_it() {
        assert_eq!(cause(&io::Error::from_raw_os_error(libc::EADDRINUSE)), "address already in use");
        assert_eq!(cause(&io::Error::from_raw_os_error(libc::EACCES)), "permission denied");
        assert_eq!(cause(&io::ErrorKind::NotFound.into()), "entity not found");
    }
}
