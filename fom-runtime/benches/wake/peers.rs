//! A task that waits for a `kit::peers::Bell`.

use kit::peers::{Bell, glommio, monoio, smol_io, tokio_ct, tokio_mt};

use super::{PONG, Ping};

async fn pong(bell: &'static Bell) {
    loop {
        PONG.send(bell.heard().await);
    }
}

pub(crate) fn start(peer: &str) -> Option<Ping> {
    let bell = &Bell::some(1)[0];
    match peer {
        "tokio-mt" => {
            tokio_mt(1, |_| pong(bell));
        }
        "tokio-ct" => tokio_ct(1, |_| pong(bell)),
        "smol" => {
            smol_io(1, |_, _| pong(bell));
        }
        "glommio" => glommio(1, |_| pong(bell)),
        "monoio" => monoio(1, |_| pong(bell)),
        _ => return None,
    }
    Some(Box::new(|sent| bell.ring(sent)))
}
