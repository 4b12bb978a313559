//! The start and the end of the service: `orders [--address ADDRESS] [--directory PATH] [--provider URL]`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fom_durable::prelude::*;
use fom_patterns::limit::LimitsExt;
use lexopt::prelude::*;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::broadcast,
};

use crate::{
    order::{Order, Site},
    progress::Step,
    provider::Provider,
    shop::Shop,
    web::{App, routes},
};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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

/// Opens the database and the journal in a directory. The orders in the journal go on at once. The provider calls back at
/// `webhook`.
///
/// # Errors
///
/// Fails if the directory cannot be used.
pub fn open(directory: &Path, provider: Provider, webhook: String) -> Result<App, BoxError> {
    std::fs::create_dir_all(directory)?;
    let shop = Shop::open(&directory.join("shop.sqlite"))?;
    shop.stock("tea", 1_000_000)?;
    let (steps, _) = broadcast::channel(1_000);
    let told = steps.clone();
    let runtime = Runtime::builder()
        .resource(shop)
        .resource(provider)
        .resource(Site { webhook })
        .listen_to::<Order>(move |transition| {
            if let Some(phase) = transition.to() {
                let reference = transition.operation().reference.clone();
                let phase = phase.to_owned();
                // A step without a listening client is no error.
                let _ = told.send(Step { reference, phase });
            }
        })
        // A client may repeat its request, and ask for its order, for a week.
        .remember(100_000, WEEK)
        .remember_all::<Order>(100_000, WEEK)
        .journal(directory.join("journal"))
        .build()?;
    // The provider asks for that.
    runtime.limits().set("charges", 8);
    Ok(App { runtime, steps })
}

/// Serves until it is told to stop.
///
/// # Errors
///
/// Fails if an argument is unknown, and if the directory or the address cannot be used.
pub async fn serve() -> Result<(), BoxError> {
    let settings = Settings::parse()?;
    // The address is taken before the orders come back, because they tell it to the provider.
    let listener = TcpListener::bind(&settings.address).await?;
    let address = listener.local_addr()?;
    let provider = Provider::new(settings.provider)?;
    let webhook = format!("http://{address}/webhooks/payment");
    let app = open(&settings.directory, provider, webhook)?;
    let runtime = app.runtime.clone();
    println!("orders on {address}");

    let stop = stopped()?;
    // No new requests. Requests under way have five seconds, and then the orders rest on the disk.
    axum::serve(listener, routes(app))
        .with_graceful_shutdown(stop)
        .await?;
    runtime
        .shutdown(Shutdown::Drain, Duration::from_secs(5))
        .await;
    Ok(())
}

/// Waits until the program is told to stop.
///
/// # Errors
///
/// Fails if the signal cannot be waited for.
pub fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    })
}
