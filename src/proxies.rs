//! Who is believed when it says for whom it asks: `--real-ip`. Pure.
//!
//! A proxy adds the address from which it was asked to the end of X-Forwarded-For; what stands before that is
//! hearsay. So the list is read from its end: whom a stated proxy names is believed as far as the first one
//! that is no stated proxy, who is the client.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::failure::Failure;
use crate::request::trim_ows;

/// The stated proxies; mostly none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    networks: Vec<IpNet>,
    /// Whoever connects to a unix socket.
    has_unix: bool,
}

impl Proxies {
    /// What was typed behind `--real-ip`, each time.
    ///
    /// # Errors
    /// A sentence naming the value and what to try.
    pub fn parse(texts: &[String]) -> Result<Self, Failure> {
        let mut proxies = Self::default();
        for text in texts {
            match (text.as_str(), text.parse::<IpNet>(), text.parse::<IpAddr>()) {
                ("unix", ..) => proxies.has_unix = true,
                (_, Ok(network), _) => proxies.networks.push(canonical(network)),
                (.., Ok(address)) => proxies.networks.push(address.to_canonical().into()),
                _ => {
                    return Err(Failure::usage(format!(
                        "--real-ip '{text}': this is neither an address nor a network nor the word unix (try --real-ip 127.0.0.1 or 10.0.0.0/8)"
                    )));
                }
            }
        }
        Ok(proxies)
    }

    /// Whether the one who has connected, from an address or to a unix socket, is one of them.
    pub fn include(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.has_unix, |address| self.include_address(address))
    }

    /// For whom a stated proxy asks, as the `values` of its X-Forwarded-For lines say in their order. `None`
    /// if they say nothing, or if what is to be believed is no address. Where all are stated proxies, it is
    /// the first of them, from whom the request began.
    pub fn client<'v>(&self, values: impl DoubleEndedIterator<Item = &'v [u8]>) -> Option<IpAddr> {
        let mut client = None;
        let members = values.rev().flat_map(|value| value.rsplit(|&byte| byte == b',').map(trim_ows));
        // Empty members are none (RFC 9110 §5.6.1.2).
        for text in members.filter(|member| !member.is_empty()) {
            let address = address(text)?;
            client = Some(address);
            if !self.include_address(address) {
                break;
            }
        }
        client
    }

    fn include_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// An address, as some proxies write it also with its port; one of IPv4 is called so.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    text.parse::<IpAddr>().or_else(|_| with_port()).ok().map(|address| address.to_canonical())
}

/// A network of mapped addresses (RFC 4291 §2.5.5.2) is one of IPv4, as its addresses are told.
fn canonical(network: IpNet) -> IpNet {
    let v4 = match (network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (IpAddr::V4(v4), Some(prefix)) if network.addr().is_ipv6() => IpNet::new(v4.into(), prefix).ok(),
        _ => None,
    };
    v4.unwrap_or(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(texts: &[&str]) -> Proxies {
        Proxies::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "::/129", "proxy", "unix:", "10.0.0.1:80", " 10.0.0.1", "*"]
        {
            let failure = Proxies::parse(&[text.to_owned()]).unwrap_err();
            assert!(failure.to_string().contains(&format!("--real-ip '{text}': ")), "{failure}");
            assert_eq!(failure.status(), 2);
        }
    }

    #[test]
    fn who_has_connected_is_a_stated_proxy_or_not() {
        let all = proxies(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "unix"]);
        for (peer, is_one) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(all.include(Some(peer.parse().unwrap())), is_one, "{peer}");
        }
        let mapped = proxies(&["::ffff:10.0.0.0/104", "::ffff:192.0.2.7"]);
        for (peer, is_one) in [("10.1.2.3", true), ("192.0.2.7", true), ("11.0.0.1", false), ("::1", false)] {
            assert_eq!(mapped.include(Some(peer.parse().unwrap())), is_one, "{peer}");
        }
        assert!(all.include(None) && !proxies(&["0.0.0.0/0"]).include(None));
        assert!(!Proxies::default().include(Some(IpAddr::from([127, 0, 0, 1]))));
    }

    #[track_caller]
    fn check(lines: &[&str], expected: Option<&str>) {
        let stated = proxies(&["10.0.0.0/8", "fd00::/8"]);
        let client = stated.client(lines.iter().map(|line| line.as_bytes()));
        assert_eq!(client, expected.map(|text| text.parse().unwrap()), "{lines:?}");
    }

    #[test]
    fn the_client_is_the_last_one_who_is_no_stated_proxy() {
        check(&["198.51.100.9"], Some("198.51.100.9"));
        check(&["198.51.100.9, 10.0.0.2"], Some("198.51.100.9"));
        check(&["1.2.3.4, 198.51.100.9, 10.0.0.2,10.0.0.3"], Some("198.51.100.9"));
        // Several lines are one list (RFC 9110 §5.3).
        check(&["1.2.3.4", "198.51.100.9 ,\t10.0.0.2"], Some("198.51.100.9"));
        check(&["198.51.100.9", "10.0.0.2"], Some("198.51.100.9"));
        check(&["2001:db8::1, fd00::7"], Some("2001:db8::1"));
        check(&["[2001:db8::1]:4711, 10.0.0.2:80"], Some("2001:db8::1"));
        check(&["198.51.100.9,, 10.0.0.2,", ""], Some("198.51.100.9"));
        check(&["::ffff:198.51.100.9, ::ffff:10.0.0.2"], Some("198.51.100.9"));
        // All of them are.
        check(&["10.0.0.9, 10.0.0.2"], Some("10.0.0.9"));
    }

    #[test]
    fn what_is_no_address_is_not_believed_and_what_stands_before_the_client_is_not_read() {
        for garbage in
            ["unknown", "_hidden", "198.51.100.9 10.0.0.2", "198.51.100", "1.2.3.4;10.0.0.2", "\u{ff}"]
        {
            check(&[garbage], None);
            check(&["1.2.3.4", garbage], None);
            check(&[&format!("1.2.3.4, {garbage}, 10.0.0.2")], None);
            check(&[&format!("{garbage}, 198.51.100.9, 10.0.0.2")], Some("198.51.100.9"));
        }
        check(&[], None);
        assert_eq!(proxies(&["10.0.0.0/8"]).client([&b"\xff"[..]].into_iter()), None);
    }
}
