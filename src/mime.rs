//! Name → Content-Type, by its last extension; the table is the `mime_guess` crate's.

/// The media type of a file called `name` (bytes of a path), with `charset=utf-8` on text.
pub fn content_type(name: &[u8]) -> String {
    let extension = extension(name);
    let essence =
        match std::str::from_utf8(extension).ok().and_then(|ext| mime_guess::from_ext(ext).first_raw()) {
            // RFC 9239 §6: the other names of JavaScript's type are obsolete.
            Some("application/javascript") => "text/javascript",
            Some(essence) => essence,
            None => "application/octet-stream",
        };
    if essence.starts_with("text/") { format!("{essence}; charset=utf-8") } else { essence.to_owned() }
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
            assert_eq!(content_type(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(content_type(b"\xff.\xff"), "application/octet-stream");
    }
}
