//! `payments`: see `--help`.

use std::time::Duration;

use fom_runtime::prelude::*;
use payments::{Server, serving};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let Some(settings) = serving::settings(std::env::args_os().skip(1), "localities")? else {
        return Ok(());
    };
    let builder = Runtime::builder();
    let runtime = match settings.threads {
        Some(localities) => builder.localities(localities).build()?,
        None => builder.build()?,
    };
    let server = Server::start(&runtime, settings.listen)?;
    println!("payments on http://{}; Ctrl-C ends it", server.local_addr());
    serving::signal().await?;
    server.stop(Duration::from_secs(5)).await;
    print!("{}", runtime.operations());
    Ok(())
}
