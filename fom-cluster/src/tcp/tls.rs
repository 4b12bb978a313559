//! The encryption of connections. With it, each side shows a certificate of the authority of the cluster.

use std::{fmt, io, path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// Encrypts the connections between nodes with TLS 1.3. Needs the feature `tls`.
///
/// Each side shows a certificate that the authority of the cluster has signed, and accepts no other one. The certificate of a node must
/// also be valid for the address at which other nodes reach it: the IP address, or the name of the host. Use an authority that signs
/// for this cluster alone.
///
/// ```no_run
/// use fom_cluster::{Operator, Tcp, Tls};
///
/// # fn network() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = Tls::read("node.crt", "node.key", "authority.crt")?;
/// let secret = std::env::var("ORDERS_SECRET")?;
/// let network = Tcp::bind("10.0.0.5:7070")?.secret(&secret).tls(tls.clone());
/// // From another program, with a certificate of its own:
/// let operator = Operator::connect("10.0.0.5:7070", &secret).tls(tls);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    accepts: TlsAcceptor,
    connects: TlsConnector,
}

impl Tls {
    /// Reads the certificate of this side, its private key and the certificates of the authority, each from a file in the PEM form.
    /// The certificate can be followed by those between it and the authority. The files are read now and not again: a program that
    /// has new ones is started again.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or has none of what it must have, and if the key is not that of the certificate. The text names
    /// the file.
    pub fn read(
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        authority: impl AsRef<Path>,
    ) -> io::Result<Self> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let own = certificates(certificate)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(authority.as_ref())? {
            let added = roots.add(root);
            added.map_err(|error| invalid(authority.as_ref(), error))?;
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(key, error))?;
        // Named, because a program may have several providers.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| invalid(authority.as_ref(), error))?;
        let wrong = |error: rustls::Error| invalid(certificate, error);
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own.clone(), private.clone_key())
            .map_err(wrong)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_root_certificates(roots)
            .with_client_auth_cert(own, private)
            .map_err(wrong)?;
        Ok(Self {
            accepts: TlsAcceptor::from(Arc::new(server)),
            connects: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Encrypts a connection to this address.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        address: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connected = timeout(PATIENCE, self.connects.connect(name, stream)).await?;
        let connected = connected.map_err(|error| {
            let text = format!("TLS: {error}; give all nodes certificates of one authority");
            io::Error::new(error.kind(), text)
        })?;
        Ok(connected.into())
    }

    /// Encrypts a connection from another side.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let accepted = timeout(PATIENCE, self.accepts.accept(stream)).await??;
        Ok(accepted.into())
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| invalid(path, error))?;
    match certificates.is_empty() {
        true => Err(invalid(path, "it has no certificate in the PEM form")),
        false => Ok(certificates),
    }
}

fn invalid(path: &Path, why: impl fmt::Display) -> io::Error {
    let text = format!("{}: {why}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
