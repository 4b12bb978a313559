//! A test that runs again in another process, to compare what both have seen.

use std::{env, process::Command};

/// Set in the second process, which tells what it has seen.
const CHILD: &str = "FOM_SIM_TEST_CHILD";

/// Checks that this test sees the same in another process. `test` is its name.
pub(crate) fn assert_same_elsewhere(test: &str, seen: &str) {
    if env::var_os(CHILD).is_some() {
        println!("{seen}");
        return;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]);
    let child = child.env(CHILD, "1").output().unwrap();
    let told = String::from_utf8(child.stdout).unwrap();
    assert!(told.contains(seen), "{told}\nis not\n{seen}");
}
