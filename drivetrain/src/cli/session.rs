//! What one command works with: configuration, output, and the way to store and engine.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use engine_core::port::store::{LeaseRequest, RunRecord};
use engine_core::port::{StartRequest, StateStore};
use engine_core::{Code, Error, RunId};
use serde_json::Value;

use super::Equip;
use super::arguments::{AllowArguments, Global};
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::Output;
use crate::config::show::without_password;
use crate::config::{Config, Sources};
use crate::facade::builder::Builder;
use crate::facade::read::ListFilter;
use crate::{Drivetrain, engines, equipment};

/// Runs that are looked through for one that nobody drives.
const UNATTENDED: usize = 1000;

/// What one command works with.
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) output: Output,
    pub(super) equip: Equip,
}

impl Session {
    pub(super) fn new(global: &Global, output: Output, equip: Equip) -> Result<Self> {
        Ok(Self { config: Config::load(&sources(global)?)?, output, equip })
    }

    /// Opens the store, which is made when it is missing.
    pub(super) async fn store(&self) -> Result<Arc<dyn StateStore>> {
        let url = self.config.store_url();
        statestore::open(&url, self.config.store_options()).await.map_err(|error| {
            // An address that names no store is a mistake in the configuration.
            let exit = if error.code() == Code::Unsupported { Exit::Usage } else { Exit::Store };
            let shown = without_password(&url);
            let message = error.message().replace(&url, &shown);
            // Some say already which store it is.
            let message = match message.split_once(" cannot be opened: ") {
                Some((_, reason)) => reason.to_owned(),
                None => message,
            };
            let told = Error::new(error.code(), format!("the store {shown} cannot be opened: {message}"));
            let hint = error.hint().map(|hint| hint.replace(&url, &shown));
            Complaint::from(hint.into_iter().fold(told, Error::with_hint)).exit(exit)
        })
    }

    /// Whether the store is a file that is not there: then nothing was ever run with it.
    pub(super) fn nothing_yet(&self) -> bool {
        let url = self.config.store_url();
        let file = url.strip_prefix("sqlite://").map(|rest| rest.split('?').next().unwrap_or(rest));
        file.is_some_and(|file| !file.is_empty() && !Path::new(file).exists())
    }

    /// Reads runs and sends signals, on a store that is there; nothing is driven.
    pub(super) async fn connect(&self) -> Result<Drivetrain> {
        if self.nothing_yet() {
            let url = without_password(&self.config.store_url());
            return Err(Complaint::new(
                Exit::NotFound,
                format!("there is no store at {url}: nothing was run with it yet"),
            )
            .hint("run a plan first, go to the folder where you did, or name the store with --store"));
        }
        self.connect_or_create().await
    }

    /// The same, and the store is made when it is missing.
    pub(super) async fn connect_or_create(&self) -> Result<Drivetrain> {
        engines::find(&self.config.engine())?.check()?;
        let store = self.store().await?;
        let builder = Drivetrain::builder().config(self.config.clone()).store(store).connect_only();
        Ok(builder.build().await?)
    }

    /// The handlers that a worker of this program has.
    pub(super) fn handlers(&self) -> BTreeSet<String> {
        let own = (self.equip)(Drivetrain::builder()).handler_names();
        own.into_iter().chain(equipment::BUILT_IN.iter().map(|name| (*name).to_owned())).collect()
    }

    /// Drives everything in this process that nobody drives.
    pub(super) async fn serve(&self, allow: &AllowArguments) -> Result<Drivetrain> {
        self.open(allow, |builder| builder).await
    }

    /// Drives in this process what the command starts or is about; the runs of others are none of its business.
    pub(super) async fn serve_own(&self, allow: &AllowArguments) -> Result<Drivetrain> {
        self.open(allow, Builder::only_asked).await
    }

    async fn open(
        &self,
        allow: &AllowArguments,
        choose: impl FnOnce(Builder) -> Builder,
    ) -> Result<Drivetrain> {
        let mut config = self.config.clone();
        extend(&mut config, "exec.allow", self.config.exec_allow(), &allow.allow_exec)?;
        extend(&mut config, "http.allow", self.config.http_allow(), &allow.allow_http)?;
        // What the configuration has wrong is told before the store is touched.
        engines::find(&config.engine())?.check()?;
        equipment::builtins(&config)?;
        equipment::check_artifacts(&config).map_err(|error| Complaint::from(error).exit(Exit::Usage))?;
        let store = self.store().await?;
        let builder = choose(Drivetrain::builder().config(config).store(store));
        Ok((self.equip)(builder).build().await?)
    }

    /// Drives a run that there is, unless another process does.
    pub(super) async fn drive(&self, drivetrain: &Drivetrain, record: &RunRecord) -> Result<()> {
        let (tenant_id, run_id) = (record.tenant_id.clone(), record.run_id.clone());
        drivetrain.engine().start(StartRequest { tenant_id, run_id, fresh: None }).await?;
        Ok(())
    }

    /// The run that was named.
    pub(super) async fn run(&self, drivetrain: &Drivetrain, named: &str) -> Result<RunRecord> {
        if named == "last" {
            let page = drivetrain.list(ListFilter { limit: 1, ..ListFilter::default() }).await?;
            return page.runs.into_iter().next().ok_or_else(|| {
                Complaint::new(Exit::NotFound, "there are no runs yet").hint("start one: drivetrain run PLAN")
            });
        }
        let id = RunId::new(named)?;
        drivetrain.find(&id).await.map_err(|error| match error.code() {
            Code::NotFound => {
                let tenant = &drivetrain.scope().tenant_id;
                let store = without_password(&self.config.store_url());
                Complaint::from(Error::new(
                    Code::NotFound,
                    format!("tenant {tenant} has no run {named} in {store}"),
                ))
                .hint("`drivetrain list` shows the runs there are; --store and --tenant look elsewhere")
            }
            _ => error.into(),
        })
    }

    /// Whether nobody drives a run now.
    pub(super) async fn is_unattended(&self, drivetrain: &Drivetrain, run_id: &RunId) -> Result<bool> {
        let runs = drivetrain.store().unattended(UNATTENDED).await?;
        Ok(runs.iter().any(|run| run.run_id == *run_id))
    }

    /// Whether nobody holds a run now: whoever wants to drive it can.
    pub(super) async fn is_free(&self, drivetrain: &Drivetrain, run_id: &RunId) -> engine_core::Result<bool> {
        let holder = format!("probe-{}", std::process::id());
        let probe = LeaseRequest { run_id: run_id.clone(), holder, duration_ms: 1 };
        match drivetrain.store().lease(probe).await {
            Ok(fence) => drivetrain.store().release(run_id, fence).await.map(|()| true),
            Err(error) if error.code() == Code::LeaseHeld => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says why nobody drives a run that this process should: mostly the store takes no writes any more.
    pub(super) async fn check_abandoned(&self, drivetrain: &Drivetrain, run_id: &RunId) -> Result<()> {
        let Err(error) = self.is_free(drivetrain, run_id).await else { return Ok(()) };
        let message = format!("run {run_id} cannot go on: the store takes no writes: {}", error.message());
        Err(Complaint::from(Error::new(error.code(), message)).hint(format!(
            "see that the disk is not full; what was acknowledged is safe, and drivetrain{} worker goes on from there",
            self.flags()
        )))
    }

    /// Whether a process of ours must drive runs, as with the embedded engine, or a server does.
    pub(super) fn drives_itself(&self) -> bool {
        engines::find(&self.config.engine()).is_ok_and(|entry| entry.name == "mock")
    }

    /// The words that name this store in a command to type, with a space before; empty for the default.
    pub(super) fn flags(&self) -> String {
        let mut words = String::new();
        for (flag, value) in self.config.flag_words() {
            words.push_str(&format!(" {flag} {}", shell_word(&value)));
        }
        words
    }
}

/// A word as a shell takes it.
fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@,+%".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn extend(config: &mut Config, key: &str, configured: Vec<String>, more: &[String]) -> Result<()> {
    if more.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = configured.into_iter().chain(more.iter().cloned()).collect();
    Ok(config.set(key, &all.join(","))?)
}

/// Where the configuration of a command comes from.
pub(super) fn sources(global: &Global) -> Result<Sources> {
    let named = [
        ("--store", "store.url", &global.store),
        ("--engine", "engine", &global.engine),
        ("--tenant", "tenant", &global.tenant),
        ("--actor", "actor", &global.actor),
    ];
    let mut flags: Vec<(String, String, String)> = Vec::new();
    for (flag, key, value) in named {
        flags.extend(value.iter().map(|value| (flag.to_owned(), key.to_owned(), value.clone())));
    }
    for pair in &global.set {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Complaint::usage(format!("--set {pair}: there is no = in it"))
                .hint("write it as --set store.durability=normal")
        })?;
        flags.push((format!("--set {key}"), key.trim().to_owned(), value.to_owned()));
    }
    let unreadable = |name: std::ffi::OsString| name.to_string_lossy().into_owned();
    Ok(Sources {
        file: global.config.clone(),
        folder: Some(Path::new("").to_owned()),
        environment: std::env::vars_os()
            .filter(|(name, _)| name.to_string_lossy().starts_with("DRIVETRAIN_"))
            .map(|(name, value)| (unreadable(name), value.to_string_lossy().into_owned()))
            .collect(),
        flags,
    })
}

/// JSON that was typed: the text itself, `@file`, or `-` for standard input.
pub(super) fn json_argument(what: &str, text: &str) -> Result<Value> {
    let (place, json) = if text == "-" {
        (format!("{what} (standard input)"), read_standard_input(what)?)
    } else if let Some(file) = text.strip_prefix('@') {
        let json = std::fs::read_to_string(file).map_err(|cause| {
            Complaint::new(Exit::Invalid, format!("{what}: {file} cannot be read: {cause}"))
        })?;
        (format!("{what} ({file})"), json)
    } else {
        (what.to_owned(), text.to_owned())
    };
    serde_json::from_str(&json).map_err(|cause| {
        Complaint::new(Exit::Invalid, format!("{place} is not JSON: {cause}"))
            .hint(format!("write it as {what} '{{\"key\": \"value\"}}', or {what} @file.json"))
    })
}

/// All of standard input.
pub(super) fn read_standard_input(what: &str) -> Result<String> {
    std::io::read_to_string(std::io::stdin()).map_err(|cause| {
        Complaint::new(Exit::Invalid, format!("{what}: standard input cannot be read: {cause}"))
    })
}
