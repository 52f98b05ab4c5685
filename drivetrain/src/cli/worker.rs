//! `worker`: serves the store until stopped.

use super::arguments::AllowArguments;
use super::attend::Interrupts;
use super::complaint::Result;
use super::exit::Exit;
use super::session::Session;
use crate::config::show::without_password;

pub(super) async fn worker(session: &Session, allow: &AllowArguments) -> Result<Exit> {
    let mut interrupts = Interrupts::new()?;
    let drivetrain = session.serve(allow).await?;
    let output = session.output;
    let handlers: Vec<&str> = drivetrain.handlers().into_iter().flatten().map(String::as_str).collect();
    output.line(format!(
        "serving {} on {}",
        without_password(&session.config.store_url()),
        drivetrain.engine().name()
    ));
    output.line(format!("handlers: {}", handlers.join(", ")));
    output.line("Ctrl-C stops; nothing is lost");
    interrupts.next().await;
    output.line("stopping");
    tokio::select! {
        () = drivetrain.shutdown() => {}
        () = interrupts.next() => return Ok(Exit::Left),
    }
    Ok(Exit::Success)
}
