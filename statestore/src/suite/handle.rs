//! A store under test and the calls that most cases make of it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use engine_core::event::{Draft, Event, Kind};
use engine_core::port::store::{
    AppendAs, AppendRequest, Appended, ClaimOutbox, CreateRequest, Delivered, Fence, LeaseRequest,
    OutboxEntry, ReadRequest, RunRecord, StoredEvent,
};
use engine_core::port::{Clock, StateStore};
use engine_core::projection::Projection;
use engine_core::{Result, RunId, TenantId, Timestamp};

use super::verdict::stored;
use super::{Harness, ManualClock, drafts};

/// Who appends in most cases.
pub(crate) const APPENDER: &str = "suite";

/// A run and who owns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owned {
    pub(crate) tenant_id: TenantId,
    pub(crate) run_id: RunId,
}

/// A handle on a store.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    store: Arc<dyn StateStore>,
    pub(crate) clock: Arc<ManualClock>,
}

/// An empty store whose clock the case sets.
pub(crate) async fn open(harness: &dyn Harness) -> Handle {
    let clock = Arc::new(ManualClock::default());
    Handle { store: harness.open(clock.clone()).await, clock }
}

impl Deref for Handle {
    type Target = dyn StateStore;
    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl Handle {
    /// Another handle on the same data with the same clock, or this one again when the data cannot be shared.
    pub(crate) async fn other(&self, harness: &dyn Harness) -> Self {
        Self::reopened(harness, self.clock.clone()).await.unwrap_or_else(|| self.clone())
    }

    /// Another handle on the data, if it can be shared.
    pub(crate) async fn reopened(harness: &dyn Harness, clock: Arc<ManualClock>) -> Option<Self> {
        let store = harness.reopen(clock.clone()).await?;
        Some(Self { store, clock })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new run of the usual tenant.
    pub(crate) async fn run(&self, request: &str) -> Owned {
        self.run_of("acme", request).await
    }

    /// A new run of a tenant.
    pub(crate) async fn run_of(&self, tenant: &str, request: &str) -> Owned {
        self.run_from(drafts::creation(tenant, request)).await
    }

    /// The new run that a request makes.
    pub(crate) async fn run_from(&self, request: CreateRequest) -> Owned {
        let tenant_id = request.queued.context.tenant_id.clone();
        let created = self.create(request).await.expect("a run");
        assert!(created.fresh, "the run {} was there before", created.run_id);
        Owned { tenant_id, run_id: created.run_id }
    }

    /// Appends as a worker does.
    pub(crate) async fn offer(&self, run: &Owned, drafts: Vec<Draft>) -> Result<Appended> {
        self.append(request(run, drafts, AppendAs::Worker, None)).await
    }

    /// Appends as a worker under a lease.
    pub(crate) async fn offer_under(
        &self,
        run: &Owned,
        drafts: Vec<Draft>,
        fence: Fence,
    ) -> Result<Appended> {
        self.append(request(run, drafts, AppendAs::Worker, Some(fence))).await
    }

    /// Appends as a worker what must be taken.
    pub(crate) async fn tell(&self, run: &Owned, drafts: Vec<Draft>) -> Vec<StoredEvent> {
        stored(self.offer(run, drafts).await)
    }

    /// Appends as a driver with this view.
    pub(crate) async fn propose(&self, run: &Owned, drafts: Vec<Draft>, view: View) -> Result<Appended> {
        let append_as = AppendAs::Decision {
            expected: view.decisions,
            nothing_after: view.nothing_after,
            folded_through: view.folded_through,
        };
        self.append(request(run, drafts, append_as, None)).await
    }

    /// Appends as a driver that knows the whole log what must be taken.
    pub(crate) async fn decide(&self, run: &Owned, drafts: Vec<Draft>) -> Vec<StoredEvent> {
        let view = self.view(run).await;
        stored(self.propose(run, drafts, view).await)
    }

    /// The view of a driver that knows the whole log.
    pub(crate) async fn view(&self, run: &Owned) -> View {
        let log = self.log(run).await;
        let decisions = log.iter().filter(|event| event.body.kind() == Kind::Decision).count() as u64;
        View { decisions, nothing_after: None, folded_through: log.len() as u64 }
    }

    /// Approves and starts a run.
    pub(crate) async fn start(&self, run: &Owned) {
        self.decide(run, vec![drafts::approved(), drafts::run_started("mock://run", self.now())]).await;
    }

    /// A run that has ended.
    pub(crate) async fn ended_run(&self, request: &str) -> Owned {
        let run = self.run(request).await;
        self.start(&run).await;
        self.decide(&run, vec![drafts::run_completed()]).await;
        run
    }

    /// The whole log of a run.
    pub(crate) async fn log(&self, run: &Owned) -> Vec<Event> {
        let mut log: Vec<Event> = Vec::new();
        loop {
            let after = log.last().map_or(0, |event| event.run_seq);
            let page = self.read(reading(run, after, 1000)).await.expect("a log");
            if page.is_empty() {
                return log;
            }
            log.extend(page);
        }
    }

    pub(crate) async fn record(&self, run: &Owned) -> RunRecord {
        self.find(&run.tenant_id, &run.run_id).await.expect("a run")
    }

    /// The run as its log shows it.
    pub(crate) async fn projection(&self, run: &Owned) -> Projection {
        let mut projection = Projection::new(drafts::plan());
        for event in self.log(run).await {
            projection.apply(&event);
        }
        projection
    }

    pub(crate) async fn lease_for(&self, run: &Owned, holder: &str, duration_ms: u64) -> Result<Fence> {
        self.lease(LeaseRequest { run_id: run.run_id.clone(), holder: holder.into(), duration_ms }).await
    }

    /// Takes what waits in the outbox.
    pub(crate) async fn take(&self, relay: &str, limit: usize) -> Vec<OutboxEntry> {
        let request = ClaimOutbox { relay: relay.into(), limit, duration_ms: 10_000 };
        self.claim_outbox(request).await.expect("entries of the outbox")
    }

    /// The bus has everything.
    pub(crate) async fn empty_outbox(&self) {
        for _ in 0..10_000 {
            let entries = self.take("emptying", 1000).await;
            if entries.is_empty() {
                return;
            }
            let mut delivered = BTreeMap::new();
            for entry in entries {
                delivered.insert(entry.event.run_id, entry.event.run_seq);
            }
            for (run_id, up_to_seq) in delivered {
                let delivered = Delivered { relay: "emptying".into(), run_id, up_to_seq };
                self.acknowledge(delivered).await.expect("acknowledged");
            }
        }
        panic!("the outbox does not become empty");
    }
}

/// What a driver knows when it decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) decisions: u64,
    pub(crate) nothing_after: Option<u64>,
    pub(crate) folded_through: u64,
}

/// A request to append.
pub(crate) fn request(
    run: &Owned,
    drafts: Vec<Draft>,
    append_as: AppendAs,
    fence: Option<Fence>,
) -> AppendRequest {
    AppendRequest {
        tenant_id: run.tenant_id.clone(),
        run_id: run.run_id.clone(),
        drafts,
        emitted_by: APPENDER.into(),
        append_as,
        fence,
    }
}

/// A request to read.
pub(crate) fn reading(run: &Owned, after: u64, limit: usize) -> ReadRequest {
    ReadRequest { tenant_id: run.tenant_id.clone(), run_id: run.run_id.clone(), after, limit }
}

impl Owned {
    /// The same run, asked for by another tenant.
    pub(crate) fn by(&self, tenant: &str) -> Self {
        Self { tenant_id: drafts::tenant(tenant), run_id: self.run_id.clone() }
    }

    /// A run that nobody has.
    pub(crate) fn unknown() -> Self {
        let run_id = RunId::new("019c4cb5-0000-7000-8000-000000000000").expect("a run id");
        Self { tenant_id: drafts::tenant("acme"), run_id }
    }
}
