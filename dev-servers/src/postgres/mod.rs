//! Postgres: a throwaway cluster, and the one that tests share.
//!
//! - `programs` finds `initdb` and `postgres`, and `install` gets them on Debian when there are none;
//! - `data` makes a data directory and starts a server on it;
//! - `server` is one that runs: waiting until it is ready, stopping it;
//! - `cluster` is [`Cluster`], which ends with the process that started it;
//! - `shared` is [`shared_url`], for tests;
//! - `kept` is what [`crate::keep`] needs to know about Postgres.
//!
//! Servers listen on a loopback port and on a socket in their directory, trust everybody on this machine, and have
//! one user, `drivetrain`, who may do everything. They sync every commit to disk as in production: that is what is
//! tested.

mod cluster;
mod data;
mod install;
pub(crate) mod kept;
mod programs;
mod server;
mod shared;

pub use cluster::Cluster;
pub use shared::{SHARED_VARIABLE, shared_url};

/// The user that owns a cluster.
const USER: &str = "drivetrain";

/// The database that every cluster has.
const DATABASE: &str = "postgres";

/// The address on the loopback port.
fn url(port: u16) -> String {
    format!("postgres://{USER}@127.0.0.1:{port}/{DATABASE}")
}

/// The address of the socket in a directory. Its path stands where the host does, which needs its slashes encoded.
fn socket_url(directory: &std::path::Path, port: u16) -> String {
    use std::fmt::Write as _;
    let mut host = String::new();
    for byte in directory.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(byte) {
            host.push(char::from(*byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(host, "%{byte:02X}");
        }
    }
    format!("postgres://{USER}@{host}:{port}/{DATABASE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_stands_encoded_where_a_host_would() {
        let url = socket_url(std::path::Path::new("/tmp/a b-1"), 15_001);
        assert_eq!(url, "postgres://drivetrain@%2Ftmp%2Fa%20b-1:15001/postgres");
    }
}
