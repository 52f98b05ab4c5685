//! The engine port: what an adapter implements.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::event::run::FrozenCapabilities;
use crate::id::{RunId, TenantId};
use crate::port::store::NewLease;
use crate::signal::Signal;

/// Drives runs on one durable-execution engine.
///
/// An engine carries ids, never payloads: plan, input and outputs are read from the store. Everything it decides, it
/// decides through [`crate::decider::Run`].
#[async_trait]
pub trait Engine: Debug + Send + Sync + 'static {
    /// The engine's name, as it stands in RunStarted: `temporal`, `conductor`, `mock`, or a third party's.
    fn name(&self) -> &str;

    /// What it can do beyond the contract's core.
    fn capabilities(&self) -> Capabilities;

    /// The lease to make a run with that this engine will be asked to start, if it drives runs under leases.
    fn lease(&self) -> Option<NewLease> {
        None
    }

    /// Begins to drive a queued run. Starting the same run again returns the same reference and starts nothing.
    ///
    /// # Errors
    /// `ENGINE_UNAVAILABLE` when the outcome is unknown: the reconciler finds out. `ENGINE_REFUSED` when the run
    /// will never start. `UNSUPPORTED` when it needs what the engine cannot do; nothing was done then.
    async fn start(&self, request: StartRequest) -> Result<EngineRun>;

    /// Delivers a signal durably to the run's driver, which decides about it. Delivering it again is harmless.
    ///
    /// # Errors
    /// `NOT_FOUND` when the engine does not know the run; `ENGINE_UNAVAILABLE` when it cannot be reached.
    async fn signal(&self, request: SignalRequest) -> Result<()>;

    /// What the engine itself says about a run, for the reconciler and for operators. Snapshots never ask this.
    ///
    /// # Errors
    /// `NOT_FOUND` when the engine does not know the run; `ENGINE_UNAVAILABLE` when it cannot be reached.
    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun>;
}

/// What an engine can do beyond the contract's core. What it does not declare answers `UNSUPPORTED` before any side
/// effect; what it declares is tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// PAUSE with `mode: immediate`.
    pub immediate_pause: bool,
    /// `failFast: cancel`.
    pub fail_fast_cancel: bool,
    /// A scheduler of its own for a plan's triggers.
    pub native_schedule: bool,
    /// Handlers that the engine hosts itself, as `temporal:Charge@billing`.
    pub native_handlers: bool,
}

/// One optional ability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// PAUSE with `mode: immediate`.
    ImmediatePause,
    /// `failFast: cancel`.
    FailFastCancel,
    /// A scheduler of its own.
    NativeSchedule,
    /// Handlers that the engine hosts itself.
    NativeHandlers,
}

impl Capabilities {
    /// Whether an ability is declared.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::ImmediatePause => self.immediate_pause,
            Capability::FailFastCancel => self.fail_fast_cancel,
            Capability::NativeSchedule => self.native_schedule,
            Capability::NativeHandlers => self.native_handlers,
        }
    }

    /// Refuses what needs an ability that is not declared.
    ///
    /// # Errors
    /// `UNSUPPORTED`, naming the engine and the ability.
    pub fn require(&self, capability: Capability, engine: &str) -> Result<()> {
        if self.has(capability) {
            return Ok(());
        }
        Err(Error::new(Code::Unsupported, format!("engine {engine} does not have {capability:?}"))
            .with_hint("choose another engine, or leave the feature out of the plan"))
    }

    /// The abilities that decisions depend on, as they are frozen in RunQueued.
    #[must_use]
    pub fn frozen(&self) -> FrozenCapabilities {
        FrozenCapabilities { immediate_pause: self.immediate_pause, fail_fast_cancel: self.fail_fast_cancel }
    }
}

/// A queued run that an engine shall drive.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRequest {
    /// Who owns it.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Its first event, when it was made just now with the engine's [`Engine::lease`]: the engine need not read it.
    pub fresh: Option<Box<Event>>,
}

/// A signal for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRequest {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The signal, checked and authorised.
    pub signal: Signal,
}

/// A run that an engine is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRunRequest {
    /// Who owns it.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
}

/// What an engine says about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRun {
    /// The engine's own name for it.
    pub reference: String,
    /// Whether the engine still drives it.
    pub status: EngineStatus,
}

/// Whether an engine still drives a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineStatus {
    /// It does.
    Open,
    /// It has ended it as the log says.
    Closed,
    /// It was ended behind our back: terminated, cancelled or timed out with the engine's own tools.
    Lost {
        /// What happened.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_ability_is_refused_by_name() {
        let capabilities = Capabilities { immediate_pause: true, ..Capabilities::default() };
        assert!(capabilities.require(Capability::ImmediatePause, "mock").is_ok());
        let error = capabilities.require(Capability::NativeHandlers, "mock").unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.message().contains("mock") && error.message().contains("NativeHandlers"), "{error}");
    }
}
