//! Fields that no command shows.

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::program::{errors, fom, lines, out};

#[derive(Serialize, Deserialize)]
struct Payment {
    amount: u32,
    /// Saved under another name.
    #[serde(rename = "cardCheck")]
    check: String,
    card: Card,
}

#[derive(Serialize, Deserialize)]
struct Card {
    /// Inside of another value, too.
    pin: String,
    bank: String,
}

#[derive(Serialize, Deserialize)]
enum Word {
    Confirmed { pin: String },
}

#[fom(operation(Payment), event(Word), secret(pin, code, "cardCheck"))]
enum Paying {
    #[phase(start, sync, to(Confirm))]
    Begin,
    #[phase(sync, on(Confirmed), to(Paid))]
    Confirm { code: String, pin: String, left: u8 },
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Payment {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<PayingAfterBegin, BoxError> {
        let pin = self.card.pin.clone();
        let code = pin.clone();
        Ok(PayingAfterBegin::Confirm { code, pin, left: 3 })
    }

    fn confirm(
        &mut self,
        _: &mut Cx<'_, Word>,
        data: PayingInConfirm<'_>,
        word: Word,
    ) -> Result<PayingAfterConfirm, BoxError> {
        let PayingInConfirm { code, pin, left } = data;
        let Word::Confirmed { pin: given } = word;
        match *pin == given && *left > 0 && !code.is_empty() {
            true => Ok(PayingAfterConfirm::Paid),
            false => Err("it is another pin".into()),
        }
    }
}

#[test]
fn a_secret_field_is_in_the_journal_and_in_no_output() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder()
        .localities(1)
        .journal(directory.path())
        .build()
        .unwrap();
    let card = Card {
        pin: "hush-hush".to_owned(),
        bank: "the bank".to_owned(),
    };
    let check = "hush".to_owned();
    let payment = Payment {
        amount: 12,
        check,
        card,
    };
    let handle = runtime.submit(payment).key("payment").start();
    drop(handle.unwrap());
    fom_runtime::extension::block_on(runtime.quiet());
    drop(runtime);

    let shown = fom("show", directory.path(), &["payment", "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
    let [payment] = &lines(&shown)[..] else {
        panic!("there is one")
    };
    let card = json!({ "pin": "(secret)", "bank": "the bank" });
    assert_eq!(
        payment["values"],
        json!({ "amount": 12, "cardCheck": "(secret)", "card": card })
    );
    assert_eq!(
        payment["fields"],
        json!({ "code": "(secret)", "pin": "(secret)", "left": 3 })
    );
    for command in ["list", "show", "dump", "stats"] {
        let more: &[&str] = if command == "show" { &["payment"] } else { &[] };
        let output = fom(command, directory.path(), more);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert!(!out(&output).contains("hush"), "{}", out(&output));
    }
}
