//! Where to listen, as it is typed.

use crate::failure::Failure;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// This port of every address, IPv4 and IPv6.
    Every(u16),
    /// This port of a host, by name or address.
    Host(String, u16),
}

impl Address {
    /// What was typed behind `--listen`.
    ///
    /// # Errors
    /// A sentence naming the value, the cause and what to try.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let refuse = |cause: &str| {
            Failure::usage(format!(
                "--listen '{text}': {cause} (try HOST:PORT, as in --listen 127.0.0.1:8080)"
            ))
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("there is no port"))?;
        let port = match port.parse::<u16>() {
            Ok(port) if port_is_plain(text, host) => port,
            _ => return Err(refuse("the port is no number from 0 to 65535")),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            _ if host.is_empty() => Ok(Self::Every(port)),
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => Ok(Self::Host(v6.to_owned(), port)),
            _ if is_bracketed || host.contains(['[', ']']) => {
                Err(refuse("what stands in brackets is no IPv6 address"))
            }
            _ if host.contains(':') => Err(refuse("an IPv6 address stands in brackets, as in [::1]:8080")),
            _ if host.contains(|c: char| c.is_whitespace() || c == '/') => Err(refuse("this is no host")),
            _ => Ok(Self::Host(host.to_owned(), port)),
        }
    }

    /// Whether it is another one each time.
    pub fn is_any_free(&self) -> bool {
        matches!(self, Self::Every(0) | Self::Host(_, 0))
    }
}

/// `parse` takes a plus sign, which no port has.
fn port_is_plain(text: &str, host: &str) -> bool {
    text[host.len() + 1..].bytes().all(|byte| byte.is_ascii_digit())
}
