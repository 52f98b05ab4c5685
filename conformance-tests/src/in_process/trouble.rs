//! What goes wrong in the engines of a site.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use adapter_mock::virtual_time::Hold;
use adapter_mock::{Fault, Faults, Moment, VirtualTime};
use async_trait::async_trait;
use engine_core::port::store::Fence;
use engine_core::{Code, Error, Result, RunId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::layer::Layer;
use crate::script::Stage;
use crate::variant::Dice;

/// How often everything is killed in a case, where that is done all the time. An attempt may lose ten workers before it
/// fails for it.
const KILLS: u32 = 5;

/// One in so many moments kills.
const ONE_IN: u64 = 3;

/// The leases that engines have taken.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<RunId, Fence>>);

impl Leases {
    pub(super) fn take(&self) -> HashMap<RunId, Fence> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whoever is dead reads and writes nothing any more.
#[derive(Debug)]
pub(super) struct MortalLayer {
    stage: Arc<Stage>,
    born: u32,
    leases: Arc<Leases>,
}

impl MortalLayer {
    pub(super) fn new(stage: Arc<Stage>, leases: Arc<Leases>) -> Self {
        Self { born: stage.kills_so_far(), stage, leases }
    }
}

#[async_trait]
impl Layer for MortalLayer {
    async fn before(&self) -> Result<()> {
        if self.stage.kills_so_far() > self.born {
            return Err(Error::new(Code::LeaseLost, "this process was killed, as the suite says"));
        }
        Ok(())
    }

    fn leased(&self, run_id: &RunId, fence: Fence) {
        self.leases.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run_id.clone(), fence);
    }
}

/// Kills everything at moments that the dice choose.
#[derive(Debug)]
pub(super) struct Restless {
    chance: Mutex<(Dice, u32)>,
    /// While an engine opens nobody dies: it could not be buried.
    opening: AtomicBool,
    time: VirtualTime,
    deaths: UnboundedSender<Hold>,
}

impl Restless {
    pub(super) fn new(case: &str, time: VirtualTime) -> (Self, UnboundedReceiver<Hold>) {
        let (deaths, died) = unbounded_channel();
        let chance = Mutex::new((Dice::of(case, "kills"), KILLS));
        (Self { chance, opening: AtomicBool::new(true), time, deaths }, died)
    }

    /// An engine opens, or has opened.
    pub(super) fn opening(&self, opening: bool) {
        self.opening.store(opening, Ordering::SeqCst);
    }

    /// Whether everything dies now.
    fn strikes(&self) -> bool {
        if self.opening.load(Ordering::SeqCst) {
            return false;
        }
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let (dice, left) = &mut *chance;
        if *left == 0 || dice.below(ONE_IN) > 0 {
            return false;
        }
        *left -= 1;
        true
    }
}

/// Every driver of an engine dies at the next thing it does once everything was killed; with a variant more goes wrong.
#[derive(Debug)]
pub(super) struct Trouble {
    stage: Arc<Stage>,
    born: u32,
    forgets: bool,
    restless: Option<Arc<Restless>>,
}

impl Trouble {
    pub(super) fn new(stage: Arc<Stage>, forgets: bool, restless: Option<Arc<Restless>>) -> Self {
        Self { born: stage.kills_so_far(), stage, forgets, restless }
    }
}

impl Faults for Trouble {
    fn at(&self, _: &RunId, moment: Moment<'_>) -> Fault {
        if self.stage.kills_so_far() > self.born {
            return Fault::Crash;
        }
        if let Some(restless) = &self.restless
            && restless.strikes()
        {
            // Before anybody hears of it: time must not pass for the dead.
            let held = restless.time.hold();
            self.stage.kill();
            let _ = restless.deaths.send(held);
            return Fault::Crash;
        }
        match moment {
            Moment::AfterAppend(_) if self.forgets => Fault::Forget,
            _ => Fault::None,
        }
    }

    fn rebuilt(&self, run_id: &RunId, same: bool) {
        self.stage.rebuilt();
        if !same {
            self.stage.found(format!(
                "whoever drives {run_id} knew something that its log does not tell (CORE-19)"
            ));
        }
    }
}
