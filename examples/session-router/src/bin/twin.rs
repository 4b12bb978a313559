//! `twin`: the router without fom, which `compare` measures against `session-router serve`. The options are the same.

use std::process::ExitCode;

use session_router::cli::{self, Command};
use session_router::twin::Twin;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("twin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    let Command::Serve {
        settings, drain, ..
    } = cli::read(std::env::args_os().skip(1))?
    else {
        return Err("it only serves: twin serve [OPTIONS], as session-router serve".into());
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = settings.localities {
        builder.worker_threads(workers);
    }
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let twin = Twin::start(*settings)?;
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        println!("router on {}, {workers} worker threads", twin.local());
        tokio::select! {
            _ = terminate.recv() => {}
            done = tokio::signal::ctrl_c() => done?,
        }
        let remained = twin.drain(drain).await;
        print!("{}\n{}", twin.times(), twin.counters());
        if remained > 0 {
            println!("\n{remained} calls had not ended");
        }
        Ok(())
    })
}
