//! The decisions on a cancel, over all states.

use super::*;

fn all() -> impl Iterator<Item = CancelledFom> {
    let phases = [OnCancel::Ends, OnCancel::TurnsBack, OnCancel::Waits];
    phases.into_iter().flat_map(|phase| {
        (0..32).map(move |bits| CancelledFom {
            aborted: bits & 1 != 0,
            heard: bits & 2 != 0,
            turned_back: bits & 4 != 0,
            begun: bits & 8 != 0,
            leaves: bits & 16 != 0,
            phase,
        })
    })
}

#[test]
fn abort_interrupts_always_and_a_cancel_is_heard_once() {
    for fom in all() {
        match fom {
            CancelledFom { aborted: true, .. } => {
                assert_eq!(fom.effect(), CancelEffect::Interrupts, "{fom:?}");
            }
            _ => assert_eq!(fom.effect() == CancelEffect::Nothing, fom.heard, "{fom:?}"),
        }
    }
}

#[test]
fn on_the_way_back_only_a_way_out_that_is_open_hears_a_cancel() {
    for fom in all().filter(|fom| fom.turned_back && !fom.aborted && !fom.heard) {
        let is_open = fom.phase == OnCancel::TurnsBack && !fom.leaves;
        assert_eq!(fom.effect() == CancelEffect::Interrupts, is_open, "{fom:?}");
    }
}

#[test]
fn on_the_way_forth_a_cancel_waits_only_in_a_phase_that_says_so_and_has_begun() {
    for fom in all().filter(|fom| !fom.turned_back && !fom.aborted && !fom.heard) {
        let waits = fom.phase == OnCancel::Waits && fom.begun;
        assert_eq!(fom.effect() == CancelEffect::Waits, waits, "{fom:?}");
    }
}
