//! What a worker is equipped with, as the configuration says: built-in handlers, secrets, artifacts.
