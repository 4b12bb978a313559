//! The service, killed again and again by the load script, which checks the books at the end.

use std::process::Command;

const LOAD: [&str; 6] = ["--orders", "100", "--kills", "4", "--limit", "120"];

#[test]
fn no_order_is_lost_or_charged_twice() {
    loads(&[]);
}

/// The second release takes over what the first one has parked.
#[test]
fn the_second_release_goes_on() {
    let releases = [env!("CARGO_BIN_EXE_orders"), env!("CARGO_BIN_EXE_second")];
    loads(&releases.map(|server| ["--server", server]).concat());
}

fn loads(more: &[&str]) {
    let load = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(LOAD)
        .args(more)
        .output()
        .expect("the load script starts");
    let said = String::from_utf8_lossy(&load.stdout);
    let errors = String::from_utf8_lossy(&load.stderr);
    assert!(load.status.success(), "{said}{errors}");
    assert!(said.contains("4 kills, nothing lost"), "{said}{errors}");
}
