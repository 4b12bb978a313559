//! Operations on the stack of the fom that submits them: they block, wait, and are woken and cancelled meanwhile.

use fom_runtime::submission::Now;

use super::*;

/// Runs a [`Task`] in place, which blocks and then waits for a word.
struct Submitter {
    cancels: bool,
    drops: bool,
}

#[fom(operation(Submitter), transient)]
enum Submitting {
    #[phase(start, to(Done))]
    Submit,
    #[phase(end)]
    Done,
}

impl SubmittingTransitions for Submitter {
    async fn submit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        let id = cx.id();
        let ran = cx.submit(task(thread::yield_now)).now()?;
        assert_eq!(cx.id(), id);
        // The core is back.
        visit(cx);
        let Now::GoesOn(handle) = ran else {
            panic!("the task waits for a word")
        };
        let fom = FomRef::clone(&handle);
        let cancels = self.cancels;
        let sender = thread::spawn(move || {
            if cancels {
                fom.cancel();
            } else {
                fom.send(Word::Go).unwrap();
            }
        });
        if self.drops {
            drop(handle);
        } else {
            assert_eq!(handle.await.is_err(), cancels);
        }
        section(cx, || sender.join().unwrap())?;
        visit(cx);
        Ok(())
    }
}

fn model(cancels: bool, drops: bool) {
    check(2000, move || {
        let bench = Bench::new(1, MOST);
        let submitters = [(), ()].map(|()| {
            bench
                .runtime
                .submit(Submitter { cancels, drops })
                .start()
                .unwrap()
        });
        let other = bench.runtime.submit(Work { sections: 1 }).start().unwrap();
        for submitter in submitters {
            submitter.wait().unwrap();
        }
        other.wait().unwrap();
        block_on(bench.runtime.idle());
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn an_operation_in_place_blocks_and_is_woken() {
    model(false, false);
}

#[test]
fn an_operation_in_place_is_cancelled() {
    model(true, false);
}

#[test]
fn the_handle_of_an_operation_in_place_is_dropped() {
    model(false, true);
}
