//! Secrets: given to the steps that refer to them, and kept out of everything that is told or stored.

use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::plan::FullSecretRef;

use crate::case::cases;
use crate::script::Vault;
use crate::script::handler::sha256;
use crate::{Outcome, Stop, TestRun, World, ensure, ensure_eq};

cases!("secret", Data;
    a_secret_is_that_of_the_runs_tenant_and_environment => ["SECRET-1", "SECRET-2"],
    a_secret_that_is_told_is_not_written => ["SECRET-3"],
    a_secret_in_an_artifact_is_not_written => ["SECRET-3"],
    a_secret_that_cannot_be_had_fails_the_step => ["SECRET-4"],
);

/// The SHA-256 of the secret that a step told, which alone is not hidden.
async fn told(run: &TestRun, step: &str) -> Result<String, Stop> {
    let completed = crate::world::run::json(&run.until_step(EventType::StepCompleted, step).await?)?;
    Ok(completed["output"]["value"]["sha256"].as_str().unwrap_or_default().to_owned())
}

async fn a_secret_is_that_of_the_runs_tenant_and_environment(world: &World) -> Outcome {
    let plan = "
id: keyed
version: 1.0.0
mode: graph
steps:
  - {id: short, handler: script, secrets: {KEY: 'vault:db/password'}, with: {tell: KEY}}
  - {id: long, handler: script, secrets: {KEY: {provider: vault, key: db/password, version: '3'}}, with: {tell: KEY}}
";
    let elsewhere = [world.clone(), world.as_tenant("globex")?, world.in_environment("production")];
    for world in elsewhere {
        let run = world.start(plan).await?;
        run.ends(RunStatus::Completed).await?;
        let scope = world.client().scope();
        for (step, version) in [("short", None), ("long", Some("3"))] {
            let reference = FullSecretRef {
                provider: "vault".to_owned(),
                key: "db/password".to_owned(),
                version: version.map(ToOwned::to_owned),
            };
            let secret = Vault::secret(&scope.tenant_id, &scope.environment_id, &reference);
            let seen = told(&run, step).await?;
            ensure_eq!(
                seen,
                sha256(&secret),
                "the secret of {step} for {} in {}",
                scope.tenant_id,
                scope.environment_id
            );
        }
    }
    Ok(())
}

/// Everything that a handler can tell has the secret in it; what is stored is judged with every case's history.
async fn a_secret_that_is_told_is_not_written(world: &World) -> Outcome {
    let plan = "
id: talkative
version: 1.0.0
steps:
  - id: says
    handler: script
    secrets: {KEY: 'vault:key'}
    with: {tell: KEY, review: look, progress: [0.5]}
    compensation: {handler: undo, with: {tell: KEY, fail: {class: transient, times: 1}}}
  - {id: hears, handler: script, dependsOn: [says], with: {note: '${ steps.says.output }'}}
  - id: stumbles
    handler: script
    dependsOn: [hears]
    secrets: {KEY: 'vault:key'}
    retry: {initialBackoffMs: 10}
    with: {tell: KEY, fail: {class: transient, times: 1}}
  - id: shouts
    handler: script
    dependsOn: [stumbles]
    secrets: {KEY: 'vault:key'}
    retry: {maxAttempts: 1}
    with: {tell: KEY, panic: no}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure!(!told(&run, "says").await?.is_empty(), "the handler had its secret");
    ensure!(world.visits_of("hears")[0].input["note"]["secret"].is_string(), "something stands in its place");
    for (event, count) in [
        (EventType::HumanReviewRequested, 1),
        (EventType::StepRetried, 1),
        (EventType::StepFailed, 1),
        (EventType::CompensationFailed, 1),
        (EventType::CompensationCompleted, 1),
    ] {
        ensure_eq!(run.count(event).await?, count, "the {event} events");
    }
    Ok(())
}

async fn a_secret_in_an_artifact_is_not_written(world: &World) -> Outcome {
    let plan = "
id: voluminous
version: 1.0.0
steps:
  - {id: says, handler: script, secrets: {KEY: 'vault:key'}, with: {tell: KEY, bytes: 300000}}
  - {id: hears, handler: script, dependsOn: [says], with: {note: '${ steps.says.output.secret }'}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let completed = run.event(EventType::StepCompleted).await?;
    ensure!(completed["output"]["artifact"].is_object(), "its output is an artifact: {completed}");
    ensure!(world.visits_of("hears")[0].input["note"].is_string(), "what the artifact has in its place");
    Ok(())
}

async fn a_secret_that_cannot_be_had_fails_the_step(world: &World) -> Outcome {
    let plan = "
id: locked
version: 1.0.0
steps:
  - {id: a, handler: script, secrets: {KEY: 'nowhere:key'}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["code"], "SECRET_UNRESOLVED", "the code");
    ensure_eq!(failed["error"]["class"], "permanent", "the class");
    ensure_eq!(failed["tries"], 1, "the tries");
    ensure!(world.entries().is_empty(), "the handler is not called: {:?}", world.entries());
    Ok(())
}
