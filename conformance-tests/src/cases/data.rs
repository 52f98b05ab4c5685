//! What steps see, what they are given, what they leave, and how large it may be.

use client::Start;
use engine_core::Code;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::world::TestRun;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("data", Data;
    a_step_sees_what_it_depends_on_and_nothing_else => ["DATA-1", "COND-1"],
    vars_are_merged_in_the_order_of_the_plan => ["DATA-2", "DATA-11", "DATA-12"],
    expressions_keep_their_type_alone_and_become_text_in_text => ["DATA-6"],
    inputs_are_taken_transformed_and_checked => ["DATA-7", "DATA-16"],
    inputs_are_worked_out_from_the_store_before_a_step_starts => ["DATA-4"] needs [Need::Can(Fault::Kill)],
    outputs_are_transformed_and_checked => ["DATA-10", "DATA-16"],
    an_output_carries_what_else_is_known_of_it => ["DATA-17"],
    what_is_read_only_cannot_be_written => ["DATA-13", "DATA-16"],
    private_fields_are_seen_by_nobody => ["DATA-14"],
    a_fallback_sees_what_its_step_sees => ["DATA-3"],
    a_condition_that_cannot_be_evaluated_fails_the_step => ["COND-3", "STEP-3"],
    an_output_up_to_the_limit_stands_in_the_event => ["DATA-18"],
    a_larger_output_is_an_artifact => ["DATA-19"],
    an_input_over_ten_mebibytes_is_refused => ["DATA-23"],
    a_result_is_what_the_plan_says => ["RUN-23"],
    without_a_result_the_last_steps_give_it => ["RUN-23"],
    the_token_of_a_step_is_the_same_for_every_try => ["IDEM-6"],
);

async fn a_step_sees_what_it_depends_on_and_nothing_else(world: &World) -> Outcome {
    let plan = "
id: sight
version: 1.0.0
steps:
  - {id: root, handler: script, with: {value: 1}, output: {to: root}}
  - {id: middle, handler: script, dependsOn: [root], with: {value: 2}, output: {to: middle}}
  - {id: beside, handler: script, dependsOn: [root], with: {value: 3}, output: {to: beside}}
  - {id: chosen, handler: script, dependsOn: [middle], when: 'steps.root.output == `1` && vars.middle == `2` && input.go'}
  - id: end
    handler: script
    dependsOn: [chosen, {step: late, required: false}]
    input: {from: context, transform: '{note: @}'}
  - {id: late, handler: script, dependsOn: [middle]}
";
    let run = world.start_with(plan, |start| start.input(json!({"go": true}))).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(
        run.step("chosen").await?.status,
        StepStatus::Success,
        "the step whose condition looks around"
    );
    let seen = &world.visits_of("end")[0].input["note"];
    ensure_eq!(seen["input"], json!({"go": true}), "the run's input");
    let steps: Vec<&String> = seen["steps"].as_object().into_iter().flat_map(|steps| steps.keys()).collect();
    ensure_eq!(steps, ["chosen", "late", "middle", "root"], "the steps it sees");
    ensure_eq!(seen["steps"]["middle"]["output"], 2, "what a step left that it does not name itself");
    ensure_eq!(seen["steps"]["middle"]["status"], "SUCCESS", "and how that ended");
    ensure_eq!(seen["vars"], json!({"root": 1, "middle": 2}), "the vars it sees");
    Ok(())
}

async fn vars_are_merged_in_the_order_of_the_plan(world: &World) -> Outcome {
    let plan = "
id: writers
version: 1.0.0
mode: graph
steps:
  - {id: first, handler: script, with: {gate: first, value: {x: 1, y: 1}}, output: {to: deep.replaced}}
  - {id: second, handler: script, with: {value: {y: 2, z: 2}}, output: {to: deep.replaced}}
  - {id: m1, handler: script, with: {gate: first, value: {x: 1, y: 1}}, output: {to: merged, merge: merge}}
  - {id: m2, handler: script, with: {value: {y: 2, z: 2}}, output: {to: merged, merge: merge}}
  - {id: a1, handler: script, with: {gate: first, value: one}, output: {to: list, merge: append}}
  - {id: a2, handler: script, with: {value: two}, output: {to: list, merge: append}}
  - id: end
    handler: script
    dependsOn: [first, second, m1, m2, a1, a2]
    with: {note: '${ vars }'}
";
    let run = world.start(plan).await?;
    world.at_gate("first", 3).await?;
    for later in ["second", "m2", "a2"] {
        run.until_step(EventType::StepCompleted, later).await?;
    }
    world.open_gate_for("first", 3);
    run.ends(RunStatus::Completed).await?;
    let expected = json!({
        "deep": {"replaced": {"y": 2, "z": 2}},
        "merged": {"x": 1, "y": 2, "z": 2},
        "list": ["one", "two"],
    });
    ensure_eq!(
        world.visits_of("end")[0].input["note"],
        expected,
        "the vars, though the later ones ended first"
    );
    Ok(())
}

async fn expressions_keep_their_type_alone_and_become_text_in_text(world: &World) -> Outcome {
    let plan = "
id: templates
version: 1.0.0
steps:
  - id: a
    handler: script
    with:
      note:
        alone: '${ input.n }'
        object: '${ input.o }'
        text: 'n is ${ input.n }, and ${ input.s }'
        nested: ['${ input.n }']
        plain: '$${ input.n }'
";
    let input = json!({"n": 7, "o": {"k": [1]}, "s": "so"});
    let run = world.start_with(plan, |start| start.input(input)).await?;
    run.ends(RunStatus::Completed).await?;
    let expected = json!({
        "alone": 7, "object": {"k": [1]}, "text": "n is 7, and so", "nested": [7], "plain": "${ input.n }",
    });
    ensure_eq!(world.visits_of("a")[0].input["note"], expected, "what the handler is given");
    Ok(())
}

async fn inputs_are_taken_transformed_and_checked(world: &World) -> Outcome {
    let plan = "
id: inputs
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {value: {n: 5}}}
  - {id: previous, handler: script, dependsOn: [a], input: {from: previousStep, transform: '{note: n}'}}
  - {id: literal, handler: script, dependsOn: [a], input: {from: literal, value: {note: plain}}}
  - {id: context, handler: script, dependsOn: [a], input: {from: context, transform: '{note: steps.a.output.n}'}}
  - {id: fits, handler: script, dependsOn: [a], input: {from: previousStep, transform: '{note: n}', schema: {properties: {note: {const: 5}}}}}
  - {id: misfit, handler: script, dependsOn: [a], input: {from: previousStep, transform: '{note: n}', schema: {properties: {note: {type: string}}}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    for (step, note) in
        [("previous", json!(5)), ("literal", json!("plain")), ("context", json!(5)), ("fits", json!(5))]
    {
        ensure_eq!(world.visits_of(step)[0].input, json!({"note": note}), "the input of {step}");
    }
    ensure!(world.visits_of("misfit").is_empty(), "what does not fit its schema is not handed out");
    fails_for_good(&run, "misfit", "ValidationError").await
}

async fn inputs_are_worked_out_from_the_store_before_a_step_starts(world: &World) -> Outcome {
    let plan = "
id: anew
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: {n: 5}}, output: {to: a}}
  - {id: held, handler: script, dependsOn: [a], timeoutMs: 86400000, with: {gate: held}}
  - {id: left-out, handler: script, dependsOn: [held], when: 'steps.a.output.n == `6`'}
  - {id: last, handler: script, dependsOn: [left-out], when: 'vars.a.n == `5`', with: {note: '${ steps.a.output.n }'}}
";
    let run = world.start(plan).await?;
    world.at_gate("held", 1).await?;
    // Whoever saw the first step end is gone: only the store knows what it left.
    world.kill().await?;
    world.restart().await?;
    world.at_gate("held", 2).await?;
    world.open_gate("held");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.step("left-out").await?.status, StepStatus::Skipped, "the step whose condition is false");
    let visit = &world.visits_of("last")[0];
    ensure_eq!(visit.input["note"], 5, "what the last step is given");
    // The token is made of the input, so whoever wrote StepStarted knew the input.
    let started = crate::world::run::json(&run.until_step(EventType::StepStarted, "last").await?)?;
    ensure_eq!(started["idempotencyToken"], visit.token, "the token in StepStarted");
    Ok(())
}

/// A step failed at its first try and was not tried again.
async fn fails_for_good(run: &TestRun, step: &str, code: &str) -> Outcome {
    let failed = crate::world::run::json(&run.until_step(EventType::StepFailed, step).await?)?;
    ensure_eq!(failed["error"]["code"], code, "the code of {step}");
    ensure_eq!(failed["error"]["class"], "permanent", "the class of {step}");
    ensure_eq!(failed["tries"], 1, "the tries of {step}");
    ensure_eq!(run.step(step).await?.status, StepStatus::Failed, "the status of {step}");
    Ok(())
}

async fn outputs_are_transformed_and_checked(world: &World) -> Outcome {
    let plan = "
id: outputs
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {value: {n: 5}}, output: {transform: '{m: n}', schema: {required: [m]}}}
  - {id: misfit, handler: script, with: {value: {n: 5}}, output: {schema: {required: [m]}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let completed = crate::world::run::json(&run.until_step(EventType::StepCompleted, "a").await?)?;
    ensure_eq!(completed["output"]["value"], json!({"m": 5}), "the output after its transform");
    ensure_eq!(world.visits_of("misfit").len(), 1, "the calls of the step whose output does not fit");
    fails_for_good(&run, "misfit", "ValidationError").await
}

async fn an_output_carries_what_else_is_known_of_it(world: &World) -> Outcome {
    let plan = "
id: described
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - id: a
    handler: script
    with: {output: {value: {n: 1}, contentType: text/plain, tokensUsed: 12, qualityScore: 1, metadata: {model: small}}}
    output: {transform: '{m: n}'}
  - {id: praised, handler: script, with: {output: {value: 1, qualityScore: 1.5}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let completed = crate::world::run::json(&run.until_step(EventType::StepCompleted, "a").await?)?;
    let expected = json!({
        "value": {"m": 1},
        "contentType": "text/plain",
        "tokensUsed": 12,
        "qualityScore": 1.0,
        "metadata": {"model": "small"},
    });
    ensure_eq!(completed["output"], expected, "the output and what is known of it");
    ensure_eq!(run.step("praised").await?.status, StepStatus::Failed, "the step whose score is over 1");
    Ok(())
}

async fn what_is_read_only_cannot_be_written(world: &World) -> Outcome {
    let guarded = "
id: guarded
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: {total: 1}}, readOnly: [orders], output: {to: notes}}
  - {id: b, handler: script, dependsOn: [a], with: {value: 2}, output: {to: orders.total}}
";
    // Who finds it, the reader of plans or the step, is free; that it is written is not.
    match world.client().read_plan(guarded) {
        Err(error) => ensure_eq!(error.code(), Code::PlanInvalid, "the refusal of the plan"),
        Ok(plan) => {
            let run = world.try_start(Start::of(plan)).await?;
            run.ends(RunStatus::Failed).await?;
            fails_for_good(&run, "b", "ValidationError").await?;
        }
    }
    let itself = guarded.replace("output: {to: notes}", "output: {to: orders}");
    match world.client().read_plan(&itself) {
        Err(error) => ensure_eq!(error.code(), Code::PlanInvalid, "the refusal of the other plan"),
        Ok(plan) => {
            let run = world.try_start(Start::of(plan).request_id("itself")).await?;
            run.ends(RunStatus::Failed).await?;
            fails_for_good(&run, "a", "ValidationError").await?;
        }
    }
    let run = world.start(&guarded.replace("orders.total", "other.total")).await?;
    run.ends(RunStatus::Completed).await
}

async fn private_fields_are_seen_by_nobody(world: &World) -> Outcome {
    let plan = "
id: shy
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: {open: 1, hidden: 2}}, private: [hidden], output: {to: a}}
  - {id: b, handler: script, dependsOn: [a], with: {note: ['${ steps.a.output }', '${ vars.a }', '${ steps.a.output.hidden }']}}
  - {id: c, handler: script, dependsOn: [a], input: {from: previousStep, transform: '{note: @}'}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let expected = json!([{"open": 1}, {"open": 1}, null]);
    ensure_eq!(world.visits_of("b")[0].input["note"], expected, "what another step sees");
    ensure_eq!(world.visits_of("c")[0].input["note"], json!({"open": 1}), "what the next step is given");
    Ok(())
}

async fn a_fallback_sees_what_its_step_sees(world: &World) -> Outcome {
    let plan = "
id: stand-in
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: 1}, output: {to: a}}
  - {id: b, handler: script, dependsOn: [a], fallback: f, with: {fail: {class: permanent}}}
  - {id: beside, handler: script, with: {value: 3}, output: {to: beside}}
  - {id: f, handler: script, with: {note: ['${ steps.a.output }', '${ vars.a }', '${ vars.beside }']}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("f")[0].input["note"], json!([1, 1, null]), "what the fallback sees");
    Ok(())
}

async fn a_condition_that_cannot_be_evaluated_fails_the_step(world: &World) -> Outcome {
    let plan = "
id: unsure
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: 1}}
  - {id: b, handler: script, dependsOn: [a], when: 'length(steps.a.output) > `0`'}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    fails_for_good(&run, "b", "EXPRESSION_INVALID").await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    let started = run.until_step(EventType::StepStarted, "b").await?;
    let failed = run.until_step(EventType::StepFailed, "b").await?;
    ensure_eq!(failed.run_seq, started.run_seq + 1, "the place of the failure: right behind the start");
    ensure_eq!(failed.emitted_at, started.emitted_at, "when both were stored");
    Ok(())
}

const INLINE: usize = 256 * 1024;

async fn an_output_up_to_the_limit_stands_in_the_event(world: &World) -> Outcome {
    // The text and its quotes make the limit.
    let plan = format!(
        "id: just\nversion: 1.0.0\nsteps:\n  - {{id: a, handler: script, with: {{bytes: {}}}}}\n",
        INLINE - 2
    );
    let run = world.start(&plan).await?;
    run.ends(RunStatus::Completed).await?;
    let completed = run.event(EventType::StepCompleted).await?;
    ensure_eq!(
        completed["output"]["value"].as_str().map(str::len),
        Some(INLINE - 2),
        "the output in the event"
    );
    ensure!(completed["output"]["artifact"].is_null(), "no artifact is made of it");
    Ok(())
}

async fn a_larger_output_is_an_artifact(world: &World) -> Outcome {
    let plan = format!(
        "id: over\nversion: 1.0.0\nsteps:\n  - {{id: a, handler: script, with: {{bytes: {INLINE}}}}}\n  \
         - {{id: b, handler: script, dependsOn: [a], with: {{note: '${{ length(steps.a.output) }}'}}}}\n"
    );
    let run = world.start(&plan).await?;
    run.ends(RunStatus::Completed).await?;
    let completed = run.event(EventType::StepCompleted).await?;
    ensure!(completed["output"]["value"].is_null(), "the event does not hold it");
    let artifact = &completed["output"]["artifact"];
    let content = serde_json::to_string(&"x".repeat(INLINE)).unwrap_or_default();
    let hash: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure_eq!(artifact["sizeBytes"], content.len(), "its size");
    ensure_eq!(artifact["sha256"], hash, "its hash");
    ensure!(artifact["uri"].is_string() && artifact["kind"].is_string(), "where and what it is: {artifact}");
    ensure_eq!(world.visits_of("b")[0].input["note"], INLINE, "its length, as the next step sees it");
    Ok(())
}

async fn an_input_over_ten_mebibytes_is_refused(world: &World) -> Outcome {
    let plan = world.plan("id: fed\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n")?;
    let fits = Start::of(plan.clone()).input(Value::String("x".repeat(1024 * 1024)));
    let run = world.try_start(fits).await?;
    run.ends(RunStatus::Completed).await?;
    match world.try_start(Start::of(plan).input(Value::String("x".repeat(10 * 1024 * 1024)))).await {
        Ok(_) => return Err(Stop::Fail("an input over 10 MiB was taken".to_owned())),
        Err(error) => ensure_eq!(error.code(), Code::PayloadTooLarge, "the code"),
    }
    ensure_eq!(world.list().await?.len(), 1, "the runs: nothing is stored of the refused one");
    Ok(())
}

async fn a_result_is_what_the_plan_says(world: &World) -> Outcome {
    let plan = "
id: told
version: 1.0.0
result: '{n: steps.a.output, from: input.who, v: vars.kept}'
steps:
  - {id: a, handler: script, with: {value: 4}, output: {to: kept}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start_with(plan, |start| start.input(json!({"who": "me"}))).await?;
    run.ends(RunStatus::Completed).await?;
    let output = run.event(EventType::RunCompleted).await?["output"]["value"].clone();
    ensure_eq!(output, json!({"n": 4, "from": "me", "v": 4}), "the run's output");
    Ok(())
}

async fn without_a_result_the_last_steps_give_it(world: &World) -> Outcome {
    let plan = "
id: leaves
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: 1}}
  - {id: b, handler: script, dependsOn: [a], with: {value: 2}}
  - {id: c, handler: script, dependsOn: [a], with: {value: 3}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let output = run.event(EventType::RunCompleted).await?["output"]["value"].clone();
    ensure_eq!(output, json!({"b": 2, "c": 3}), "the run's output");
    Ok(())
}

async fn the_token_of_a_step_is_the_same_for_every_try(world: &World) -> Outcome {
    let plan = "
id: marked
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10}, with: {note: {b: 1, a: '${ input }'}, fail: {class: transient, times: 2}}}
  - {id: b, handler: script, with: {note: same}}
  - {id: c, handler: script, with: {note: same}}
";
    let first = world.start_with(plan, |start| start.input(json!(1)).request_id("one")).await?;
    first.ends(RunStatus::Completed).await?;
    let tries = world.visits_of("a");
    ensure_eq!(tries.len(), 3, "the tries");
    ensure!(tries.iter().all(|visit| visit.token == tries[0].token), "every try has the same token");
    let text = format!("marked|a|{}|{}", first.run_id, tries[0].input);
    let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure_eq!(tries[0].token, hash, "the token: over plan, step, run and input");
    let tokens = [&world.visits_of("b")[0].token, &world.visits_of("c")[0].token].map(Clone::clone);
    ensure!(tokens[0] != tokens[1], "another step has another token");
    let second = world.start_with(plan, |start| start.input(json!(1)).request_id("two")).await?;
    second.ends(RunStatus::Completed).await?;
    ensure!(world.visits_of("b")[1].token != tokens[0], "another run has another token");
    Ok(())
}
