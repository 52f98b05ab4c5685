//! Handlers of your own types, a plan that uses them, and the run's output.
//!
//! `cargo run -p drivetrain --example typed-handlers`

use std::error::Error;
use std::io::Write as _;

use drivetrain::{Drivetrain, Start, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
struct Order {
    item: String,
    count: u32,
}

#[derive(Serialize)]
struct Price {
    cents: u32,
}

/// A handler is an async function: typed input in, typed output or an error out.
async fn price(_: StepContext, order: Order) -> Result<Price, StepError> {
    let each = match order.item.as_str() {
        "ring" => 12_950,
        "lamp" => 4_900,
        // A permanent error is not tried again; a transient one is.
        other => return Err(StepError::classified("NotFoundError", None, format!("there is no {other}"))),
    };
    Ok(Price { cents: each * order.count })
}

#[derive(Deserialize)]
struct Invoice {
    customer: String,
    cents: u32,
}

async fn invoice(context: StepContext, invoice: Invoice) -> Result<serde_json::Value, StepError> {
    // How far it is shows in `drivetrain status`; the token is the same over all retries of this step.
    context.progress(0.5);
    Ok(
        json!({"to": invoice.customer, "euros": invoice.cents / 100, "reference": &context.idempotency_token[..8]}),
    )
}

const PLAN: &str = r#"
id: typed-handlers
version: "1"
result: steps.invoice.output
steps:
  - id: price
    handler: price
    with: {item: "${ input.item }", count: "${ input.count }"}
  - id: invoice
    handler: invoice
    dependsOn: [price]
    with: {customer: "${ input.customer }", cents: "${ steps.price.output.cents }"}
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let drivetrain = Drivetrain::builder()
        .engine("embedded")
        .store("memory:")
        .handler("price", price)
        .handler("invoice", invoice)
        .build()
        .await?;
    let plan = drivetrain.read_plan(PLAN)?;
    let input = json!({"customer": "Ada", "item": "lamp", "count": 3});
    let run = drivetrain.start(Start::of(plan).input(input)).await?.run_id;
    let end = drivetrain.wait(&run).await?;
    let output = drivetrain.output(&run).await?.and_then(|output| output.value).unwrap_or_default();
    writeln!(std::io::stdout(), "run {run}: {}: {output}", end.message)?;
    drivetrain.shutdown().await;
    Ok(())
}
