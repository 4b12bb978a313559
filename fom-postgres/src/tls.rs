//! Whether connections are encrypted.

#[cfg(feature = "tls")]
use crate::error::PostgresError;

/// The encryption of the connections.
#[derive(Clone)]
pub(crate) enum Tls {
    Off,
    #[cfg(feature = "tls")]
    On(tokio_postgres_rustls::MakeRustlsConnect),
}

#[cfg(feature = "tls")]
impl Tls {
    /// Trusts the authorities that the system trusts.
    pub(crate) fn of_system() -> Result<Self, PostgresError> {
        use std::sync::Arc;

        let found = rustls_native_certs::load_native_certs();
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
            return Err(PostgresError::NoAuthorities(errors.join("; ")));
        }
        // Named, because a program may have several providers.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PostgresError::NoAuthorities(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::On(tokio_postgres_rustls::MakeRustlsConnect::new(
            config,
        )))
    }
}
