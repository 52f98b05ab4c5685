//! The engine inside the process. Its client side needs no server either: whoever serves the store finds new runs and
//! signals there.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::{
    Capabilities, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest, StateStore,
};
use engine_core::{Code, Error, Result};
use futures_core::future::BoxFuture;
use worker::Worker;

use super::{ServeOptions, Served};
use crate::config::Config;

/// Drives runs in this process.
pub(super) fn serve(worker: Worker, config: &Config, options: ServeOptions) -> BoxFuture<'static, Result<Served>> {
    let _ = (worker, config.embedded_lease(), options);
    Box::pin(async { Err(Error::new(Code::Unsupported, "the in-process engine is not in this build")) })
}

/// Starts runs and delivers signals; a process that serves the same store drives them.
pub(super) fn connect(store: Arc<dyn StateStore>, _: &Config) -> BoxFuture<'static, Result<Arc<dyn Engine>>> {
    Box::pin(async { Ok(Arc::new(Client { store }) as Arc<dyn Engine>) })
}

#[derive(Debug)]
struct Client {
    store: Arc<dyn StateStore>,
}

#[async_trait]
impl Engine for Client {
    fn name(&self) -> &str {
        "mock"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { immediate_pause: true, fail_fast_cancel: true, native_schedule: false, native_handlers: false }
    }

    /// The run is in the store: whoever serves it takes the run from there.
    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.describe(EngineRunRequest { tenant_id: request.tenant_id, run_id: request.run_id }).await
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        self.store.submit(&request.tenant_id, &request.run_id, request.signal).await
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        let record = self.store.find(&request.tenant_id, &request.run_id).await?;
        let status = if record.status.is_terminal() { EngineStatus::Closed } else { EngineStatus::Open };
        Ok(EngineRun { reference: request.run_id.to_string(), status })
    }
}
