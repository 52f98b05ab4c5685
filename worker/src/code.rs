//! A plan as a worker needs it: compiled, with every step's mapping read once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use engine_core::data::{Context, StepMapping};
use engine_core::plan::compiled::StepIndex;
use engine_core::plan::expression::Reads;
use engine_core::plan::{CompiledPlan, Dispatch, FullSecretRef, InputSource, Plan, Step};
use engine_core::port::StateStore;
use engine_core::{Code, Error, Result, StepId, TenantId};
use serde_json::Value;

/// How long one try of a compensation may take when its plan does not say (COMP-10).
const COMPENSATION_TIMEOUT_MS: u64 = 300_000;

/// A plan as a worker needs it.
#[derive(Debug)]
pub struct PlanCode {
    /// The plan.
    pub plan: Arc<CompiledPlan>,
    steps: Vec<StepCode>,
    /// What a step sees that looks at nothing.
    nothing: Context,
    has_local_steps: bool,
}

/// One step, with everything worked out that its attempts need.
#[derive(Debug)]
pub(crate) struct StepCode {
    pub(crate) mapping: StepMapping,
    pub(crate) reads: Reads,
    pub(crate) compensation_reads: Reads,
    /// Whether condition or input look at anything at all; the run's input counts.
    pub(crate) looks: bool,
    pub(crate) timeout_ms: u64,
    pub(crate) compensation_timeout_ms: u64,
    pub(crate) secrets: BTreeMap<String, FullSecretRef>,
}

impl PlanCode {
    /// Reads the mapping of every step.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` or `PLAN_INVALID` for a plan that did not pass validation.
    pub fn new(plan: Arc<CompiledPlan>) -> Result<Self> {
        let steps = plan.indices().map(|index| StepCode::new(&plan, index)).collect::<Result<Vec<_>>>()?;
        let first = plan.indices().next().ok_or_else(|| Error::new(Code::PlanInvalid, "it has no steps"))?;
        let nothing = Context::build(&plan, first, &Value::Null, &Reads::default(), &|_| None);
        let said = plan.document().dispatch;
        let local = |index| plan.step(index).effective_dispatch(said) == Dispatch::Local;
        let has_local_steps = plan.indices().any(local);
        Ok(Self { plan, steps, nothing, has_local_steps })
    }

    /// Whether some step is run by the driver's worker itself.
    #[must_use]
    pub fn has_local_steps(&self) -> bool {
        self.has_local_steps
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<CompiledPlan> {
        &self.plan
    }

    pub(crate) fn step(&self, index: StepIndex) -> &StepCode {
        &self.steps[index.position()]
    }

    pub(crate) fn find(&self, step: &StepId) -> Result<StepIndex> {
        self.plan.find(step.as_str()).ok_or_else(|| {
            let plan = &self.plan.document().id;
            Error::new(Code::StepNotFound, format!("plan {plan} has no step {step}"))
                .with_hint("look at the plan's step ids")
        })
    }

    pub(crate) fn nothing(&self) -> &Context {
        &self.nothing
    }
}

impl StepCode {
    fn new(plan: &CompiledPlan, index: StepIndex) -> Result<Self> {
        let step = plan.step(index);
        let mapping = StepMapping::new(plan, index)?;
        let secrets = step.secrets.iter().map(|(name, reference)| {
            let parts = reference.parts().ok_or_else(|| {
                Error::new(
                    Code::PlanInvalid,
                    format!("the secret {name} of step {} does not name its provider", step.id),
                )
                .with_hint("write it as provider:key, as env:STRIPE_KEY")
            })?;
            Ok((name.clone(), parts))
        });
        Ok(Self {
            reads: mapping.reads(),
            compensation_reads: mapping.compensation_reads(),
            mapping,
            looks: looks(step),
            timeout_ms: step.effective_timeout_ms(plan.document().dispatch),
            compensation_timeout_ms: step
                .compensation
                .as_ref()
                .and_then(|compensation| compensation.timeout_ms)
                .unwrap_or(COMPENSATION_TIMEOUT_MS),
            secrets: secrets.collect::<Result<_>>()?,
        })
    }
}

/// When in doubt, yes: then a context is built that nobody looks at.
fn looks(step: &Step) -> bool {
    let taken = step.input.as_ref().is_some_and(|input| input.from != InputSource::Literal);
    taken || step.when.is_some() || step.with.as_ref().is_some_and(has_expression)
}

fn has_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(has_expression),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name.contains("${") || has_expression(field))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Plans that were read before, by tenant and hash. A plan never changes under its hash, so it never grows old.
#[derive(Debug, Default)]
pub struct Plans {
    read: RwLock<HashMap<TenantId, HashMap<String, Arc<PlanCode>>>>,
}

/// How many plans of one tenant are kept; a forgotten one is read again.
const PLANS_KEPT: usize = 512;

impl Plans {
    /// A cache without plans.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan with this hash, from the store unless it was read before.
    ///
    /// # Errors
    /// `PLAN_MISSING` when the tenant has none, `PLAN_HASH_MISMATCH` when the stored content is not of that hash,
    /// `PLAN_INVALID` when it cannot be compiled.
    pub async fn get(&self, store: &dyn StateStore, tenant: &TenantId, hash: &str) -> Result<Arc<PlanCode>> {
        if let Some(code) = self.find(tenant, hash) {
            return Ok(code);
        }
        let document = store.plan(tenant, hash).await?;
        let plan: Plan = serde_json::from_str(&document).map_err(|cause| {
            Error::new(Code::PlanInvalid, format!("the stored plan {hash} cannot be read: {cause}"))
                .with_hint("store the plan again")
        })?;
        let plan = CompiledPlan::new(plan)?;
        if plan.hash() != hash {
            return Err(Error::new(
                Code::PlanHashMismatch,
                format!("the plan stored as {hash} has the hash {}", plan.hash()),
            )
            .with_hint("the stored content was changed; store the plan again"));
        }
        let code = Arc::new(PlanCode::new(Arc::new(plan))?);
        self.keep(tenant, code.clone());
        Ok(code)
    }

    /// Remembers a plan that was compiled elsewhere, so that nobody reads it from the store.
    pub fn keep(&self, tenant: &TenantId, code: Arc<PlanCode>) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        let plans = read.entry(tenant.clone()).or_default();
        if plans.len() >= PLANS_KEPT
            && let Some(any) = plans.keys().next().cloned()
        {
            plans.remove(&any);
        }
        plans.insert(code.plan.hash().to_owned(), code);
    }

    fn find(&self, tenant: &TenantId, hash: &str) -> Option<Arc<PlanCode>> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        read.get(tenant)?.get(hash).cloned()
    }
}
