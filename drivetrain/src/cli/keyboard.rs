//! What a terminal shows of keys that are pressed while bars are drawn.

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Keeps the terminal from showing `^C` until this is gone. Written behind a bar, which fills its row, it would begin a
/// new row, and what is drawn over the old one would stay.
///
/// Only this: whoever is killed cannot put it back, and nobody misses it then.
pub(super) struct KeysUnseen {
    before: Option<Termios>,
}

impl KeysUnseen {
    pub(super) fn new() -> Self {
        Self { before: hide() }
    }
}

impl Drop for KeysUnseen {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|_| is_in_front()) {
            // A terminal that is gone needs no putting right.
            let _ = tcsetattr(std::io::stderr(), OptionalActions::Now, &before);
        }
    }
}

fn hide() -> Option<Termios> {
    let before = tcgetattr(std::io::stderr()).ok().filter(|_| is_in_front())?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHOCTL);
    tcsetattr(std::io::stderr(), OptionalActions::Now, &quiet).ok()?;
    Some(before)
}

/// Whether this process has the terminal now: one in the background that changes it would be stopped.
fn is_in_front() -> bool {
    tcgetpgrp(std::io::stderr()).is_ok_and(|group| group == getpgrp())
}
