//! `session-router`: see `--help`.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fom_durable::{DurableBuilderExt as _, RecoveryProgress};
use fom_inspect::{Address, Inspector, InspectorHandle, StartError};
use fom_watch::{Warned as _, Watch, WatchExt as _};
use session_router::call::Call;
use session_router::cli::{self, Command};
use session_router::router::{Router, Settings};
use session_router::selfrun;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let command = match cli::read(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("session-router: {error}\nTry session-router --help.");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Print(text) => io::stdout()
            .write_all(text.as_bytes())
            .map(|()| true)
            .map_err(Into::into),
        Command::Serve {
            settings,
            drain,
            inspect,
        } => serve(*settings, drain, inspect).await,
        Command::SelfRun {
            settings,
            calls,
            in_flight,
        } => selfrun::run(*settings, calls, in_flight).await,
        Command::Drive {
            router,
            t1,
            calls,
            in_flight,
            rate,
        } => selfrun::drive(router, t1, calls, in_flight, rate),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprint!("session-router: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

/// Shows the progress of the recovery on a terminal, if it takes long enough to see.
fn progress() -> impl FnMut(&RecoveryProgress) + Send {
    let live = io::stderr().is_terminal();
    let mut shown = Instant::now();
    move |progress| {
        let end = progress.read > 0 && progress.read == progress.entries;
        if live && (end || shown.elapsed() >= Duration::from_millis(100)) {
            shown = Instant::now();
            let close = if end { "\n" } else { "" };
            eprint!("\r\x1b[Krecovery: {progress}{close}");
        }
    }
}

/// Starts the inspector. A token in the environment allows actions: on the command line, each user of the machine could
/// read it.
fn inspected(router: &Router, at: Address) -> Result<InspectorHandle, StartError> {
    let (of, measured) = (router.runtime().detached(), router.runtime().detached());
    let mut inspector = Inspector::new(router.runtime())
        .bind(at)
        .warnings(move || of.inspect().warnings())
        .metrics(move || fom_metrics::text(&measured));
    if let Ok(token) = std::env::var("FOM_INSPECT_TOKEN") {
        inspector = inspector.actions(token).persistent::<Call>();
    }
    let inspector = inspector.start()?;
    println!("inspector at {}", inspector.url());
    Ok(inspector)
}

/// Routes calls until a signal.
async fn serve(
    settings: Settings,
    drain: Duration,
    inspect: Option<Address>,
) -> Result<bool, Box<dyn std::error::Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    // Before anything starts that a signal could end.
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let journal = settings.journal.clone();
    // The page shows the last steps of a call, which the flight recorder keeps.
    let slots = if inspect.is_some() { 65_536 } else { 0 };
    // In one piece: stdout may lead to the same place.
    // In one piece: another process may write to the same pipe.
    let watch = Watch::default().on_warning(|warning| {
        let line = format!("{warning}\n");
        eprint!("{line}");
    });
    let router = Router::start_with(settings, |builder| {
        builder.on_recovery(progress()).recorder(slots).watch(watch)
    })?;
    // Until the end of this function.
    let _inspector = inspect.map(|at| inspected(&router, at)).transpose()?;
    if let Some(directory) = journal {
        let came_back = router.came_back();
        println!("came back from {}: {came_back}", directory.display());
        for quarantined in came_back.quarantined.iter().take(10) {
            println!(
                "  quarantined, and kept: {} {}",
                quarantined.id, quarantined.reason
            );
        }
    }
    println!(
        "router on {}, {} localities, receive buffer of {} KiB; Ctrl-C ends it",
        router.local(),
        router.runtime().localities(),
        router.buffer() / 1024
    );
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    println!(
        "\ndraining: calls that talk have {} s to end, or until Ctrl-C",
        drain.as_secs()
    );
    let remained = tokio::select! {
        remained = router.drain(drain) => remained,
        _ = interrupt.recv() => return Ok(false),
    };
    print!("{}\n{}", router.times(), router.counters());
    if !remained.is_empty() {
        println!("\n{} calls had not ended", remained.len());
        for call in remained.iter().take(10) {
            let call_id = call
                .key
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            println!(
                "  {call_id}: in {} for {:.1?}",
                call.phase, call.times.in_phase
            );
        }
    }
    Ok(true)
}
