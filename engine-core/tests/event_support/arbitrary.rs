//! Arbitrary drafts: every type, every optional field present or not, and values at the edge of what the
//! types allow, some of which the schemas refuse.

use std::collections::BTreeMap;

use engine_core::event::audit::{AlertRaised, CheckpointCreated};
use engine_core::event::compensation::{CompensationCompleted, CompensationFailed, CompensationStarted};
use engine_core::event::run::{
    CompensationSummary, EffectiveLimits, EffectivePolicies, FailedStep, FrozenCapabilities, Origin, PlanRef,
    ReusedStep, RootCause, RunApproved, RunCancelled, RunCompleted, RunContext, RunDrained, RunFailed,
    RunInput, RunPaused, RunQueued, RunResumed, RunStarted, StepCounts, TimerFired,
};
use engine_core::event::signal::{SignalAccepted, SignalRejected};
use engine_core::event::step::{
    ArtifactRef, HumanReviewRequested, StepCancelled, StepCompleted, StepError, StepFailed, StepOutput,
    StepRetried, StepRetryRequested, StepSkipped, StepStarted, StepWaiting,
};
use engine_core::event::{Body, Draft, Subject, Unknown};
use engine_core::machine::StepStatus;
use engine_core::plan::{Approval, FailFast, OrphanPolicy};
use engine_core::signal::{ManualCompletion, ManualOutcome};
use engine_core::{
    AgentName, CheckpointId, HandlerName, PlanId, PlanVersion, RunId, SignalId, StepId, TenantId, Timestamp,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of as maybe;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 9 => ".{1,8}"]
}

fn id<T: std::str::FromStr + std::fmt::Debug>() -> impl Strategy<Value = T>
where
    T::Err: std::fmt::Debug,
{
    "[a-zA-Z0-9_.-]{4,12}".prop_map(|text| text.parse().unwrap())
}

fn time() -> impl Strategy<Value = Timestamp> {
    (-62_167_219_200_000..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis)
}

/// A value that the enum knows, one that a newer version wrote, or none at all.
fn open<T: for<'a> From<&'a str> + std::fmt::Debug>(
    known: &'static [&'static str],
) -> impl Strategy<Value = T> {
    prop_oneof![
        8 => prop::sample::select(known).prop_map(str::to_owned),
        2 => "[a-z_]{1,9}",
        1 => Just(String::new()),
    ]
    .prop_map(|text| T::from(text.as_str()))
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        fraction().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(text(), inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A number around the range that a score may have.
fn fraction() -> impl Strategy<Value = f64> {
    -0.5..1.5
}

fn fields() -> impl Strategy<Value = BTreeMap<String, Value>> {
    btree_map(text(), json().boxed(), 0..3)
}

prop_compose! {
    fn artifact()(
        uri in text(), kind in text(), sha256 in maybe(text()), size_bytes in maybe(any::<u64>()),
        expires_at in maybe(time()),
    ) -> ArtifactRef {
        ArtifactRef { uri, kind, sha256, size_bytes, expires_at }
    }
}

prop_compose! {
    fn output()(
        // A null that is written is read as absent: it stands for no value.
        value in maybe(json().boxed().prop_filter("null is no value", |value| !value.is_null())),
        artifact in maybe(artifact().boxed()), content_type in maybe(text()), tokens_used in maybe(any::<u64>()),
        quality_score in maybe(fraction()), metadata in fields(),
    ) -> StepOutput {
        StepOutput { value, artifact, content_type, tokens_used, quality_score, metadata }
    }
}

prop_compose! {
    fn error()(
        code in text(), class in open(engine_core::failure::FailureClass::KNOWN), message in text(),
        http_status in maybe(any::<u16>()),
    ) -> StepError {
        StepError { code, class, message, http_status }
    }
}

prop_compose! {
    fn manual()(
        schema_version in any::<u32>(), completion_token in text(),
        outcome in open(ManualOutcome::KNOWN),
        actor_user_id in text(), completed_at_iso in time(), notes in maybe(text()),
        evidence_refs in vec(text(), 0..3),
    ) -> ManualCompletion {
        ManualCompletion {
            schema_version, completion_token, outcome, actor_user_id, completed_at_iso, notes, evidence_refs,
        }
    }
}

prop_compose! {
    fn plan_ref()(
        uri in text(), sha256 in text(), schema_version in text(), plan_id in id::<PlanId>(),
        plan_version in id::<PlanVersion>(),
    ) -> PlanRef {
        PlanRef { uri, sha256, schema_version, plan_id, plan_version }
    }
}

prop_compose! {
    fn context()(
        tenant_id in id::<TenantId>(), project_id in text(), environment_id in text(),
        triggered_by in maybe(text()),
        trigger_source in maybe(open(engine_core::event::run::TriggerSource::KNOWN)),
    ) -> RunContext {
        RunContext { tenant_id, project_id, environment_id, triggered_by, trigger_source }
    }
}

prop_compose! {
    fn limits()(
        max_concurrency in any::<u32>(), per_agent in any::<u32>(), run_timeout_ms in maybe(any::<u64>()),
        drain_timeout_ms in any::<u64>(), cancel_grace_ms in any::<u64>(), max_failures in maybe(any::<u32>()),
    ) -> EffectiveLimits {
        EffectiveLimits {
            max_concurrency, per_agent, run_timeout_ms, drain_timeout_ms, cancel_grace_ms, max_failures,
        }
    }
}

prop_compose! {
    fn policies()(flags in any::<[bool; 7]>()) -> EffectivePolicies {
        EffectivePolicies {
            approval: if flags[0] { Approval::Required } else { Approval::Auto },
            separation_of_duties: flags[1],
            continue_on_partial_failure: flags[2],
            fail_fast: if flags[3] { FailFast::Cancel } else { FailFast::Finish },
            compensate_on_cancel: flags[4],
            pause_on_human_review: flags[5],
            orphans: if flags[6] { OrphanPolicy::Reject } else { OrphanPolicy::Accept },
        }
    }
}

prop_compose! {
    fn origin()(
        origin_type in open(engine_core::event::run::OriginType::KNOWN), source_run_id in id::<RunId>(),
        step in maybe(id::<StepId>()),
        reused in vec(
            (
                id::<StepId>(), prop::sample::select(StepStatus::ALL), any::<u32>(), any::<u64>(),
                maybe(open(engine_core::event::step::SkipReason::KNOWN)), maybe(output().boxed()),
            ),
            0..3,
        ),
    ) -> Origin {
        let reused = reused
            .into_iter()
            .map(|(step_id, status, logical_attempt_id, run_seq, skip_reason, output)| {
                ReusedStep { step_id, status, logical_attempt_id, run_seq, skip_reason, output }
            })
            .collect();
        Origin { origin_type, source_run_id, step, reused }
    }
}

prop_compose! {
    fn counts()(numbers in any::<[u32; 7]>()) -> StepCounts {
        let [total, pending, running, succeeded, failed, skipped, cancelled] = numbers;
        StepCounts { total, pending, running, succeeded, failed, skipped, cancelled }
    }
}

fn steps() -> impl Strategy<Value = Vec<StepId>> {
    vec(id(), 0..3)
}

prop_compose! {
    fn undone()(compensated in steps(), failed in steps(), non_compensable in steps()) -> CompensationSummary {
        CompensationSummary { compensated, failed, non_compensable }
    }
}

prop_compose! {
    fn queued()(
        plan_ref in plan_ref().boxed(),
        input in (maybe(text().prop_map(Value::from)), maybe(artifact().boxed())),
        context in context().boxed(), identity in text(), original_intent in maybe(text()), limits in limits().boxed(),
        policies in policies().boxed(), flags in any::<(bool, bool)>(), decider_version in any::<u32>(),
        not_before in maybe(time()), origin in maybe(origin().boxed()),
    ) -> RunQueued {
        RunQueued {
            plan_ref, input: RunInput { value: input.0, artifact: input.1 }, context, identity,
            original_intent, limits, policies,
            capabilities: FrozenCapabilities { immediate_pause: flags.0, fail_fast_cancel: flags.1 },
            decider_version, not_before, origin,
        }
    }
}

prop_compose! {
    fn failed()(
        code in text(), message in text(),
        root in maybe((id::<StepId>(), any::<u32>(), any::<u64>(), text())),
        others in vec((id::<StepId>(), any::<u32>(), any::<u64>()), 0..3),
        counts in counts().boxed(), compensation in undone().boxed(),
    ) -> RunFailed {
        let root_cause = root.map(|(step_id, logical_attempt_id, run_seq, code)| {
            RootCause { step_id, logical_attempt_id, run_seq, code }
        });
        let failed_steps = others
            .into_iter()
            .map(|(step_id, logical_attempt_id, run_seq)| FailedStep { step_id, logical_attempt_id, run_seq })
            .collect();
        RunFailed { code, message, root_cause, failed_steps, counts, compensation }
    }
}

fn run_body() -> impl Strategy<Value = Body> {
    prop_oneof![
        queued().boxed().prop_map(Body::from),
        (text(), maybe(id::<SignalId>()), maybe(text())).prop_map(|(approved_by, signal_id, reason)| {
            RunApproved { approved_by, signal_id, reason }.into()
        }),
        (text(), text(), maybe(text()), plan_ref().boxed(), context().boxed(), time()).prop_map(
            |(engine_run_ref, engine_type, interpreter_version, plan_ref, context, started_at)| {
                RunStarted { engine_run_ref, engine_type, interpreter_version, plan_ref, context, started_at }
                    .into()
            }
        ),
        (
            any::<(u32, u32, bool)>(),
            open(engine_core::event::run::PauseCause::KNOWN),
            maybe(id::<StepId>()),
            maybe(id::<SignalId>()),
            maybe(text())
        )
            .prop_map(|(numbers, cause, caused_by_step, signal_id, reason)| {
                let (pause_number, in_flight, immediate) = numbers;
                RunPaused { pause_number, cause, in_flight, immediate, caused_by_step, signal_id, reason }
                    .into()
            }),
        (any::<u32>(), any::<bool>(), steps()).prop_map(|(pause_number, timed_out, in_flight)| {
            RunDrained { pause_number, timed_out, in_flight }.into()
        }),
        (any::<u32>(), maybe(id::<SignalId>()), maybe(text())).prop_map(
            |(pause_number, signal_id, reason)| RunResumed { pause_number, signal_id, reason }.into()
        ),
        (open(engine_core::event::run::RunOutcome::KNOWN), maybe(output().boxed()), counts().boxed())
            .prop_map(|(outcome, output, counts)| RunCompleted { outcome, output, counts }.into()),
        failed().boxed().prop_map(Body::from),
        (maybe(id::<SignalId>()), maybe(text()), maybe(text()), counts().boxed(), undone().boxed()).prop_map(
            |(signal_id, actor, reason, counts, compensation)| {
                RunCancelled { signal_id, actor, reason, counts, compensation }.into()
            }
        ),
        (text(), time()).prop_map(|(timer_id, due_at)| TimerFired { timer_id, due_at }.into()),
    ]
}

fn step_body() -> impl Strategy<Value = Body> {
    prop_oneof![
        (id::<HandlerName>(), maybe(id::<AgentName>()), text(), maybe(time()), maybe(text())).prop_map(
            |(handler, agent, worker, claim_until, idempotency_token)| {
                StepStarted { handler, agent, worker, claim_until, idempotency_token }.into()
            }
        ),
        (error().boxed(), maybe(time()), maybe(time()), any::<u64>(), any::<bool>()).prop_map(
            |(error, started_at, ended_at, delay_ms, worker_lost)| {
                StepRetried { error, started_at, ended_at, delay_ms, worker_lost }.into()
            }
        ),
        (text(), maybe(output().boxed()), maybe(text())).prop_map(|(completion_token, output, prompt)| {
            StepWaiting { completion_token, output, prompt }.into()
        }),
        (output().boxed(), vec(artifact().boxed(), 0..3), maybe(manual().boxed()))
            .prop_map(|(output, artifacts, manual)| StepCompleted { output, artifacts, manual }.into()),
        (error().boxed(), any::<u32>(), any::<u32>(), maybe(manual().boxed()))
            .prop_map(|(error, tries, losses, manual)| StepFailed { error, tries, losses, manual }.into()),
        (open(engine_core::event::step::SkipReason::KNOWN), maybe(id::<SignalId>()), maybe(id::<StepId>()))
            .prop_map(|(reason, signal_id, caused_by_step)| {
                StepSkipped { reason, signal_id, caused_by_step }.into()
            }),
        (
            open(engine_core::event::step::CancelReason::KNOWN),
            any::<bool>(),
            maybe(id::<SignalId>()),
            maybe(manual().boxed())
        )
            .prop_map(|(reason, forced, signal_id, manual)| {
                StepCancelled { reason, forced, signal_id, manual }.into()
            }),
        (
            open(engine_core::event::step::RetryReason::KNOWN),
            maybe(id::<AgentName>()),
            maybe(id::<SignalId>()),
            maybe(id::<StepId>())
        )
            .prop_map(|(reason, agent, signal_id, caused_by_step)| {
                StepRetryRequested { reason, agent, signal_id, caused_by_step }.into()
            }),
        (id::<HandlerName>(), text()).prop_map(|(handler, idempotency_key)| {
            CompensationStarted { handler, idempotency_key }.into()
        }),
        btree_map(text(), text(), 0..3).prop_map(|notes| CompensationCompleted { notes }.into()),
        (error().boxed(), any::<bool>(), maybe(any::<u64>())).prop_map(|(error, will_retry, delay_ms)| {
            CompensationFailed { error, will_retry, delay_ms }.into()
        }),
        (any::<u32>(), text(), fields()).prop_map(|(number, reason, context)| HumanReviewRequested {
            number,
            reason,
            context
        }
        .into()),
    ]
}

fn audit_body() -> impl Strategy<Value = Body> {
    let signal_type = || open(engine_core::signal::SignalType::KNOWN);
    prop_oneof![
        (id::<SignalId>(), signal_type(), text(), maybe(text()), fields()).prop_map(
            |(signal_id, signal_type, actor, reason, details)| {
                let details = details.into_iter().collect();
                SignalAccepted { signal_id, signal_type, actor, reason, details }.into()
            }
        ),
        (id::<SignalId>(), signal_type(), text(), text(), text()).prop_map(
            |(signal_id, signal_type, actor, code, message)| {
                SignalRejected { signal_id, signal_type, actor, code, message }.into()
            }
        ),
        (id::<CheckpointId>(), any::<u64>(), any::<u64>(), text()).prop_map(
            |(checkpoint_id, up_to_seq, size_bytes, sha256)| {
                CheckpointCreated { checkpoint_id, up_to_seq, size_bytes, sha256 }.into()
            }
        ),
        (text(), any::<u32>(), open(engine_core::event::audit::Severity::KNOWN), text()).prop_map(
            |(code, number, severity, message)| AlertRaised { code, number, severity, message }.into()
        ),
        ("(New[A-Z][a-z]{1,6})?", btree_map("[a-z]{1,6}", json().boxed(), 0..3)).prop_map(
            |(event_type, payload)| {
                let payload = payload.into_iter().collect();
                Body::Unknown(Box::new(Unknown { event_type, payload }))
            }
        ),
    ]
}

prop_compose! {
    fn attempt()(
        step in id::<StepId>(), attempt in 0_u32..5, engine_attempt in maybe(0_u32..5),
    ) -> Subject {
        Subject { step, attempt, engine_attempt }
    }
}

/// A draft of any type; the subject fits the type nearly always.
pub(crate) fn draft() -> impl Strategy<Value = Draft> {
    let subject = || prop::option::weighted(0.95, attempt());
    let without = || prop::option::weighted(0.05, attempt());
    let described =
        prop_oneof![(without(), run_body()), (subject(), step_body()), (without(), audit_body()),];
    (described, maybe(time())).prop_map(|((subject, body), occurred_at)| Draft { subject, occurred_at, body })
}
