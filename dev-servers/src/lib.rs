//! Real servers for tests and for development, started on free loopback ports by whoever needs one.
//!
//! A server is either thrown away with the process that started it, whatever ends that process, or kept running
//! until somebody takes it down:
//!
//! - [`postgres`]: a throwaway [`postgres::Cluster`] to stop, crash and start again, and
//!   [`postgres::shared_url`], the one that all tests of a process share;
//! - [`temporal`]: the same for Temporal: [`temporal::DevServer`] and [`temporal::shared_address`];
//! - [`keep`]: servers behind `cargo xtask servers up`, which outlive the command.
//!
//! What every kind of server is built on:
//!
//! - `account`: the unprivileged user that servers run as when the caller is root;
//! - `place`: directories that this user can reach, and the cache folder;
//! - `port`: free ports that stay free while a server is stopped;
//! - `process`: starting, signalling and recognising processes;
//! - `watchdog`: what ends a server when its starter is gone.
//!
//! Everything is synchronous and needs a Unix; [`keep`] needs Linux's `/proc`. A server that cannot be had is an
//! error that says what to install, never a test that is silently left out.

mod account;
pub mod keep;
mod place;
mod port;
pub mod postgres;
mod process;
pub mod temporal;
mod watchdog;
