//! The crash at each boundary, for an operation that waits for a real socket. The socket has no test clock.

use std::{io, net::SocketAddr, thread, time::Duration};

use fom_durable::{
    prelude::*,
    testing::{Effects, Trial, crash_at_each_boundary},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Asks a service for a price.
#[derive(Serialize, Deserialize)]
struct Ask {
    price: u8,
}

#[fom(operation(Ask))]
enum Asking {
    #[phase(start, to(Book))]
    Begin,
    #[phase(to(Done, Lost), within = "5s", late)]
    Book,
    #[phase(end)]
    Done,
    #[phase(end)]
    Lost,
}

/// The address of the service.
struct Service(SocketAddr);

impl AskingTransitions for Ask {
    async fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn book(&mut self, cx: &mut Cx<'_>) -> Result<AskingAfterBook, BoxError> {
        let mut stream = TcpStream::connect(cx.resource::<Service>().0).await?;
        stream.write_all(b"?").await?;
        self.price = stream.read_u8().await?;
        cx.resource::<Effects>().once(cx.step_key(), "booked");
        Ok(AskingAfterBook::Done)
    }

    async fn book_late(&mut self, _: &mut Cx<'_>) -> Result<AskingAfterBook, BoxError> {
        Ok(AskingAfterBook::Lost)
    }
}

/// Starts a service that takes its time, on a thread of its own.
fn service() -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            // The test waits for it.
            let _ = tell.send(listener.local_addr()?);
            loop {
                let (mut stream, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let _question = stream.read_u8().await?;
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    stream.write_u8(42).await
                });
            }
        })
    });
    told.recv().unwrap()
}

/// No deadline passes while the answer is on its way, although no fom runs meanwhile.
#[test]
fn a_phase_that_waits_for_a_real_socket_is_no_false_alarm() {
    let address = service();
    let tried = crash_at_each_boundary(|| {
        Trial::new(Ask { price: 0 })
            .runtime(move |builder| builder.resource(Service(address)))
            .compare(|end| {
                let is_done = matches!(end.phase, Some(Asking::Done));
                assert!(is_done, "the deadline has passed before the answer came");
                end.operation.price
            })
    });
    assert_eq!(tried.crashes, 3);
}
