//! Each rule of a plan's meaning: what breaks it is refused at its place, what keeps it passes.

use engine_core::plan::{self, ProblemCode};

/// The problems of a plan, as `CODE path`.
fn found(plan: &str) -> Vec<String> {
    match plan::read(&format!("id: p\nversion: \"1\"\n{plan}")) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            for problem in &problems {
                assert!(problem.line.is_some() && problem.column.is_some(), "{problem} has no place");
            }
            problems.iter().map(|problem| format!("{} {}", problem.code, problem.path)).collect()
        }
    }
}

fn steps(steps: &[&str]) -> Vec<String> {
    found(&format!("steps:\n{}", steps.iter().map(|step| format!("  - {{{step}}}\n")).collect::<String>()))
}

fn one_step(fields: &str) -> Vec<String> {
    steps(&[&format!("id: a, handler: h, {fields}")])
}

const NONE: Vec<String> = Vec::new();

#[test]
fn dependencies_must_exist_once_and_be_another_step() {
    assert_eq!(steps(&["id: a, handler: h", "id: a, handler: h"]), ["DUPLICATE_STEP steps[1].id"]);
    assert_eq!(one_step("dependsOn: [b]"), ["UNKNOWN_STEP steps[0].dependsOn[0]"]);
    assert_eq!(one_step("dependsOn: [a]"), ["SELF_DEPENDENCY steps[0].dependsOn[0]"]);
    assert_eq!(
        steps(&["id: a, handler: h", "id: b, handler: h, dependsOn: [a, {step: a, required: false}]"]),
        ["DUPLICATE_DEPENDENCY steps[1].dependsOn[1]"]
    );
}

#[test]
fn each_knot_of_steps_is_one_problem_that_names_its_members_in_order() {
    let text = "id: p\nversion: \"1\"\nsteps:\n  - {id: a, handler: h, dependsOn: [b]}\n  - {id: b, handler: h, dependsOn: [c]}\n  - {id: c, handler: h, dependsOn: [a]}\n  - {id: x, handler: h, dependsOn: [y]}\n  - {id: y, handler: h, dependsOn: [x, a]}\n";
    let problems = plan::read(text).unwrap_err().0;
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        messages,
        ["these steps wait for each other: a -> b -> c -> a", "these steps wait for each other: x -> y -> x"]
    );
    assert!(problems.iter().all(|problem| problem.code == ProblemCode::Cycle));
}

#[test]
fn a_sequential_plan_has_no_dependencies() {
    let plan = "mode: sequential\nsteps: [{id: a, handler: h}, {id: b, handler: h, dependsOn: [a]}]\n";
    assert_eq!(found(plan), ["MODE_CONFLICT mode"]);
    assert_eq!(found(&plan.replace("sequential", "graph")), NONE);
}

#[test]
fn orders_are_given_for_all_steps_without_gaps() {
    let with = |orders: [&str; 3]| {
        steps(
            &["a", "b", "c"]
                .map(|id| format!("id: {id}, handler: h{}", orders[usize::from(id.as_bytes()[0] - b'a')]))
                .each_ref()
                .map(String::as_str),
        )
    };
    assert_eq!(with([", order: 2", ", order: 3", ", order: 1"]), NONE);
    assert_eq!(with([", order: 1", "", ", order: 2"]), ["ORDER_INVALID steps[1].order"]);
    assert_eq!(with([", order: 1", ", order: 1", ", order: 2"]), ["ORDER_INVALID steps[1].order"]);
    assert_eq!(with([", order: 1", ", order: 4", ", order: 2"]), ["ORDER_INVALID steps[1].order"]);
}

#[test]
fn the_previous_step_must_be_exactly_one() {
    let takes = "handler: h, input: {from: previousStep}";
    assert_eq!(steps(&["id: a, handler: h", &format!("id: b, {takes}")]), NONE);
    assert_eq!(steps(&[&format!("id: a, {takes}")]), ["FIELD_CONFLICT steps[0].input.from"]);
    assert_eq!(
        steps(&["id: a, handler: h", "id: b, handler: h", &format!("id: c, dependsOn: [a, b], {takes}")]),
        ["FIELD_CONFLICT steps[2].input.from"]
    );
}

#[test]
fn inputs_and_outputs_hold_together() {
    assert_eq!(one_step("with: {}, input: {from: context}"), ["FIELD_CONFLICT steps[0].with"]);
    assert_eq!(one_step("input: {from: literal}"), ["FIELD_CONFLICT steps[0].input.value"]);
    assert_eq!(one_step("input: {from: literal, value: null}"), NONE);
    assert_eq!(one_step("input: {from: context, value: 1}"), ["FIELD_CONFLICT steps[0].input.value"]);
    assert_eq!(one_step("output: {merge: append}"), ["FIELD_CONFLICT steps[0].output.merge"]);
    assert_eq!(one_step("output: {to: a..b}"), ["PATH_INVALID steps[0].output.to"]);
    assert_eq!(one_step("private: [a.b]"), ["PATH_INVALID steps[0].private[0]"]);
    assert_eq!(one_step("readOnly: [ok, '']"), ["PATH_INVALID steps[0].readOnly[1]"]);
}

#[test]
fn expressions_are_read_wherever_they_stand() {
    assert_eq!(one_step("when: 'a..b'"), ["EXPRESSION_INVALID steps[0].when"]);
    assert_eq!(one_step("with: {x: ['${ b[ }']}"), ["EXPRESSION_INVALID steps[0].with.x[0]"]);
    assert_eq!(
        one_step("input: {from: context, transform: '('}"),
        ["EXPRESSION_INVALID steps[0].input.transform"]
    );
    assert_eq!(one_step("output: {transform: 'nope(@)'}"), ["EXPRESSION_INVALID steps[0].output.transform"]);
    assert_eq!(
        one_step("compensation: {handler: u, with: {x: '${ output.'}}"),
        ["EXPRESSION_INVALID steps[0].compensation.with.x"]
    );
    assert_eq!(found("result: ']'\nsteps: [{id: a, handler: h}]\n"), ["EXPRESSION_INVALID result"]);
}

#[test]
fn expressions_see_only_steps_that_come_before() {
    let reads = |of: &str| format!("id: c, handler: h, dependsOn: [b], when: 'steps.{of}.output'");
    let plan = |of: &str| {
        steps(&["id: a, handler: h", "id: b, handler: h, dependsOn: [a]", "id: x, handler: h", &reads(of)])
    };
    assert_eq!(plan("a"), NONE);
    assert_eq!(plan("b"), NONE);
    assert_eq!(plan("x"), ["UNKNOWN_STEP steps[3].when"]);
    assert_eq!(plan("c"), ["UNKNOWN_STEP steps[3].when"]);
    assert_eq!(plan("nowhere"), ["UNKNOWN_STEP steps[3].when"]);
    assert_eq!(found("result: steps.b.output\nsteps: [{id: a, handler: h}]\n"), ["UNKNOWN_STEP result"]);
}

#[test]
fn schemas_are_valid_and_stand_on_their_own() {
    assert_eq!(
        found("inputSchema: {type: strin}\nsteps: [{id: a, handler: h}]\n"),
        ["SCHEMA_INVALID inputSchema.type"]
    );
    assert_eq!(
        one_step("output: {schema: {$ref: 'https://x.example/y'}}"),
        ["SCHEMA_INVALID steps[0].output.schema.$ref"]
    );
    assert_eq!(
        one_step("input: {from: context, schema: {properties: {a: {minimum: x}}}}"),
        ["SCHEMA_INVALID steps[0].input.schema.properties.a.minimum"]
    );
    assert_eq!(one_step("input: {from: context, schema: [1]}"), ["SCHEMA_INVALID steps[0].input.schema"]);
}

#[test]
fn what_an_earlier_step_made_read_only_is_not_written() {
    let plan = |to: &str, edge: &str| {
        steps(&[
            "id: a, handler: h, readOnly: [report.totals]",
            "id: b, handler: h, dependsOn: [a]",
            &format!("id: c, handler: h, dependsOn: [{edge}], output: {{to: {to}}}"),
        ])
    };
    for to in ["report.totals", "report", "report.totals.sum"] {
        assert_eq!(plan(to, "b"), ["READ_ONLY_WRITE steps[2].output.to"], "{to}");
        assert_eq!(plan(to, ""), NONE, "{to}");
    }
    assert_eq!(plan("report.total", "b"), NONE);
    assert_eq!(one_step("readOnly: [x], output: {to: x}"), ["READ_ONLY_WRITE steps[0].output.to"]);
}

#[test]
fn a_fallback_stands_alone_and_serves_one_step() {
    let plan = |served: &str, fallback: &str, other: &str| {
        steps(&[
            &format!("id: a, handler: h, fallback: f{served}"),
            &format!("id: f, handler: h{fallback}"),
            &format!("id: z, handler: h{other}"),
        ])
    };
    assert_eq!(plan("", "", ", dependsOn: [a]"), NONE);
    assert_eq!(plan("", ", dependsOn: [z]", ""), ["FALLBACK_INVALID steps[1].dependsOn"]);
    assert_eq!(plan("", "", ", dependsOn: [f]"), ["FALLBACK_INVALID steps[2].dependsOn[0]"]);
    assert_eq!(plan("", "", ", fallback: f"), ["FALLBACK_INVALID steps[2].fallback"]);
    assert_eq!(plan("", ", onFailure: skip", ""), ["FALLBACK_INVALID steps[1].onFailure"]);
    assert_eq!(plan("", ", fallback: z", ""), ["FALLBACK_INVALID steps[1].fallback"]);
    assert_eq!(plan(", onFailure: skip", "", ""), ["FAILURE_ACTION_INVALID steps[0].onFailure"]);
    assert_eq!(one_step("fallback: nowhere"), ["UNKNOWN_STEP steps[0].fallback"]);
}

#[test]
fn failure_actions_have_what_they_need() {
    assert_eq!(one_step("onFailure: fallback"), ["FAILURE_ACTION_INVALID steps[0].onFailure"]);
    assert_eq!(one_step("onFailure: reassign, agents: [x]"), ["FAILURE_ACTION_INVALID steps[0].onFailure"]);
    assert_eq!(one_step("onFailure: reassign, agent: x, agents: [x, y]"), NONE);
    assert_eq!(one_step("maxRetries: 2"), ["FIELD_CONFLICT steps[0].maxRetries"]);
    assert_eq!(one_step("maxRetries: 2, onFailure: retry"), NONE);
    assert_eq!(found("failure: {default: retry}\nsteps: [{id: a, handler: h, maxRetries: 1}]\n"), NONE);
    assert_eq!(
        found("failure: {default: fallback}\nsteps: [{id: a, handler: h}, {id: b, handler: h}]\n"),
        ["FAILURE_ACTION_INVALID failure.default"]
    );
    assert_eq!(
        found("failure: {overrides: {x: skip, h: abort}}\nsteps: [{id: a, handler: h}]\n"),
        ["UNKNOWN_HANDLER failure.overrides.x"]
    );
    assert_eq!(
        found("failure: {overrides: {'a b': skip}}\nsteps: [{id: a, handler: h}]\n"),
        ["INVALID_TEXT failure.overrides[\"a b\"]"]
    );
}

#[test]
fn retries_and_losses_do_not_contradict_themselves() {
    assert_eq!(one_step("retry: {maxAttempts: 0}"), ["OUT_OF_RANGE steps[0].retry.maxAttempts"]);
    assert_eq!(
        one_step("retry: {backoffMultiplier: 0.5}"),
        ["OUT_OF_RANGE steps[0].retry.backoffMultiplier"]
    );
    assert_eq!(
        one_step("retry: {initialBackoffMs: 50, maxBackoffMs: 40}"),
        ["FIELD_CONFLICT steps[0].retry.initialBackoffMs"]
    );
    assert_eq!(one_step("retry: {initialBackoffMs: 50, maxBackoffMs: 40, backoff: linear}"), NONE);
    assert_eq!(one_step("onWorkerLost: fail, maxLosses: 3"), ["FIELD_CONFLICT steps[0].maxLosses"]);
}

#[test]
fn local_dispatch_is_for_short_steps_that_any_worker_can_run() {
    for (fields, field) in
        [("agent: x", "agent"), ("agents: [x]", "agents"), ("timeoutMs: 10001", "timeoutMs")]
    {
        let refused = [format!("LOCAL_DISPATCH_REFUSED steps[0].{field}")];
        assert_eq!(one_step(&format!("dispatch: local, {fields}")), refused);
        let by_plan =
            |own: &str| found(&format!("dispatch: local\nsteps: [{{id: a, handler: h, {fields}{own}}}]\n"));
        assert_eq!(by_plan(""), refused);
        assert_eq!(by_plan(", dispatch: queued"), NONE);
    }
    assert_eq!(
        steps(&["id: a, handler: 'temporal:X@q', dispatch: local"]),
        ["LOCAL_DISPATCH_REFUSED steps[0].handler"]
    );
    assert_eq!(one_step("dispatch: local, timeoutMs: 10000"), NONE);
    let problems =
        plan::read("id: p\nversion: \"1\"\ndispatch: local\nsteps: [{id: a, handler: h, agent: x}]\n")
            .unwrap_err();
    assert_eq!(problems.0[0].hint, "write `dispatch: queued` at this step");
}

#[test]
fn secrets_are_references() {
    for good in ["env:STRIPE_KEY", "file:stripe/key", "{provider: vault, key: 'kv/data/app#token'}"] {
        assert_eq!(one_step(&format!("secrets: {{KEY: {good}}}")), NONE, "{good}");
    }
    for bad in [
        "hunter2",
        "'env:'",
        "':key'",
        "'postgres://me:pw@db/x'",
        "'Bearer: abc def'",
        "'x:eyJhbGciOiJIUzI1NiJ9'",
        "'env:-----BEGIN KEY-----'",
        "{provider: env, key: sk_live_0123456789abcdef}",
    ] {
        assert_eq!(
            one_step(&format!("secrets: {{KEY: {bad}}}")),
            ["SECRET_INVALID steps[0].secrets.KEY"],
            "{bad}"
        );
    }
    assert_eq!(one_step("secrets: {a-b: env:X}"), ["SECRET_INVALID steps[0].secrets.a-b"]);
    assert_eq!(one_step("secrets: {K: 5}"), ["WRONG_TYPE steps[0].secrets.K"]);
}

#[test]
fn resources_are_at_least_one_unit_of_a_named_pool() {
    assert_eq!(one_step("resources: {gpu: 0}"), ["OUT_OF_RANGE steps[0].resources.gpu"]);
    assert_eq!(one_step("resources: {gpu: -1}"), ["OUT_OF_RANGE steps[0].resources.gpu"]);
    assert_eq!(one_step("resources: {'a b': 1}"), ["INVALID_TEXT steps[0].resources[\"a b\"]"]);
}

#[test]
fn schedules_say_one_thing() {
    let plan = |schedule: &str| found(&format!("schedule: {{{schedule}}}\nsteps: [{{id: a, handler: h}}]\n"));
    assert_eq!(plan("cron: '0 6 * * *', timeZone: Europe/Berlin"), NONE);
    assert_eq!(plan(""), ["SCHEDULE_INVALID schedule"]);
    assert_eq!(plan("cron: '0 6 * * *', intervalMs: 5000"), ["SCHEDULE_INVALID schedule"]);
    assert_eq!(plan("cron: '0 25 * * *'"), ["SCHEDULE_INVALID schedule.cron"]);
    assert_eq!(plan("intervalMs: 5000, timeZone: Mars/Base"), ["UNKNOWN_TIME_ZONE schedule.timeZone"]);
    assert_eq!(plan("at: tomorrow"), ["INVALID_TEXT schedule.at"]);
    assert_eq!(
        plan("intervalMs: 5000, start: 2026-01-02T00:00:00Z, end: 2026-01-01T00:00:00Z"),
        ["SCHEDULE_INVALID schedule.end"]
    );
    assert_eq!(plan("at: 2026-01-02T00:00:00Z, end: 2026-01-01T00:00:00Z"), ["SCHEDULE_INVALID schedule.at"]);
    assert_eq!(one_step("schedule: {}"), ["SCHEDULE_INVALID steps[0].schedule"]);
    assert_eq!(
        one_step("schedule: {delayMs: 5, at: 2026-01-01T00:00:00Z}"),
        ["SCHEDULE_INVALID steps[0].schedule"]
    );
}

#[test]
fn separation_of_duties_needs_somebody_who_completes_the_step() {
    assert_eq!(one_step("separationOfDuties: true"), ["FIELD_CONFLICT steps[0].separationOfDuties"]);
    assert_eq!(one_step("separationOfDuties: true, completion: manual"), NONE);
}

#[test]
fn a_broken_shape_does_not_hide_what_the_rest_means() {
    let found = steps(&[
        "id: a, handler: h, prioritty: 1, dependsOn: [b]",
        "id: b, handler: h, timeoutMs: soon, dependsOn: [a, 5, lost]",
        "handler: h, dependsOn: [b]",
        "just: wrong",
    ]);
    assert_eq!(
        found,
        [
            "UNKNOWN_FIELD steps[0].prioritty",
            "CYCLE steps[0].dependsOn[0]",
            "WRONG_TYPE steps[1].timeoutMs",
            "WRONG_TYPE steps[1].dependsOn[1]",
            "UNKNOWN_STEP steps[1].dependsOn[2]",
            "MISSING_FIELD steps[2].id",
            "MISSING_FIELD steps[3].id",
            "MISSING_FIELD steps[3].handler",
            "UNKNOWN_FIELD steps[3].just",
        ]
    );
}

#[test]
fn no_name_that_users_can_write_escapes_the_checks() {
    for name in ["drivetrain.unreadable", "unreadable", "steps.0", "steps.1"] {
        assert_eq!(one_step(&format!("dependsOn: [{name}]")), ["UNKNOWN_STEP steps[0].dependsOn[0]"]);
        assert_eq!(
            steps(&[&format!("id: a, handler: h, dependsOn: [{name}]"), "handler: h"]),
            ["UNKNOWN_STEP steps[0].dependsOn[0]", "MISSING_FIELD steps[1].id"]
        );
    }
}

#[test]
fn only_what_is_broken_is_left_out_of_the_other_checks() {
    let bad_secrets = "secrets: {a-b: env:X, C: plain}, order: 99";
    assert_eq!(
        found(&format!(
            "approval: 5\nlimits: {{perAgent: 0, maxFailures: 99999999999}}\nsteps: [{{id: a, handler: h, {bad_secrets}}}]\n"
        )),
        [
            "WRONG_TYPE approval",
            "OUT_OF_RANGE limits.perAgent",
            "OUT_OF_RANGE limits.maxFailures",
            "SECRET_INVALID steps[0].secrets.a-b",
            "SECRET_INVALID steps[0].secrets.C",
            "ORDER_INVALID steps[0].order",
        ]
    );
    assert_eq!(
        found(
            "schedule: {start: soon, cron: '0 25 * * *', timeZone: Mars/Base}\nsteps: [{id: a, handler: h}]\n"
        ),
        [
            "INVALID_TEXT schedule.start",
            "SCHEDULE_INVALID schedule.cron",
            "UNKNOWN_TIME_ZONE schedule.timeZone"
        ]
    );
    assert_eq!(
        one_step("dependsOn: [{step: zzz, require: false}]"),
        ["UNKNOWN_STEP steps[0].dependsOn[0]", "UNKNOWN_FIELD steps[0].dependsOn[0].require"]
    );
    assert_eq!(
        one_step("output: {merge: apend, to: a..b}"),
        ["UNKNOWN_VALUE steps[0].output.merge", "PATH_INVALID steps[0].output.to"]
    );
    assert_eq!(
        one_step("input: {from: contxt, value: 1, transform: '('}, resources: {g: 0, 'x y': 1}"),
        [
            "UNKNOWN_VALUE steps[0].input.from",
            "EXPRESSION_INVALID steps[0].input.transform",
            "OUT_OF_RANGE steps[0].resources.g",
            "INVALID_TEXT steps[0].resources[\"x y\"]",
        ]
    );
    assert_eq!(
        found("result: steps.a.output\nfailure: {overrides: {h: skip}}\nschedule: {cron: x}\nsteps: 5\n"),
        ["SCHEDULE_INVALID schedule.cron", "WRONG_TYPE steps"]
    );
}

#[test]
fn what_looks_like_a_secret_is_never_repeated() {
    for secrets in [
        "{K7: 12345678}",
        "{K: {provider: env, key: 12345678}}",
        "{K: {provider: 12345678, key: x}}",
        "{K: [12345678]}",
    ] {
        let text = format!("id: p\nversion: \"1\"\nsteps: [{{id: a, handler: h, secrets: {secrets}}}]\n");
        let problems = plan::read(&text).unwrap_err();
        assert!(!problems.to_string().contains("12345678"), "{problems}");
        assert!(problems.0[0].hint.contains("env:STRIPE_KEY"), "{problems}");
    }
}

#[test]
fn a_fallback_is_read_through_the_step_it_stands_in_for() {
    let text = "id: p\nversion: \"1\"\nresult: steps.fb.output\nsteps:\n  - {id: a-1, handler: h, fallback: fb}\n  - {id: fb, handler: h}\n  - {id: b, handler: h, dependsOn: [a-1], when: steps.fb.output}\n";
    let problems = plan::read(text).unwrap_err().0;
    assert_eq!(problems.len(), 2);
    for problem in problems {
        assert!(problem.message.starts_with("fb stands in for a-1"), "{problem}");
        assert_eq!(problem.hint, "read steps.\"a-1\".output");
    }
}

#[test]
fn data_in_a_schema_is_not_taken_for_references() {
    assert_eq!(
        one_step("output: {schema: {const: {$ref: 'https://x.example/', $id: x}, examples: [{$id: y}]}}"),
        NONE
    );
    assert_eq!(
        one_step("output: {schema: {properties: {default: {$ref: 'https://x.example/'}}}}"),
        ["SCHEMA_INVALID steps[0].output.schema.properties.default.$ref"]
    );
    assert_eq!(one_step("output: {schema: {$ref: '#/default', default: {$ref: '#'}}}").len(), 1);
}

#[test]
fn very_many_problems_are_cut_off_and_found_in_time() {
    let text: String = (0..20_000)
        .map(|step| format!("  - {{id: step-{step}, handler: h, dependsOn: [stp-{step}]}}\n"))
        .collect();
    let problems = plan::read(&format!("id: p\nversion: \"1\"\nsteps:\n{text}")).unwrap_err().0;
    assert_eq!(problems.len(), 1001);
    assert_eq!(problems[1000].message, "and 19000 more problems that are not listed");
}
