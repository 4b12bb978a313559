//! The first bytes of a connection: each side shows that it is a node of this protocol, and that it has the secret.

use std::{fmt, io, time::Duration};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

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

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Calls = b'c' as isize,
    Answers = b'a' as isize,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Calls => Self::Answers,
            Self::Answers => Self::Calls,
        }
    }
}

/// Sends the first bytes, and checks those of the other side.
///
/// # Errors
///
/// Fails if the other side is no node, or has another secret.
pub(super) async fn greet(
    stream: TcpStream,
    side: Side,
    secret: &Secret,
) -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let mut own = [0; NONCE];
    getrandom::fill(&mut own).map_err(io::Error::other)?;
    let mut hello = HELLO.to_vec();
    hello.extend_from_slice(&own);
    writer.write_all(&hello).await?;
    let mut hello = [0; HELLO.len() + NONCE];
    timeout(PATIENCE, reader.read_exact(&mut hello)).await??;
    let (hello, other) = hello.split_at(HELLO.len());
    if hello != HELLO {
        return Err(refused(
            "the other side is no node of a cluster of this protocol",
        ));
    }
    let proof = secret.proof(side, &own, other)?.finalize().into_bytes();
    writer.write_all(&proof).await?;
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
