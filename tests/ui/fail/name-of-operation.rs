//! Name of operation.
use fom_runtime::{Operation, prelude::*};

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call, name = "Ruf"))]
enum Route {
    #[phase(start, to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

struct Other;

#[fom(operation(Other, name = "a" "b"), transient)]
enum Way {
    #[phase(start, to(Over))]
    Go,
    #[phase(end)]
    Over,
}

struct Around<R>(R);

#[fom(operation(Around<R>, name = "Around"), around(R), transient)]
enum Standard<R: Operation> {
    #[phase(start, to(Serve))]
    Begin,
    #[phase(inner(request))]
    Serve { phase: R::Phase },
}

fn main() {}
