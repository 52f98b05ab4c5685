//! TLS for everything here that speaks HTTPS: ring, as in the stores, so that one provider is compiled and not two.

/// Sees to it that there is a provider. One that the program chose before stays.
pub(crate) fn provide() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster; then theirs stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
