//! Which addresses may be connected to (a2a-profile, section 4, fetch rules).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Public ones: what anybody could reach from anywhere.
    #[default]
    Public,
    /// This machine too. Whatever listens here must then be able to bear what agents ask of it.
    PublicAndLoopback,
    /// Whatever a host has that the operator has named, private networks and this machine included.
    /// Link-local addresses stay out of reach: there clouds tell machines their secrets.
    Named,
}

impl Reach {
    /// Whether all of these may be reached. One that may not spoils the others: who owns a name
    /// chooses the order of its addresses.
    pub(super) fn allows_all(self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        addresses.into_iter().all(|address| match self {
            Self::Public => is_public(address),
            Self::PublicAndLoopback => is_public(address) || address.is_loopback(),
            Self::Named => is_of_one_machine(address.to_canonical()),
        })
    }
}

/// Whether an address can be that of a machine that somebody has named.
fn is_of_one_machine(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !matches!(address.octets(), [0 | 224..=255, ..]) && !address.is_link_local()
        }
        IpAddr::V6(address) => {
            let is_link_local = address.is_unicast_link_local();
            !(address.is_unspecified() || address.is_multicast() || is_link_local)
        }
    }
}

/// Whether an address is global unicast, and does not stand for another.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // This network, private, loopback.
        [0 | 10 | 127, ..] => false,
        // Shared by the customers of a carrier.
        [100, 64..=127, ..] => false,
        // Link-local, where clouds tell machines their secrets.
        [169, 254, ..] => false,
        // Private.
        [172, 16..=31, ..] | [192, 168, ..] => false,
        // Protocol assignments, documentation, relays of 6to4.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] => false,
        // Benchmarks, documentation.
        [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => false,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => false,
        _ => true,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocol assignments (Teredo is the first of them) and documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // 6to4.
        [0x2002, ..] => false,
        // The rest of what is global unicast. Outside of it lie loopback, v4-mapped, NAT64, unique
        // local, link-local and multicast.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Each range of the profile at its ends.
    #[test]
    fn what_is_not_public() {
        for address in addresses(&[
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:808:808::",
            "3fff:fff::1",
            "4000::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "ff02::1",
        ]) {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn what_is_public() {
        for address in addresses(&[
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2606:4700::1111",
            "3fff:1000::1",
        ]) {
            assert!(is_public(address), "{address}");
        }
    }

    #[test]
    fn what_a_named_host_may_have() {
        let own = addresses(&["10.0.0.1", "127.0.0.1", "::1", "fd00::1", "8.8.8.8"]);
        assert!(Reach::Named.allows_all(own));
        for address in [
            "0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!Reach::Named.allows_all(addresses(&[address])), "{address}");
        }
    }

    #[test]
    fn one_that_may_not_be_reached_spoils_the_others() {
        let mixed = addresses(&["8.8.8.8", "10.0.0.1"]);
        assert!(!Reach::Public.allows_all(mixed.clone()));
        assert!(!Reach::PublicAndLoopback.allows_all(mixed));
        let own = addresses(&["8.8.8.8", "127.0.0.1", "::1"]);
        assert!(!Reach::Public.allows_all(own.clone()));
        assert!(Reach::PublicAndLoopback.allows_all(own));
        // It stands for another address, whichever that is.
        let mapped = addresses(&["::ffff:127.0.0.1"]);
        assert!(!Reach::PublicAndLoopback.allows_all(mapped));
    }
}
