//! The home of a fom: chosen at submission, passed on to what the fom submits, and the only place where the fom runs.

use fom_runtime::{error::RefusedReason, prelude::*, time::TestClock};

use crate::kit::foms::{Oops, Oops2, Word};
use crate::kit::{limited, many, secs};

/// Reports its locality, before and after a wait.
struct Native;

#[fom(operation(Native), error(Oops), event(Word), transient)]
enum Living {
    #[phase(start, to(Waits), sync)]
    Here,
    #[phase(to(Told), on(Go, Fail, Stop))]
    Waits { before: usize },
    #[phase(end)]
    Told { before: usize, after: usize },
}

impl LivingTransitions for Native {
    fn here(&mut self, cx: &mut Cx<'_, Word>) -> Result<LivingAfterHere, Oops> {
        Ok(LivingAfterHere::Waits {
            before: cx.locality(),
        })
    }
    async fn waits(
        &mut self,
        cx: &mut Cx<'_, Word>,
        before: &mut usize,
    ) -> Result<LivingAfterWaits, Oops> {
        cx.event().await;
        // Where the fom really runs: the locality with the data that this thread holds.
        let after = cx.local(|index: &mut usize| *index);
        Ok(LivingAfterWaits::Told {
            before: *before,
            after,
        })
    }
}

fn three() -> Runtime {
    many(3, &TestClock::new())
        .locality_data(Ok::<usize, Oops2>)
        .build()
        .unwrap()
}

/// FL-07: a fom's home is chosen once, at submission. The fom runs only there, whichever thread wakes it.
#[test]
fn a_fom_never_moves() {
    limited(|| async {
        let runtime = three();
        let foms: Vec<_> = (0..12)
            .map(|_| {
                runtime
                    .submit(Native)
                    .place(Placement::RoundRobin)
                    .start()
                    .unwrap()
            })
            .collect();
        let homes: Vec<_> = foms.iter().map(|fom| fom.locality()).collect();
        assert_eq!(
            homes,
            [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2],
            "one choice for each submission"
        );
        for fom in &foms {
            let fom = fom.fom().clone();
            std::thread::spawn(move || fom.send(Word::Go).unwrap())
                .join()
                .unwrap();
        }
        for (fom, home) in foms.into_iter().zip(homes) {
            let LivingEnd::Told { before, after } = fom.await.unwrap().end;
            assert_eq!((before, after), (home, home));
        }
    });
}

/// FL-08: homes by round-robin, by least load, by a number, by a key, at the caller's own home, or in a given locality.
/// A locality that does not exist is refused.
#[test]
fn placements() {
    limited(|| async {
        let runtime = three();
        let place = |placement| runtime.submit(Native).place(placement).start().unwrap();
        // Pinned.
        let mut foms: Vec<_> = [2, 2, 2, 0].map(|n| place(Placement::Locality(n))).into();
        assert_eq!(
            foms.iter().map(|fom| fom.locality()).collect::<Vec<_>>(),
            [2, 2, 2, 0]
        );
        // Least loaded: 1 has none, then 0 and 1 have one each, ...
        for _ in 0..5 {
            foms.push(place(Placement::LeastLoaded));
        }
        let mut load = [0; 3];
        foms.iter().for_each(|fom| load[fom.locality()] += 1);
        assert_eq!(load, [3, 3, 3]);
        // The same number, the same home; many numbers, all homes.
        for n in 0..50 {
            assert_eq!(
                place(Placement::Key(n)).locality(),
                place(Placement::Key(n)).locality()
            );
        }
        let mut homes: Vec<_> = (0..100)
            .map(|n| place(Placement::Key(n)).locality())
            .collect();
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes, [0, 1, 2]);
        // The same key, the same home, one fom after the other.
        let home = |key: &str| {
            let fom = runtime.submit(Native).key(key).start().unwrap();
            fom.send(Word::Go).unwrap();
            let home = fom.locality();
            fom.wait().unwrap();
            home
        };
        for key in ["a", "b", "c", "d"] {
            assert_eq!(home(key), home(key));
        }
        let refused = runtime
            .submit(Native)
            .place(Placement::Locality(3))
            .start()
            .unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::NoSuchLocality);
        runtime.shutdown(Shutdown::Now, secs(10)).await;
    });
}

/// FL-08: what a fom submits lives with the fom, unless it is placed elsewhere.
/// WK-15: a follow-up lands in the locality of the fom that it follows: by `Placement::Here` inside, by its number from
/// outside.
#[test]
fn what_a_fom_submits_lives_with_it() {
    struct Parent(Option<Placement>);
    #[fom(operation(Parent), error(Oops), transient)]
    enum Parenting {
        #[phase(start, to(Done), sync)]
        Submit,
        #[phase(end)]
        Done { homes: (usize, usize) },
    }
    impl ParentingTransitions for Parent {
        fn submit(&mut self, cx: &mut Cx<'_>) -> Result<ParentingAfterSubmit, Oops> {
            let child = cx.submit(Native);
            let child = match self.0 {
                Some(placement) => child.place(placement),
                None => child,
            };
            let child = child.start().unwrap();
            Ok(ParentingAfterSubmit::Done {
                homes: (cx.locality(), child.locality()),
            })
        }
    }
    limited(|| async {
        let runtime = three();
        for placement in [None, Some(Placement::Here)] {
            for n in 0..3 {
                let parent = runtime
                    .submit(Parent(placement))
                    .place(Placement::Locality(n));
                let ParentingEnd::Done { homes } = parent.await.unwrap().end;
                assert_eq!(homes, (n, n));
            }
        }
        let elsewhere = Parent(Some(Placement::Locality(1)));
        let elsewhere = runtime.submit(elsewhere).place(Placement::Locality(0));
        let ParentingEnd::Done { homes } = elsewhere.await.unwrap().end;
        assert_eq!(homes, (0, 1));
        let first = runtime.submit(Native).start().unwrap();
        let follow_up = runtime
            .submit(Native)
            .place(Placement::Locality(first.locality()))
            .start()
            .unwrap();
        assert_eq!(first.locality(), follow_up.locality());
        runtime.shutdown(Shutdown::Now, secs(10)).await;
    });
}
