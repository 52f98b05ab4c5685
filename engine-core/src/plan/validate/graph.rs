//! Steps and edges: ids, dependencies, cycles, orders, fallbacks.

use std::collections::{HashMap, HashSet, VecDeque};

use super::report::{Finding, Report};
use super::{Subject, Unreadable, step_path};
use crate::plan::compiled::{is_sequential, sequence};
use crate::plan::document::Path;
use crate::plan::model::{Mode, Plan};
use crate::plan::problem::ProblemCode;

/// Cycles longer than this are cut short in the message.
const LONGEST_CYCLE_SHOWN: usize = 20;

/// The edges of a plan as far as they can be made out, by position in the list of steps.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    by_id: HashMap<&'a str, usize>,
    /// What each step names in `dependsOn`: known, not itself, each once; or the step before in a sequence.
    dependencies: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    /// The first step that names this one as its fallback.
    serves: Vec<Option<usize>>,
}

impl<'a> Graph<'a> {
    pub(super) fn build(plan: &'a Plan, unreadable: &Unreadable, report: &mut Report) -> Self {
        let count = plan.steps.len();
        let mut by_id = HashMap::with_capacity(count);
        for (position, step) in plan.steps.iter().enumerate() {
            if unreadable.has(position, "id") {
                continue;
            }
            match by_id.entry(step.id.as_str()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(position);
                }
                std::collections::hash_map::Entry::Occupied(first) => report.add(Finding::new(
                    ProblemCode::DuplicateStep,
                    step_path(position).key("id"),
                    format!("the id {:?} is taken by steps[{}] already", step.id.as_str(), first.get()),
                    "give each step its own id",
                )),
            }
        }
        let mut graph = Self {
            by_id,
            dependencies: vec![Vec::new(); count],
            dependents: vec![Vec::new(); count],
            serves: vec![None; count],
        };
        graph.link_fallbacks(plan, report);
        graph.link_dependencies(plan, unreadable, report);
        // Where `mode: sequential` and `dependsOn` contradict each other, implicit edges would only add cycles.
        if is_sequential(plan) && plan.steps.iter().all(|step| step.depends_on.is_empty()) {
            for pair in sequence(plan, |position| graph.serves[position].is_some()).windows(2) {
                graph.dependencies[pair[1]].push(pair[0]);
            }
        }
        for position in 0..count {
            for index in 0..graph.dependencies[position].len() {
                let dependency = graph.dependencies[position][index];
                graph.dependents[dependency].push(position);
            }
        }
        graph
    }

    fn link_fallbacks(&mut self, plan: &Plan, report: &mut Report) {
        for (position, step) in plan.steps.iter().enumerate() {
            let Some(fallback) = &step.fallback else { continue };
            let path = || step_path(position).key("fallback");
            match self.by_id.get(fallback.as_str()) {
                None => self.unknown(fallback.as_str(), path(), report),
                Some(target) if *target == position => report.add(Finding::new(
                    ProblemCode::SelfDependency,
                    path(),
                    "a step cannot be its own fallback",
                    "name another step that stands in, or remove `fallback`",
                )),
                Some(target) => match self.serves[*target] {
                    None => self.serves[*target] = Some(position),
                    Some(first) => report.add(Finding::new(
                        ProblemCode::FallbackInvalid,
                        path(),
                        format!("{fallback} is the fallback of {} already", plan.steps[first].id),
                        "give each step a fallback of its own",
                    )),
                },
            }
        }
    }

    fn link_dependencies(&mut self, plan: &Plan, unreadable: &Unreadable, report: &mut Report) {
        for (position, step) in plan.steps.iter().enumerate() {
            let mut seen = HashSet::new();
            for (index, dependency) in step.depends_on.iter().enumerate() {
                let id = dependency.step().as_str();
                let path = || step_path(position).key("dependsOn").index(index);
                if unreadable.is_at(path) || unreadable.is_at(|| path().key("step")) {
                    continue;
                }
                match self.by_id.get(id) {
                    None => self.unknown(id, path(), report),
                    _ if id == step.id.as_str() => report.add(Finding::new(
                        ProblemCode::SelfDependency,
                        path(),
                        format!("step {id:?} depends on itself"),
                        "remove it, or name the step that comes before",
                    )),
                    Some(target) if seen.insert(*target) => {
                        self.dependencies[position].push(*target);
                        if let Some(served) = self.serves[*target] {
                            let served = &plan.steps[served].id;
                            report.add(Finding::new(
                                ProblemCode::FallbackInvalid,
                                path(),
                                format!("{id} is the fallback of {served}; nothing can depend on it"),
                                format!("depend on {served}: its fallback's success satisfies that"),
                            ));
                        }
                    }
                    Some(_) => report.add(Finding::new(
                        ProblemCode::DuplicateDependency,
                        path(),
                        format!("{id:?} stands in this dependsOn twice"),
                        "keep one of them",
                    )),
                }
            }
        }
    }

    fn unknown(&self, id: &str, path: Path, report: &mut Report) {
        let meant = report.closest(id, self.by_id.keys().copied());
        let message = format!("there is no step {id:?}");
        let hint = "name one of the plan's steps, or add it";
        report.add(Finding::new(ProblemCode::UnknownStep, path, message, hint).meant(meant));
    }

    /// What a step depends on directly; for a fallback, what the step it serves depends on.
    pub(super) fn predecessors(&self, position: usize) -> &[usize] {
        &self.dependencies[self.serves[position].unwrap_or(position)]
    }

    /// What depends on a step directly; for a fallback, what depends on the step it serves.
    pub(super) fn successors(&self, position: usize) -> &[usize] {
        &self.dependents[self.serves[position].unwrap_or(position)]
    }

    pub(super) fn serves(&self, position: usize) -> Option<usize> {
        self.serves[position]
    }

    /// The ids of all steps that have one.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_id.keys().copied()
    }

    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }
}

pub(super) fn check(subject: &Subject<'_>, report: &mut Report) {
    mode(subject.plan, report);
    orders(subject, report);
    fallbacks(subject, report);
    cycles(subject, report);
}

fn mode(plan: &Plan, report: &mut Report) {
    let mut with_edges = plan.steps.iter().filter(|step| !step.depends_on.is_empty());
    if plan.mode == Some(Mode::Sequential)
        && let Some(first) = with_edges.next()
    {
        let have = if with_edges.next().is_some() { " and other steps have" } else { " has" };
        report.add(Finding::new(
            ProblemCode::ModeConflict,
            Path::root().key("mode"),
            format!("the mode is sequential, but {}{have} dependsOn", first.id),
            "remove dependsOn, or write `mode: graph`",
        ));
    }
}

fn orders(subject: &Subject<'_>, report: &mut Report) {
    let plan = subject.plan;
    let count = plan.steps.len();
    if plan.steps.iter().all(|step| step.order.is_none()) {
        return;
    }
    let mut taken: HashMap<u32, usize> = HashMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let path = step_path(position).key("order");
        match step.order {
            None if subject.unreadable.has(position, "order") => {}
            None => report.add(Finding::new(
                ProblemCode::OrderInvalid,
                path,
                format!("step {:?} has no order, but others have", step.id.as_str()),
                "give every step an order, or none",
            )),
            Some(order) if order as usize > count => report.add(Finding::new(
                ProblemCode::OrderInvalid,
                path,
                format!("the orders of {count} steps are 1 to {count}; {order} leaves a gap"),
                format!("number the steps from 1 to {count}, each number once"),
            )),
            Some(order) => {
                if let Some(first) = taken.insert(order, position) {
                    report.add(Finding::new(
                        ProblemCode::OrderInvalid,
                        path,
                        format!("the order {order} is taken by {} already", plan.steps[first].id),
                        format!("number the steps from 1 to {count}, each number once"),
                    ));
                }
            }
        }
    }
}

fn fallbacks(subject: &Subject<'_>, report: &mut Report) {
    for (position, step) in subject.steps() {
        let Some(served) = subject.graph.serves(position) else { continue };
        let served = &subject.plan.steps[served].id;
        let mut refuse = |field: &str, reason: &str| {
            report.add(Finding::new(
                ProblemCode::FallbackInvalid,
                step_path(position).key(field),
                format!("{} is the fallback of {served}, {reason}", step.id),
                format!("remove `{field}`"),
            ));
        };
        if !step.depends_on.is_empty() {
            refuse("dependsOn", "so it cannot depend on steps itself; it sees what that step sees");
        }
        if step.on_failure.is_some() {
            refuse("onFailure", "so its own failure ends the run; it cannot have onFailure");
        }
        if step.fallback.is_some() {
            refuse("fallback", "and a fallback cannot have a fallback");
        }
    }
}

/// One finding per knot of steps that depend on each other.
fn cycles(subject: &Subject<'_>, report: &mut Report) {
    let graph = &subject.graph;
    for knot in knots(&graph.dependencies) {
        let way = shortest_cycle(&graph.dependencies, &knot);
        let first = way[0];
        let name = |position: usize| subject.plan.steps[position].id.as_str();
        let mut names: Vec<&str> = way.iter().map(|position| name(*position)).collect();
        if names.len() > LONGEST_CYCLE_SHOWN {
            names.truncate(LONGEST_CYCLE_SHOWN);
            names.push("…");
        }
        names.push(name(first));
        let mut message = format!("these steps wait for each other: {}", names.join(" -> "));
        if knot.len() > way.len() {
            message.push_str(&format!("; {} more steps are part of the knot", knot.len() - way.len()));
        }
        let edge = subject.plan.steps[first]
            .depends_on
            .iter()
            .position(|dependency| graph.find(dependency.step().as_str()) == way.get(1).copied());
        let path = step_path(first).key("dependsOn");
        let path = match edge {
            Some(index) => path.index(index),
            None => path,
        };
        report.add(Finding::new(ProblemCode::Cycle, path, message, "remove one of these dependencies"));
    }
}

/// Tarjan's strongly connected components of more than one node, without recursion: a chain of steps may be
/// longer than the stack is deep. Each starts with its first member in the list.
fn knots(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let count = edges.len();
    let mut number = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut on_stack = vec![false; count];
    let mut stack = Vec::new();
    let mut knots = Vec::new();
    let mut next = 0;
    for root in 0..count {
        if number[root] != UNSEEN {
            continue;
        }
        let mut open: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some((node, edge)) = open.pop() {
            if edge == 0 {
                number[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(target) = edges[node].get(edge).copied() {
                open.push((node, edge + 1));
                if number[target] == UNSEEN {
                    open.push((target, 0));
                } else if on_stack[target] {
                    low[node] = low[node].min(number[target]);
                }
                continue;
            }
            if let Some((parent, _)) = open.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == number[node] {
                let mut knot = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    knot.push(member);
                    if member == node {
                        break;
                    }
                }
                if knot.len() > 1 {
                    knot.sort_unstable();
                    knots.push(knot);
                }
            }
        }
    }
    knots.sort_unstable();
    knots
}

/// The shortest way from the knot's first member back to itself.
fn shortest_cycle(edges: &[Vec<usize>], knot: &[usize]) -> Vec<usize> {
    let members: HashSet<usize> = knot.iter().copied().collect();
    let start = knot[0];
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for target in edges[node].iter().copied().filter(|target| members.contains(target)) {
            if target == start {
                let mut way = vec![node];
                while let Some(before) = came_from.get(way.last().unwrap_or(&start)) {
                    way.push(*before);
                }
                way.reverse();
                return way;
            }
            if let std::collections::hash_map::Entry::Vacant(entry) = came_from.entry(target) {
                entry.insert(node);
                open.push_back(target);
            }
        }
    }
    knot.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_knots_are_told_apart_and_a_long_chain_needs_no_stack() {
        let mut edges: Vec<Vec<usize>> = (1..=200_000).map(|next| vec![next]).collect();
        edges.push(vec![199_998]);
        edges.extend([vec![200_002], vec![200_001]]);
        assert_eq!(knots(&edges), [vec![199_998, 199_999, 200_000], vec![200_001, 200_002]]);
    }

    #[test]
    fn the_shortest_cycle_of_a_knot_is_shown() {
        let edges = vec![vec![1, 2], vec![2], vec![3], vec![0]];
        assert_eq!(knots(&edges), [vec![0, 1, 2, 3]]);
        assert_eq!(shortest_cycle(&edges, &[0, 1, 2, 3]), [0, 2, 3]);
    }
}
