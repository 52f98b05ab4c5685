//! A small HTTP service that is not quite well, for `examples/flaky-http/plan.yaml`:
//! `/quote` answers 503 twice and then a price, `/down` always answers 503.
//!
//! `cargo run -p drivetrain --example flaky-server [ADDRESS]`; without an address it is 127.0.0.1:8099.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

/// How often `/quote` fails before it answers.
const FAILURES: u32 = 2;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8099".to_owned());
    let listener = TcpListener::bind(&address)?;
    // Whoever started it waits for this line before calling.
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let mut failures = 0;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut request = String::new();
        let mut lines = BufReader::new(&stream);
        lines.read_line(&mut request)?;
        let mut line = String::new();
        // The headers do not matter; an empty line ends them.
        while lines.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let (status, body) = match path {
            "/quote" if failures < FAILURES => {
                failures += 1;
                ("503 Service Unavailable", r#"{"error": "busy"}"#)
            }
            "/quote" => {
                failures = 0;
                ("200 OK", r#"{"price": 42}"#)
            }
            "/down" => ("503 Service Unavailable", r#"{"error": "down"}"#),
            _ => ("404 Not Found", r#"{"error": "no such path"}"#),
        };
        writeln!(std::io::stdout(), "{path}: {status}")?;
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )?;
    }
    Ok(())
}
