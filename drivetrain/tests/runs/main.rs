//! The real program, driving real runs on SQLite files and on a Postgres server: every command that acts on a
//! run, from another process too.
//!
//! - `process`: starting the program and waiting for what it says; `plans`: what several topics run;
//! - `examples`: every example plan and program; `signals`: from another process; `interrupt`: Ctrl-C;
//! - `origin`: reruns, copies and checkpoints; `s3`: large outputs elsewhere;
//! - `terminal`: what a person sees, on a `screen`;
//! - `bad`: full disks and folders that cannot be written.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad;
mod examples;
mod interrupt;
mod origin;
mod plans;
mod process;
#[cfg(feature = "s3")]
mod s3;
mod screen;
mod signals;
mod terminal;
