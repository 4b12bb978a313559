//! The data of operations, which clients with a token see.

use fom_durable::DurableBuilderExt as _;
use fom_inspect::{Inspector, StartError};
use fom_runtime::{prelude::*, time::TestClock};
use serde_json::json;

use crate::kit::{Served, TOKEN, limited, one};

#[derive(serde::Serialize, serde::Deserialize)]
struct Payment {
    cents: u32,
    card: String,
}

#[derive(serde::Serialize, serde::Deserialize)]
enum Word {
    Confirmed,
}

#[fom(operation(Payment), event(Word), secret(card, pin))]
enum Paying {
    #[phase(start, sync, to(Confirm))]
    Begin,
    #[phase(sync, on(Confirmed), to(Paid))]
    Confirm { pin: String, left: u8 },
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Payment {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<PayingAfterBegin, BoxError> {
        let pin = "hush".to_owned();
        Ok(PayingAfterBegin::Confirm { pin, left: 3 })
    }

    fn confirm(
        &mut self,
        _: &mut Cx<'_, Word>,
        _: PayingInConfirm<'_>,
        _: Word,
    ) -> Result<PayingAfterConfirm, BoxError> {
        Ok(PayingAfterConfirm::Paid)
    }
}

#[test]
fn a_client_with_the_token_sees_the_data_of_the_last_commit_without_its_secrets() {
    limited(|| {
        let directory = tempfile::tempdir().unwrap();
        let clock = TestClock::new();
        let runtime = one(&clock).journal(directory.path()).build().unwrap();
        let journal = directory.path().to_owned();
        let served = Served::with(runtime, |inspector| inspector.token(TOKEN).data(journal));
        let card = "hush".to_owned();
        let payment = served.runtime.submit(Payment { cents: 12, card });
        let handle = payment.key("payment").start().unwrap();
        served.quiet();

        let path = format!("/api/v1/foms/{}/data", handle.id().get());
        served.get(&path).is(403, "token");
        served.get("/api/v1/summary").is(403, "token");
        let read = |path: &str| {
            let token = format!("Authorization: Bearer {TOKEN}\r\n");
            served.request(&format!("GET {path} HTTP/1.1"), &token, "")
        };
        assert_eq!(read("/api/v1/session").json()["data"], true);
        assert_eq!(read("/api/v1/summary").json()["data"], true);
        let data = read(&path).json();
        assert_eq!(data["phase"], "Confirm");
        assert_eq!(data["fields"], json!({"pin": "(secret)", "left": 3}));
        assert_eq!(data["values"], json!({"cents": 12, "card": "(secret)"}));

        handle.send(Word::Confirmed).unwrap();
        handle.wait().unwrap();
        read(&path).is(404, "not_found");
        read("/api/v1/foms/0/data").is(404, "not_found");
        read("/api/v1/foms/x/data").is(404, "not_found");
    });
}

#[test]
fn without_the_setting_there_is_no_data() {
    limited(|| {
        let served = Served::new(one(&TestClock::new()).build().unwrap());
        let task = served.start("hear", "a");
        let path = format!("/api/v1/foms/{}/data", task.id().get());
        served.get(&path).is(403, "data_off");
        assert_eq!(served.get("/api/v1/session").json()["data"], false);
    });
}

#[test]
fn data_without_a_token_is_refused_at_the_start() {
    let runtime = one(&TestClock::new()).build().unwrap();
    let error = Inspector::new(&runtime)
        .data("journal")
        .start()
        .unwrap_err();
    assert!(matches!(error, StartError::DataNeedsToken), "{error}");
}
