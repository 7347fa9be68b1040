//! Which addresses may be connected to (profile §4, fetch rules).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a name may not be connected to. A peer is told neither this nor the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The name has no address.
    #[error("the name has no address")]
    None,
    /// One of its addresses is not public.
    #[error("the name leads to an address that is not public")]
    NotPublic,
}

/// The address to connect to, out of all that a name has: none is taken if any of them is not
/// public, since an attacker who owns the name chooses the order.
///
/// # Errors
/// If there is none, or one that is not public.
pub fn choose_address(addresses: &[IpAddr]) -> Result<IpAddr, AddressError> {
    if !addresses.iter().all(is_public) {
        return Err(AddressError::NotPublic);
    }
    addresses.first().copied().ok_or(AddressError::None)
}

/// Whether an address is global unicast, and not one that stands for another.
#[must_use]
pub fn is_public(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(*address),
        IpAddr::V6(address) => is_public_v6(*address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let inside = |net: [u8; 4], bits: u32| {
        let mask = u32::MAX
            .checked_shl(32_u32.saturating_sub(bits))
            .unwrap_or(0);
        address.to_bits() & mask == Ipv4Addr::from(net).to_bits() & mask
    };
    // "This network", private, shared (CGNAT), loopback, link-local, protocol assignments (192.0.0
    // and the documentation nets), 6to4 relays, benchmarking, multicast, reserved and broadcast.
    ![
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
    ]
    .into_iter()
    .any(|(net, bits)| inside(net, bits))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is global unicast; all of ::/8 (loopback, v4-mapped, NAT64), fc00::/7, fe80::/10
    // and ff00::/8 lie outside it.
    let global = first & 0xe000 == 0x2000;
    let protocol_assignments = first == 0x2001 && second < 0x0200;
    let documentation =
        (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    let six_to_four = first == 0x2002;
    global && !protocol_assignments && !documentation && !six_to_four
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(&text.parse().unwrap())
    }

    /// Threat 75: the addresses.
    #[test]
    fn threat_75_addresses_that_are_not_public() {
        for address in [
            "127.0.0.1",
            "127.255.255.255",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "192.88.99.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2001:10::1",
            "2001:20::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "100::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(!public(address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2a00::1",
            "3ffe::1",
        ] {
            assert!(public(address), "{address}");
        }
    }

    /// Threat 76: a mixed answer is refused whole, and exactly the checked address is used.
    #[test]
    fn threat_76_mixed_answers() {
        let all = |list: &[&str]| -> Vec<IpAddr> {
            list.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(
            choose_address(&all(&["8.8.8.8", "10.0.0.1"])),
            Err(AddressError::NotPublic)
        );
        assert_eq!(
            choose_address(&all(&["8.8.8.8", "1.1.1.1"])),
            Ok("8.8.8.8".parse().unwrap())
        );
        assert_eq!(choose_address(&[]), Err(AddressError::None));
    }
}
