//! What the values of fields are made of (RFC 9110 §5.6), as the operator types them. Pure.

/// `type "/" subtype`, with or without parameters (RFC 9110 §8.3.1, §5.6.6).
pub fn is_media_type(text: &str) -> bool {
    let mut parts = elements(text, ';');
    let is_type =
        |text: &str| text.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    parts.next().is_some_and(is_type) && parts.all(|part| part.is_empty() || is_parameter(part, true))
}

/// `#cache-directive`, of which there is one at least (RFC 9111 §5.2).
pub fn is_cache_control(text: &str) -> bool {
    let mut directives = elements(text, ',').filter(|directive| !directive.is_empty()).peekable();
    directives.peek().is_some() && directives.all(|directive| is_parameter(directive, false))
}

/// RFC 9110 §5.6.2
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// `token "=" ( token / quoted-string )`, or the token alone where it `needs_value` not.
fn is_parameter(text: &str, needs_value: bool) -> bool {
    match text.split_once('=') {
        Some((name, value)) => is_token(name) && (is_token(value) || is_quoted(value)),
        None => !needs_value && is_token(text),
    }
}

/// RFC 9110 §5.6.4
fn is_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return false };
    let mut is_escaped = false;
    let is_whole = inner.chars().all(|c| {
        let is_bare = !std::mem::take(&mut is_escaped);
        is_escaped = is_bare && c == '\\';
        !(is_bare && c == '"') && (c == '\t' || !c.is_ascii_control())
    });
    is_whole && !is_escaped
}

/// What stands between separators that are outside of quoted strings, without the white space around it.
pub fn elements(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_separator = move |c: char| {
        let is_plain = !std::mem::take(&mut is_escaped);
        match c {
            '\\' => is_escaped = is_quoted && is_plain,
            '"' if is_plain => is_quoted = !is_quoted,
            _ => {}
        }
        c == separator && !is_quoted
    };
    text.split(is_separator).map(|element| element.trim_matches([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_media_type() {
        for text in
            ["a/b", "text/html; charset=utf-8", "a/b;x=\"; \\\"\"", "a/b ; x=1;", "image/svg+xml;a=b;c=d"]
        {
            assert!(is_media_type(text), "{text}");
        }
        for text in [
            "",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "a b/c",
            "a/b; x",
            "a/b; x=",
            "a/b; x=\"",
            "a/b; x=\"\\\"",
            "a/b; x=\"\u{1}\"",
            "a/b; x=\"\\\n\"",
            "a/b; x=y z",
            "a/b\r\nX: y",
        ] {
            assert!(!is_media_type(text), "{text}");
        }
    }

    #[test]
    fn what_is_a_list_of_directives() {
        for text in
            ["no-store", "public, max-age=5", "private=\"a, b\", no-cache", ", no-cache ,", "a=\"\\\"\", b"]
        {
            assert!(is_cache_control(text), "{text}");
        }
        for text in [
            "",
            ",",
            "\"",
            "no-store=\"",
            "a b",
            "max-age=",
            "=5",
            "a=\"b\"c",
            "a=\"\\\"",
            "a=\"\\\r\"",
            "a=\"\\\nX: y\"",
        ] {
            assert!(!is_cache_control(text), "{text}");
        }
    }
}
