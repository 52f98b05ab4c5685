//! What a script can say.

use engine_core::event::step::StepOutput;
use engine_core::failure::FailureClass;
use serde::Deserialize;
use serde_json::Value;

/// A script, as it stands in a step's `with`. Its lines are followed from the top; without any, the step succeeds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lines {
    /// Tells how far it is, 0 to 1, one after another.
    pub progress: Vec<f64>,
    /// Waits so long by the subject's clock between two of these.
    pub progress_every_ms: Option<u64>,
    /// Asks for a person's eyes, with this reason.
    pub review: Option<String>,
    /// Waits at this gate until the case opens it.
    pub gate: Option<String>,
    /// Waits so long by the subject's clock.
    pub wait_ms: Option<u64>,
    /// Does not hear when it is asked to stop.
    pub deaf: bool,
    /// The first so many calls of the step in its run take their worker with them.
    pub die: u32,
    /// Panics with this text.
    pub panic: Option<String>,
    /// Fails.
    pub fail: Option<FailLine>,
    /// Tells this secret of the step wherever a handler can tell something: to whoever listens, for review, when it panics
    /// or fails, and in what it produces, with its SHA-256 beside it.
    pub tell: Option<String>,
    /// Produces a text of so many bytes.
    pub bytes: Option<usize>,
    /// Produces this value; without it, `{"step": id, "attempt": n}`.
    pub value: Option<Value>,
    /// Produces this whole output: a value, and what else is known of it.
    pub output: Option<StepOutput>,
    /// Anything; the script does not look at it. For data that only shall arrive.
    pub note: Option<Value>,
}

/// How a script fails.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailLine {
    /// What kind of failure it is; without it, what `code` and `httpStatus` say.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// The error's name.
    #[serde(default = "scripted")]
    pub code: String,
    /// The HTTP status.
    #[serde(default)]
    pub http_status: Option<u16>,
    /// Only the first so many calls of the step in its run fail, over all attempts; without it, all do.
    #[serde(default)]
    pub times: Option<u32>,
}

fn scripted() -> String {
    "Scripted".to_owned()
}

impl Lines {
    /// Reads a script.
    ///
    /// # Errors
    /// What no script says, in words.
    pub fn read(input: &Value) -> Result<Self, String> {
        if input.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(input.clone()).map_err(|cause| format!("not a script: {cause}: {input}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_script_is_read_and_a_slip_is_told() {
        let lines = Lines::read(&json!({"gate": "a", "fail": {"class": "permanent"}})).unwrap();
        assert_eq!(lines.gate.as_deref(), Some("a"));
        assert_eq!(lines.fail.unwrap().code, "Scripted");
        assert!(Lines::read(&json!({"gaet": "a"})).unwrap_err().contains("gaet"));
        assert_eq!(Lines::read(&Value::Null).unwrap(), Lines::default());
    }
}
