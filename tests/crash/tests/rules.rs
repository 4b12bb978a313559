//! Tests each rule of the checker with a history that keeps the rule, and the same history with one fault. Some faults
//! are ones that no broken journal causes. Times are in microseconds.

use fom_crash::Checker;

/// Returns the rules that these lines break. Each line has its time.
fn wrong<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'static str> {
    let mut checker = Checker::new();
    for line in lines {
        checker.line(&format!("{line} ;"));
    }
    let mut rules: Vec<_> = checker
        .violations()
        .iter()
        .map(|found| found.rule)
        .collect();
    rules.dedup();
    rules
}

fn ends_wrong<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'static str> {
    let mut checker = Checker::new();
    for line in lines {
        checker.line(&format!("{line} ;"));
    }
    checker.finish();
    checker
        .violations()
        .iter()
        .map(|found| found.rule)
        .collect()
}

/// A fom that failed is in quarantine in each later life.
#[test]
fn a_failed_operation_is_kept() {
    let history = [
        "1 L 1",
        "2 S 5 f -",
        "3 T 5 f 40 0 - Begin started - 0 failed",
        "4 T 5 f 40 1 Begin Last returned - 0 failed",
        "5 T 5 f 40 1 Last - failed-error - 0 failed",
    ];
    let then = |line| wrong(history.into_iter().chain(["6 L 2", line]));
    assert_eq!(then("7 Q 2 39 40"), [""; 0]);
    assert_eq!(then("7 Q 1 39"), ["a failed operation is kept"]);
    assert_eq!(then("7 Q 2 40"), ["unreadable"]);
}

/// The journal keeps a number of failed operations. The oldest may be gone, also if all later ones are tried again.
#[test]
fn the_oldest_failed_operation_may_be_dropped() {
    let fails = |fom: u64| format!("2 T {fom} f {fom} 0 - Begin started - 0 failed");
    let failed = |fom: u64| format!("3 T {fom} f {fom} 0 Begin - failed-error - 0 failed");
    let later = |others: u64| {
        let mut lines = vec!["1 L 1".to_owned()];
        lines.extend((40..=40 + others).flat_map(|fom| [fails(fom), failed(fom)]));
        lines.extend((41..=40 + others).map(|fom| format!("4 M {fom}")));
        lines.extend(["5 L 2".to_owned(), "6 Q 0".to_owned()]);
        let rules = wrong(lines.iter().map(String::as_str));
        rules.contains(&"a failed operation is kept")
    };
    assert!(later(20));
    assert!(!later(200));
}

/// An operation that a retry would have mended may be dropped if many others fail after it.
#[test]
fn a_dropped_operation_does_not_end() {
    let later = |others: u64, refused: bool| {
        let mut lines = vec!["1 L 1".to_owned()];
        for n in (50..=50 + others).map(|n| 10 * n + 9) {
            lines.push(format!("2 T {n} n {n} 0 - Begin started - 0 mended-0"));
            lines.push(format!("3 T {n} n {n} 1 Begin Work returned - 0 mended-0"));
            lines.push(format!("4 T {n} n {n} 1 Work - failed-error - 0 mended-1"));
        }
        if refused {
            // It was in the list, and was dropped before the retry.
            lines.extend(["5 M 509".to_owned(), "6 N 509".to_owned()]);
        }
        let lost = ends_wrong(lines.iter().map(String::as_str));
        lost.iter().filter(|rule| **rule == "none lost").count()
    };
    // At most 100 are surely kept, and none is tried again.
    assert_eq!((later(20, false), later(200, false)), (21, 100));
    assert_eq!((later(20, true), later(200, true)), (21, 100));
}

/// A failed operation that is tried again goes on where it failed, and ends once.
#[test]
fn a_retry_goes_on_where_it_failed() {
    // This operation fails twice.
    let text = "\
1 L 1
2 S 9 n -
3 T 9 n 40 0 - Begin started - 0 mended-0
4 E 9 40 0 Begin 0 40.0
5 T 9 n 40 1 Begin Work returned - 0 mended-0
6 E 9 40 1 Work 0 40.1
7 T 9 n 40 1 Work - failed-error - 0 mended-1
8 H 9 failed-error
9 M 40
10 T 9 n 40 1 - Work resumed - 0 mended-1
11 E 9 40 1 Work 0 40.1
12 T 9 n 40 1 Work - failed-error - 0 mended-2
13 L 2
14 Q 1 40
15 M 40
16 T 9 n 40 1 - Work resumed - 0 mended-2
17 E 9 40 1 Work 0 40.1
18 T 9 n 40 2 Work Last returned - 0 mended-2
19 E 9 40 2 Last 0 40.2
20 T 9 n 40 3 Last Done returned - 0 mended-2";
    assert_eq!(wrong(text.lines()), [""; 0]);
    let lost = text.replace("14 Q 1 40", "14 Q 0");
    assert_eq!(wrong(lost.lines()), ["a failed operation is kept"]);
    // Its data are gone, the visit is another one, or nothing goes on with it.
    shows(
        text,
        "Done returned - 0 mended-2",
        "Done returned - 0 mended-1",
        "it comes to what it should",
    );
    shows(
        text,
        "17 E 9 40 1 Work 0 40.1",
        "17 E 9 40 1 Work 0 40.7",
        "one key for a visit",
    );
    let stays = text.lines().take(14);
    assert_eq!(ends_wrong(stays), ["none lost"]);
}

/// An operation of a series that failed has no turn until those that waited have had theirs.
#[test]
fn a_retry_goes_to_the_tail_of_its_series() {
    let text = "\
0 L 1 x
1 S 9 n -
2 T 9 n 40 0 - Begin started mending/1 0 mended-0
3 T 9 n 40 1 Begin Work returned mending/1 0 mended-0
4 S 10 n -
5 B 10 mending/1
6 E 9 40 1 Work 0 40.1
7 T 9 n 40 1 Work - failed-error mending/1 0 mended-1
8 M 40
9 T 10 n 41 0 - Begin started mending/1 0 mended-0
10 T 10 n 41 1 Begin Work returned mending/1 0 mended-0
11 E 10 41 1 Work 0 41.1
12 T 10 n 41 1 Work - failed-error mending/1 0 mended-1
13 T 9 n 40 1 - Work resumed mending/1 0 mended-1
14 E 9 40 1 Work 0 40.1";
    // It goes on first.
    let resumes = "13 T 9 n 40 1 - Work resumed mending/1 0 mended-1\n";
    let first = format!("8 M 40\n{resumes}");
    shows(
        &text.replace(resumes, "13 R 0\n"),
        "8 M 40\n",
        &first,
        "a retry goes to the tail of its series",
    );
    // Both have the turn.
    let fails = "12 T 10 n 41 1 Work - failed-error mending/1 0 mended-1\n";
    shows(text, fails, "", "order of a key");
    // A process that was killed may have failed unreported, once its function has worked.
    let killed = changed(text, fails, "12 L 2 x\n");
    assert_eq!(wrong(killed.lines()), [] as [&str; 0]);
    shows(&killed, "11 E 10 41 1 Work 0 41.1\n", "", "order of a key");
}

/// An event that was acknowledged is not sent again in any life.
#[test]
fn an_acknowledged_event_is_sent_once() {
    let history = "\
0 L 1 x
1 S 2 m -
2 K 2 0 now
3 K 2 0 before
4 K 2 1 before
5 L 2 x
6 K 2 0 before
7 K 2 2 now";
    shows(
        history,
        "6 K 2 0 before",
        "6 K 2 0 now",
        "an acknowledged event is sent once",
    );
}

/// An outcome that was told is found in each later life, and is the same.
#[test]
fn an_outcome_that_was_told_is_found() {
    let history = "\
0 L 1 x
1 S 2 t once
2 F 2 in-flight
3 H 2 ticked-0
4 L 2 x
5 F 2 ticked-0
6 F 3 unknown";
    let rule = "an outcome is found";
    shows(history, "5 F 2 ticked-0", "5 F 2 unknown", rule);
    shows(history, "5 F 2 ticked-0", "5 F 2 in-flight", rule);
    shows(history, "5 F 2 ticked-0", "5 F 2 ticked-1", rule);
}

/// Returns the lines of a text, with each `from` replaced by `to`.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(
        from.is_empty() || text.contains(from),
        "{from} is not in {text}"
    );
    match from {
        "" => text.to_owned(),
        from => text.replace(from, to),
    }
}

/// The text breaks no rule. The changed text breaks this rule first, before any rule that fails as a result.
fn shows(text: &str, from: &str, to: &str, rule: &'static str) {
    assert_eq!(wrong(text.lines()), [] as [&str; 0], "{text}");
    let changed = changed(text, from, to);
    assert_eq!(wrong(changed.lines()).first(), Some(&rule), "{changed}");
}

/// Operation 2 over two lives. It makes each transition once.
const TICK: &str = "\
0 L 1 x
1 S 2 t -
2 T 2 t 7 0 - Begin started - 0 ticked-0
3 E 2 7 0 Begin 0 key-1
4 T 2 t 7 1 Begin Middle returned - 0 ticked-0
5 E 2 7 1 Middle 0 key-2
6 L 2 x
7 T 2 t 7 1 - Middle resumed - 0 ticked-0
8 E 2 7 1 Middle 0 key-2
9 T 2 t 7 2 Middle Last returned - 0 ticked-0";

/// Pays for two events, is killed, and takes them in the other order.
const TILL: &str = "\
0 L 1 x
1 S 4 i -
2 T 4 i 7 0 - Begin started bills/4 0 paid-{}
3 E 4 7 0 Begin 0 key-1
4 T 4 i 7 1 Begin Open returned bills/4 0 paid-{}
5 P 4 7 due-0 key-2
6 P 4 7 tip-9 key-3
7 L 2 x
8 T 4 i 7 1 - Open resumed bills/4 0 paid-{}
9 P 4 7 due-1 key-4
10 P 4 7 due-0 key-2";

#[test]
fn an_event_is_paid_once_and_no_other_has_its_key() {
    shows(
        TILL,
        "due-0 key-2\n6",
        "due-0 key-5\n6",
        "an event is paid once",
    );
    shows(TILL, "due-1 key-4", "due-1 key-2", "no key for two events");
    shows(TILL, "due-1 key-4", "due-1 key-1", "no key for two events");
    shows(TILL, "due-0 key-2", "due-0 key-1", "no key for two events");
}

#[test]
fn what_was_heard_is_not_lost() {
    shows(
        TICK,
        "7 T 2 t 7 1 - Middle",
        "7 T 2 t 7 0 - Begin",
        "none lost",
    );
}

#[test]
fn nothing_is_done_twice() {
    shows(
        TICK,
        "9 T 2 t 7 2 Middle Last",
        "9 T 2 t 7 1 Begin Middle",
        "none twice",
    );
}

/// Valid numbers do not help: the graph has no such edge.
#[test]
fn ways_are_those_of_the_graph() {
    shows(
        TICK,
        "9 T 2 t 7 2 Middle Last",
        "9 T 2 t 7 2 Middle Begin",
        "a way that there is",
    );
    let layer = "\
0 L 1 x
1 T 4 T 7 0 - Begin started - 0 -
2 T 4 T 7 1 Begin Serve.Begin returned - 0 -
3 T 4 T 7 2 Serve.Begin Serve.Middle returned - 0 -
4 L 2 x
5 T 4 T 7 2 - Serve.Middle resumed - 0 -
6 E 4 7 2 Middle 0 key-1
7 T 4 T 7 3 Serve.Middle Serve.Last returned - 0 -
8 T 4 T 7 4 Serve.Last Serve.Done returned - 0 -
9 T 4 T 7 5 Serve.Done Last returned - 0 -";
    // It skips the phase that the layer has after the inner ones.
    shows(
        layer,
        "8 T 4 T 7 4 Serve.Last Serve.Done",
        "8 T 4 T 7 4 Serve.Last Last",
        "a way that there is",
    );
}

#[test]
fn keys_of_effects_are_of_one_visit() {
    shows(
        TICK,
        "8 E 2 7 1 Middle 0 key-2",
        "8 E 2 7 1 Middle 0 key-9",
        "one key for a visit",
    );
    shows(
        TICK,
        "5 E 2 7 1 Middle 0 key-2",
        "5 E 2 7 1 Middle 0 key-1",
        "no key for two visits",
    );
}

/// An attempt that was made is not forgotten, and none is invented.
#[test]
fn attempts_are_counted_over_kills() {
    let text = "\
0 L 1 x
1 T 2 x 7 0 - Begin started - 0 died-
2 E 2 7 0 Begin 0 key-1
3 E 2 7 0 Begin 1 key-1
4 L 2 x
5 T 2 x 7 0 - Begin resumed - 0 died-
6 E 2 7 0 Begin 2 key-1";
    shows(
        text,
        "6 E 2 7 0 Begin 2",
        "6 E 2 7 0 Begin 0",
        "attempts count",
    );
    shows(
        text,
        "6 E 2 7 0 Begin 2",
        "6 E 2 7 0 Begin 4",
        "attempts count",
    );
}

/// An operation that uses up its attempts keeps the error of each, once.
#[test]
fn it_comes_to_what_follows_from_its_number() {
    let text = "\
0 L 1 x
1 T 2 x 7 0 - Begin started - 0 died-
2 E 2 7 0 Begin 3 key-1
3 T 2 x 7 1 Begin Last exhausted - 0 died-at0,at1,at2,at3
4 E 2 7 1 Last 0 key-2
5 T 2 x 7 2 Last Done returned - 0 died-at0,at1,at2,at3";
    shows(
        text,
        "Done returned - 0 died-at0,at1,at2,at3",
        "Done returned - 0 died-at0,at1,at1,at2,at3",
        "it comes to what it should",
    );
}

/// An operation submitted once has one answer, also after a failure, and in another process.
#[test]
fn once_has_one_answer() {
    let text = "\
0 L 1 x
1 S 2 f once
2 T 2 f 7 0 - Begin started - 0 failed
3 T 2 f 7 1 Begin Last returned - 0 failed
4 T 2 f 7 1 Last - failed-error - 0 failed
5 H 2 failed-error
6 L 2 x
7 S 2 f once
8 H 2 failed-remembered";
    shows(text, "failed-remembered", "moved", "one outcome");
}

/// Posted operations have their turns in order, and so do those that were submitted after them.
#[test]
fn a_queue_keeps_its_order_over_kills() {
    let text = "\
0 L 1 x
1 T 5 q 11 0 - Begin started (line,1) 0 queued-0
2 E 5 11 0 Begin 0 key-1
3 L 2 x
4 T 5 q 11 0 - Begin resumed (line,1) 0 queued-0
5 T 5 q 11 1 Begin Last returned (line,1) 0 queued-1
6 E 5 11 1 Last 0 key-2
7 T 6 q 12 0 - Begin started (line,1) 0 queued-0
8 E 6 12 0 Begin 0 key-3
9 T 6 q 12 1 Begin Last returned (line,1) 0 queued-1
10 E 6 12 1 Last 0 key-4
11 T 9 q 13 0 - Begin started (line,1) 0 queued-0";
    // It begins while the other operation has the key.
    shows(text, "6 E 5 11 1 Last 0 key-2\n", "", "order of a key");
    // An operation that was posted before comes after.
    shows(text, "11 T 9 q 13", "11 T 4 q 13", "order of a key");
}

/// Operations of several senders begin in any order. Their turns do not interleave, even across a kill.
#[test]
fn turns_of_a_key_do_not_interleave_over_kills() {
    let text = "\
0 L 1 x
1 T 6 q 12 0 - Begin started (feed,1) 0 queued-0
2 E 6 12 0 Begin 0 key-1
3 L 2 x
4 T 6 q 12 0 - Begin resumed (feed,1) 0 queued-0
5 T 6 q 12 1 Begin Last returned (feed,1) 0 queued-1
6 E 6 12 1 Last 0 key-2
7 T 5 q 11 0 - Begin started (feed,1) 0 queued-0
8 E 5 11 0 Begin 0 key-3";
    // After the kill the other operation begins first.
    shows(
        text,
        "4 T 6 q 12 0 - Begin resumed (feed,1) 0 queued-0",
        "4 T 5 q 11 0 - Begin started (feed,1) 0 queued-0",
        "order of a key",
    );
    // The other operation begins while the restored one has the key.
    shows(text, "6 E 6 12 1 Last 0 key-2\n", "", "order of a key");
}

/// 1 and 2 share a key, 3 does not.
#[test]
fn those_that_share_a_key_do_not_run_beside_others() {
    let text = "\
0 L 1 x
1 T 1 q 11 0 - Begin started (shared,1) 0 queued-0
2 T 2 q 12 0 - Begin started (shared,1) 0 queued-0";
    let shared: Vec<u64> = (1..60).filter(|n| fom_crash::shares(*n)).collect();
    let alone = (1..60).find(|n| !fom_crash::shares(*n) && *n > shared[1]);
    let text = text
        .replace("T 1 q", &format!("T {} q", shared[0]))
        .replace("T 2 q", &format!("T {} q", shared[1]));
    let second = format!("T {} q", shared[1]);
    let third = format!("T {} q", alone.unwrap());
    shows(&text, &second, &third, "order of a key");
}

const LOCKS: &str = "\
0 L 1 x
1 T 2 l 11 0 - Begin started - 0 moved
2 T 3 l 12 0 - Begin started - 0 moved
3 T 2 l 11 1 Begin Take returned - 0 moved
4 G 2 1 w
5 T 3 l 12 1 Begin Take returned - 0 moved
6 V 2 1 w
7 T 2 l 11 2 Take Give returned - 0 moved
8 G 2 1 w
9 U 2 1 w
10 G 3 1 r
11 L 2 x
12 T 2 l 11 3 - Last resumed - 0 moved
13 G 3 1 r";

#[test]
fn a_lock_is_had_by_one() {
    // A function that has the lock still runs.
    shows(
        LOCKS,
        "5 T 3 l 12 1 Begin Take returned - 0 moved",
        "5 G 3 1 r",
        "a lock is had by one",
    );
    // The fom is between two phases that both have the lock.
    shows(
        LOCKS,
        "8 G 2 1 w",
        "8 G 3 1 r\n8 G 2 1 w",
        "a lock is had by one",
    );
    // Two foms may read.
    let text = changed(LOCKS, "1 w", "1 r");
    let text = changed(
        &text,
        "5 T 3 l 12 1 Begin Take returned - 0 moved",
        "5 G 3 1 r",
    );
    assert_eq!(wrong(text.lines()), [] as [&str; 0]);
}

/// A fom that gets the lock sees what the earlier holder did. So that work cannot be undone.
#[test]
fn a_lock_is_kept_until_the_transition_is_committed() {
    shows(
        LOCKS,
        "12 T 2 l 11 3 - Last",
        "12 T 2 l 11 2 - Give",
        "a lock is given back by what is committed",
    );
}

/// The deadline of 40 ms, across a kill.
const LATE: &str = "\
0 L 1 x
1000 T 2 d 11 0 - Begin started - 0 late-0
2000 T 2 d 11 1 Begin Wait returned - 0 late-0
3000 W 2
4000 L 2 x
5000 T 2 d 11 1 - Wait resumed - 0 late-0
6000 W 2
42000 D 2";

#[test]
fn a_deadline_is_kept_over_kills() {
    shows(LATE, "42000 D", "7000 D", "a deadline passes in its time");
    // No process ran for longer than the deadline.
    let down = changed(LATE, "4000 L", "90000 L").replace("6000 W 2\n", "");
    let down = down
        .replace("5000 T", "95000 T")
        .replace("42000 D", "96000 D");
    shows(
        &down,
        "96000 D",
        "96000 W",
        "what is overdue is late at once",
    );
}

/// A lazy fom, beside others in its locality, and two commits that follow.
const LAZY: &str = "\
0 L 1 x
1000 T 2 z 11 0 - Begin started - 0 loose-1
12000 T 3 z 12 0 - Begin started - 0 loose-1
13000 T 4 z 13 0 - Begin started - 0 loose-1
14000 C
15000 c
16000 C
17000 c
18000 T 2 z 11 1 Begin Step returned - 0 loose-1
19000 L 2 x
20000 T 2 z 11 0 - Begin resumed - 0 loose-1";

/// Returns these lines, with many transitions at the time 13000. So the locality has looked at the clock.
fn busy(lines: &[&str]) -> Vec<String> {
    let more = (100..140).map(|n| format!("13000 T {n} z {n} 0 - Begin started - 0 loose-1"));
    let mut busy: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let place = lines.iter().position(|line| line.starts_with("13000 "));
    let place = place.expect("there is such a line");
    busy.splice(place..place, more);
    busy
}

#[test]
fn lazy_transitions_are_lost_only_at_the_end() {
    let wrong = |lines: &[&str]| {
        let busy = busy(lines);
        wrong(busy.iter().map(String::as_str))
    };
    let kept_lines: Vec<_> = LAZY.lines().collect();
    let kept = changed(LAZY, "18000 T 2 z 11 1", "1001 T 2 z 11 1");
    let lines: Vec<_> = kept.lines().collect();
    // The second transition as old as the first.
    let moved = [0, 1, 8, 2, 3, 4, 5, 6, 7, 9, 10].map(|at| lines[at]);
    assert_eq!(wrong(&kept_lines), [] as [&str; 0]);
    assert_eq!(wrong(&moved), ["lazy loses the last only"]);
    // A locality that did little may not have looked at the clock.
    assert_eq!(self::wrong(moved), [] as [&str; 0]);
    // A commit of failed changes does not contain the transitions, and a later one does.
    let mut again = moved.to_vec();
    again[7] = "16000 O";
    assert_eq!(wrong(&again), [] as [&str; 0]);
    let mut after = again;
    after.splice(9..9, ["17100 C", "17200 c"]);
    assert_eq!(wrong(&after), ["lazy loses the last only"]);
    // The next commit repeats a failed one.
    let mut failed = moved.to_vec();
    failed.remove(6);
    assert_eq!(wrong(&failed), ["lazy loses the last only"]);
}

/// Once a transition that may be lost has waited for too long, no lazy fom continues.
#[test]
fn lazy_waits_when_the_disk_does_not_come_after() {
    let text = "\
0 L 1 x
1000 T 2 z 11 0 - Begin started - 0 loose-1
12000 T 3 z 12 0 - Begin started - 0 loose-1
13000 T 4 z 13 0 - Begin started - 0 loose-1
14000 C
70000 T 5 z 14 0 - Begin started - 0 loose-1
71000 T 6 z 15 0 - Begin started - 0 loose-1";
    shows(text, "14000 C\n", "", "lazy waits for the disk");
}

/// What an outbox sent, and what was quarantined, ends at last.
#[test]
fn all_that_was_acknowledged_comes_to_its_end() {
    assert_eq!(ends_wrong(TICK.lines()), ["none lost"]);
    let told = format!("{TICK}\n10 E 2 7 2 Last 0 key-3");
    assert_eq!(ends_wrong(told.lines()), [] as [&str; 0]);
    let speaks = "\
0 L 1 x
1 T 8 s 7 0 - Begin started - 0 spoken
2 T 8 s 7 1 Begin Say returned - 0 spoken
3 T 8 s 7 2 Say Last returned - 0 spoken
4 E 8 7 2 Last 0 key-3";
    assert_eq!(ends_wrong(speaks.lines()), ["what was sent begins"]);
    let accepted = "\
0 L 1 x
1 S 8 q -
2 B 8 series/1";
    let lost = ["what is accepted is carried out"];
    assert_eq!(ends_wrong(accepted.lines()), lost);
    let begins = format!("{accepted}\n3 T 8 q 7 0 - Begin started series/1 0 queued-0");
    assert_eq!(ends_wrong(begins.lines()), ["none lost"]);
}
