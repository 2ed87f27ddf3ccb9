//! Where what is served can be reached: the machine's own addresses, where it listens on every one, and
//! the browser that is sent there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::failure::cause;
use crate::listener::Listener;
use crate::output;

/// Addresses that are told for one listener. Arbitrary: a machine of containers has hundreds.
const ADDRESSES_MAX: usize = 16;

/// The URLs that reach `listener` at this machine, where it listens on every address; those that others
/// can use first. It asks the kernel by a socket of its own, which there may be no way to have.
pub fn urls(listener: &Listener) -> Vec<String> {
    match listener.address() {
        Some(address) if address.ip().is_unspecified() => {
            let reaching = reaching(address, listener.is_v6_only(), own());
            reaching.into_iter().map(|address| format!("http://{address}/")).collect()
        }
        _ => Vec::new(),
    }
}

/// The addresses of the interfaces that are up.
fn own() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let up = interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let ip = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    up.filter_map(|interface| interface.address.and_then(ip)).collect()
}

/// Those of `addresses` at which a listener on every address is reached. A link-local address of IPv6 says
/// nothing without a zone, of which URLs have none (RFC 9844).
fn reaching(every: SocketAddr, is_v6_only: bool, addresses: Vec<IpAddr>) -> Vec<SocketAddr> {
    let reaches = |address: &IpAddr| match address {
        IpAddr::V4(_) => every.is_ipv4() || !is_v6_only,
        IpAddr::V6(v6) => every.is_ipv6() && !v6.is_unicast_link_local(),
    };
    let mut addresses: Vec<IpAddr> = addresses.into_iter().filter(reaches).collect();
    addresses.sort_by_key(|address| (address.is_loopback(), address.is_ipv6(), *address));
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses.into_iter().map(|address| SocketAddr::new(address, every.port())).collect()
}

/// The URL at which this machine itself reaches the first of `listeners` that is no unix socket.
fn own_url(listeners: &[Listener]) -> Option<String> {
    let address = listeners.iter().find_map(Listener::address)?;
    let ip = match address.ip() {
        IpAddr::V6(v6) if v6.is_unspecified() => {
            let is_v6_only = listeners.iter().find(|listener| listener.address().is_some())?.is_v6_only();
            if is_v6_only { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
        }
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some(format!("http://{}/", SocketAddr::new(ip, address.port())))
}

/// Sends a browser to `listeners`, which listen already: whoever comes early waits in their queue. To be
/// called before the sandbox, in which nothing is executed, and which the browser must not inherit.
pub fn open_browser(listeners: &[Listener]) {
    let Some(url) = own_url(listeners) else {
        output::say("tared: --open: a browser cannot open a unix socket (add --listen 127.0.0.1:8080)\n");
        return;
    };
    // Detached: it outlives us and is nobody's child.
    if let Err(error) = open::that_detached(&url) {
        let cause = cause(&error);
        output::say(&format!("tared: --open: {cause} (install xdg-utils, or open {url} by hand)\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(every: &str, is_v6_only: bool, own: &[&str], reaching_it: &[&str]) {
        let own = own.iter().map(|address| address.parse().unwrap()).collect();
        let found = reaching(every.parse().unwrap(), is_v6_only, own);
        let found: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
        assert_eq!(found, reaching_it);
    }

    #[test]
    fn what_reaches_every_address_is_of_its_kind_and_others_come_first() {
        let own = ["127.0.0.1", "192.0.2.1", "192.0.2.9", "::1", "2001:db8::1", "fe80::1", "192.0.2.1"];
        check("0.0.0.0:80", false, &own, &["192.0.2.1:80", "192.0.2.9:80", "127.0.0.1:80"]);
        let all = ["192.0.2.1:80", "192.0.2.9:80", "[2001:db8::1]:80", "127.0.0.1:80", "[::1]:80"];
        check("[::]:80", false, &own, &all);
        check("[::]:80", true, &own, &["[2001:db8::1]:80", "[::1]:80"]);
        check("0.0.0.0:80", false, &[], &[]);
    }

    #[test]
    fn they_have_a_bound() {
        let own: Vec<String> = (0..100).map(|last| format!("192.0.2.{last}")).collect();
        let own: Vec<IpAddr> = own.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(reaching("0.0.0.0:80".parse().unwrap(), false, own).len(), ADDRESSES_MAX);
    }
}
