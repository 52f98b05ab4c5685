//! What an expression can see, so that nobody has to load the rest.

use std::collections::BTreeSet;

use jpx_core::ast::Ast;

/// Which parts of a step's context are looked at. When in doubt, more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Steps that are named, as `load` in `steps.load.output`.
    pub steps: BTreeSet<String>,
    /// Any step may be looked at.
    pub all_steps: bool,
    /// `vars` is looked at.
    pub vars: bool,
}

impl Reads {
    /// Everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { steps: BTreeSet::new(), all_steps: true, vars: true }
    }

    /// Whether no step is looked at, neither by name nor through `vars`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.all_steps && !self.vars
    }

    /// Adds what `other` looks at.
    pub fn add(&mut self, other: &Self) {
        self.steps.extend(other.steps.iter().cloned());
        self.all_steps |= other.all_steps;
        self.vars |= other.vars;
    }
}

/// What stands on the right of a dot, a pipe or a projection sees only what the left gives it; so only nodes
/// that see the whole context are followed.
pub(super) fn of(root: &Ast) -> Reads {
    let mut reads = Reads::default();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match node {
            Ast::Field { name, .. } => match name.as_str() {
                "steps" => reads.all_steps = true,
                "vars" => reads.vars = true,
                _ => {}
            },
            Ast::Subexpr { lhs, rhs, .. } => match (&**lhs, &**rhs) {
                (Ast::Field { name, .. }, Ast::Field { name: step, .. }) if name == "steps" => {
                    reads.steps.insert(step.clone());
                }
                (Ast::Field { name, .. }, Ast::Subexpr { .. }) if name == "steps" => match leftmost(rhs) {
                    Ast::Field { name: step, .. } => {
                        reads.steps.insert(step.clone());
                    }
                    _ => reads.all_steps = true,
                },
                _ => open.push(lhs),
            },
            Ast::Projection { lhs, .. } => open.push(lhs),
            Ast::Comparison { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => {
                open.extend([&**lhs, &**rhs]);
            }
            Ast::Condition { predicate, then, .. } => open.extend([&**predicate, &**then]),
            Ast::Flatten { node, .. } | Ast::Not { node, .. } | Ast::ObjectValues { node, .. } => {
                open.push(node);
            }
            Ast::Function { args, .. } => open.extend(args),
            Ast::MultiList { elements, .. } => open.extend(elements),
            Ast::MultiHash { elements, .. } => open.extend(elements.iter().map(|pair| &pair.value)),
            // An `&expression` is applied to the elements of a list, never to the context itself.
            Ast::Literal { .. } | Ast::Index { .. } | Ast::Slice { .. } | Ast::Expref { .. } => {}
            _ => return Reads::everything(),
        }
    }
    reads
}

fn leftmost(mut node: &Ast) -> &Ast {
    while let Ast::Subexpr { lhs, .. } = node {
        node = lhs;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::super::Expression;
    use super::Reads;

    fn reads(text: &str) -> Reads {
        Expression::parse(text).unwrap().reads()
    }

    fn steps(names: &[&str]) -> Reads {
        Reads { steps: names.iter().map(|name| (*name).to_owned()).collect(), ..Reads::default() }
    }

    #[test]
    fn named_steps_are_told_from_all_steps() {
        assert_eq!(reads("steps.load.output.rows[0]"), steps(&["load"]));
        assert_eq!(
            reads("steps.a.output > `3` && length(steps.\"b.c\".output) == input.n || !(steps.d)"),
            steps(&["a", "b.c", "d"])
        );
        assert_eq!(reads("steps.a.output[?x == 'y'].steps | [0]"), steps(&["a"]));
        assert_eq!(reads("{x: steps.a.status, y: [steps.b]}"), steps(&["a", "b"]));
        assert_eq!(reads("input.steps.a"), Reads::default());
        for all in ["steps", "steps.*.output", "keys(steps)", "steps.[a, b]"] {
            assert!(reads(all).all_steps, "{all}");
        }
    }

    #[test]
    fn whoever_takes_the_whole_context_reads_everything() {
        assert_eq!(reads("@"), Reads::everything());
        assert_eq!(reads("to_string(@)"), Reads::everything());
        assert_eq!(reads("@.steps.a"), Reads::everything());
        assert!(reads("*").all_steps);
        assert!(reads("vars.total").vars);
    }
}
