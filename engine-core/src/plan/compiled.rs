//! A plan with everything worked out that decisions read: numbered steps, edges, order of release.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::model::{FailureAction, Mode, Plan, Step};
use crate::error::{Code, Error, Result};
use crate::failure::configured_action;
use crate::hash::{canonical_json, sha256_hex};
use crate::id::{AgentName, StepId};

/// A step by its position in the plan's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepIndex(u32);

impl StepIndex {
    pub(crate) fn new(position: usize) -> Self {
        Self(u32::try_from(position).unwrap_or(u32::MAX))
    }

    /// The position in the plan's list.
    #[must_use]
    pub fn position(self) -> usize {
        self.0 as usize
    }
}

/// One end of an edge between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The step at the other end.
    pub step: StepIndex,
    /// Whether the earlier step must succeed.
    pub required: bool,
}

/// A plan that passed validation, ready for decisions.
#[derive(Clone, Debug)]
pub struct CompiledPlan {
    plan: Plan,
    hash: String,
    positions: HashMap<StepId, StepIndex>,
    nodes: Vec<Node>,
    agents: Vec<AgentName>,
    by_rank: Vec<StepIndex>,
    topological: Vec<StepIndex>,
}

#[derive(Clone, Debug)]
struct Node {
    dependencies: Vec<Link>,
    dependents: Vec<Link>,
    rank: u32,
    fallback: Option<StepIndex>,
    serves: Option<StepIndex>,
    /// Positions in `agents`, in the order in which reassignment goes through them.
    agent_chain: Vec<u32>,
    action: FailureAction,
    max_retries: u32,
}

impl CompiledPlan {
    /// Compiles a plan that passed [`super::validate()`].
    ///
    /// # Errors
    /// `PLAN_INVALID` when the plan's references do not hold together.
    pub fn new(plan: Plan) -> Result<Self> {
        let positions: HashMap<StepId, StepIndex> = plan
            .steps
            .iter()
            .enumerate()
            .map(|(position, step)| (step.id.clone(), StepIndex::new(position)))
            .collect();
        if positions.len() != plan.steps.len() || plan.steps.is_empty() {
            return Err(invalid("its step ids are not unique, or it has no steps"));
        }
        let find =
            |id: &StepId| positions.get(id).copied().ok_or_else(|| invalid(&format!("it has no step {id}")));

        let mut agents: Vec<AgentName> = Vec::new();
        let mut agent_positions: HashMap<AgentName, u32> = HashMap::new();
        let mut nodes = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let dependencies = step
                .depends_on
                .iter()
                .map(|dependency| {
                    Ok(Link { step: find(dependency.step())?, required: dependency.is_required() })
                })
                .collect::<Result<Vec<_>>>()?;
            let agent_chain = step
                .agent_chain()
                .into_iter()
                .map(|agent| {
                    *agent_positions.entry(agent.clone()).or_insert_with(|| {
                        agents.push(agent);
                        StepIndex::new(agents.len() - 1).0
                    })
                })
                .collect();
            nodes.push(Node {
                dependencies,
                dependents: Vec::new(),
                rank: 0,
                fallback: step.fallback.as_ref().map(&find).transpose()?,
                serves: None,
                agent_chain,
                action: configured_action(step, &plan.failure),
                max_retries: step.max_retries.unwrap_or(plan.failure.max_retries),
            });
        }
        for position in 0..nodes.len() {
            if let Some(fallback) = nodes[position].fallback {
                nodes[fallback.position()].serves = Some(StepIndex::new(position));
            }
        }
        if is_sequential(&plan) {
            chain_in_order(&plan, &mut nodes);
        }
        for position in 0..nodes.len() {
            for link in nodes[position].dependencies.clone() {
                nodes[link.step.position()]
                    .dependents
                    .push(Link { step: StepIndex::new(position), required: link.required });
            }
        }
        let by_rank = ranked(&plan, &mut nodes);
        let topological =
            topological(&plan, &nodes).ok_or_else(|| invalid("its dependencies form a cycle"))?;
        let hash = plan_hash(&plan);
        Ok(Self { plan, hash, positions, nodes, agents, by_rank, topological })
    }

    /// The same under the hash of the plan that it is an outline of.
    pub(super) fn with_hash(self, hash: String) -> Self {
        Self { hash, ..self }
    }

    /// Reads, checks and compiles a plan.
    ///
    /// # Errors
    /// `PLAN_INVALID` with every problem in its message (PLAN-2).
    pub fn read(text: &str) -> Result<Self> {
        Self::new(super::validate::read(text)?)
    }

    /// The document.
    #[must_use]
    pub fn document(&self) -> &Plan {
        &self.plan
    }

    /// SHA-256 of the canonical document.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// How many steps there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a plan has at least one step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every step, in the order of the document.
    pub fn indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.nodes.len()).map(StepIndex::new)
    }

    /// Every step, each after all that it depends on; ties by (order, step id).
    #[must_use]
    pub fn topological(&self) -> &[StepIndex] {
        &self.topological
    }

    /// The step with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<StepIndex> {
        self.positions.get(id).copied()
    }

    /// A step's definition.
    #[must_use]
    pub fn step(&self, index: StepIndex) -> &Step {
        &self.plan.steps[index.position()]
    }

    /// What a step depends on directly, implicit edges of a sequential plan included.
    #[must_use]
    pub fn dependencies(&self, index: StepIndex) -> &[Link] {
        &self.nodes[index.position()].dependencies
    }

    /// What depends on a step directly.
    #[must_use]
    pub fn dependents(&self, index: StepIndex) -> &[Link] {
        &self.nodes[index.position()].dependents
    }

    /// The step that stands in when this one fails.
    #[must_use]
    pub fn fallback(&self, index: StepIndex) -> Option<StepIndex> {
        self.nodes[index.position()].fallback
    }

    /// The step that this one stands in for.
    #[must_use]
    pub fn serves(&self, index: StepIndex) -> Option<StepIndex> {
        self.nodes[index.position()].serves
    }

    /// What the plan says about a final failure of the step.
    #[must_use]
    pub fn failure_action(&self, index: StepIndex) -> FailureAction {
        self.nodes[index.position()].action
    }

    /// How many new logical attempts the failure action `retry` makes.
    #[must_use]
    pub fn max_retries(&self, index: StepIndex) -> u32 {
        self.nodes[index.position()].max_retries
    }

    /// Everything that depends on `index`, directly or not, in topological order. What depends on a step
    /// depends on its fallback too.
    #[must_use]
    pub fn transitive_dependents(&self, index: StepIndex) -> Vec<StepIndex> {
        self.closure(index, Self::dependents)
    }

    /// Everything that `index` depends on, directly or not, in topological order. A fallback sees what the
    /// step it serves sees.
    #[must_use]
    pub fn transitive_dependencies(&self, index: StepIndex) -> Vec<StepIndex> {
        self.closure(index, Self::dependencies)
    }

    fn closure(&self, index: StepIndex, next: fn(&Self, StepIndex) -> &[Link]) -> Vec<StepIndex> {
        let mut found = BTreeSet::new();
        let mut frontier = vec![self.serves(index).unwrap_or(index)];
        while let Some(current) = frontier.pop() {
            for link in next(self, current) {
                if found.insert(link.step) {
                    frontier.push(link.step);
                }
            }
        }
        self.topological.iter().copied().filter(|step| found.contains(step)).collect()
    }

    /// The place of a step in the order of release: by (priority, order, step id).
    pub(crate) fn rank(&self, index: StepIndex) -> u32 {
        self.nodes[index.position()].rank
    }

    pub(crate) fn at_rank(&self, rank: u32) -> StepIndex {
        self.by_rank[rank as usize]
    }

    /// Executors in the order of reassignment, as positions for [`Self::agent`].
    pub(crate) fn agent_chain(&self, index: StepIndex) -> &[u32] {
        &self.nodes[index.position()].agent_chain
    }

    pub(crate) fn agent(&self, position: u32) -> &AgentName {
        &self.agents[position as usize]
    }

    pub(crate) fn agent_count(&self) -> usize {
        self.agents.len()
    }
}

/// SHA-256 of a plan's canonical document (PLAN-15); the same for YAML and JSON, whatever the order of keys.
#[must_use]
pub fn plan_hash(plan: &Plan) -> String {
    // A plan is plain data with string keys: writing it cannot fail. One step at a time: a value of the whole
    // plan costs more than all the rest.
    let written = |value: serde_json::Result<Value>| canonical_json(&value.unwrap_or_default());
    let document = serde_json::to_value(plan.without_steps()).unwrap_or_default();
    let mut fields: Vec<(&String, &Value)> = document.as_object().into_iter().flatten().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    let mut parts: Vec<String> = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let text = if name == "steps" {
            let steps: Vec<String> =
                plan.steps.iter().map(|step| written(serde_json::to_value(step))).collect();
            format!("[{}]", steps.join(","))
        } else {
            canonical_json(value)
        };
        parts.push(format!("{name:?}:{text}"));
    }
    sha256_hex(format!("{{{}}}", parts.join(",")))
}

fn invalid(reason: &str) -> Error {
    Error::new(Code::PlanInvalid, format!("the plan cannot be compiled: {reason}"))
        .with_hint("validate it first")
}

/// Without any `dependsOn`, and unless it says `mode: graph`, a plan runs one step after another (GRAPH-8).
#[must_use]
pub fn is_sequential(plan: &Plan) -> bool {
    match plan.mode {
        Some(Mode::Graph) => false,
        Some(Mode::Sequential) => true,
        None => plan.steps.iter().all(|step| step.depends_on.is_empty()),
    }
}

/// The place of the step at `position` in the plan's own order.
fn order_of(plan: &Plan, position: usize) -> u32 {
    plan.steps[position].order.unwrap_or_else(|| StepIndex::new(position + 1).0)
}

/// The steps of a sequential plan in their order. Fallbacks are in no sequence: they start by a failure.
pub(crate) fn sequence(plan: &Plan, is_fallback: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..plan.steps.len()).filter(|position| !is_fallback(*position)).collect();
    order.sort_by_key(|position| order_of(plan, *position));
    order
}

/// Makes the edges of a sequential plan: each step after the one before, whatever became of that (GRAPH-9,
/// GRAPH-11).
fn chain_in_order(plan: &Plan, nodes: &mut [Node]) {
    for pair in sequence(plan, |position| nodes[position].serves.is_some()).windows(2) {
        nodes[pair[1]].dependencies.push(Link { step: StepIndex::new(pair[0]), required: false });
    }
}

fn ranked(plan: &Plan, nodes: &mut [Node]) -> Vec<StepIndex> {
    let mut by_rank: Vec<StepIndex> = (0..nodes.len()).map(StepIndex::new).collect();
    by_rank.sort_by(|left, right| {
        let key = |index: &StepIndex| {
            let step = &plan.steps[index.position()];
            (step.priority, order_of(plan, index.position()), &step.id)
        };
        key(left).cmp(&key(right))
    });
    for (rank, index) in by_rank.iter().enumerate() {
        nodes[index.position()].rank = StepIndex::new(rank).0;
    }
    by_rank
}

fn topological(plan: &Plan, nodes: &[Node]) -> Option<Vec<StepIndex>> {
    let key = |index: StepIndex| (order_of(plan, index.position()), &plan.steps[index.position()].id, index);
    let mut waiting: Vec<usize> = nodes.iter().map(|node| node.dependencies.len()).collect();
    let mut ready: BTreeSet<_> = (0..nodes.len())
        .filter(|position| waiting[*position] == 0)
        .map(|position| key(StepIndex::new(position)))
        .collect();
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some((_, _, index)) = ready.pop_first() {
        sorted.push(index);
        for link in &nodes[index.position()].dependents {
            let left = &mut waiting[link.step.position()];
            *left -= 1;
            if *left == 0 {
                ready.insert(key(link.step));
            }
        }
    }
    (sorted.len() == nodes.len()).then_some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_canonical_document() {
        let plan = crate::plan::read(include_str!("../../tests/plans/everything.yaml")).unwrap();
        let document = serde_json::to_value(&plan).unwrap();
        assert_eq!(plan_hash(&plan), sha256_hex(canonical_json(&document)));
    }
}
