//! Starts a throwaway Temporal, writes its address on a line and holds it until standard input ends or the process
//! does. The tests kill it to see that the server goes with it; it is as useful at a terminal.

use std::io::Write as _;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let address = dev_servers::temporal::shared_address()?;
    let mut output = std::io::stdout();
    writeln!(output, "{address}").and_then(|()| output.flush()).context("cannot write the address")?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .context("cannot wait for the end of the input")?;
    Ok(())
}
