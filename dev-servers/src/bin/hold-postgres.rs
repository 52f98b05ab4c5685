//! Starts a throwaway Postgres, writes its address on a line and holds it until standard input ends or the process
//! does. The tests kill it to see that the server goes with it; it is as useful at a terminal.

use std::io::Write as _;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let url = dev_servers::postgres::shared_url()?;
    let mut output = std::io::stdout();
    writeln!(output, "{url}").and_then(|()| output.flush()).context("cannot write the address")?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .context("cannot wait for the end of the input")?;
    Ok(())
}
