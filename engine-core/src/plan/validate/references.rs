//! Steps that expressions name. A step sees only what comes before it, so any other name would be null for ever.

use super::report::{Finding, Report};
use super::{Subject, is_placeholder};
use crate::plan::document::Path;
use crate::plan::expression::{Expression, Template};
use crate::plan::problem::ProblemCode;

/// How many steps are looked at in all. What is not found out is not refused.
const MOST_VISITS: usize = 5_000_000;

pub(super) struct References<'s, 'a> {
    subject: &'s Subject<'a>,
    /// The round in which a step was last found to come before the step in question.
    marks: Vec<u32>,
    round: u32,
    marked_for: Option<usize>,
    visits: usize,
}

impl<'s, 'a> References<'s, 'a> {
    pub(super) fn new(subject: &'s Subject<'a>) -> Self {
        Self {
            subject,
            marks: vec![0; subject.plan.steps.len()],
            round: 0,
            marked_for: None,
            visits: MOST_VISITS,
        }
    }

    pub(super) fn check_template(
        &mut self,
        position: usize,
        template: &Template,
        path: impl Fn() -> Path,
        report: &mut Report,
    ) {
        if !template.is_fixed() {
            template.each(&mut |below, expression| {
                self.check(Some(position), expression, || path().join(below), report);
            });
        }
    }

    /// Checks the names in an expression of the step at `position`, or of the plan's `result`.
    pub(super) fn check(
        &mut self,
        position: Option<usize>,
        expression: &Expression,
        path: impl Fn() -> Path,
        report: &mut Report,
    ) {
        for name in &expression.reads().steps {
            let Some(target) = self.subject.graph.find(name) else {
                let ids = self.subject.plan.steps.iter().map(|step| step.id.as_str());
                let meant = report.closest(name, ids.filter(|id| !is_placeholder(id)));
                report.add(
                    Finding::new(
                        ProblemCode::UnknownStep,
                        path(),
                        format!("{:?} names a step {name:?} that is not there", expression.as_str()),
                    )
                    .meant(meant),
                );
                continue;
            };
            let Some(position) = position else { continue };
            if self.subject.unreadable.has(position, "dependsOn") || self.comes_before(target, position) {
                continue;
            }
            let here = &self.subject.plan.steps[position].id;
            let finding = Finding::new(
                ProblemCode::UnknownStep,
                path(),
                format!("{here} does not depend on {name}, so {:?} sees nothing of it", expression.as_str()),
            );
            report.add(if target == position {
                finding.hint("a step does not see its own output; in `compensation` it is `output`")
            } else {
                finding.hint(format!("add {name} to dependsOn"))
            });
        }
    }

    fn comes_before(&mut self, target: usize, position: usize) -> bool {
        let graph = &self.subject.graph;
        if graph.predecessors(position).contains(&target) {
            return true;
        }
        if self.marked_for != Some(position) {
            self.round += 1;
            self.marked_for = Some(position);
            let mut open = vec![position];
            while let Some(current) = open.pop() {
                for before in graph.predecessors(current) {
                    let Some(left) = self.visits.checked_sub(1) else { return true };
                    self.visits = left;
                    if self.marks[*before] != self.round {
                        self.marks[*before] = self.round;
                        open.push(*before);
                    }
                }
            }
        }
        self.marks[target] == self.round
    }
}
