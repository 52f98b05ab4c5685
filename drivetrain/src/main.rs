//! The command line with the built-in handlers. What it does is in [`drivetrain::cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    drivetrain::cli::main()
}
