//! The service, killed again and again by the load script, which checks the books at the end.

use std::process::Command;

#[test]
fn no_order_is_lost_or_charged_twice() {
    let load = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["--orders", "100", "--kills", "4", "--limit", "120"])
        .output()
        .expect("the load script starts");
    let said = String::from_utf8_lossy(&load.stdout);
    let errors = String::from_utf8_lossy(&load.stderr);
    assert!(load.status.success(), "{said}{errors}");
    assert!(said.contains("4 kills, nothing lost"), "{said}{errors}");
}
