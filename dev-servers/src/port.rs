//! Free loopback ports.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context as _, Result};

/// The lowest port to hand out: below are the well-known ports of other software.
const LOWEST: u16 = 15_000;

/// Where the system's own choice begins when it does not say.
const USUAL_START_OF_SYSTEM_RANGE: u16 = 32_768;

/// How many ports to try before the system may choose.
const ATTEMPTS: u64 = 100;

/// A loopback port that nothing listens on.
///
/// It lies below the range from which the system gives ports to outgoing connections, because a server must find
/// its port free again after it was stopped for a while: a client that keeps trying to reach a stopped server in
/// that range is sooner or later given the very same port and then connects to itself. Somebody else can still take
/// the port before the caller does.
pub(crate) fn free() -> Result<u16> {
    let end = start_of_system_range();
    if let Some(width) = end.checked_sub(LOWEST).filter(|width| *width > 0) {
        for attempt in 0..ATTEMPTS {
            // A fresh state has random keys, which is all the chance that is needed here.
            let chance = RandomState::new().hash_one(attempt) % u64::from(width);
            let port = LOWEST + u16::try_from(chance).unwrap_or_default();
            if !is_heard(port) {
                return Ok(port);
            }
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free loopback port")?;
    Ok(listener.local_addr().context("a loopback port has no number")?.port())
}

/// Whether somebody listens on this loopback port. Only asks: to take the port and give it back would not do,
/// because a process that another thread starts meanwhile has a copy of it for a moment.
pub(crate) fn is_heard(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whether a server could not listen on this loopback port now, also because a client has it.
pub(crate) fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}

fn start_of_system_range() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(USUAL_START_OF_SYSTEM_RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_with_a_listener_is_heard_and_taken() {
        let port = free().unwrap();
        assert!(!is_heard(port));
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_heard(port) && is_taken(port));
    }

    #[test]
    fn a_port_is_not_one_that_the_system_gives_to_clients() {
        let start = start_of_system_range();
        if start > LOWEST {
            assert!((LOWEST..start).contains(&free().unwrap()));
        }
    }
}
