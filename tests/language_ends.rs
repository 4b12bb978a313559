//! The ends of a machine: what a handle resolves to.

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Parcel {
    weight: u32,
}

#[fom(operation(Parcel))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sending {
    #[phase(start, sync, to(Weigh, Refused, Never))]
    Take,
    #[phase(sync, to(Sent))]
    Weigh { grams: u32 },
    /// It is on its way.
    #[phase(end)]
    Sent {
        #[serde(rename = "cents")]
        price: u32,
    },
    #[phase(end, failure)]
    #[serde(rename = "too heavy")]
    Refused,
    #[cfg(any())]
    #[phase(end)]
    Never { data: Absent },
}

impl SendingTransitions for Parcel {
    fn take(&mut self, _: &mut Cx<'_>) -> Result<SendingAfterTake, BoxError> {
        Ok(match self.weight {
            grams @ ..10_000 => SendingAfterTake::Weigh { grams },
            _ => SendingAfterTake::Refused,
        })
    }

    fn weigh(&mut self, _: &mut Cx<'_>, grams: &mut u32) -> Result<SendingAfterWeigh, BoxError> {
        Ok(SendingAfterWeigh::Sent { price: *grams / 2 })
    }
}

/// A match over the ends is complete without an arm for other phases. The ends have the derives of the phases, the
/// attributes of serde and the `cfg` of each variant.
#[test]
fn a_handle_resolves_to_an_end() {
    let runtime = Runtime::builder().localities(1).build().unwrap();
    let sent = |weight| runtime.submit(Parcel { weight }).start().unwrap().wait();
    let price = |end| match end {
        SendingEnd::Sent { price } => Some(price),
        SendingEnd::Refused => None,
    };
    let light = sent(500).unwrap();
    assert_eq!(light.kind(), SendingKind::Sent);
    assert_eq!(light.end.clone(), SendingEnd::Sent { price: 250 });
    assert_eq!(format!("{light:?}"), "Ended { end: Sent, .. }");
    assert_eq!(
        serde_json::to_string(&light.end).unwrap(),
        r#"{"sent":{"cents":250}}"#
    );
    assert_eq!(price(light.end), Some(250));
    let heavy = sent(10_000).unwrap();
    assert_eq!(
        serde_json::from_str::<SendingEnd>(r#""too heavy""#).unwrap(),
        heavy.end
    );
    assert_eq!(price(heavy.end), None);
}

/// A phase that is no end has no end.
#[test]
fn only_an_end_phase_has_an_end() {
    assert_eq!(Parcel::end(Sending::Take), None);
    let refused = Parcel::end(Sending::Refused);
    assert_eq!(refused, Some(SendingEnd::Refused));
}
