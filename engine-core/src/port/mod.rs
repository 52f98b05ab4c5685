//! Ports: what the contract needs from the outside, as small object-safe traits.
//!
//! - [`engine`]: drives runs; one per adapter, with its capabilities;
//! - [`store`]: the log and what belongs to it;
//! - [`bus`]: tells others about events;
//! - [`handler`]: the code that does a step, and what it is given;
//! - [`secrets`], [`authorizer`]: who may know and who may do what;
//! - [`clock`]: what time it is, and waiting for a time.
//!
//! Methods take one request struct. Errors are [`crate::Error`] with a stable code.

pub mod authorizer;
pub mod bus;
pub mod clock;
pub mod engine;
pub mod handler;
pub mod secrets;
pub mod store;

pub use authorizer::{Authorization, AuthorizationRequest, Authorizer, Operation};
pub use bus::EventBus;
pub use clock::{Clock, Timekeeper};
pub use engine::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest,
};
pub use handler::{HandlerOutput, HandlerResult, StepContext, StepHandler, StepObserver};
pub use secrets::{Secret, SecretsProvider, SecretsRequest};
pub use store::StateStore;

/// Every port can stand behind a pointer and be shared: otherwise this does not compile.
const _: () = {
    const fn shareable<T: ?Sized + Send + Sync>() {}
    shareable::<dyn Engine>();
    shareable::<dyn StateStore>();
    shareable::<dyn EventBus>();
    shareable::<dyn Clock>();
    shareable::<dyn Timekeeper>();
    shareable::<dyn SecretsProvider>();
    shareable::<dyn Authorizer>();
    shareable::<dyn StepHandler>();
    shareable::<dyn StepObserver>();
};
