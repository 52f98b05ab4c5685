//! `exec`: runs a program from an allow-list; JSON on its input, JSON on its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use engine_core::data::JOURNAL_BYTES;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler};
use engine_core::{Code, Error, Result};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::group::Group;
use super::{cancelled, simple};
use crate::handlers::invalid;
use crate::observe::shortened;

/// The longest line of a program's error output that is handed on as one.
const LONGEST_LINE: u64 = 16 * 1024;

/// How much of an output is shown in an error.
const SHOWN: usize = 500;

/// Programs that `exec` may run, by the name that steps use. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct ExecPolicy {
    programs: BTreeMap<String, Program>,
}

impl ExecPolicy {
    /// No programs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows a program under a name.
    #[must_use]
    pub fn allow(mut self, name: impl Into<String>, program: Program) -> Self {
        self.programs.insert(name.into(), program);
        self
    }
}

/// A program that may be run.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    folder: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    accepts: Vec<String>,
    exit_codes: BTreeMap<i32, FailureClass>,
}

impl Program {
    /// The program at an absolute path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            folder: None,
            environment: BTreeMap::new(),
            accepts: Vec::new(),
            exit_codes: BTreeMap::new(),
        }
    }

    /// The folder it runs in. Default: `/`.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// A variable that it always gets.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// A variable that steps may set, with `env` or `secretEnv`. None by default: some variables, as `LD_PRELOAD`, make any
    /// program run anything.
    #[must_use]
    pub fn accepting_variable(mut self, name: impl Into<String>) -> Self {
        self.accepts.push(name.into());
        self
    }

    /// What an exit code means for this program, instead of the general table.
    #[must_use]
    pub fn with_exit_code(mut self, code: i32, class: FailureClass) -> Self {
        self.exit_codes.insert(code, class);
        self
    }

    /// The class of an exit code; see the table in `docs/handlers.md`.
    fn class_of(&self, code: i32) -> FailureClass {
        match (self.exit_codes.get(&code), code) {
            (Some(class), _) => class.clone(),
            // EX_TEMPFAIL of sysexits.h; the others there do not go away by themselves.
            (None, 75) => FailureClass::Transient,
            (None, 64..=78) => FailureClass::Permanent,
            (None, _) => FailureClass::Transient,
        }
    }
}

/// The handler.
#[derive(Clone, Debug)]
pub struct Exec {
    policy: ExecPolicy,
    path: Option<OsString>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExecInput {
    program: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    secret_env: BTreeMap<String, String>,
    input: Option<Value>,
}

/// What a program may say about its failure.
#[derive(Deserialize)]
struct Told {
    code: Option<String>,
    class: Option<FailureClass>,
    message: Option<String>,
}

impl Exec {
    /// A handler for these programs.
    ///
    /// # Errors
    /// `UNSUPPORTED` when a program's path is not absolute.
    pub fn new(policy: ExecPolicy) -> Result<Self> {
        for (name, program) in &policy.programs {
            if !program.path.is_absolute() {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("program {name} is allowed at {}, which is not absolute", program.path.display()),
                )
                .with_hint("write its whole path, as /usr/bin/pandoc"));
            }
        }
        Ok(Self { policy, path: std::env::var_os("PATH") })
    }

    fn command(
        &self,
        context: &StepContext,
        input: &ExecInput,
        program: &Program,
    ) -> Result<Command, StepError> {
        let mut command = std::process::Command::new(&program.path);
        command.args(&input.args).env_clear().envs(&program.environment);
        command.current_dir(program.folder.as_deref().unwrap_or("/".as_ref()));
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        for name in input.env.keys().chain(input.secret_env.keys()) {
            if !program.accepts.contains(name) {
                return Err(invalid(format!(
                    "program {} does not accept the variable {name} (allow it where the program is allowed)",
                    input.program
                )));
            }
        }
        command.envs(&input.env);
        for (name, secret) in &input.secret_env {
            let Some(secret) = context.secret(secret) else {
                return Err(invalid(format!(
                    "the variable {name} is to hold the secret {secret}, and the step has none of that name \
                     (list it under the step's `secrets`)"
                )));
            };
            command.env(name, secret.expose());
        }
        command
            .env("DRIVETRAIN_RUN_ID", context.run_id.as_str())
            .env("DRIVETRAIN_STEP_ID", context.step_id.as_str())
            .env("DRIVETRAIN_ATTEMPT", context.logical_attempt_id.to_string())
            .env("DRIVETRAIN_IDEMPOTENCY_TOKEN", &*context.idempotency_token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Group::prepare(&mut command);
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        Ok(command)
    }
}

#[async_trait]
impl StepHandler for Exec {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let input: ExecInput = simple::read("exec", input)?;
        let named = self.policy.programs.get(&input.program);
        let by_path = || {
            self.policy.programs.values().find(|program| program.path.as_os_str() == input.program.as_str())
        };
        let Some(program) = named.or_else(by_path) else {
            return Err(not_allowed(&input.program, &self.policy));
        };
        let mut command = self.command(&context, &input, program)?;
        let mut child = command.spawn().map_err(|cause| not_started(&input.program, &cause))?;
        let group = Group::of(&child);
        let stdin = child.stdin.take();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(StepError::new(
                FailureClass::Transient,
                "EXEC_NOT_STARTED",
                "the program has no output",
            ));
        };
        let feeding = async {
            if let (Some(mut stdin), Some(value)) = (stdin, &input.input) {
                // A program that does not read its input to the end closes it, which is its right.
                let _ = stdin.write_all(value.to_string().as_bytes()).await;
            }
        };
        // Whatever the program has left running holds its output open; it ends with the program.
        let waiting = async {
            let status = child.wait().await;
            group.close();
            status
        };
        let done = async {
            let ((), status, output, errors) =
                tokio::join!(feeding, waiting, collect(stdout, &group), relay(stderr, &context));
            (status, output, errors)
        };
        tokio::pin!(done);
        let (status, output, errors) = tokio::select! {
            biased;
            done = &mut done => done,
            () = context.cancellation.cancelled() => {
                group.terminate();
                let _ = done.await;
                return Err(cancelled());
            }
        };
        let status = status.map_err(|cause| not_started(&input.program, &cause))?;
        judge(&input.program, program, status, output, &errors)
    }
}

/// A program's output up to the limit; whoever writes more is stopped.
async fn collect(stdout: impl AsyncRead + Unpin, group: &Group) -> io::Result<Option<Vec<u8>>> {
    let mut output = Vec::new();
    let limit = JOURNAL_BYTES as u64;
    stdout.take(limit + 1).read_to_end(&mut output).await?;
    if output.len() as u64 > limit {
        group.kill();
        return Ok(None);
    }
    Ok(Some(output))
}

/// Hands each line of the error output on, and keeps the last ones for a message.
async fn relay(stderr: impl AsyncRead + Unpin, context: &StepContext) -> String {
    let mut reader = BufReader::new(stderr);
    let mut last = String::new();
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        context.observer.log(line);
        if !line.trim().is_empty() {
            line.clone_into(&mut last);
        }
    }
}

fn judge(
    name: &str,
    program: &Program,
    status: ExitStatus,
    output: io::Result<Option<Vec<u8>>>,
    errors: &str,
) -> HandlerResult {
    let output = match output {
        Ok(Some(output)) => output,
        Ok(None) => {
            return Err(StepError::new(
                FailureClass::Permanent,
                Code::PayloadTooLarge.as_str(),
                format!("program {name} wrote more than {JOURNAL_BYTES} bytes to its standard output"),
            ));
        }
        Err(cause) => {
            let message = format!("the output of program {name} cannot be read: {cause}");
            return Err(StepError::new(FailureClass::Transient, "transport", message));
        }
    };
    if status.success() {
        return parse(name, &output);
    }
    let reason = if errors.is_empty() { String::new() } else { format!(": {}", shortened(errors, SHOWN)) };
    let (code, class, what) = match status.code() {
        Some(code) => {
            (format!("EXIT_{code}"), program.class_of(code), format!("ended with exit code {code}"))
        }
        None => ("SIGNALLED".to_owned(), FailureClass::Transient, format!("was ended: {status}")),
    };
    let mut error = StepError::new(class, &code, format!("program {name} {what}{reason}"));
    if let Ok(told) = serde_json::from_slice::<Told>(&output) {
        error.code = told.code.filter(|code| !code.is_empty()).unwrap_or(error.code);
        error.class = told.class.unwrap_or(error.class);
        error.message = told.message.unwrap_or(error.message);
    }
    Err(error)
}

fn parse(name: &str, output: &[u8]) -> HandlerResult {
    if output.iter().all(u8::is_ascii_whitespace) {
        return Ok(HandlerOutput::from(Value::Null));
    }
    serde_json::from_slice::<Value>(output).map(HandlerOutput::from).map_err(|cause| {
        let text = String::from_utf8_lossy(output);
        invalid(format!(
            "program {name} did not write JSON to its standard output ({cause}); it begins with {:?}",
            shortened(&text, SHOWN)
        ))
    })
}

fn not_allowed(name: &str, policy: &ExecPolicy) -> StepError {
    let allowed: Vec<&str> = policy.programs.keys().map(String::as_str).collect();
    let allowed =
        if allowed.is_empty() { "none is".to_owned() } else { format!("allowed: {}", allowed.join(", ")) };
    let message = format!("program {name:?} is not on the worker's allow-list ({allowed})");
    StepError::new(FailureClass::Permanent, "policy_deny", message)
}

fn not_started(name: &str, cause: &io::Error) -> StepError {
    let class = match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
            FailureClass::Permanent
        }
        _ => FailureClass::Transient,
    };
    StepError::new(class, "EXEC_NOT_STARTED", format!("program {name} cannot be run: {cause}"))
}
