//! A connection: a fom that lets hyper read requests, and runs each of them.

use std::{convert::Infallible, pin::pin, sync::Arc};

use fom_runtime::prelude::*;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::watch};

use crate::{
    bank::Bank,
    http::{self, Answer, Wanted, plain, wanted},
    pay::pay,
    quote::quote,
};

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Option<TcpStream>,
    /// The bank of each locality.
    pub(crate) banks: Arc<[Bank]>,
    /// Changes when the server stops.
    pub(crate) stop: watch::Receiver<bool>,
}

#[fom(operation(Connection), error(hyper::Error), transient)]
#[derive(Debug)]
pub(crate) enum Serving {
    /// Serves one request after the other. A client that says nothing for long is sent away by hyper.
    #[phase(start, to(Closed), hung = "never")]
    Serve,
    #[phase(end)]
    Closed,
}

impl ServingTransitions for Connection {
    async fn serve(&mut self, cx: &mut Cx<'_>) -> hyper::Result<()> {
        let Some(stream) = self.stream.take() else {
            return Ok(());
        };
        let (runtime, bank) = (cx.runtime(), &self.banks[cx.locality()]);
        let service =
            service_fn(async |request| Ok::<_, Infallible>(answer(&runtime, bank, &request).await));
        let mut served = pin!(http::protocol().serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            served = &mut served => return served,
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
        // The request that runs is answered, and no further one is taken.
        served.as_mut().graceful_shutdown();
        served.await
    }
}

async fn answer(runtime: &Runtime, bank: &Bank, request: &Request<Incoming>) -> Answer {
    match wanted(request) {
        Wanted::Quote { cents } => quote(runtime, cents).await,
        Wanted::Pay { cents } => pay(runtime, cents, bank.clone()).await,
        Wanted::Nothing(status) => plain(status),
    }
}
