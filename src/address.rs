//! Where to listen, as it is typed.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Bytes in the path of a unix socket, at the most: what is left of `sun_path` (unix(7)) beside its end.
const UNIX_PATH_MAX: usize = 107;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of a host.
    Tcp(Host, u16),
    /// A unix socket, by its absolute path.
    Unix(PathBuf),
}

/// Whose port it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Every address, IPv4 and IPv6.
    Every,
    /// One host, by name or address.
    Named(String),
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
        if let Some(path) = text.strip_prefix("unix:/") {
            return match path.len() + "/".len() {
                ..=UNIX_PATH_MAX => Ok(Self::Unix(PathBuf::from(format!("/{path}")))),
                _ => Err(Failure::usage(format!(
                    "--listen '{text}': a socket's path has {UNIX_PATH_MAX} bytes at the most (try a shorter one)"
                ))),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("there is no port"))?;
        let port = match port.parse::<u16>() {
            Ok(port) if port_is_plain(text, host) => port,
            _ if host == "unix" => {
                return Err(Failure::usage(format!(
                    "--listen '{text}': a socket's path begins with a slash (try --listen unix:/run/tared.sock)"
                )));
            }
            _ => return Err(refuse("the port is no number from 0 to 65535")),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            _ if host.is_empty() => Ok(Self::Tcp(Host::Every, port)),
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Self::Tcp(Host::Named(v6.to_owned()), port))
            }
            _ if is_bracketed || host.contains(['[', ']']) => {
                Err(refuse("what stands in brackets is no IPv6 address"))
            }
            _ if host.contains(':') => Err(refuse("an IPv6 address stands in brackets, as in [::1]:8080")),
            _ if host.contains(|c: char| c.is_whitespace() || c == '/') => Err(refuse("this is no host")),
            _ => Ok(Self::Tcp(Host::Named(host.to_owned()), port)),
        }
    }

    /// Its name in the file system, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(..) => None,
            Self::Unix(path) => Some(path),
        }
    }

    /// Whether it is another one each time.
    pub fn is_any_free(&self) -> bool {
        matches!(self, Self::Tcp(_, 0))
    }
}

/// `parse` takes a plus sign, which no port has.
fn port_is_plain(text: &str, host: &str) -> bool {
    text[host.len() + 1..].bytes().all(|byte| byte.is_ascii_digit())
}
