//! `cluster-next`: the program of a node of the next release.

#[path = "../bank.rs"]
mod bank;
#[path = "../counters.rs"]
mod counters;
#[path = "../node.rs"]
mod node;
mod release;

fn main() {
    let args: Vec<_> = std::env::args().skip(2).collect();
    if let Err(error) = node::run(&args) {
        eprintln!("cluster-next: {error}");
        std::process::exit(2);
    }
}
