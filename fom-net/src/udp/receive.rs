//! The fom that receives.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use fom_protocol::caught;
use fom_runtime::{observe::IncidentKind, prelude::*, time::Sleep};
use tokio::net::UdpSocket;

use super::{Datagrams, UdpCx};
use crate::foms::{Stop, Watched};

/// The most datagrams of a round.
const ROUND: usize = 64;
/// The largest datagram.
const LARGEST: usize = 65_536;
/// The pause after a round of nothing but errors, so that a broken socket takes no processor.
const BROKEN: Duration = Duration::from_millis(100);

/// What the fom of a socket is told.
#[derive(Debug)]
pub enum UdpOrder {
    /// Another socket of the server has received datagrams that belong here.
    Datagrams(Steered),
}

/// Datagrams from another socket of the server.
#[derive(Debug, Default)]
pub struct Steered {
    bytes: Vec<u8>,
    /// Where each datagram ends, and where it is from.
    ends: Vec<(usize, SocketAddr)>,
}

pub(super) type Receivers<D> = Arc<OnceLock<Vec<FomRef<UdpReceiver<D>>>>>;

pub(super) struct UdpReceiver<D: Datagrams> {
    socket: Watched<std::net::UdpSocket, UdpSocket>,
    service: D,
    /// Those of all sockets, by locality.
    others: Receivers<D>,
    stop: Stop,
    buffer: Vec<u8>,
    steered: BTreeMap<usize, Steered>,
    tick: Option<Pin<Box<Sleep>>>,
}

/// The phases of receiving.
#[fom(
    operation("UdpReceiver<D>", name = "UdpReceiver"),
    generics("D: Datagrams"),
    event(UdpOrder),
    error(io::Error),
    transient
)]
pub(super) enum Receiving {
    /// Waits for datagrams, and takes some of them. Then other foms have their turn.
    #[phase(start, on(Datagrams), to(Receive, Broken, Closed), hung = "never")]
    Receive,
    /// The socket had nothing but errors.
    #[phase(to(Receive))]
    Broken,
    #[phase(end)]
    Closed,
}

/// What a receiver waited for.
enum News {
    Readable,
    Steered(Steered),
    Tick,
    Stop,
}

/// What a round found.
#[derive(PartialEq, Eq)]
enum Round {
    /// All datagrams are taken.
    Emptied,
    /// There may be more.
    Full,
    /// There was nothing but errors.
    Failed,
}

/// Lets the foms that are ready run first.
async fn to_the_tail() {
    let mut had_turn = false;
    poll_fn(|task| match std::mem::replace(&mut had_turn, true) {
        true => Poll::Ready(()),
        false => {
            task.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl<D: Datagrams> UdpReceiver<D> {
    pub(super) fn new(
        socket: std::net::UdpSocket,
        service: D,
        others: Receivers<D>,
        stop: Stop,
    ) -> Self {
        Self {
            socket: Watched::new(socket),
            service,
            others,
            stop,
            buffer: vec![0; LARGEST],
            steered: BTreeMap::new(),
            tick: None,
        }
    }

    /// Calls the program's code. A panic costs one datagram.
    fn call(&mut self, cx: &mut UdpCx<'_>, f: impl FnOnce(&mut D, &mut UdpCx<'_>)) {
        if let Err(message) = caught(|| f(&mut self.service, cx)) {
            let text = format!("the code for datagrams of a UDP server panicked: {message}");
            let runtime = cx.runtime();
            runtime.report(IncidentKind::Panicked, "UDP server", text);
        }
    }

    fn take_round(&mut self, cx: &mut UdpCx<'_>) -> Round {
        let mut buffer = std::mem::take(&mut self.buffer);
        let (mut taken, mut round) = (0, Round::Full);
        for _ in 0..ROUND {
            let received = self
                .socket
                .get(UdpSocket::from_std)
                .and_then(|socket| socket.try_recv_from(&mut buffer));
            match received {
                Ok((length, from)) => {
                    taken += 1;
                    self.take(cx, &buffer[..length], from);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    round = Round::Emptied;
                    break;
                }
                // An earlier datagram found no receiver.
                Err(_) => {}
            }
        }
        self.buffer = buffer;
        if taken == 0 && round == Round::Full {
            return Round::Failed;
        }
        self.steer(cx);
        round
    }

    fn take(&mut self, cx: &mut UdpCx<'_>, datagram: &[u8], from: SocketAddr) {
        let here = cx.locality();
        let mut home = None;
        self.call(cx, |service, _| home = service.home(datagram, from));
        match home {
            Some(home) if home != here && self.other(home).is_some() => {
                let steered = self.steered.entry(home).or_default();
                steered.bytes.extend_from_slice(datagram);
                steered.ends.push((steered.bytes.len(), from));
            }
            _ => self.call(cx, |service, cx| service.datagram(cx, datagram, from)),
        }
    }

    /// Returns the fom of the socket of a locality.
    fn other(&self, home: usize) -> Option<&FomRef<UdpReceiver<D>>> {
        self.others.get()?.get(home)
    }

    /// Sends the datagrams of other localities there.
    fn steer(&mut self, cx: &UdpCx<'_>) {
        while let Some((home, steered)) = self.steered.pop_first() {
            let order = UdpOrder::Datagrams(steered);
            let sent = self
                .other(home)
                .is_some_and(|other| other.send(order).is_ok());
            if !sent {
                let text = format!("datagrams for locality {home} were lost: its mailbox is full");
                let runtime = cx.runtime();
                runtime.report(IncidentKind::Lost, "UDP server", text);
            }
        }
    }

    fn take_steered(&mut self, cx: &mut UdpCx<'_>, steered: &Steered) {
        let mut begin = 0;
        for (end, from) in &steered.ends {
            let datagram = &steered.bytes[begin..*end];
            begin = *end;
            self.call(cx, |service, cx| service.datagram(cx, datagram, *from));
        }
    }

    async fn news(&mut self, cx: &mut UdpCx<'_>) -> io::Result<News> {
        let socket = self.socket.get(UdpSocket::from_std)?;
        let tick = match (D::TICK, &mut self.tick) {
            (Some(time), none @ None) => Some(none.insert(Box::pin(cx.sleep(time)))),
            (_, tick) => tick.as_mut(),
        };
        let ticks = async {
            match tick {
                Some(tick) => tick.await,
                None => std::future::pending().await,
            }
        };
        // In no order, so that a busy socket starves neither the ticks nor the datagrams of other sockets.
        tokio::select! {
            () = self.stop.wait() => Ok(News::Stop),
            UdpOrder::Datagrams(steered) = cx.event() => Ok(News::Steered(steered)),
            ready = socket.readable() => ready.map(|()| News::Readable),
            () = ticks => Ok(News::Tick),
        }
    }
}

impl<D: Datagrams> ReceivingTransitions for UdpReceiver<D> {
    async fn receive(&mut self, cx: &mut UdpCx<'_>) -> io::Result<ReceivingAfterReceive> {
        match self.news(cx).await? {
            News::Stop => return Ok(ReceivingAfterReceive::Closed),
            News::Steered(steered) => self.take_steered(cx, &steered),
            News::Tick => {
                self.tick = None;
                self.call(cx, |service, cx| service.tick(cx));
            }
            News::Readable => match self.take_round(cx) {
                Round::Emptied => {}
                Round::Full => to_the_tail().await,
                Round::Failed => return Ok(ReceivingAfterReceive::Broken),
            },
        }
        Ok(ReceivingAfterReceive::Receive)
    }

    async fn broken(&mut self, cx: &mut UdpCx<'_>) -> io::Result<()> {
        cx.sleep(BROKEN).await;
        Ok(())
    }
}
