//! Runs examples in the simulator, as they are: each seed draws other orders, and none fails.
//!
//! `FOM_SIM_SEEDS=1000` runs more seeds.

use std::{pin::Pin, process::Command, time::Duration};

use fom_runtime::error::BoxError;
use fom_sim as sim;

sim::interpose!();

/// Set in a second process, which prints the hashes of its runs.
const CHILD: &str = "FOM_SIMULATED_EXAMPLES_CHILD";

/// Includes the file as a module, with a test that simulates it. Twice, in two processes, all runs are equal.
macro_rules! examples {
    ($($name:ident $file:literal $run:expr;)*) => {$(
        #[path = $file]
        #[allow(dead_code, reason = "the `main` of a program is not called here")]
        mod $name;

        #[test]
        fn $name() {
            simulated(stringify!($name), || Box::pin(async { $run }));
        }
    )*};
}

examples! {
    adaptive "../examples/adaptive.rs" adaptive::run().await;
    admission "../examples/admission.rs" admission::run().await;
    blocking_io "../examples/blocking_io.rs" blocking_io::run().await;
    deadlines "../examples/deadlines.rs" deadlines::run().await;
    events "../examples/events.rs" events::run().await;
    file_operation "../examples/file_operation.rs" file_operation::run().await;
    layers "../examples/layers.rs" layers::main();
    listeners "../examples/listeners.rs" listeners::run().await;
    placement "../examples/placement.rs" placement::run().await;
    shutdown "../examples/shutdown.rs" shutdown::run().await;
}

type Program = fn() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

fn simulated(name: &str, run: Program) {
    let explored = sim::explore(0..5, move |sim| {
        sim.spawn(async move { run().await.unwrap() });
        sim.settle(Duration::from_secs(400 * 86_400));
    });
    let told = format!("{explored:?}");
    if std::env::var_os(CHILD).is_some() {
        println!("{told}");
        return;
    }
    let this = std::env::current_exe().expect("the path of the tests");
    let child = Command::new(this)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a second process");
    let other = String::from_utf8_lossy(&child.stdout);
    assert!(other.contains(&told), "{told} is not in\n{other}");
}
