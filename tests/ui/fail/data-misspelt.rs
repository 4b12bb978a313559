//! A function names a value that the phase does not have.
use fom_runtime::prelude::*;

struct Transfer;

#[fom(operation(Transfer), transient)]
enum Paying {
    #[phase(start, sync, to(Pay))]
    Begin,
    #[phase(sync, to(Paid))]
    Pay { from: u64, to: u64 },
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Transfer {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<PayingAfterBegin, BoxError> {
        Ok(PayingAfterBegin::Pay { from: 1, to: 2 })
    }
    fn pay(
        &mut self,
        _: &mut Cx<'_>,
        PayingInPay { from, too }: PayingInPay<'_>,
    ) -> Result<(), BoxError> {
        println!("{from} pays {too}");
        Ok(())
    }
}

fn main() {}
