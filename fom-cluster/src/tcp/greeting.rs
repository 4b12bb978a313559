//! The first bytes of a connection: each side shows that it is a node of this protocol, and that it has the secret.

use std::{fmt, io, time::Duration};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::line::{Reader, Side, Tls, Writer, divide};

/// What the connection is, and the version of the frames.
const HELLO: [u8; 8] = *b"fom-tcp1";
/// Random bytes, so that a proof is good for one connection.
const NONCE: usize = 16;
const PROOF: usize = 32;
/// How long the other side may take for each part.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// What all nodes of a cluster know. Empty if they have no secret.
#[derive(Clone, Default)]
pub(super) struct Secret(Vec<u8>);

/// By what a side knows the other one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(super) secret: Secret,
    pub(super) tls: Option<Tls>,
}

impl Identity {
    /// Returns the identity of the sides that know this secret.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self {
            secret: Secret::new(secret),
            tls: None,
        }
    }

    /// Encrypts the connections.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypt(&mut self, tls: Tls) {
        self.tls = Some(tls);
    }
}

impl Secret {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(secret.to_vec())
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the proof that this side knows the secret.
    fn proof(&self, side: Side, own: &[u8], other: &[u8]) -> io::Result<Hmac<Sha256>> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut mac = mac.map_err(|_| io::Error::other("the secret cannot be used"))?;
        // The side: a proof cannot be sent back to where it came from.
        mac.update(&[side as u8]);
        mac.update(own);
        mac.update(other);
        Ok(mac)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Sends the first bytes, and checks those of the other side. `to` is the address that was called.
///
/// # Errors
///
/// Fails if the other side is no node, or has another secret or a certificate of another authority.
pub(super) async fn greet(
    stream: TcpStream,
    (side, to): (Side, &str),
    identity: &Identity,
) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    let tls = identity.tls.as_ref();
    let (mut reader, mut writer) = divide(stream, (side, to), tls).await?;
    let secret = &identity.secret;
    let mut own = [0; NONCE];
    getrandom::fill(&mut own).map_err(io::Error::other)?;
    let mut hello = HELLO.to_vec();
    hello.extend_from_slice(&own);
    writer.write_all(&hello).await?;
    writer.flush().await?;
    let mut hello = [0; HELLO.len() + NONCE];
    timeout(PATIENCE, reader.read_exact(&mut hello))
        .await?
        .map_err(|_| {
            refused(
                "the other side ends the connection; it may use TLS, or be no node of a cluster",
            )
        })?;
    let (hello, other) = hello.split_at(HELLO.len());
    if hello != HELLO {
        return Err(refused(
            "the other side is no node of a cluster of this protocol",
        ));
    }
    let proof = secret.proof(side, &own, other)?.finalize().into_bytes();
    writer.write_all(&proof).await?;
    writer.flush().await?;
    let mut proof = [0; PROOF];
    timeout(PATIENCE, reader.read_exact(&mut proof))
        .await?
        .map_err(|_| refused("the other side has another secret, or has ended"))?;
    // Takes the same time for each wrong proof.
    let expected = secret.proof(side.other(), other, &own)?;
    match expected.verify_slice(&proof) {
        Ok(()) => Ok((reader, writer)),
        Err(_) => Err(refused(
            "the other side has another secret; give all nodes the same one",
        )),
    }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
