//! A process of its own, for a test that measures what the whole process has.

use std::{
    any::type_name_of_val,
    env,
    process::{Command, Output},
};

/// Set in the process that [`alone`] starts.
const INSIDE: &str = "FOM_TEST_ALONE";

/// Runs the test with this name again, in a process without other tests.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    command
}

/// Fails if the one test of this process failed, or if there was none.
pub(crate) fn assert_passed(ran: &Output) {
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && out.contains("test result: ok. 1 passed"),
        "{}: {out}\n{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// Runs the body of a test in a process of its own. The test calls this with a closure, and does nothing else.
pub(crate) fn alone(body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let closure = type_name_of_val(&body);
    // The name of the closure is the path of the test, between the name of the program and `{{closure}}`.
    let test = closure.split_once("::").unwrap().1;
    let test = test.strip_suffix("::{{closure}}").unwrap();
    assert_passed(&again(test).env(INSIDE, "1").output().unwrap());
}
