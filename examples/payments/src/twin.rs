//! The same server with tokio tasks: one for each connection, and one for each bank.

use std::{convert::Infallible, pin::pin, sync::Arc};

use hyper::{Request, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::http::{
    self, Answer, BANK_LIMIT, Verdict, Wanted, plain, sum, verdict, wanted, with_fee,
};

struct Question {
    cents: u64,
    payment: oneshot::Sender<Verdict>,
}

type Bank = mpsc::UnboundedSender<Question>;

/// Serves until `stop` changes, with this number of banks.
///
/// # Errors
///
/// Says why no connection can be accepted.
pub async fn serve(
    listener: TcpListener,
    banks: usize,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let banks: Arc<[Bank]> = (0..banks).map(|_| open_bank()).collect();
    for bank in banks.iter().cycle() {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, bank.clone(), stop.clone()));
    }
    Ok(())
}

fn open_bank() -> Bank {
    let (bank, mut questions) = mpsc::unbounded_channel::<Question>();
    tokio::spawn(async move {
        while let Some(Question { cents, payment }) = questions.recv().await {
            match verdict(cents) {
                Some(verdict) => drop(payment.send(verdict)),
                // Says nothing, and does not hang up either.
                None => drop(tokio::spawn(async move {
                    let mut payment = payment;
                    payment.closed().await;
                })),
            }
        }
    });
    bank
}

async fn connection(stream: TcpStream, bank: Bank, mut stop: watch::Receiver<bool>) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(&bank, &request).await));
    let mut served = pin!(http::protocol().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        _ = &mut served => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

async fn answer(bank: &Bank, request: &Request<Incoming>) -> Answer {
    match wanted(request) {
        Wanted::Quote { cents } => sum(with_fee(cents)),
        Wanted::Pay { cents } => pay(bank, cents).await,
        Wanted::Nothing(status) => plain(status),
    }
}

async fn pay(bank: &Bank, cents: u64) -> Answer {
    let (payment, verdict) = oneshot::channel();
    if bank.send(Question { cents, payment }).is_err() {
        return plain(StatusCode::SERVICE_UNAVAILABLE);
    }
    match timeout(BANK_LIMIT, verdict).await {
        Ok(Ok(Verdict::Agreed)) => sum(with_fee(cents)),
        Ok(Ok(Verdict::Declined)) => plain(StatusCode::PAYMENT_REQUIRED),
        Ok(Err(_)) => plain(StatusCode::SERVICE_UNAVAILABLE),
        Err(_) => plain(StatusCode::GATEWAY_TIMEOUT),
    }
}
