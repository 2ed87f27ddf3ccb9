//! What the operator wants said with a response: path → fields.
//!
//! Asked when an entry is filled, never per request.

use std::time::Duration;

use glob::{MatchOptions, Pattern};

use crate::failure::Failure;
use crate::head::Field;
use crate::refusal::ALLOW;

/// How long a browser may remember what a preflight said. Arbitrary; browsers have bounds of their own,
/// from ten minutes to a day.
const PREFLIGHT_MAX_AGE: &str = "86400";

/// What is said with which response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether every response may be read by the scripts of every site (Fetch §3.2).
    pub is_shared: bool,
    /// When a success expires, if it is said.
    pub expires: Option<Expires>,
    /// What else its Cache-Control says (RFC 9111 §5.2.2).
    pub cache_control: Option<String>,
    /// Fields of every success.
    pub fields: Vec<Field>,
    /// Fields of the files that a glob matches; of those with the same name the last one counts.
    pub by_path: Vec<(Glob, Field)>,
}

impl Policy {
    /// What is said with every response, a refusal too.
    pub fn always(&self) -> Vec<Field> {
        match self.is_shared {
            true => vec![
                Field::new("Access-Control-Allow-Origin", "*"),
                Field::new("Access-Control-Expose-Headers", "*"),
            ],
            false => Vec::new(),
        }
    }

    /// The fields of a success: `defaults`, less those that are said otherwise.
    pub fn success(&self, defaults: Vec<Field>) -> Vec<Field> {
        let mut fields = defaults;
        let (expires, lifetime) = self.expires.map(Expires::fields).unzip();
        fields.extend(expires);
        let directives: Vec<String> = lifetime.into_iter().chain(self.cache_control.clone()).collect();
        fields.extend((!directives.is_empty()).then(|| Field::new("Cache-Control", directives.join(", "))));
        fields.extend(self.always());
        Field::merged(fields, &self.fields)
    }

    /// The fields of the one response to every request, a preflight for whichever method among them.
    pub fn fixed(&self, defaults: Vec<Field>) -> Vec<Field> {
        let mut fields = defaults;
        if self.is_shared {
            fields.push(Field::new("Access-Control-Allow-Methods", "*"));
            fields.extend(preflight());
        }
        self.success(fields)
    }

    /// The fields of the file called `name`, a path from the root.
    pub fn of_file(&self, name: &[u8], defaults: Vec<Field>) -> Vec<Field> {
        let name = String::from_utf8_lossy(name);
        let mut own: Vec<Field> = Vec::new();
        for (_, field) in self.by_path.iter().filter(|(glob, _)| glob.matches(&name)) {
            own.retain(|earlier| !earlier.name.eq_ignore_ascii_case(&field.name));
            own.push(field.clone());
        }
        Field::merged(self.success(defaults), &own)
    }

    /// Whether `field` is among what is said with the file called `name`.
    pub fn names(&self, name: &[u8], field: &str) -> bool {
        self.of_file(name, Vec::new()).iter().any(|own| own.name.eq_ignore_ascii_case(field))
    }

    /// The fields of a success of OPTIONS, with what a preflight asks for (Fetch §3.2.3).
    pub fn options(&self) -> Vec<Field> {
        let mut fields = vec![Field::new("Server", "tared"), Field::new("Allow", ALLOW)];
        if self.is_shared {
            fields.push(Field::new("Access-Control-Allow-Methods", ALLOW));
            fields.extend(preflight());
            fields.extend(self.always());
        }
        Field::merged(fields, &self.fields)
    }

    /// How far ahead of a response its Expires lies, where that is not always the same date.
    pub fn lifetime(&self) -> Duration {
        match self.expires {
            Some(Expires::After(lifetime)) => lifetime,
            _ => Duration::ZERO,
        }
    }
}

/// What a preflight is told beside the methods (Fetch §3.2.3).
fn preflight() -> [Field; 2] {
    [Field::new("Access-Control-Allow-Headers", "*"), Field::new("Access-Control-Max-Age", PREFLIGHT_MAX_AGE)]
}

/// When a response expires, as nginx's `expires` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// So long after it was sent.
    After(Duration),
    /// It has always been expired.
    Epoch,
    /// As good as never.
    Max,
}

impl Expires {
    /// The Expires field and the directive that says the same (RFC 9111 §5.2.2.1, §5.3).
    fn fields(self) -> (Field, String) {
        match self {
            Self::After(lifetime) => (Field::expires(), format!("max-age={}", lifetime.as_secs())),
            Self::Epoch => (Field::new("Expires", "Thu, 01 Jan 1970 00:00:01 GMT"), "no-cache".to_owned()),
            Self::Max => {
                (Field::new("Expires", "Thu, 31 Dec 2037 23:55:55 GMT"), "max-age=315360000".to_owned())
            }
        }
    }
}

/// A pattern of file names. Without a slash it is that of a name in any directory; with one it is that of
/// a path from the root, in which `*` and `?` stand for no slash and `**` for any number of directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: Pattern,
    is_path: bool,
}

impl Glob {
    /// Reads `text`, a value of `option`.
    ///
    /// # Errors
    /// A sentence naming the option, the value, the cause and what to try.
    pub fn parse(option: &str, text: &str) -> Result<Self, Failure> {
        let refuse =
            |cause: &str, advice: &str| Failure::usage(format!("{option} '{text}': {cause} (try {advice})"));
        match text {
            "" => return Err(refuse("this is no glob", "'*.css'")),
            _ if text.contains(['{', '}']) => {
                return Err(refuse("a glob has no braces here", &format!("{option} once for each")));
            }
            _ if text.ends_with('/') => {
                return Err(refuse("no file has a name that ends in a slash", &format!("'{text}**'")));
            }
            _ => {}
        }
        let path = text.strip_prefix('/').unwrap_or(text);
        let pattern = Pattern::new(path).map_err(|error| {
            let at = path[..error.pos.min(path.len())].chars().count() + 1;
            refuse(&format!("at character {at}, {}", error.msg), "'*.css' or 'fonts/**'")
        })?;
        Ok(Self { pattern, is_path: text.contains('/') })
    }

    fn matches(&self, name: &str) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let last = name.rsplit('/').next().unwrap_or(name);
        self.pattern.matches_with(if self.is_path { name } else { last }, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &[Field]) -> Vec<String> {
        fields.iter().map(|field| format!("{}: {}", field.name, field.value.trim())).collect()
    }

    #[test]
    fn what_a_glob_matches() {
        for (glob, matched, others) in [
            ("*.css", &["a.css", "x/y/a.css"][..], &["a.css.map", "a.CSS", "css", "a.css/b"][..]),
            ("index.html", &["index.html", "a/index.html"], &["aindex.html"]),
            ("/index.html", &["index.html"], &["a/index.html"]),
            ("fonts/*", &["fonts/a"], &["fonts/a/b", "x/fonts/a", "fonts"]),
            ("fonts/**", &["fonts/a", "fonts/a/b"], &["x/fonts/a"]),
            ("**/a-?.js", &["a-1.js", "x/a-2.js", "x/y/a-3.js"], &["a-.js", "a-12.js"]),
            ("a[0-9].txt", &["a0.txt", "x/a9.txt"], &["ax.txt"]),
            ("[!.]*", &["a"], &[".a"]),
            ("*", &["a", "x/a", ".a"], &[]),
        ] {
            let parsed = Glob::parse("--header-for", glob).unwrap();
            matched.iter().for_each(|name| assert!(parsed.matches(name), "{glob} {name}"));
            others.iter().for_each(|name| assert!(!parsed.matches(name), "{glob} {name}"));
        }
    }

    #[test]
    fn what_is_no_glob() {
        for glob in ["", "a[", "***", "a**b", "*.{css,js}", "fonts/"] {
            let sentence = Glob::parse("--header-for", glob).unwrap_err().to_string();
            assert!(sentence.starts_with(&format!("tared: --header-for '{glob}': ")), "{sentence}");
        }
    }

    #[test]
    fn the_last_match_wins_and_what_is_said_for_a_path_wins_over_what_is_said_for_all() {
        let rule = |glob: &str, name: &str, value: &str| {
            (Glob::parse("--header-for", glob).unwrap(), Field::new(name, value))
        };
        let policy = Policy {
            cache_control: Some("no-cache".to_owned()),
            fields: vec![Field::new("X-All", "1"), Field::new("X-Which", "all")],
            by_path: vec![
                rule("*", "Cache-Control", "private"),
                rule("*.css", "cache-control", "immutable"),
                rule("*.css", "X-Which", "css"),
                rule("a.css", "X-which", "a"),
            ],
            ..Policy::default()
        };
        let of = |name: &str| text(&policy.of_file(name.as_bytes(), vec![Field::new("Server", "tared")]));
        let all = ["Server: tared", "X-All: 1", "X-Which: all", "Cache-Control: private"];
        assert_eq!(of("b.html"), all);
        assert_eq!(of("b.css"), ["Server: tared", "X-All: 1", "cache-control: immutable", "X-Which: css"]);
        assert_eq!(of("a.css"), ["Server: tared", "X-All: 1", "cache-control: immutable", "X-which: a"]);
        assert_eq!(text(&policy.success(vec![])), ["Cache-Control: no-cache", "X-All: 1", "X-Which: all"]);
    }

    /// nginx, ngx_http_headers_module: Expires and max-age say the same.
    #[test]
    fn expires_and_max_age_go_together() {
        let of = |expires, cache_control: Option<&str>| {
            let cache_control = cache_control.map(str::to_owned);
            text(&Policy { expires: Some(expires), cache_control, ..Policy::default() }.success(vec![]))
        };
        let month = Expires::After(Duration::from_secs(30 * 86_400));
        assert_eq!(of(month, None), ["Expires: ", "Cache-Control: max-age=2592000"]);
        assert_eq!(of(month, Some("public")), ["Expires: ", "Cache-Control: max-age=2592000, public"]);
        let epoch = ["Expires: Thu, 01 Jan 1970 00:00:01 GMT", "Cache-Control: no-cache"];
        assert_eq!(of(Expires::Epoch, None), epoch);
        let max = ["Expires: Thu, 31 Dec 2037 23:55:55 GMT", "Cache-Control: max-age=315360000"];
        assert_eq!(of(Expires::Max, None), max);
    }
}
