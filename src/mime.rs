//! Name → Content-Type, by its last extension; the table is the `mime_guess` crate's.

use crate::failure::Failure;
use crate::value;

/// Content types: the operator's own, and the table's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    /// Extensions, in lower case, with their types; of several the last one counts.
    own: Vec<(String, String)>,
    /// The type of what has none.
    default: Option<String>,
}

impl Types {
    /// `own`, each `EXT=TYPE`, before the table, and `default` after it.
    ///
    /// # Errors
    /// A sentence naming the option, the value, the cause and what to try.
    pub fn parse(own: &[String], default: Option<String>) -> Result<Self, Failure> {
        let pair = |text: &String| {
            let refuse = |cause: &str| {
                Failure::usage(format!("--mime '{text}': {cause} (try --mime md=text/markdown)"))
            };
            let (extension, essence) =
                text.split_once('=').ok_or_else(|| refuse("there is no equals sign"))?;
            let extension = extension.strip_prefix('.').unwrap_or(extension);
            if extension.is_empty() || extension.contains(['.', '/', '\0']) {
                return Err(refuse("what stands before the equals sign is no extension"));
            }
            if !value::is_media_type(essence) {
                return Err(refuse("what stands behind the equals sign is no media type"));
            }
            Ok((extension.to_ascii_lowercase(), essence.to_owned()))
        };
        if let Some(text) = &default
            && !value::is_media_type(text)
        {
            return Err(Failure::usage(format!(
                "--default-type '{text}': this is no media type (try --default-type text/plain)"
            )));
        }
        Ok(Self { own: own.iter().map(pair).collect::<Result<_, _>>()?, default })
    }

    /// The media type of a file called `name` (bytes of a path): the operator's as it was typed, the table's
    /// with `charset=utf-8` on text.
    pub fn of(&self, name: &[u8]) -> String {
        let extension = extension(name);
        let is_this = |(own, _): &&(String, String)| own.as_bytes().eq_ignore_ascii_case(extension);
        if let Some((_, content_type)) = self.own.iter().rev().find(is_this) {
            return content_type.clone();
        }
        let known = str::from_utf8(extension).ok().and_then(|ext| mime_guess::from_ext(ext).first_raw());
        let essence = match (known, &self.default) {
            // RFC 9239 §6: the other names of JavaScript's type are obsolete.
            (Some("application/javascript"), _) => "text/javascript",
            (Some(essence), _) => essence,
            (None, Some(default)) => return default.clone(),
            (None, None) => "application/octet-stream",
        };
        if essence.starts_with("text/") { format!("{essence}; charset=utf-8") } else { essence.to_owned() }
    }
}

fn extension(name: &[u8]) -> &[u8] {
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => &name[dot + 1..],
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_as_registered_with_iana() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b/STYLE.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("data.json", "application/json"),
            ("logo.svg", "image/svg+xml"),
            ("pixel.png", "image/png"),
            ("add.wasm", "application/wasm"),
            ("font.woff2", "font/woff2"),
            ("page.html.gz", "application/gzip"),
            ("a.html/b", "application/octet-stream"),
            ("unknown.qqq", "application/octet-stream"),
            ("none", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("dot.", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(Types::default().of(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(Types::default().of(b"\xff.\xff"), "application/octet-stream");
    }

    #[test]
    fn own_types_come_first_and_the_default_last() {
        let own = ["md=text/markdown", ".HTML=text/html; charset=latin1", "md=text/x-md"].map(str::to_owned);
        let types = Types::parse(&own, Some("text/plain".to_owned())).unwrap();
        for (name, expected) in [
            ("a.md", "text/x-md"),
            ("a/b.MD", "text/x-md"),
            ("a.html", "text/html; charset=latin1"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.qqq", "text/plain"),
            ("none", "text/plain"),
        ] {
            assert_eq!(types.of(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_type() {
        for text in ["", "md", "=a/b", ".=a/b", "a.b=a/b", "a/b=a/b", "md=", "md=text", "md=a/b\r\nX: y"] {
            assert!(Types::parse(&[text.to_owned()], None).is_err(), "{text}");
        }
        assert!(Types::parse(&[], Some("text".to_owned())).is_err());
    }
}
