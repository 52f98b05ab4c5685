//! Steps that expressions name. A step sees only what comes before it, so any other name would be null for ever.

use super::report::{Finding, Report};
use super::{MOST_VISITS, Subject};
use crate::plan::document::Path;
use crate::plan::expression::{Expression, Template};
use crate::plan::problem::ProblemCode;

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
        let plan = self.subject.plan;
        for name in &expression.reads().steps {
            let Some(target) = self.subject.graph.find(name) else {
                if self.subject.unreadable.has_of_plan("steps") {
                    continue;
                }
                let meant = report.closest(name, self.subject.graph.ids());
                report.add(
                    Finding::new(
                        ProblemCode::UnknownStep,
                        path(),
                        format!("`{}` names a step {name:?} that is not there", expression.as_str()),
                        "name one of the plan's steps; write an id with - or . in it as steps.\"my-step\"",
                    )
                    .meant(meant),
                );
                continue;
            };
            // What a fallback gives is the output of the step it stands in for, for everybody after it.
            if let Some(served) = self.subject.graph.serves(target)
                && position != Some(target)
            {
                let served = &plan.steps[served].id;
                report.add(Finding::new(
                    ProblemCode::UnknownStep,
                    path(),
                    format!(
                        "{name} stands in for {served}, so `{}` sees nothing of it under its own name",
                        expression.as_str()
                    ),
                    format!("read steps.{}.output", quoted(served.as_str())),
                ));
                continue;
            }
            let Some(position) = position else { continue };
            if self.subject.unreadable.has(position, "dependsOn") || self.comes_before(target, position) {
                continue;
            }
            let here = &plan.steps[position].id;
            report.add(Finding::new(
                ProblemCode::UnknownStep,
                path(),
                format!("{here} does not depend on {name}, so `{}` sees nothing of it", expression.as_str()),
                if target == position {
                    "a step does not see its own output; in `compensation` it is `output`".to_owned()
                } else {
                    format!("add {name} to dependsOn")
                },
            ));
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

/// A step id as JMESPath writes it.
fn quoted(id: &str) -> String {
    let plain = id.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { id.to_owned() } else { format!("{id:?}") }
}
