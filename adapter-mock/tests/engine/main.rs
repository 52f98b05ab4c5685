//! The engine as its users see it: plans run to their end on real stores, in virtual time.

mod crashing;
mod running;
mod signals;
mod world;
