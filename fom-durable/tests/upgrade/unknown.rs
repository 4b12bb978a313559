//! `unknown = "keep"`: a release that was rolled back runs foms of the later release, and carries along what it does
//! not know.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, snapshot::QuarantineKind, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one, secs};

/// What an order is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Word {
    Go,
    Fail,
}

mod before {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) cents: u32,
    }

    #[fom(operation(Order), event(Word), unknown = "keep")]
    #[derive(Debug)]
    pub(super) enum Selling {
        #[phase(start, sync, on(Go), to(Pay))]
        Open,
        #[phase(on(Go, Fail), to(Ship), retry = "1, 1s..1s")]
        Pay { card: String },
        #[phase(on(Go), to(Done))]
        Ship { parcel: String },
        #[phase(end)]
        Done,
    }

    impl SellingTransitions for Order {
        fn open(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterOpen, BoxError> {
            let card = "1234".into();
            Ok(SellingAfterOpen::Pay { card })
        }
        async fn pay(
            &mut self,
            cx: &mut Cx<'_, Word>,
            card: &mut String,
        ) -> Result<SellingAfterPay, BoxError> {
            self.cents += 1;
            card.push('!');
            if cx.event().await == Word::Fail {
                return Err("declined".into());
            }
            let parcel = "books".into();
            Ok(SellingAfterPay::Ship { parcel })
        }
        async fn ship(
            &mut self,
            cx: &mut Cx<'_, Word>,
            parcel: &mut String,
        ) -> Result<(), BoxError> {
            cx.event().await;
            cx.resource::<Log>().put(format_args!("{self:?} {parcel}"));
            Ok(())
        }
    }
}

mod after {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) cents: u32,
        pub(super) coupon: String,
        pub(super) items: Vec<String>,
    }

    #[fom(operation(Order), event(Word), unknown = "keep")]
    #[derive(Debug)]
    pub(super) enum Selling {
        #[phase(start, sync, on(Go), to(Pay))]
        Open,
        #[phase(on(Go, Fail), to(Ship, Pack), retry = "1, 1s..1s")]
        Pay { currency: String, card: String },
        #[phase(on(Go), to(Done))]
        Ship { parcel: String },
        #[phase(sync, on(Go), to(Ship))]
        Pack,
        #[phase(end)]
        Done,
    }

    impl SellingTransitions for Order {
        fn open(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterOpen, BoxError> {
            let (currency, card) = ("SEK".into(), "1234".into());
            Ok(SellingAfterOpen::Pay { currency, card })
        }
        async fn pay(
            &mut self,
            cx: &mut Cx<'_, Word>,
            SellingInPay { currency, card }: SellingInPay<'_>,
        ) -> Result<SellingAfterPay, BoxError> {
            cx.resource::<Log>()
                .put(format_args!("{self:?} pays {currency} by {card}"));
            if cx.event().await == Word::Fail {
                return Ok(SellingAfterPay::Pack);
            }
            let parcel = "books".into();
            Ok(SellingAfterPay::Ship { parcel })
        }
        fn pack(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterPack, BoxError> {
            let parcel = "box".into();
            Ok(SellingAfterPack::Ship { parcel })
        }
        async fn ship(
            &mut self,
            cx: &mut Cx<'_, Word>,
            parcel: &mut String,
        ) -> Result<(), BoxError> {
            cx.event().await;
            cx.resource::<Log>().put(format_args!("{self:?} {parcel}"));
            Ok(())
        }
    }
}

/// What the restarts have in common.
struct Shop {
    journal: MemoryJournal,
    clock: TestClock,
    log: Log,
}

impl Shop {
    fn new() -> Self {
        Self {
            journal: MemoryJournal::new(),
            clock: TestClock::new(),
            log: Log::default(),
        }
    }

    fn builder(&self) -> Builder {
        let builder = one(&self.clock).journal_with(self.journal.clone());
        builder.resource(self.log.clone())
    }

    fn before(&mut self, old: Option<Runtime>) -> Runtime {
        self.journal = self.journal.fork();
        drop(old);
        self.builder().operation::<before::Order>().build().unwrap()
    }

    fn after(&mut self, old: Option<Runtime>) -> Runtime {
        self.journal = self.journal.fork();
        drop(old);
        self.builder().operation::<after::Order>().build().unwrap()
    }

    /// Leaves an order of the later release in its phase `Pay`.
    async fn pays(&mut self) -> Runtime {
        let runtime = self.after(None);
        let order = after::Order {
            cents: 7,
            coupon: "SPRING".into(),
            items: vec!["a".into(), "b".into()],
        };
        let handle = runtime.submit(order).key("order").start().unwrap();
        handle.send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Pay");
        assert_eq!(self.log.take().len(), 1);
        runtime
    }
}

const PAYS: &str = r#"Order { cents: 7, coupon: "SPRING", items: ["a", "b"] } pays SEK by 1234"#;

#[test]
fn a_field_goes_through_a_release_that_does_not_know_it() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let earlier = shop.before(Some(later));
        assert!(earlier.quarantine().list().is_empty());
        earlier.quiet().await;
        // Nothing was committed, and nothing has changed.
        let later = shop.after(Some(earlier));
        later.quiet().await;
        assert_eq!(shop.log.take(), [PAYS]);
    });
}

/// The earlier release commits in the phase: an attempt that failed. Its own changes are there, and the fields of the
/// later release, too.
#[test]
fn a_commit_in_the_phase_has_the_fields_of_both_releases() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let earlier = shop.before(Some(later));
        let order = earlier.find::<before::Order>("order").unwrap();
        order.send(Word::Fail).unwrap();
        earlier.quiet().await;
        let again = shop.before(Some(earlier));
        let later = shop.after(Some(again));
        shop.clock.advance(secs(2));
        later.quiet().await;
        let pays = r#"Order { cents: 8, coupon: "SPRING", items: ["a", "b"] } pays SEK by 1234!"#;
        assert_eq!(shop.log.take(), [pays]);
    });
}

/// In a later phase the fields of the earlier phase are gone, as they are for every release. Those of the operation stay.
#[test]
fn a_transition_keeps_the_fields_of_the_operation() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let earlier = shop.before(Some(later));
        let order = earlier.find::<before::Order>("order").unwrap();
        order.send(Word::Go).unwrap();
        earlier.quiet().await;
        assert_eq!(order.phase(), "Ship");
        let later = shop.after(Some(earlier));
        let order = later.find::<after::Order>("order").unwrap();
        order.send(Word::Go).unwrap();
        later.quiet().await;
        let ships = r#"Order { cents: 8, coupon: "SPRING", items: ["a", "b"] } books"#;
        assert_eq!(shop.log.take(), [ships]);
        assert!(later.operations().foms.is_empty());
    });
}

/// A failed operation is kept with the fields that the release does not know.
#[test]
fn a_failed_operation_is_kept_with_them() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let earlier = shop.before(Some(later));
        for _ in 0..2 {
            let order = earlier.find::<before::Order>("order").unwrap();
            order.send(Word::Fail).unwrap();
            earlier.quiet().await;
            shop.clock.advance(secs(1));
            earlier.quiet().await;
        }
        assert_eq!(
            earlier.quarantine().list_of(QuarantineKind::Failed).len(),
            1
        );
        let later = shop.after(Some(earlier));
        let id = later.quarantine().list()[0].id;
        later.quarantine().retry(id).unwrap();
        later.quiet().await;
        let pays = r#"Order { cents: 9, coupon: "SPRING", items: ["a", "b"] } pays SEK by 1234!!"#;
        assert_eq!(shop.log.take(), [pays]);
    });
}

/// A record in the phase has the numbers of the later release, and so has its path.
#[test]
fn the_path_is_that_of_the_record() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let mut earlier = shop.before(Some(later));
        for _ in 0..2 {
            let order = earlier.find::<before::Order>("order").unwrap();
            order.send(Word::Fail).unwrap();
            earlier.quiet().await;
            shop.clock.advance(secs(1));
            earlier = shop.before(Some(earlier));
            earlier.quiet().await;
        }
        let failed = earlier.quarantine().list_of(QuarantineKind::Failed);
        assert_eq!(failed[0].failure.as_ref().unwrap().path, ["Open"]);
    });
}

/// A phase that the release does not have: the fom waits in quarantine, and goes on in the later release.
#[test]
fn a_phase_waits_for_the_release_that_knows_it() {
    limited(|| async {
        let mut shop = Shop::new();
        let later = shop.pays().await;
        let order = later.find::<after::Order>("order").unwrap();
        order.send(Word::Fail).unwrap();
        later.quiet().await;
        assert_eq!(order.phase(), "Pack");
        let earlier = shop.before(Some(later));
        let unreadable = earlier.quarantine().list_of(QuarantineKind::Unreadable);
        assert_eq!(unreadable.len(), 1);
        let later = shop.after(Some(earlier));
        assert!(later.quarantine().list().is_empty());
        let order = later.find::<after::Order>("order").unwrap();
        assert_eq!(order.phase(), "Pack");
        order.send(Word::Go).unwrap();
        order.send(Word::Go).unwrap();
        later.quiet().await;
        let ships = r#"Order { cents: 7, coupon: "SPRING", items: ["a", "b"] } box"#;
        assert_eq!(shop.log.take(), [ships]);
    });
}
