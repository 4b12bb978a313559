use fom_durable::{journal::MemoryJournal, prelude::*, Address};
use serde::{Deserialize, Serialize};
#[derive(Serialize, Deserialize)]
struct Order;
#[derive(Serialize, Deserialize)]
enum News { Paid, Declined }
#[fom(operation(Order), event(News))]
#[derive(Debug)]
enum Sale {
    #[phase(start, to(Wait))]
    Charge,
    #[phase(sync, on(Paid, Declined), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}
impl SaleTransitions for Order {
    async fn charge(&mut self, _: &mut Cx<'_, News>) -> Result<(), BoxError> { Ok(()) }
    fn wait(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<SaleAfterWait, BoxError> { Ok(SaleAfterWait::Done) }
}
#[tokio::main]
async fn main() -> Result<(), BoxError> {
    for by_id in [false, true] {
        let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
        let order = runtime.submit(Order).key("order 7").queue().start()?;
        order.reached([SaleKind::Wait]).await;
        let to: Address = if by_id { order.id().into() } else { "order 7".into() };
        println!("{:?}", runtime.send_durably::<Order>(to, News::Paid, "webhook 31").await);
        println!("{:?}", tokio::time::timeout(std::time::Duration::from_secs(2), order).await.map(|r| r.map(|e| format!("{:?}", e.phase))));
    }
    Ok(())
}
