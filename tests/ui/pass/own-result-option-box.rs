//! A scope in which the usual names mean something else.
#![allow(dead_code)]

struct Result;
struct Option;
struct Box;
struct Vec;
struct String;
struct Ok;
struct Err;
struct Some;
struct None;
struct Future;
struct Send;
struct Sized;
struct Copy;
struct Codec;
struct Operation;
struct Persistent;
struct Graph;
struct Cx;
struct Entry;
struct Next;
struct Fields;
mod core {}
mod std {}
mod fom_runtime {}

#[derive(::serde::Serialize, ::serde::Deserialize)]
struct Call;

#[derive(Debug)]
struct Error;

enum Signal {
    Ack,
    Bye,
}

#[::fom_runtime::fom(operation(Call), error(Error), event(Signal))]
enum Route {
    #[phase(start, to(Ring, Rejected), within = "2s", late)]
    Locate,
    #[phase(to(Rejected, Wait), blocking, retry = "3, 50ms..2s")]
    Ring { endpoint: u32 },
    #[phase(to(Rejected), sync, on(Ack, Bye))]
    Wait,
    #[phase(end, failure)]
    Rejected,
}

type Exit<T> = ::core::result::Result<T, Error>;

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut ::fom_runtime::Cx<'_, Signal>) -> Exit<RouteAfterLocate> {
        Exit::Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    async fn locate_late(
        &mut self,
        _: &mut ::fom_runtime::Cx<'_, Signal>,
    ) -> Exit<RouteAfterLocate> {
        Exit::Ok(RouteAfterLocate::Rejected)
    }
    fn ring(&mut self, _: &mut ::fom_runtime::BlockingCx<'_>, _: &mut u32) -> Exit<RouteAfterRing> {
        Exit::Ok(RouteAfterRing::Rejected)
    }
    fn wait(
        &mut self,
        _: &mut ::fom_runtime::Cx<'_, Signal>,
        event: Signal,
    ) -> Exit<RouteAfterWait> {
        Exit::Ok(match event {
            Signal::Ack => RouteAfterWait::Stay,
            Signal::Bye => RouteAfterWait::Rejected,
        })
    }
}

fn main() {}
