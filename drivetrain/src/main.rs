//! The command line with the built-in handlers. What it does is in [`drivetrain::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    drivetrain::cli::main()
}
