//! A store that takes its time, and says of some appends that they took too long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use engine_core::event::EventType;
use engine_core::port::store::{AppendRequest, Appended};
use engine_core::port::{StateStore, Timekeeper};
use engine_core::{Code, Error, Result};

use super::Layer;
use crate::variant::Dice;

/// How long a call takes at most where every call is slow. By the machine's clock: virtual time stands still for a store.
const LONGEST_CALL: Duration = Duration::from_millis(3);

/// How many appends of a case are late where every call is slow; each costs its writer a pause.
const LATE_APPENDS: u32 = 3;

/// Appends that come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Those that have an event of this type.
    pub event: EventType,
    /// So many of them.
    pub times: u32,
    /// What becomes of them.
    pub how: Lateness,
}

/// What becomes of an append that comes too late. Its writer does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// It is not stored.
    Lost,
    /// It is stored, and the answer says that it took too long.
    Stored,
    /// It is stored after so many milliseconds of the subject's time, if somebody waits so long.
    Hangs(u64),
}

/// What is late, as a case or a variant says.
#[derive(Debug, Default)]
pub struct Slow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    late: Vec<Late>,
    /// Where every call is slow.
    dice: Option<Dice>,
    left: u32,
    /// Appends that were late so far.
    so_far: u32,
}

impl Slow {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on every call is slow, and some appends are late.
    pub(crate) fn always(&self, dice: Dice) {
        let mut state = self.lock();
        state.dice = Some(dice);
        state.left = LATE_APPENDS;
    }

    /// The next appends that match are late.
    pub(crate) fn add(&self, late: Late) {
        self.lock().late.push(late);
    }

    fn pause(&self) -> Option<Duration> {
        let longest = u64::try_from(LONGEST_CALL.as_micros()).unwrap_or(u64::MAX);
        self.lock().dice.as_mut().map(|dice| Duration::from_micros(dice.below(longest)))
    }

    /// How many appends were late so far.
    pub(crate) fn lateness_so_far(&self) -> u32 {
        self.lock().so_far
    }

    fn lateness(&self, request: &AppendRequest) -> Option<Lateness> {
        let mut state = self.lock();
        let how = Self::chosen(&mut state, request);
        state.so_far += u32::from(how.is_some());
        how
    }

    fn chosen(state: &mut State, request: &AppendRequest) -> Option<Lateness> {
        let has =
            |event: EventType| request.drafts.iter().any(|draft| draft.body.event_type() == Some(event));
        if let Some(late) = state.late.iter_mut().find(|late| late.times > 0 && has(late.event)) {
            late.times -= 1;
            return Some(late.how);
        }
        if state.left == 0 {
            return None;
        }
        let how = match state.dice.as_mut()?.below(4) {
            0 => Lateness::Lost,
            1 => Lateness::Stored,
            _ => return None,
        };
        state.left -= 1;
        Some(how)
    }
}

/// The layer that makes a store slow.
#[derive(Debug)]
pub(crate) struct SlowLayer {
    pub(crate) slow: Arc<Slow>,
    pub(crate) time: Arc<dyn Timekeeper>,
}

#[async_trait]
impl Layer for SlowLayer {
    async fn before(&self) -> Result<()> {
        if let Some(pause) = self.slow.pause() {
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    async fn append(&self, store: &Arc<dyn StateStore>, request: AppendRequest) -> Result<Appended> {
        let late = || Error::new(Code::WriteBudgetExceeded, "the store took too long, as the suite says");
        match self.slow.lateness(&request) {
            None => store.append(request).await,
            Some(Lateness::Lost) => Err(late()),
            Some(Lateness::Stored) => {
                store.append(request).await?;
                Err(late())
            }
            Some(Lateness::Hangs(millis)) => {
                self.time.sleep_until(self.time.now().plus_millis(millis)).await;
                store.append(request).await
            }
        }
    }
}
