//! The start and the end of the service: `orders [--address ADDRESS] [--directory PATH] [--provider URL]`.

use std::{path::PathBuf, time::Duration};

use fom_durable::prelude::*;
use lexopt::prelude::*;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, broadcast},
};

use crate::{
    order::{Charges, Order, Site},
    provider::Provider,
    shop::Shop,
    web::{App, Step, routes},
};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns whether an order ends in this phase.
fn is_end(phase: &str) -> bool {
    Order::GRAPH.find(phase).is_some_and(|phase| phase.is_end())
}

struct Settings {
    address: String,
    directory: PathBuf,
    provider: String,
}

impl Settings {
    fn parse() -> Result<Self, BoxError> {
        let mut settings = Self {
            address: "127.0.0.1:0".into(),
            directory: "target/orders".into(),
            provider: "http://127.0.0.1:7801".into(),
        };
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("address") => settings.address = arguments.value()?.string()?,
                Long("directory") => settings.directory = arguments.value()?.into(),
                Long("provider") => settings.provider = arguments.value()?.string()?,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(settings)
    }
}

/// Serves until it is told to stop.
///
/// # Errors
///
/// Fails if an argument is unknown, and if the directory or the address cannot be used.
pub async fn serve() -> Result<(), BoxError> {
    let settings = Settings::parse()?;
    std::fs::create_dir_all(&settings.directory)?;
    let shop = Shop::open(&settings.directory.join("shop.sqlite"))?;
    shop.stock("tea", 1_000_000)?;

    // The address is taken before the orders come back, because they tell it to the provider.
    let listener = TcpListener::bind(&settings.address).await?;
    let address = listener.local_addr()?;
    let (steps, _) = broadcast::channel(1_000);
    let told = steps.clone();
    let runtime = Runtime::builder()
        .resource(shop)
        .resource(Provider::new(settings.provider)?)
        .resource(Charges(Semaphore::new(8)))
        .resource(Site {
            webhook: format!("http://{address}/webhooks/payment"),
        })
        .listen_to::<Order>(move |transition| {
            // A step without a listening client is no error.
            let _ = told.send(Step {
                reference: transition.operation().reference.clone(),
                phase: transition.to().unwrap_or("failed").to_owned(),
                is_end: transition.to().is_none_or(is_end),
            });
        })
        // A client may repeat its request, and ask for its order, for a week.
        .remember(100_000, WEEK)
        .remember_all::<Order>(100_000, WEEK)
        .journal(settings.directory.join("journal"))
        .build()?;
    println!("orders on {address}");

    let app = App {
        runtime: runtime.clone(),
        steps,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    // No new requests. Requests under way have five seconds, and then the orders rest on the disk.
    axum::serve(listener, routes(app))
        .with_graceful_shutdown(stop)
        .await?;
    runtime
        .shutdown(Shutdown::Drain, Duration::from_secs(5))
        .await;
    Ok(())
}
