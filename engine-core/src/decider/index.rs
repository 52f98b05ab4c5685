//! What follows from state and plan and is kept at hand so that no event costs more in a large plan: who is
//! ready, who is in flight, who needs a decision. Never stored: [`Index::rebuild`] makes it from the state.

use std::collections::BTreeSet;

use super::state::{Delay, Disposition, Standing, State};
use crate::machine::StepStatus;
use crate::plan::CompiledPlan;
use crate::plan::compiled::StepIndex;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    standing: Vec<Standing>,
    /// Per step: dependencies that are not satisfied (GRAPH-12).
    unmet: Vec<u32>,
    /// Per step: required dependencies that are lost.
    lost: Vec<u32>,
    /// Released, not ended, not waiting for a person.
    pub(super) in_flight: BTreeSet<StepIndex>,
    /// Waiting for a person.
    pub(super) waiting: BTreeSet<StepIndex>,
    /// Failed, with an action that makes an event: retry, reassign, skip.
    pub(super) actionable: BTreeSet<StepIndex>,
    /// Failed, and a person must act.
    pub(super) held: BTreeSet<StepIndex>,
    /// Given up by a pause, to be done again.
    pub(super) orphaned: BTreeSet<StepIndex>,
    /// Not released, and a step it needs is lost.
    pub(super) doomed: BTreeSet<StepIndex>,
    /// Fallbacks that nobody needs.
    pub(super) unneeded: BTreeSet<StepIndex>,
    /// Steps whose delay runs.
    pub(super) delayed: BTreeSet<StepIndex>,
    /// Steps with a compensation whose success has not been undone, by the place of that success.
    pub(super) compensable: BTreeSet<(u64, StepIndex)>,
    compensable_at: Vec<Option<u64>>,
    /// Steps that have not ended, and ended ones that need more.
    unfinished: u32,
    ready: ReadyQueue,
}

impl Index {
    /// The index of a state, from nothing.
    pub(super) fn rebuild(plan: &CompiledPlan, state: &mut State) -> Self {
        let size = plan.len();
        let mut index = Self {
            standing: vec![Standing::Open; size],
            unmet: plan
                .indices()
                .map(|step| u32::try_from(plan.dependencies(step).len()).unwrap_or(u32::MAX))
                .collect(),
            lost: vec![0; size],
            compensable_at: vec![None; size],
            unfinished: u32::try_from(size).unwrap_or(u32::MAX),
            ready: ReadyQueue::new(plan, state),
            ..Self::default()
        };
        for step in plan.indices() {
            index.refresh(plan, state, step, None);
        }
        index
    }

    /// Brings everything up to date that depends on `step`'s cell, after it changed at time `now`.
    pub(super) fn refresh(
        &mut self,
        plan: &CompiledPlan,
        state: &mut State,
        step: StepIndex,
        now: Option<Timestamp>,
    ) {
        let cell = &state.steps[step.position()];
        member(&mut self.in_flight, step, cell.is_in_flight());
        member(&mut self.waiting, step, cell.is_waiting());
        let failed_with = |wanted: &[Disposition]| cell.has_failed() && wanted.contains(&cell.disposition);
        member(
            &mut self.actionable,
            step,
            failed_with(&[Disposition::Retry, Disposition::Reassign, Disposition::Skip]),
        );
        member(&mut self.held, step, failed_with(&[Disposition::Held]));
        member(&mut self.orphaned, step, failed_with(&[Disposition::Orphaned]));
        if plan.step(step).compensation.is_some() {
            let open = cell.compensation == Default::default();
            self.note_compensable(step, cell.success.filter(|_| open).map(|success| success.seq));
        }
        self.ready.note_load(plan, state, step);

        let standing = cell.standing();
        let before = std::mem::replace(&mut self.standing[step.position()], standing);
        if before != standing {
            let finished = |standing| matches!(standing, Standing::Satisfied | Standing::Lost);
            self.unfinished += u32::from(finished(before));
            self.unfinished -= u32::from(finished(standing));
            for link in plan.dependents(step) {
                let at = link.step.position();
                let satisfies = |standing| match standing {
                    Standing::Satisfied => true,
                    Standing::Lost => !link.required,
                    Standing::Open | Standing::Unresolved => false,
                };
                self.unmet[at] += u32::from(satisfies(before));
                self.unmet[at] -= u32::from(satisfies(standing));
                if link.required {
                    self.lost[at] -= u32::from(before == Standing::Lost);
                    self.lost[at] += u32::from(standing == Standing::Lost);
                }
                self.refresh_readiness(plan, state, link.step, now);
            }
        }
        self.refresh_readiness(plan, state, step, now);
        // FALLBACK-1: whether a fallback may start, or is needed at all, depends on the step it serves.
        if let Some(fallback) = plan.fallback(step) {
            self.refresh_readiness(plan, state, fallback, now);
        }
    }

    fn refresh_readiness(
        &mut self,
        plan: &CompiledPlan,
        state: &mut State,
        step: StepIndex,
        now: Option<Timestamp>,
    ) {
        let live = state.is_live();
        let served = plan
            .serves(step)
            .map(|served| (self.standing[served.position()], state.steps[served.position()].disposition));
        let called_for = match served {
            None => true,
            Some((standing, disposition)) => {
                standing == Standing::Unresolved && disposition == Disposition::AwaitFallback
            }
        };
        let at = step.position();
        let cell = &mut state.steps[at];
        let idle = cell.status == StepStatus::Pending && !cell.released;
        let eligible = idle && self.unmet[at] == 0 && called_for;

        let schedule = &plan.step(step).schedule;
        if let Some(schedule) = schedule {
            // Only an event moves a delay; a rebuild finds it in the state.
            if let Some(now) = now {
                if idle && !eligible {
                    cell.delay = Delay::None;
                } else if eligible && live && cell.delay == Delay::None {
                    let after_delay = schedule.delay_ms.map_or(now, |delay| now.plus_millis(delay));
                    cell.delays += 1;
                    cell.delay = Delay::Due(after_delay.max(schedule.at.unwrap_or(after_delay)));
                }
            }
            member(&mut self.delayed, step, idle && matches!(cell.delay, Delay::Due(_)));
        }
        let held_back = schedule.is_some() && cell.delay != Delay::Over;

        member(&mut self.doomed, step, idle && self.lost[at] > 0);
        let finished = |(standing, _)| matches!(standing, Standing::Satisfied | Standing::Lost);
        member(&mut self.unneeded, step, idle && served.is_some_and(finished));
        let queue = queue_of(plan, state, step);
        self.ready.set(plan, step, (eligible && !held_back).then_some(queue));
    }

    fn note_compensable(&mut self, step: StepIndex, seq: Option<u64>) {
        let before = std::mem::replace(&mut self.compensable_at[step.position()], seq);
        if before != seq {
            if let Some(before) = before {
                self.compensable.remove(&(before, step));
            }
            if let Some(seq) = seq {
                self.compensable.insert((seq, step));
            }
        }
    }

    /// The next step to release, if there is a free slot for one (SLOT-1).
    pub(super) fn next_release(&self, plan: &CompiledPlan, state: &State) -> Option<StepIndex> {
        let free = self.in_flight.len() < state.settings.limits.max_concurrency as usize;
        free.then(|| self.ready.first_rank().map(|rank| plan.at_rank(rank))).flatten()
    }

    /// Whether every step has ended and nothing more will be done about any.
    pub(super) fn all_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Whether what `step` stands for satisfies those that depend on it.
    pub(super) fn standing(&self, step: StepIndex) -> Standing {
        self.standing[step.position()]
    }
}

fn member(set: &mut BTreeSet<StepIndex>, step: StepIndex, belongs: bool) {
    if belongs {
        set.insert(step);
    } else if !set.is_empty() {
        set.remove(&step);
    }
}

/// The queue that a step's attempt waits in: 0 without an agent, else one per agent.
fn queue_of(plan: &CompiledPlan, state: &State, step: StepIndex) -> u32 {
    let chain = plan.agent_chain(step);
    chain.get(state.steps[step.position()].agent as usize).map_or(0, |agent| agent + 1)
}

/// Ready steps by rank, one queue per agent, so that a full agent hides no other step and costs nothing (SLOT-7).
#[derive(Clone, Debug, Default, PartialEq)]
struct ReadyQueue {
    per_agent: u32,
    queues: Vec<BTreeSet<u32>>,
    /// Per queue: attempts in flight. The queue of steps without an agent has no limit of its own.
    load: Vec<u32>,
    /// Per step: the queue it loads while in flight.
    loads: Vec<Option<u32>>,
    /// Per step: the queue it waits in.
    waits: Vec<Option<u32>>,
    /// The first rank of every queue that has a free slot.
    heads: BTreeSet<(u32, u32)>,
    head_of: Vec<Option<u32>>,
}

impl ReadyQueue {
    fn new(plan: &CompiledPlan, state: &State) -> Self {
        let queues = plan.agent_count() + 1;
        Self {
            per_agent: state.settings.limits.per_agent,
            queues: vec![BTreeSet::new(); queues],
            load: vec![0; queues],
            loads: vec![None; plan.len()],
            waits: vec![None; plan.len()],
            heads: BTreeSet::new(),
            head_of: vec![None; queues],
        }
    }

    fn first_rank(&self) -> Option<u32> {
        self.heads.first().map(|(rank, _)| *rank)
    }

    /// Puts a step into a queue, or takes it out.
    fn set(&mut self, plan: &CompiledPlan, step: StepIndex, queue: Option<u32>) {
        let before = std::mem::replace(&mut self.waits[step.position()], queue);
        if before == queue {
            return;
        }
        if let Some(before) = before {
            self.queues[before as usize].remove(&plan.rank(step));
            self.sync_head(before);
        }
        if let Some(queue) = queue {
            self.queues[queue as usize].insert(plan.rank(step));
            self.sync_head(queue);
        }
    }

    /// Counts a step's attempt in flight against its agent (SLOT-2, SLOT-4).
    fn note_load(&mut self, plan: &CompiledPlan, state: &State, step: StepIndex) {
        let in_flight = state.steps[step.position()].is_in_flight();
        let queue = in_flight.then(|| queue_of(plan, state, step));
        let before = std::mem::replace(&mut self.loads[step.position()], queue);
        if before == queue {
            return;
        }
        if let Some(before) = before {
            self.load[before as usize] -= 1;
            self.sync_head(before);
        }
        if let Some(queue) = queue {
            self.load[queue as usize] += 1;
            self.sync_head(queue);
        }
    }

    fn sync_head(&mut self, queue: u32) {
        let at = queue as usize;
        let free = queue == 0 || self.load[at] < self.per_agent;
        let head = self.queues[at].first().copied().filter(|_| free);
        let before = std::mem::replace(&mut self.head_of[at], head);
        if before != head {
            if let Some(before) = before {
                self.heads.remove(&(before, queue));
            }
            if let Some(head) = head {
                self.heads.insert((head, queue));
            }
        }
    }
}
