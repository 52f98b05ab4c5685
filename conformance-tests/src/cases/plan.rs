//! What a plan says, and what is refused before a run is made of it.

use std::error::Error as _;
use std::sync::Arc;

use client::Start;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::plan::{CompiledPlan, Problem, Problems};
use engine_core::{CheckpointId, Code, PlanVersion, SignalId, StepId};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::case::cases;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("plan", Core;
    yaml_and_json_mean_the_same => ["PLAN-1", "PLAN-15"],
    a_plan_that_was_read_elsewhere_is_checked_again => ["PLAN-2"],
    every_problem_has_a_code_a_place_and_a_hint => ["PLAN-3", "PLAN-4"],
    a_cycle_is_told_with_its_members => ["PLAN-5"],
    steps_that_are_not_there_or_twice_are_refused => ["PLAN-6"],
    expressions_and_schemas_must_be_readable => ["PLAN-7", "DATA-15"],
    a_handler_that_nobody_has_is_refused => ["PLAN-8"],
    values_out_of_range_and_unknown_fields_are_refused => ["PLAN-9", "SLOT-6"],
    orders_have_no_gap => ["PLAN-10"],
    a_sequence_has_no_dependencies => ["PLAN-11"],
    a_plan_without_steps_is_refused => ["PLAN-12"],
    ids_are_checked => ["PLAN-13", "PLAN-14"],
    the_schema_of_plans_is_published => ["PLAN-16"],
    a_fallback_serves_one_step_and_stands_alone => ["PLAN-17"],
    local_dispatch_is_refused_where_it_cannot_be => ["DISPATCH-4"],
    an_input_has_one_source => ["DATA-8", "DATA-9"],
    secrets_stand_as_references => ["SECRET-1"],
);

/// What is wrong with a plan; nothing may be stored of it.
async fn problems(world: &World, text: &str) -> Result<Vec<Problem>, Stop> {
    let Err(error) = world.client().read_plan(text) else {
        return Err(Stop::Fail(format!("this plan was taken:\n{text}")));
    };
    ensure_eq!(error.code(), Code::PlanInvalid, "the code of the refusal");
    ensure!(world.list().await?.is_empty(), "nothing is stored");
    let told = error.source().and_then(|source| source.downcast_ref::<Problems>());
    told.map(|problems| problems.0.clone())
        .ok_or_else(|| Stop::Fail(format!("a refusal that does not list its problems: {error}")))
}

/// A plan of these steps, in YAML, is refused with a problem of this code at this place.
async fn refused(world: &World, rest: &str, code: &str, place: &str) -> Result<Problem, Stop> {
    let told = problems(world, &format!("id: p\nversion: 1.0.0\n{rest}\n")).await?;
    let found = told.iter().find(|problem| problem.code.as_str() == code && problem.path == place);
    found
        .cloned()
        .ok_or_else(|| Stop::Fail(format!("{rest}\nis not refused with {code} at {place}, but: {told:?}")))
}

/// A plan of these steps is taken: what is refused beside it is refused for its reason.
fn taken(world: &World, rest: &str) -> Outcome {
    match world.client().read_plan(&format!("id: p\nversion: 1.0.0\n{rest}\n")) {
        Ok(_) => Ok(()),
        Err(error) => Err(Stop::Fail(format!("{rest}\nwas refused: {error}"))),
    }
}

async fn yaml_and_json_mean_the_same(world: &World) -> Outcome {
    let yaml = "
# The same plan with other words around it.
version: 1.0.0
id: twin
steps:
  - handler: script
    id: a
    with: {value: {x: 1, b: [1, 2]}}
";
    let json = json!({
        "id": "twin", "version": "1.0.0",
        "steps": [{"id": "a", "handler": "script", "with": {"value": {"b": [1, 2], "x": 1}}}],
    });
    let first = world.start_with(yaml, |start| start.request_id("yaml")).await?;
    let second = world.start_with(&json.to_string(), |start| start.request_id("json")).await?;
    let mut hashes = Vec::new();
    for run in [&first, &second] {
        run.ends(RunStatus::Completed).await?;
        let queued = run.event(EventType::RunQueued).await?;
        hashes.push(queued["planRef"]["sha256"].clone());
        let output = run.event(EventType::RunCompleted).await?["output"]["value"].clone();
        ensure_eq!(output, json!({"a": {"x": 1, "b": [1, 2]}}), "the output");
    }
    ensure_eq!(hashes[0], hashes[1], "the hash of both");
    let plan = world.plan(yaml)?;
    let document: Value = serde_json::to_value(plan.document())
        .map_err(|cause| Stop::Fail(format!("a plan cannot be written: {cause}")))?;
    let hash: String =
        Sha256::digest(canonical(&document)).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure_eq!(hashes[0], hash, "the hash, worked out anew");
    let other = world.plan(&yaml.replace("x: 1", "x: 2"))?;
    ensure!(other.hash() != hash, "another plan has another hash");
    Ok(())
}

/// JSON with keys sorted and without white space.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

async fn a_plan_that_was_read_elsewhere_is_checked_again(world: &World) -> Outcome {
    // Whoever read it knew nothing of handlers.
    let text = "id: p\nversion: 1.0.0\nsteps: [{id: a, handler: nobody}]\n";
    let read = engine_core::plan::read(text).map_err(|problems| Stop::Error(problems.to_string()))?;
    let plan = Arc::new(CompiledPlan::new(read)?);
    match world.try_start(Start::of(plan.clone())).await {
        Ok(_) => return Err(Stop::Fail("a run of a handler that nobody has was started".to_owned())),
        Err(error) => ensure_eq!(error.code(), Code::PlanInvalid, "the code of the refusal"),
    }
    ensure!(world.list().await?.is_empty(), "nothing is stored");
    let tenant = &world.client().scope().tenant_id;
    let stored = world.subject().store.plan(tenant, plan.hash()).await.err().map(|error| error.code());
    ensure_eq!(stored, Some(Code::PlanMissing), "the answer about the plan: it is not stored either");
    Ok(())
}

async fn every_problem_has_a_code_a_place_and_a_hint(world: &World) -> Outcome {
    let text = "id: p\nversion: 1.0.0\nsteps:\n  - id: a\n    handler: script\n    priority: 9\n    \
                dependsOn: [ghost]\n  - {id: b, handler: script, colour: red}\n";
    let told = problems(world, text).await?;
    let places: Vec<(&str, &str, Option<u32>)> =
        told.iter().map(|problem| (problem.code.as_str(), problem.path.as_str(), problem.line)).collect();
    for expected in [
        ("OUT_OF_RANGE", "steps[0].priority", Some(6)),
        ("UNKNOWN_STEP", "steps[0].dependsOn[0]", Some(7)),
        ("UNKNOWN_FIELD", "steps[1].colour", Some(8)),
    ] {
        ensure!(places.contains(&expected), "{expected:?} is told: {places:?}");
    }
    for problem in &told {
        ensure!(!problem.hint.is_empty() && !problem.message.is_empty(), "it says what to do: {problem:?}");
        ensure!(problem.column.is_some(), "it has a column: {problem:?}");
    }
    Ok(())
}

async fn a_cycle_is_told_with_its_members(world: &World) -> Outcome {
    let text = "id: p\nversion: 1.0.0\nsteps:\n  - {id: one, handler: script, dependsOn: [three]}\n  \
                - {id: two, handler: script, dependsOn: [one]}\n  - {id: three, handler: script, dependsOn: [two]}\n  \
                - {id: outside, handler: script, dependsOn: [three]}\n";
    let told = problems(world, text).await?;
    let cycle = told.iter().find(|problem| problem.code.as_str() == "CYCLE");
    let Some(cycle) = cycle else { return Err(Stop::Fail(format!("no cycle is told: {told:?}"))) };
    for member in ["one", "two", "three"] {
        ensure!(cycle.message.contains(member), "{member} is in the cycle: {}", cycle.message);
    }
    ensure!(!cycle.message.contains("outside"), "who only depends on it is not: {}", cycle.message);
    Ok(())
}

async fn steps_that_are_not_there_or_twice_are_refused(world: &World) -> Outcome {
    refused(
        world,
        "steps: [{id: a, handler: script, dependsOn: [b]}]",
        "UNKNOWN_STEP",
        "steps[0].dependsOn[0]",
    )
    .await?;
    let twice = "steps: [{id: a, handler: script}, {id: a, handler: script}]";
    refused(world, twice, "DUPLICATE_STEP", "steps[1].id").await?;
    let itself = "steps: [{id: a, handler: script, dependsOn: [a]}]";
    refused(world, itself, "SELF_DEPENDENCY", "steps[0].dependsOn[0]").await?;
    taken(world, "steps: [{id: a, handler: script}, {id: b, handler: script, dependsOn: [a]}]")
}

async fn expressions_and_schemas_must_be_readable(world: &World) -> Outcome {
    let when = "steps: [{id: a, handler: script, when: 'input.[['}]";
    refused(world, when, "EXPRESSION_INVALID", "steps[0].when").await?;
    let with = "steps: [{id: a, handler: script, with: {note: '${ input. }'}}]";
    refused(world, with, "EXPRESSION_INVALID", "steps[0].with.note").await?;
    let schema = "steps: [{id: a, handler: script, output: {schema: {type: nonsense}}}]";
    let told = problems(world, &format!("id: p\nversion: 1.0.0\n{schema}\n")).await?;
    ensure!(told.iter().any(|problem| problem.code.as_str() == "SCHEMA_INVALID"), "the schema: {told:?}");
    let remote =
        "steps: [{id: a, handler: script, output: {schema: {$ref: 'https://schemas.example/a.json'}}}]";
    let told = problems(world, &format!("id: p\nversion: 1.0.0\n{remote}\n")).await?;
    ensure!(told.iter().any(|problem| problem.code.as_str() == "SCHEMA_INVALID"), "a remote one: {told:?}");
    taken(
        world,
        "steps: [{id: a, handler: script, when: 'input.go', output: {schema: {$ref: '#/$defs/x', $defs: {x: {}}}}}]",
    )
}

async fn a_handler_that_nobody_has_is_refused(world: &World) -> Outcome {
    refused(world, "steps: [{id: a, handler: nobody}]", "UNKNOWN_HANDLER", "steps[0].handler").await?;
    let undo = "steps: [{id: a, handler: script, compensation: {handler: nobody}}]";
    refused(world, undo, "UNKNOWN_HANDLER", "steps[0].compensation.handler").await?;
    taken(world, "steps: [{id: a, handler: other, compensation: {handler: undo}}]")
}

async fn values_out_of_range_and_unknown_fields_are_refused(world: &World) -> Outcome {
    for priority in [0, 1, 2, 3] {
        taken(world, &format!("steps: [{{id: a, handler: script, priority: {priority}}}]"))?;
    }
    for (rest, code, place) in [
        ("steps: [{id: a, handler: script, priority: 4}]", "OUT_OF_RANGE", "steps[0].priority"),
        ("steps: [{id: a, handler: script, priority: -1}]", "OUT_OF_RANGE", "steps[0].priority"),
        ("steps: [{id: a, handler: script, timeoutMs: 0}]", "OUT_OF_RANGE", "steps[0].timeoutMs"),
        (
            "limits: {maxConcurrency: 0}\nsteps: [{id: a, handler: script}]",
            "OUT_OF_RANGE",
            "limits.maxConcurrency",
        ),
        ("steps: [{id: a, handler: script, handlre: x}]", "UNKNOWN_FIELD", "steps[0].handlre"),
        ("colour: red\nsteps: [{id: a, handler: script}]", "UNKNOWN_FIELD", "colour"),
        ("mode: sideways\nsteps: [{id: a, handler: script}]", "UNKNOWN_VALUE", "mode"),
    ] {
        refused(world, rest, code, place).await?;
    }
    let run = world.start("id: d\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let priority = world.client().plan_of(&run.run_id).await?.document().steps[0].priority;
    ensure_eq!(priority, 2, "the priority of a step that names none");
    Ok(())
}

async fn orders_have_no_gap(world: &World) -> Outcome {
    for orders in [[1, 3], [2, 3], [1, 1], [0, 1]] {
        let [first, second] = orders;
        let text = format!(
            "id: p\nversion: 1.0.0\nsteps: [{{id: a, handler: script, order: {first}}}, {{id: b, handler: script, \
             order: {second}}}]\n"
        );
        let told = problems(world, &text).await?;
        let about = |problem: &Problem| ["ORDER_INVALID", "OUT_OF_RANGE"].contains(&problem.code.as_str());
        ensure!(told.iter().any(about), "orders {orders:?}: {told:?}");
    }
    taken(world, "steps: [{id: a, handler: script, order: 2}, {id: b, handler: script, order: 1}]")
}

async fn a_sequence_has_no_dependencies(world: &World) -> Outcome {
    let steps = "steps: [{id: a, handler: script}, {id: b, handler: script, dependsOn: [a]}]";
    let text = format!("id: p\nversion: 1.0.0\nmode: sequential\n{steps}\n");
    let told = problems(world, &text).await?;
    ensure!(told.iter().any(|problem| problem.code.as_str() == "MODE_CONFLICT"), "{told:?}");
    taken(world, &format!("mode: graph\n{steps}"))
}

async fn a_plan_without_steps_is_refused(world: &World) -> Outcome {
    refused(world, "steps: []", "MISSING_FIELD", "steps").await?;
    let told = problems(world, "id: p\nversion: 1.0.0\n").await?;
    ensure!(told.iter().any(|problem| problem.code.as_str() == "MISSING_FIELD"), "{told:?}");
    Ok(())
}

async fn ids_are_checked(world: &World) -> Outcome {
    let long = "x".repeat(128);
    for good in ["a.b_c-D9", long.as_str(), "run"] {
        taken(world, &format!("steps: [{{id: '{good}', handler: script}}]"))?;
    }
    for bad in ["RUN", "a b", "a/b", "ä", "", &"x".repeat(129), "a+b"] {
        let text = format!("id: p\nversion: 1.0.0\nsteps: [{{id: '{bad}', handler: script}}]\n");
        let told = problems(world, &text).await?;
        ensure!(told.iter().any(|problem| problem.path == "steps[0].id"), "step id {bad:?}: {told:?}");
        ensure!(StepId::new(bad).is_err(), "{bad:?} is no step in a plan that is made in code either");
    }
    let plus = "a.b_c-D9+x";
    ensure!(
        PlanVersion::new(plus).is_ok() && SignalId::new(plus).is_ok() && CheckpointId::new(plus).is_ok(),
        "a plus is allowed in versions, signals and checkpoints"
    );
    for bad in ["", "a b", "a|b", "ä", &"x".repeat(129)] {
        let text = format!("id: p\nversion: '{bad}'\nsteps: [{{id: a, handler: script}}]\n");
        let told = problems(world, &text).await?;
        ensure!(told.iter().any(|problem| problem.path == "version"), "version {bad:?}: {told:?}");
        ensure!(SignalId::new(bad).is_err() && CheckpointId::new(bad).is_err(), "{bad:?} names nothing");
    }
    Ok(())
}

async fn the_schema_of_plans_is_published(_: &World) -> Outcome {
    let schema: Value = serde_json::from_str(engine_core::plan::schema::text())
        .map_err(|cause| Stop::Fail(format!("the schema of plans is not JSON: {cause}")))?;
    let id = schema["$id"].as_str().unwrap_or_default();
    ensure!(id.ends_with("plan.v1.schema.json"), "its name: {id}");
    for field in ["id", "version", "steps"] {
        ensure!(schema["properties"][field].is_object(), "{field} is described");
    }
    Ok(())
}

async fn a_fallback_serves_one_step_and_stands_alone(world: &World) -> Outcome {
    let cases = [
        "steps: [{id: r, handler: script}, {id: a, handler: script, fallback: f}, {id: f, handler: script, dependsOn: [r]}]",
        "steps: [{id: a, handler: script, fallback: f}, {id: f, handler: script}, {id: b, handler: script, dependsOn: [f]}]",
        "mode: graph\nsteps: [{id: a, handler: script, fallback: f}, {id: b, handler: script, fallback: f}, {id: f, handler: script}]",
    ];
    for rest in cases {
        let told = problems(world, &format!("id: p\nversion: 1.0.0\n{rest}\n")).await?;
        ensure!(told.iter().any(|problem| problem.code.as_str() == "FALLBACK_INVALID"), "{rest}: {told:?}");
    }
    taken(world, "steps: [{id: a, handler: script, fallback: f}, {id: f, handler: script}]")
}

async fn local_dispatch_is_refused_where_it_cannot_be(world: &World) -> Outcome {
    for step in ["agent: anna", "timeoutMs: 10001"] {
        let text =
            format!("id: p\nversion: 1.0.0\nsteps: [{{id: a, handler: script, dispatch: local, {step}}}]\n");
        let told = problems(world, &text).await?;
        ensure!(
            told.iter().any(|problem| problem.code.as_str() == "LOCAL_DISPATCH_REFUSED"),
            "{step}: {told:?}"
        );
    }
    let planned = "dispatch: local\nsteps: [{id: a, handler: script, timeoutMs: 10001}]";
    let told = problems(world, &format!("id: p\nversion: 1.0.0\n{planned}\n")).await?;
    ensure!(
        told.iter().any(|problem| problem.code.as_str() == "LOCAL_DISPATCH_REFUSED"),
        "by the plan: {told:?}"
    );
    taken(world, "dispatch: local\nsteps: [{id: a, handler: script, timeoutMs: 10001, dispatch: queued}]")?;
    taken(world, "steps: [{id: a, handler: script, dispatch: local, timeoutMs: 10000}]")
}

async fn an_input_has_one_source(world: &World) -> Outcome {
    let both = "steps: [{id: a, handler: script, with: {}, input: {from: context}}]";
    let told = problems(world, &format!("id: p\nversion: 1.0.0\n{both}\n")).await?;
    ensure!(told.iter().any(|problem| problem.code.as_str() == "FIELD_CONFLICT"), "with and input: {told:?}");
    for rest in [
        "steps: [{id: a, handler: script, input: {from: previousStep}}]",
        "steps: [{id: a, handler: script}, {id: b, handler: script}, {id: c, handler: script, dependsOn: [a, b], input: {from: previousStep}}]",
    ] {
        let told = problems(world, &format!("id: p\nversion: 1.0.0\n{rest}\n")).await?;
        ensure!(told.iter().any(|problem| problem.path.ends_with("input.from")), "{rest}: {told:?}");
    }
    taken(world, "steps: [{id: a, handler: script}, {id: b, handler: script, input: {from: previousStep}}]")
}

async fn secrets_stand_as_references(world: &World) -> Outcome {
    taken(
        world,
        "steps: [{id: a, handler: script, secrets: {KEY: 'env:KEY', OTHER: {provider: env, key: K, version: '3'}}}]",
    )?;
    for bad in ["KEY: hunter2", "KEY: {value: hunter2}", "KEY: ''"] {
        let text =
            format!("id: p\nversion: 1.0.0\nsteps: [{{id: a, handler: script, secrets: {{{bad}}}}}]\n");
        let told = problems(world, &text).await?;
        ensure!(
            told.iter().all(|problem| problem.path.starts_with("steps[0].secrets")),
            "{bad} is refused at its place: {told:?}"
        );
    }
    Ok(())
}
