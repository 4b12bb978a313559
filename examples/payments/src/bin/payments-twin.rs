//! The server with tokio tasks instead of foms.

use payments::{serving, twin};
use tokio::{net::TcpListener, runtime::Builder, sync::watch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(settings) = serving::settings(std::env::args_os().skip(1), "workers")? else {
        return Ok(());
    };
    let workers = settings.threads.unwrap_or(1);
    let runtime = match workers {
        1 => Builder::new_current_thread().enable_all().build()?,
        _ => Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()?,
    };
    runtime.block_on(async {
        let listener = TcpListener::bind(settings.listen).await?;
        println!("twin on http://{}; Ctrl-C ends it", listener.local_addr()?);
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(twin::serve(listener, workers, stopped));
        serving::signal().await?;
        stop.send_replace(true);
        stop.closed().await;
        serving.await?
    })?;
    Ok(())
}
