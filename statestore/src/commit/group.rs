//! What one transaction does, step by step, whatever the database.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use engine_core::event::{Event, IdempotencyKey};
use engine_core::port::store::{Appended, CheckpointRecord, Created, StoredEvent};
use engine_core::{Result, RunId, TenantId, Timestamp};

use super::job::{AppendJob, CreateJob, LogJob};
use super::names::{Names, SHORT_RUN};
use super::queue::Group;
use crate::append::{Changes, Entry, Head, Holder, Placement, PreparedRun, Ruling, Taken, no_such_run, rule};
use crate::retry::Failure;
use crate::wake::Wakeups;

/// Larger appends are not kept in memory for those who follow the run: they read them.
const HANDED_OUT_BYTES: usize = 64 * 1024;

/// What a group needs of a database. Everything between `begin` and `commit` is one transaction.
pub(crate) trait Database: Send + 'static {
    /// Begins, locks these runs against other writers, and says where they stand; says which identities are taken.
    fn begin(
        &mut self,
        runs: &[RunId],
        identities: &[Identity],
    ) -> impl Future<Output = Result<Begun, Failure>> + Send;

    /// Who holds these slots and names of a run; with none given, every one of them.
    fn holders(
        &mut self,
        run_no: i64,
        names: Option<&[Arc<str>]>,
    ) -> impl Future<Output = Result<Taken, Failure>> + Send;

    /// Whether the names of this transaction's runs need not be looked up: its `write` refuses as stale when one of those
    /// that it is to store is taken, or one of [`Writes::presumed_free`].
    fn presumes(&self) -> bool {
        false
    }

    /// Numbers for new runs, in order. They are there once `write` has written them, or before.
    fn create(
        &mut self,
        runs: &[&PreparedRun],
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<i64>, Failure>> + Send;

    /// Writes what was ruled. With `then_commit` it also commits: databases can do both in one go.
    fn write(
        &mut self,
        writes: &Writes<'_>,
        then_commit: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Stored events of a run.
    fn events(
        &mut self,
        head: &Head,
        wanted: Wanted,
    ) -> impl Future<Output = Result<Vec<Event>, Failure>> + Send;

    /// Commits. Returning means that all of it is durable.
    fn commit(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Gives up whatever was begun.
    fn rollback(&mut self) -> impl Future<Output = ()> + Send;

    /// Ends the connection.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// What makes a run unique (START-3). The identity is a hash over the tenant too; but a caller brings it, and whatever it
/// brings must not open another tenant's run.
pub(crate) type Identity = (TenantId, Arc<str>);

/// The name of RunQueued, which only making a run stores.
const FIRST_EVENT: &str = "RUN|1|RunQueued";

/// Where things stand as a transaction begins.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) now: Timestamp,
    pub(crate) heads: Vec<Head>,
    pub(crate) identities: Vec<(Identity, RunId)>,
}

/// Events of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// All after a place.
    After(u64),
    /// The one at a place.
    At(u64),
}

/// What a transaction writes to the log and to what belongs to it.
#[derive(Debug)]
pub(crate) struct Writes<'a> {
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<EventRow<'a>>,
    /// Runs with new events, new runs included, in the order of their numbers.
    pub(crate) heads: Vec<HeadRow>,
    pub(crate) changes: Vec<(i64, Changes)>,
    pub(crate) checkpoints: Vec<(i64, &'a CheckpointRow)>,
    /// New runs.
    pub(crate) made: Vec<(i64, &'a PreparedRun)>,
    /// Whether names of a run were presumed to be free.
    pub(crate) presumes: bool,
    /// Names that must be free besides those that the events take, and that nobody has looked up.
    pub(crate) presumed_free: Vec<(i64, &'a Arc<str>)>,
    /// The runs of `heads`, in the same order.
    pub(crate) runs: Vec<RunId>,
}

/// One event.
#[derive(Debug)]
pub(crate) struct EventRow<'a> {
    pub(crate) run_no: i64,
    pub(crate) run_seq: u64,
    pub(crate) key: IdempotencyKey,
    pub(crate) entry: &'a Entry,
    pub(crate) emitted_by: &'a Arc<str>,
}

/// Where a run stands afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadRow {
    pub(crate) run_no: i64,
    pub(crate) last_seq: u64,
    pub(crate) decisions: u64,
    pub(crate) ended: bool,
}

impl From<&Head> for HeadRow {
    fn from(head: &Head) -> Self {
        Self { run_no: head.run_no, last_seq: head.last_seq, decisions: head.decisions, ended: head.ended }
    }
}

/// A checkpoint with its content.
#[derive(Debug)]
pub(crate) struct CheckpointRow {
    pub(crate) record: CheckpointRecord,
    pub(crate) content: Arc<str>,
}

/// A run in this transaction.
struct Touched {
    head: Head,
    taken: Taken,
    /// Whether `taken` is everything that the run has taken.
    complete: bool,
    /// Whether nobody has asked what it has taken.
    presumed: bool,
    new: bool,
    changes: Changes,
    wrote: bool,
}

/// The log of a database, as its one writer keeps it.
pub(crate) struct Log<D> {
    database: D,
    names: Names,
    wakeups: Arc<Wakeups>,
}

impl<D> Log<D> {
    pub(crate) fn new(database: D, wakeups: Arc<Wakeups>) -> Self {
        Self { database, names: Names::default(), wakeups }
    }

    /// Gives what was stored to those who follow the runs in this process, and tells of new runs: they need not read it.
    fn hand_out(&self, jobs: &[LogJob]) {
        for job in jobs {
            match job {
                LogJob::Append(AppendJob { call, answer: Some(Ok(Appended::Stored(stored))), .. })
                    if call.bytes <= HANDED_OUT_BYTES && self.wakeups.is_followed(&call.run_id) =>
                {
                    let fresh = stored.iter().filter(|event| event.fresh);
                    let events = fresh.map(|stored| Arc::new(stored.event.clone())).collect();
                    self.wakeups.hand_out(&call.run_id, events);
                }
                LogJob::Create(CreateJob { run, answer: Some(Ok(created)), .. }) if created.fresh => {
                    self.wakeups.made(run.tenant_id(), &created.run_id);
                }
                LogJob::Append(_) | LogJob::Create(_) => {}
            }
        }
    }
}

impl<D: Database> Group for Log<D> {
    type Job = LogJob;

    async fn commit(&mut self, jobs: &mut [LogJob]) -> Result<(), Failure> {
        let runs = match commit(&mut self.database, &mut self.names, jobs).await {
            Err(failure) if failure.stale => {
                self.database.rollback().await;
                commit(&mut self.database, &mut self.names, jobs).await?
            }
            result => result?,
        };
        self.hand_out(jobs);
        self.wakeups.stored(runs.iter().map(|(run_id, last)| (run_id, *last)));
        Ok(())
    }

    async fn rollback(&mut self) {
        self.database.rollback().await;
    }

    async fn close(self) {
        self.database.close().await;
    }
}

/// Does all jobs in one transaction and keeps their answers; gives the runs that have new events, and up to where.
async fn commit<D: Database>(
    database: &mut D,
    names: &mut Names,
    jobs: &mut [LogJob],
) -> Result<Vec<(RunId, u64)>, Failure> {
    match attempt(database, names, jobs, true).await? {
        Some(stored) => Ok(stored),
        // Nothing was begun: what is in the way of a call must be known to answer it.
        None => Ok(attempt(database, names, jobs, false).await?.unwrap_or_default()),
    }
}

/// The same; nothing is done and nothing given when the names of a run were presumed to be free, and a call to it is not
/// simply stored.
async fn attempt<D: Database>(
    database: &mut D,
    names: &mut Names,
    jobs: &mut [LogJob],
    may_presume: bool,
) -> Result<Option<Vec<(RunId, u64)>>, Failure> {
    let (mut appends, mut creates) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        match job {
            LogJob::Append(job) => appends.push(job),
            LogJob::Create(job) => creates.push(job),
        }
    }
    let mut runs: Vec<RunId> = appends.iter().map(|job| job.call.run_id.clone()).collect();
    runs.sort_unstable();
    runs.dedup();
    let identities: Vec<Identity> = creates.iter().map(|job| job.run.identity()).collect();
    let Begun { now, heads, identities } = database.begin(&runs, &identities).await?;

    let mut touched: HashMap<RunId, Touched> = HashMap::with_capacity(heads.len() + creates.len());
    for head in heads {
        let known = names.take(head.run_no, head.last_seq).or_else(|| only_queued(&head));
        let complete = known.is_some();
        let taken = known.unwrap_or_default();
        let run = Touched {
            head,
            taken,
            complete,
            presumed: false,
            new: false,
            changes: Changes::default(),
            wrote: false,
        };
        touched.insert(run.head.run_id.clone(), run);
    }
    create_runs(database, &mut creates, identities, &mut touched, now).await?;
    look_up(database, &appends, &mut touched, may_presume).await?;

    let rulings: Vec<Ruling> = appends.iter().map(|job| rule_on(job, &mut touched, now)).collect();
    let presumed = |job: &AppendJob| touched.get(&job.call.run_id).is_some_and(|run| run.presumed);
    if appends.iter().zip(&rulings).any(|(job, ruling)| presumed(job) && !ruling.stores_all()) {
        return Ok(None);
    }
    let writes = writes(&appends, &creates, &rulings, &touched, now);
    let is_all = rulings.iter().all(Ruling::is_all_new);
    let wrote = !writes.events.is_empty();
    if wrote {
        database.write(&writes, is_all).await?;
    }
    let stored: Vec<(RunId, u64)> =
        writes.runs.into_iter().zip(writes.heads.iter().map(|head| head.last_seq)).collect();
    let mut known = Vec::with_capacity(rulings.len());
    for (job, ruling) in appends.iter().zip(&rulings) {
        known.push(events_in_the_way(database, job, ruling, &touched).await?);
    }
    if !(wrote && is_all) {
        database.commit().await?;
    }

    for ((job, ruling), known) in appends.into_iter().zip(rulings).zip(known) {
        job.answer = Some(answer(job, ruling, known, &touched, now));
    }
    for (_, run) in touched {
        if run.complete && !run.head.ended {
            names.keep(run.head.run_no, run.head.last_seq, run.taken);
        }
    }
    Ok(Some(stored))
}

/// What a run has taken that was made and nothing more: whoever made it, nobody need be asked.
fn only_queued(head: &Head) -> Option<Taken> {
    // No later append is this event, so it does not matter which it is.
    let holder = Holder { run_seq: 1, event_id: uuid::Uuid::nil() };
    (head.last_seq == 1).then(|| Taken::from([(Arc::from(FIRST_EVENT), holder)]))
}

/// Makes the runs whose identity is new, and answers for all.
async fn create_runs<D: Database>(
    database: &mut D,
    creates: &mut [&mut CreateJob],
    identities: Vec<(Identity, RunId)>,
    touched: &mut HashMap<RunId, Touched>,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut known: HashMap<Identity, RunId> = identities.into_iter().collect();
    let mut new = HashSet::new();
    for job in creates.iter_mut() {
        let run_id = known.entry(job.run.identity()).or_insert_with(|| {
            new.insert(job.run.run_id.clone());
            job.run.run_id.clone()
        });
        // A run that an earlier try of this very job made is fresh, although it is there.
        let fresh = *run_id == job.run.run_id;
        job.answer = Some(Ok(Created { run_id: run_id.clone(), fresh, queued: None }));
    }
    if new.is_empty() {
        return Ok(());
    }
    let mut jobs: Vec<&mut &mut CreateJob> =
        creates.iter_mut().filter(|job| new.contains(&job.run.run_id)).collect();
    let runs: Vec<&PreparedRun> = jobs.iter().map(|job| &job.run).collect();
    let numbers = database.create(&runs, now).await?;
    for (job, run_no) in jobs.iter_mut().zip(numbers) {
        let queued = Some(Box::new(job.run.first_event(run_no, now)));
        job.answer = Some(Ok(Created { run_id: job.run.run_id.clone(), fresh: true, queued }));
        let run = &job.run;
        let holder = Holder { run_seq: 1, event_id: run.queued.event_id };
        let run = Touched {
            head: run.head(run_no),
            taken: Taken::from([(Arc::clone(&run.queued.takes), holder)]),
            complete: true,
            presumed: false,
            new: true,
            changes: Changes::default(),
            wrote: true,
        };
        touched.insert(run.head.run_id.clone(), run);
    }
    Ok(())
}

/// Finds out which names are taken: of a short run all of them, to be remembered, of a long one those that matter, unless
/// the database sees to it itself.
async fn look_up<D: Database>(
    database: &mut D,
    appends: &[&mut AppendJob],
    touched: &mut HashMap<RunId, Touched>,
    may_presume: bool,
) -> Result<(), Failure> {
    for run in touched.values_mut().filter(|run| !run.complete) {
        if run.head.last_seq > SHORT_RUN && may_presume && database.presumes() {
            run.presumed = true;
            continue;
        }
        if run.head.last_seq <= SHORT_RUN {
            run.taken = database.holders(run.head.run_no, None).await?;
            run.complete = true;
            continue;
        }
        let calls = appends.iter().filter(|job| job.call.run_id == run.head.run_id);
        let mut wanted: Vec<Arc<str>> =
            calls.flat_map(|job| &job.call.entries).flat_map(Entry::needs).cloned().collect();
        wanted.sort_unstable();
        wanted.dedup();
        run.taken = database.holders(run.head.run_no, Some(&wanted)).await?;
    }
    Ok(())
}

fn rule_on(job: &AppendJob, touched: &mut HashMap<RunId, Touched>, now: Timestamp) -> Ruling {
    let Some(run) = touched.get_mut(&job.call.run_id) else {
        return Ruling::Refused(no_such_run(job.call.run_id.as_str()));
    };
    let ruling = rule(&job.call, &mut run.head, &mut run.taken);
    if let Ruling::Stored(placements) = &ruling {
        for (entry, placement) in job.call.entries.iter().zip(placements) {
            if matches!(placement, Placement::New { .. }) {
                run.wrote = true;
                run.changes.note(entry, now);
            }
        }
    }
    ruling
}

/// Everything that the rulings say is new.
fn writes<'a>(
    appends: &'a [&mut AppendJob],
    creates: &'a [&mut CreateJob],
    rulings: &[Ruling],
    touched: &HashMap<RunId, Touched>,
    now: Timestamp,
) -> Writes<'a> {
    let mut events = Vec::new();
    let mut checkpoints = Vec::new();
    let mut made = Vec::new();
    let mut presumed_free = Vec::new();
    for job in creates {
        if let Some(run) = touched.get(&job.run.run_id).filter(|run| run.new) {
            made.push((run.head.run_no, &job.run));
            let (run_no, key) = (run.head.run_no, job.run.queued.key(&run.head));
            let (entry, emitted_by) = (&job.run.queued, &job.run.emitted_by);
            events.push(EventRow { run_no, run_seq: 1, key, entry, emitted_by });
        }
    }
    for (job, ruling) in appends.iter().zip(rulings) {
        let (Ruling::Stored(placements), Some(run)) = (ruling, touched.get(&job.call.run_id)) else {
            continue;
        };
        let mut wrote = false;
        for (entry, placement) in job.call.entries.iter().zip(placements) {
            if let Placement::New { run_seq, key } = *placement {
                wrote = true;
                let emitted_by = &job.call.emitted_by;
                events.push(EventRow { run_no: run.head.run_no, run_seq, key, entry, emitted_by });
                let closed_by = entry.closed_by.iter().filter(|_| run.presumed);
                presumed_free.extend(closed_by.map(|name| (run.head.run_no, name)));
            }
        }
        if let Some(checkpoint) = job.checkpoint.as_ref().filter(|_| wrote) {
            checkpoints.push((run.head.run_no, checkpoint));
        }
    }
    let mut wrote: Vec<&Touched> = touched.values().filter(|run| run.wrote).collect();
    wrote.sort_unstable_by_key(|run| run.head.run_no);
    Writes {
        now,
        events,
        heads: wrote.iter().map(|run| HeadRow::from(&run.head)).collect(),
        changes: wrote
            .iter()
            .filter(|run| !run.changes.is_empty())
            .map(|run| (run.head.run_no, run.changes.clone()))
            .collect(),
        checkpoints,
        made,
        presumes: wrote.iter().any(|run| run.presumed),
        presumed_free,
        runs: wrote.iter().map(|run| run.head.run_id.clone()).collect(),
    }
}

/// The stored events that a caller is given instead of its own.
async fn events_in_the_way<D: Database>(
    database: &mut D,
    job: &AppendJob,
    ruling: &Ruling,
    touched: &HashMap<RunId, Touched>,
) -> Result<Vec<Event>, Failure> {
    let Some(run) = touched.get(&job.call.run_id) else { return Ok(Vec::new()) };
    match ruling {
        Ruling::Conflict { after } => database.events(&run.head, Wanted::After(*after)).await,
        Ruling::Refused(_) => Ok(Vec::new()),
        Ruling::Stored(placements) => {
            let mut known = Vec::new();
            for placement in placements {
                if let Placement::Known { run_seq } | Placement::Own { run_seq } = *placement {
                    known.extend(database.events(&run.head, Wanted::At(run_seq)).await?);
                }
            }
            Ok(known)
        }
    }
}

fn answer(
    job: &mut AppendJob,
    ruling: Ruling,
    known: Vec<Event>,
    touched: &HashMap<RunId, Touched>,
    now: Timestamp,
) -> Result<Appended> {
    let placements = match ruling {
        Ruling::Stored(placements) => placements,
        Ruling::Conflict { .. } => return Ok(Appended::Conflict(known)),
        Ruling::Refused(error) => return Err(error),
    };
    let missing = || no_such_run(job.call.run_id.as_str());
    let head = &touched.get(&job.call.run_id).ok_or_else(missing)?.head;
    let mut known = known.into_iter();
    let entries = std::mem::take(&mut job.call.entries);
    let stored = entries.into_iter().zip(placements).filter_map(|(entry, placement)| match placement {
        Placement::New { run_seq, key } => {
            let event = entry.into_event(head, run_seq, key, &job.call.emitted_by, now);
            Some(StoredEvent { event, fresh: true })
        }
        Placement::Known { .. } => known.next().map(|event| StoredEvent { event, fresh: false }),
        Placement::Own { .. } => known.next().map(|event| StoredEvent { event, fresh: true }),
    });
    Ok(Appended::Stored(stored.collect()))
}
