//! A step's condition, input and output, read once from the plan.

use serde_json::{Map, Value};

use super::context::Context;
use super::path::overlap;
use super::schema::DataSchema;
use crate::error::{Code, Error, Result};
use crate::event::step::StepError;
use crate::failure::FailureClass;
use crate::id::StepId;
use crate::plan::compiled::StepIndex;
use crate::plan::expression::{Expression, Reads, Template};
use crate::plan::{CompiledPlan, InputSource};

/// How data comes into a step and out of it. What fails here fails for good: the same data gives the same
/// result every time.
#[derive(Debug)]
pub struct StepMapping {
    id: StepId,
    when: Option<Expression>,
    source: Source,
    input_transform: Option<Expression>,
    input_schema: Option<DataSchema>,
    output_transform: Option<Expression>,
    output_schema: Option<DataSchema>,
    compensation: Option<Template>,
    /// Why the step's output cannot be written to `vars`.
    refused_write: Option<String>,
}

#[derive(Debug)]
enum Source {
    Empty,
    Template(Template),
    Context,
    Previous(StepId),
    Literal(Value),
}

impl StepMapping {
    /// Reads the mapping of a step.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` or `PLAN_INVALID` for a plan that did not pass validation.
    pub fn new(plan: &CompiledPlan, index: StepIndex) -> Result<Self> {
        let step = plan.step(index);
        let expression = |text: &Option<String>| text.as_deref().map(Expression::parse).transpose();
        let schema = |schema: &Option<Value>| schema.as_ref().map(DataSchema::compile).transpose();
        let input = step.input.as_ref();
        let output = step.output.as_ref();
        let source = match (&step.with, input) {
            (Some(with), _) => Source::Template(Template::parse(with)?),
            (None, None) => Source::Empty,
            (None, Some(input)) => match input.from {
                InputSource::Context => Source::Context,
                InputSource::PreviousStep => Source::Previous(previous(plan, index)?),
                InputSource::Literal => Source::Literal(input.value.clone().unwrap_or_default()),
            },
        };
        Ok(Self {
            id: step.id.clone(),
            when: expression(&step.when)?,
            source,
            input_transform: input.map_or(Ok(None), |input| expression(&input.transform))?,
            input_schema: input.map_or(Ok(None), |input| schema(&input.schema))?,
            output_transform: output.map_or(Ok(None), |output| expression(&output.transform))?,
            output_schema: output.map_or(Ok(None), |output| schema(&output.schema))?,
            compensation: step
                .compensation
                .as_ref()
                .and_then(|compensation| compensation.with.as_ref())
                .map(Template::parse)
                .transpose()?,
            refused_write: refused_write(plan, index),
        })
    }

    /// What the condition and the input look at; build the [`Context`] with it.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let mut reads = match &self.source {
            Source::Empty | Source::Literal(_) => Reads::default(),
            Source::Template(template) => template.reads(),
            Source::Context => {
                self.input_transform.as_ref().map_or_else(Reads::everything, Expression::reads)
            }
            Source::Previous(step) => {
                Reads { steps: std::iter::once(step.as_str().to_owned()).collect(), ..Reads::default() }
            }
        };
        if let Some(when) = &self.when {
            reads.add(&when.reads());
        }
        reads
    }

    /// What the input of the compensation looks at.
    #[must_use]
    pub fn compensation_reads(&self) -> Reads {
        self.compensation.as_ref().map(Template::reads).unwrap_or_default()
    }

    /// Whether the step is to be done; when not, it is skipped.
    ///
    /// # Errors
    /// A permanent `EXPRESSION_INVALID` when the condition cannot be evaluated (COND-3).
    pub fn condition(&self, context: &Context) -> Result<bool, StepError> {
        match &self.when {
            None => Ok(true),
            Some(when) => when.is_true(context.as_value()).map_err(|error| {
                StepError::new(
                    FailureClass::Permanent,
                    Code::ExpressionInvalid.as_str(),
                    format!("the condition of step {} is invalid: {}", self.id, error.message()),
                )
            }),
        }
    }

    /// What the handler is given. Without `with` and `input` that is an empty object.
    ///
    /// # Errors
    /// A permanent `ValidationError` when an expression cannot be evaluated or the schema refuses the result.
    pub fn input(&self, context: &Context) -> Result<Value, StepError> {
        let taken = match &self.source {
            Source::Empty => Value::Object(Map::new()),
            Source::Template(template) => template
                .evaluate(context.as_value())
                .map_err(|error| self.invalid("input", error.message()))?,
            Source::Context => context.as_value().clone(),
            Source::Previous(step) => context.output_of(step).cloned().unwrap_or_default(),
            Source::Literal(value) => value.clone(),
        };
        self.checked("input", self.input_transform.as_ref(), self.input_schema.as_ref(), taken)
    }

    /// What the step's output is, given what the handler returned. Private fields are still in it: they are
    /// stored with the step, and [`Context`] leaves them out.
    ///
    /// # Errors
    /// A permanent `ValidationError` when the transform cannot be evaluated, the schema refuses the result, or
    /// it would be written to a read-only path.
    pub fn output(&self, returned: Value) -> Result<Value, StepError> {
        if let Some(reason) = &self.refused_write {
            return Err(self.invalid("output", reason));
        }
        self.checked("output", self.output_transform.as_ref(), self.output_schema.as_ref(), returned)
    }

    /// What the compensation's handler is given; `own` is the whole output of the step, which expressions see
    /// as `output`. Without `with` that output itself is given.
    ///
    /// # Errors
    /// A permanent `ValidationError` when an expression cannot be evaluated.
    pub fn compensation_input(&self, context: &Context, own: Value) -> Result<Value, StepError> {
        match &self.compensation {
            None => Ok(own),
            Some(template) => template
                .evaluate(&context.with_field("output", own))
                .map_err(|error| self.invalid("compensation's input", error.message())),
        }
    }

    fn checked(
        &self,
        what: &str,
        transform: Option<&Expression>,
        schema: Option<&DataSchema>,
        value: Value,
    ) -> Result<Value, StepError> {
        let value = match transform {
            None => value,
            Some(transform) => {
                transform.evaluate(&value).map_err(|error| self.invalid(what, error.message()))?
            }
        };
        match schema.map(|schema| schema.reasons(&value)) {
            Some(reasons) if !reasons.is_empty() => {
                Err(self.invalid(what, &format!("it does not match its schema: {}", reasons.join("; "))))
            }
            _ => Ok(value),
        }
    }

    /// DATA-16.
    fn invalid(&self, what: &str, reason: &str) -> StepError {
        StepError::new(
            FailureClass::Permanent,
            "ValidationError",
            format!("the {what} of step {} is invalid: {reason}", self.id),
        )
    }
}

fn previous(plan: &CompiledPlan, index: StepIndex) -> Result<StepId> {
    let step = plan.serves(index).unwrap_or(index);
    match plan.dependencies(step) {
        [only] => Ok(plan.step(only.step).id.clone()),
        several => Err(Error::new(
            Code::PlanInvalid,
            format!(
                "step {} takes its input from the previous step, and there are {}",
                plan.step(index).id,
                several.len()
            ),
        )),
    }
}

/// Validation refuses such plans; this is for plans so large that it did not look everywhere.
fn refused_write(plan: &CompiledPlan, index: StepIndex) -> Option<String> {
    let step = plan.step(index);
    let to = step.output.as_ref()?.to.as_deref()?;
    let refused_by = |owner: StepIndex| {
        let owner = plan.step(owner);
        owner.read_only.iter().any(|path| overlap(path, to)).then_some(&owner.id)
    };
    let owner =
        refused_by(index).or_else(|| plan.transitive_dependencies(index).into_iter().find_map(refused_by))?;
    Some(format!("`{to}` is read-only since step {owner}"))
}
