//! Twenty foms with five transitions each, on a disk: the program for `FOM_SIM_SEEDS=100000`.

use std::time::Duration;

use fom_durable::prelude::*;
use fom_sim as sim;
use serde::{Deserialize, Serialize};

sim::interpose!();

#[derive(Serialize, Deserialize)]
struct Parcel {
    stops: u32,
}

#[fom(operation(Parcel))]
enum Delivery {
    #[phase(start, sync, to(Travel))]
    Pick,
    #[phase(to(Stop, Arrived))]
    Travel,
    #[phase(sync, to(Travel))]
    Stop,
    #[phase(end)]
    Arrived,
}

impl DeliveryTransitions for Parcel {
    fn pick(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn travel(&mut self, cx: &mut Cx<'_>) -> Result<DeliveryAfterTravel, BoxError> {
        cx.sleep(Duration::from_secs(3600)).await;
        Ok(match self.stops {
            0 => DeliveryAfterTravel::Arrived,
            _ => DeliveryAfterTravel::Stop,
        })
    }

    fn stop(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.stops -= 1;
        Ok(())
    }
}

#[test]
fn all_parcels_arrive() {
    sim::explore(0..100, |sim| {
        let disk = sim.disk();
        let post = sim.node("post", move || {
            let builder = Runtime::builder().localities(2);
            builder.journal_with(disk.journal())
        });
        let runtime = post.runtime();
        for number in 0..20 {
            let parcel = runtime.submit(Parcel { stops: 1 }).key(number % 7).queue();
            parcel.detach().unwrap();
        }
        sim.settle(Duration::from_secs(86_400));
        let parcels = &runtime.operations().types[0];
        assert_eq!((parcels.started, parcels.ended), (20, 20));
    });
}
