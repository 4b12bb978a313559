//! No functions for the phases of a saved machine, and of a machine with parameters.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

struct Job<T>(T);

#[fom(operation(Job<T>), transient)]
enum Working<T: Send + 'static> {
    #[phase(start, to(Done))]
    Work,
    #[phase(end)]
    Done { result: T },
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
