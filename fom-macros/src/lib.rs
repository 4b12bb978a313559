//! The `#[fom]` and `#[active]` attributes. Users take it from `fom-runtime`, which re-exports it.
#![forbid(unsafe_code)]

mod active;
mod check;
mod diag;
mod expand;
mod fallback;
mod lower;
mod model;
mod paths;
mod syntax;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Declares the state machine of an operation: its phases, and the only ways between them.
///
/// The attribute stands on an enum. Each variant is a *phase*; its named fields are the data that the phase has for as
/// long as it lasts. What must outlive a phase is kept in the *operation*, a type of the user's own.
///
/// ```
/// use fom_runtime::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// /// What the operation keeps from phase to phase.
/// #[derive(Serialize, Deserialize)]
/// struct Fetch {
///     url: String,
/// }
///
/// #[fom(operation(Fetch))]
/// enum Fetching {
///     /// Ask the server.
///     #[phase(start, to(Store, Refused), within = "2s", late)]
///     Ask,
///     /// Write what it said to the disk.
///     #[phase(to(Stored), blocking)]
///     Store { body: String },
///     #[phase(end)]
///     Stored,
///     #[phase(end, failure)]
///     Refused { status: u16 },
/// }
///
/// impl FetchingTransitions for Fetch {
///     async fn ask(&mut self, _: &mut Cx<'_>) -> Result<FetchingAfterAsk, BoxError> {
///         Ok(match self.url.strip_prefix("https://") {
///             Some(rest) => FetchingAfterAsk::Store { body: rest.to_owned() },
///             None => FetchingAfterAsk::Refused { status: 400 },
///         })
///     }
///
///     async fn ask_late(&mut self, _: &mut Cx<'_>) -> Result<FetchingAfterAsk, BoxError> {
///         Ok(FetchingAfterAsk::Refused { status: 408 })
///     }
///
///     fn store(&mut self, _: &mut BlockingCx<'_>, body: &mut String) -> Result<(), BoxError> {
///         std::fs::write(std::env::temp_dir().join("fetched"), body)?;
///         Ok(())
///     }
/// }
///
/// assert_eq!(Fetch::GRAPH.phases().len(), 4);
/// ```
///
/// # What is generated
///
/// Beside the enum, with names that begin with the enum's:
///
/// | item | what it is |
/// | --- | --- |
/// | `FetchingTransitions` | the trait with one function for each phase that is no end; the user implements it for the operation |
/// | `FetchingAfterAsk` | where phase `Ask` may go, with the data of the next phase; a way that is not declared is a variant that does not exist |
/// | `FetchingKind` | the phases without their data |
/// | `impl Operation for Fetch` | the graph as a constant, and the run loop's way in |
/// | `impl Persistent for Fetch` | how it is saved and restored; not with `transient` |
///
/// The function of a phase is called like the phase, in snake case (`HttpGet` gives `http_get`, `Match` gives `r#match`). It
/// gets the context, then `&mut` to each of the phase's fields, in order. It returns `Result<_, E>` of
///
/// - `()`, where there is one exit without data (a `sync` phase with `on(..)` always has a second one, `Stay`);
/// - the phase's own exit enum otherwise.
///
/// | phase | function |
/// | --- | --- |
/// | as it is | `async fn ring(&mut self, cx: &mut Cx<'_, Event>, ..)` |
/// | `sync` | `fn ring(&mut self, cx: &mut Cx<'_, Event>, ..)` |
/// | `sync, on(..)` | `fn ring(&mut self, cx: &mut Cx<'_, Event>, .., event: Event)`; its exits have `Stay`, too |
/// | `blocking` | `fn ring(&mut self, cx: &mut BlockingCx<'_>, ..)` |
/// | `late` | besides, `ring_late`: the same without the event; of a `blocking` phase a plain `fn` with `&mut Cx<'_, Event>` |
/// | `exhausted` | besides, `ring_exhausted`: as for `late` |
/// | `locks` | besides, `fn ring_locks(&self, cx: &Cx<'_, Event>, ..) -> LockSet`, with `&` to each field |
/// | `failed(..)` | besides, `ring_failed`: as for `late`, with the [`Cause`](../fom_runtime/enum.Cause.html) as its last argument |
///
/// The trait has one more function, with a body: `resume(&mut self, cx, phase)`. It runs once when an operation was restored,
/// before the function of its phase, and is the place to open again what cannot be saved.
///
/// Doc comments of the enum and its phases go where an editor shows them: to the functions, into the graph, and the enum's own
/// page gets a table and a drawing of the machine.
///
/// # Keys of the machine: `#[fom(..)]`
///
/// ### `operation(Type)`
///
/// Required. The type that the machine is for; one machine each. A type with parameters may stand in quotes:
/// `operation("Job<S>")`.
///
/// What stands here is the operation's name in what is saved of it. `operation(Type, was = "Old")` says the name that it had in an
/// earlier release; see [`was`](#was--name).
///
/// ### `generics("S: Bound")`
///
/// Parameters that the operation has and the enum has not. Those of the enum are added to them.
///
/// ```
/// # use fom_runtime::prelude::*;
/// trait Store: Send + 'static {}
///
/// struct Job<S> {
///     store: S,
/// }
///
/// #[fom(operation("Job<S>"), generics("S: Store"), transient)]
/// enum Working {
///     #[phase(start, to(Done))]
///     Work,
///     #[phase(end)]
///     Done,
/// }
///
/// impl<S: Store> WorkingTransitions for Job<S> {
///     async fn work(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         let _ = &self.store;
///         Ok(())
///     }
/// }
/// ```
///
/// ### `around(Type)`
///
/// The machine is a *layer*: its phases stand before and after those of another operation, which its own operation holds in a field, and
/// of whose phases it knows nothing. One phase is marked [`inner`](#innerfield), and in its place stand the phases of that operation:
/// the two are one machine with one graph, and run as one fom. Most layers are for any operation:
///
/// ```
/// # use fom_runtime::{Layered, prelude::*};
/// /// What every request goes through.
/// struct Guarded<R> {
///     token: String,
///     request: R,
/// }
///
/// #[fom(operation(Guarded<R>), around(R), transient)]
/// enum Standard<R: Operation> {
///     #[phase(start, to(Serve, Denied))]
///     Authenticate,
///     /// The phases of the request itself.
///     #[phase(inner(request), to(Account), failed(Account))]
///     Serve { phase: R::Phase },
///     #[phase(to(Done))]
///     Account,
///     #[phase(end)]
///     Done,
///     #[phase(end, failure)]
///     Denied,
/// }
///
/// impl<R: Operation> StandardTransitions<R> for Guarded<R> {
///     async fn authenticate(
///         &mut self,
///         _: &mut Cx<'_, R::Event>,
///     ) -> Result<StandardAfterAuthenticate, BoxError> {
///         Ok(match self.token.as_str() {
///             "" => StandardAfterAuthenticate::Denied,
///             _ => StandardAfterAuthenticate::Serve,
///         })
///     }
///
///     /// Runs where the request has ended; `phase` is its end.
///     async fn serve(&mut self, _: &mut Cx<'_, R::Event>, phase: &mut R::Phase) -> Result<(), BoxError> {
///         let _ = phase;
///         Ok(())
///     }
///
///     /// Runs where the request has failed.
///     async fn serve_failed(
///         &mut self,
///         _: &mut Cx<'_, R::Event>,
///         phase: &mut R::Phase,
///         cause: Cause<Layered<BoxError, R::Error>>,
///     ) -> Result<(), BoxError> {
///         println!("{} in {:?}", cause.name(), R::kind(phase));
///         Ok(())
///     }
///
///     async fn account(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
///         Ok(())
///     }
/// }
/// ```
///
/// The fom takes the events of the operation inside. Its errors are [`Layered`](../fom_runtime/enum.Layered.html): the layer's own,
/// or those of the operation inside. In the graph, in records and in listings the phases inside are called `Serve.Look`: the name
/// of the `inner` phase, a dot, and their own. A layer is an operation like any other, and may stand inside another layer.
///
/// ### `error(Type)`
///
/// What the functions may fail with. Without it, `BoxError`: anything that `?` can turn into a box. An error ends the
/// operation in the standard failed outcome, with the phase it happened in.
///
/// ### `event(Type)`
///
/// The enum of what may be sent to the operation. Each event has to be taken by some phase ([`on`](#onevent-other)); one that
/// no phase takes is an error at this key, which rustc words as a pattern that is not covered.
///
/// ### `transient`
///
/// The operation cannot be saved. Without this key the operation and all phase data are saved with serde: derive
/// `Serialize` and `Deserialize` for them.
///
/// ### `durability = "sync"`
///
/// When a transition counts as done, where there is a journal. `"sync"`, which is meant without this key: when it is on disk.
/// `"lazy"`: at once, and it is on disk soon after; at a crash what was committed in the last 50 ms can be lost. `"none"`: it is
/// never written.
///
/// ### `version = 2`
///
/// The version of what is saved, counted from 1, which is meant without this key. It is raised when what an earlier release saved
/// cannot be read by names and defaults alone, together with a migration. Many changes need none: a new phase, a phase with
/// another name (`was`), a new field with a default, another order.
///
/// ### `migrate(v1(path), v2(path))`
///
/// For each earlier version that may still be saved, from the oldest on, the function that turns what it saved into what the next one
/// would have: `fn(&mut Saved) -> Result<(), BoxError>`. The chain has no gap and ends at this version. What was saved by an
/// older version than the first, by a newer one than this, or cannot be migrated, is refused and stays as it is.
///
/// ```
/// # use fom_runtime::{Saved, prelude::*};
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize)]
/// struct Call {
///     callee: String,
/// }
///
/// #[fom(operation(Call), version = 2, migrate(v1(with_millis)), retired("Queued"))]
/// enum Route {
///     #[phase(start, to(Ring, Over))]
///     Locate,
///     #[phase(to(Over), was = "Alert")]
///     Ring {
///         millis: u64,
///         #[phase(default)]
///         loud: bool,
///     },
///     #[phase(end)]
///     Over,
/// }
///
/// /// Version 1 counted seconds, and had a phase in which calls were queued.
/// fn with_millis(saved: &mut Saved) -> Result<(), BoxError> {
///     match saved.phase() {
///         "Alert" => {
///             let seconds: u64 = saved.take("seconds")?;
///             saved.put("millis", &(seconds * 1_000))?;
///         }
///         "Queued" => saved.set_phase("Locate"),
///         _ => {}
///     }
///     Ok(())
/// }
/// # impl RouteTransitions for Call {
/// #     async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
/// #         Ok(RouteAfterLocate::Ring { millis: 1, loud: true })
/// #     }
/// #     async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u64, _: &mut bool) -> Result<(), BoxError> { Ok(()) }
/// # }
/// ```
///
/// ### `was = "Name"`
///
/// The name that the enum had in an earlier release, and in `operation(Type, was = "Old")` that of the operation's type: what was saved
/// under it is read as this one's. Each may be written for every name that there ever was. A runtime with a journal is not built
/// while another type that is linked has one of these names, or had it.
///
/// ```
/// # use fom_runtime::prelude::*;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize)]
/// struct Call;
///
/// #[fom(operation(Call, was = "RouteCall"), was = "Routing")]
/// enum Route {
///     #[phase(start, to(Over))]
///     Locate,
///     #[phase(end)]
///     Over,
/// }
/// # impl RouteTransitions for Call {
/// #     async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
/// # }
/// ```
///
/// ### `retired("Name", "Other")`
///
/// Phases that are gone. No phase can have such a name again, for what is still saved in the old one would be taken for it; and
/// what is saved in one is refused with that reason, unless a migration leads it elsewhere.
///
/// ### `crate = "::path"`
///
/// Where the library is, if it has another name: `crate = "::renamed"`. The path begins with `::` or `crate::`.
///
/// # Keys of a phase: `#[phase(..)]`
///
/// ### `start`
///
/// Where a new operation begins; exactly one phase has it. It has no data: nothing comes before it that could give them.
///
/// ### `end`
///
/// The operation is over; the phase with its data is the outcome. It has no function, and no key goes with it but `failure`.
///
/// ### `failure`
///
/// With `end`: this end is a bad one. Pictures and counts tell it apart; the outcome is a value like any other.
///
/// ### `inner(field)`
///
/// With [`around`](#aroundtype), on one phase: here stand the phases of the operation that is in this field of the layer's operation.
/// The phase has one field, the phase of that operation (`Serve { phase: R::Phase }`). Who goes here goes to the start of the operation inside.
/// With `to(..)` the ends of the operation inside are no ends of the machine: the phase's function runs in them, has the end as its
/// argument, and decides where to go. Without `to(..)` it has no function, and they are ends of the machine.
///
/// ### `to(Phase, Other)`
///
/// Where the phase may go. For every phase that is no end. A phase may name itself.
///
/// ### `within = "2s"`
///
/// The most time the phase may take, from entering to leaving it. Numbers with `ns`, `us`, `ms`, `s`, `m`, `h`, `d`, one
/// after the other: `"1m30s"`. What happens then: see `late`.
///
/// ### `within = "adaptive, 50ms..30s"`
///
/// The same, but the time follows what earlier visits of this phase took in the same locality, and how many are under way. It
/// is never below the first nor above the second of the two times, the floor and the ceiling; `within = "adaptive"` is
/// short for `"adaptive, 250ms..30s"`. Until 32 visits were answered it is the ceiling. It stands over one phase, so `keep`
/// does not go with it. How it is estimated: see the book, "Adaptive time-outs".
///
/// ### `exhausted`
///
/// With `retry`: when the last attempt has failed, the phase's `_exhausted` function says where to go, instead of failing the
/// operation. What the attempts said is in `cx.causes()`. It belongs to the same visit; a phase that leads back to this one begins a
/// new one, with a new `step_key`.
///
/// ### `late`
///
/// With `within` (or in a phase that some `keep` names): when the time is over, the phase's function is dropped and its `_late` function
/// decides where to go. Without it a missed deadline ends the operation. The function itself has no deadline, and an error of it
/// ends the operation, also when attempts are left.
///
/// A plain function is never dropped in the middle: what a `sync` or `blocking` one returns after its deadline counts.
///
/// ### `failed(Phase, Other)`
///
/// Where the phase may go when it has failed: with an error (its attempts used up), with a panic, or because a deadline was missed that
/// no `late` function answers. Then the phase's `_failed` function runs, with the cause as its last argument, and says which of these; its
/// exits are an enum of its own, `FetchingAfterAskFailed` (or `()`, for one without data). Without this key a failure ends the operation
/// in the standard failed outcome, and so do a cancel and a shutdown always.
///
/// The function belongs to the same visit and has no deadline. If it fails as well, that ends the operation, and what the first failure
/// said is in `Failure::attempts`.
///
/// ```
/// # use fom_runtime::prelude::*;
/// # struct Fetch;
/// #[fom(operation(Fetch), transient)]
/// enum Fetching {
///     #[phase(start, to(Done), failed(Refused), within = "2s")]
///     Ask,
///     #[phase(end)]
///     Done,
///     #[phase(end, failure)]
///     Refused { why: String },
/// }
///
/// impl FetchingTransitions for Fetch {
///     async fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         Err("no route".into())
///     }
///
///     async fn ask_failed(
///         &mut self,
///         _: &mut Cx<'_>,
///         cause: Cause<BoxError>,
///     ) -> Result<FetchingAfterAskFailed, BoxError> {
///         Ok(FetchingAfterAskFailed::Refused { why: cause.to_string() })
///     }
/// }
/// ```
///
/// On the [`inner`](#innerfield) phase of a layer it is where failures inside go that what is inside has no way for, and the cause says
/// whose error it was (`Cause<Layered<E, R::Error>>`).
///
/// ### `keep(Phase, Other)`
///
/// With `within`, unless that is adaptive: the deadline that is set on entering this phase goes on while the operation is in one of these. So one time
/// can stand over several phases.
///
/// ### `sync`
///
/// The function is a plain `fn` that returns at once. The cheapest kind; a machine of `sync` and `blocking` phases only is
/// stored without any future.
///
/// ### `blocking`
///
/// The function is a plain `fn` that may wait for a disk, a lock or a slow call: another thread takes the locality over
/// meanwhile. Of the context only what is safe beside the locality is there. It takes no events.
///
/// ### `on(Event, Other)`
///
/// The events that the phase takes; others are kept for a later phase, in order. An async phase asks for them with
/// `cx.event().await`. A `sync` phase *is* the wait: its function runs when one comes, with it as the last argument, and returns
/// `Stay` to wait for the next one in the same visit.
///
/// ```
/// # use fom_runtime::prelude::*;
/// struct Call;
///
/// enum Signal {
///     Ack,
///     Bye,
/// }
///
/// #[fom(operation(Call), event(Signal), transient)]
/// enum Talking {
///     #[phase(start, sync, on(Ack, Bye), to(Over), within = "1h", late)]
///     Talk,
///     #[phase(end)]
///     Over,
/// }
///
/// impl TalkingTransitions for Call {
///     fn talk(&mut self, _: &mut Cx<'_, Signal>, event: Signal) -> Result<TalkingAfterTalk, BoxError> {
///         Ok(match event {
///             Signal::Ack => TalkingAfterTalk::Stay,
///             Signal::Bye => TalkingAfterTalk::Over,
///         })
///     }
///
///     fn talk_late(&mut self, _: &mut Cx<'_, Signal>) -> Result<TalkingAfterTalk, BoxError> {
///         Ok(TalkingAfterTalk::Over)
///     }
/// }
/// ```
///
/// ### `retry = "3, 50ms..2s"`
///
/// After an error the phase is tried again, here up to 3 more times, at first after 50 ms, then after twice as long each time, 2 s at most.
/// `cx.attempt()` counts.
///
/// ### `locks`
///
/// The phase holds [long locks](../fom_runtime/struct.LongLock.html): its `_locks` function says which, and the phase's own function
/// runs when all of them are granted. The time that this takes counts for `within`; when that is over before, the `_late` function runs
/// without them. They are kept over errors and their retries, `Stay`, waits and commits. If the next phase has `locks`, too, those
/// that it names stay held without a gap, and the others are given back; what it names besides must come after those in the order of
/// [`LockSet`](../fom_runtime/struct.LockSet.html), or the operation fails. Without `locks` in the next phase, and at the end in whatever
/// way, all are given back. What is restored takes them again before its function runs, and after `resume`; with a journal nobody gets in
/// between, if it held them when the runtime ended.
///
/// ### `was = "Name"`, of a phase
///
/// The name that the phase had in an earlier release: what was saved in it goes on here. It may be written for each name that
/// the phase ever had. No phase can have such a name again.
///
/// ### `default`, on a field
///
/// `#[phase(default)]` above a field of a phase: where an earlier release saved the phase without it, it is
/// `Default::default()`. In the operation itself `#[serde(default)]` does that.
///
/// # What is checked
///
/// All mistakes of a declaration are reported in one compile, each at the smallest wrong token and with its cure: names that
/// are no phases, a phase that no way leads to, one from which no end can be reached, none or two starts, keys that do not go
/// together, durations that are none, functions that would have one name, a chain of
/// migrations with a gap, names of earlier releases that would mean two things. What rustc says well by itself is left to it: a function that
/// is missing, misspelt or of another type, a way that is not declared, data that cannot be sent or saved.
///
/// # Attributes
///
/// `#[cfg(..)]` may stand on a phase, and is carried over to all that is generated for it. Other attributes stay on the enum.
/// Phases and fields may have raw names (`r#type`); in records and pictures they stand without `r#`.
#[proc_macro_attribute]
pub fn fom(args: TokenStream, item: TokenStream) -> TokenStream {
    fallback::run(args.into(), item.into()).into()
}

/// Makes active objects of a type: the attribute stands on an `impl` block, and generates a proxy with the same methods.
///
/// ```
/// use fom_runtime::prelude::*;
///
/// #[derive(Default)]
/// struct Account {
///     cents: u64,
///     frozen: bool,
/// }
///
/// #[active]
/// impl Account {
///     /// Puts money in.
///     pub fn deposit(&mut self, cents: u64) -> u64 {
///         self.cents += cents;
///         self.cents
///     }
///
///     /// Waits its turn until there is enough.
///     #[when(self.frozen || self.cents >= cents)]
///     pub fn withdraw(&mut self, cents: u64) -> Result<u64, &'static str> {
///         if self.frozen {
///             return Err("frozen");
///         }
///         self.cents -= cents;
///         Ok(self.cents)
///     }
///
///     #[active(priority = "high")]
///     pub fn freeze(&mut self) {
///         self.frozen = true;
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// # let runtime = Runtime::builder().localities(1).build()?;
/// let account: AccountProxy = Account::default().activate(&runtime)?;
/// let balance = account.deposit(500).wait()?;
/// assert_eq!(account.withdraw(200).wait()?, Ok(balance - 200));
/// # Ok(())
/// # }
/// ```
///
/// # What is generated
///
/// Beside the `impl`, which stays as it is, a struct that is called like the type with `Proxy` behind it. It has each method that
/// is not private and takes `&self` or `&mut self`, with its docs, its arguments and its visibility; it returns a
/// `fom_runtime::active::Call` of what the method returns. The proxy can be cloned and sent, and derefs to
/// `fom_runtime::active::Proxy`. The type gets `Active`, which has `activate`.
///
/// Of a type with parameters, the proxy has the same parameters. Methods may have parameters of their own; in the proxy these are
/// `Send + 'static`, as all arguments and answers have to be.
///
/// An `async fn` runs without a thread while it waits, and nothing else runs in the object until it is done.
///
/// # Keys
///
/// ## `#[when(condition)]`, on a method
///
/// The guard: the method is called only when this is true, and its request waits in the list until then. It is looked at when the
/// request comes to its turn, and again after each request that ran. The condition sees `&self` and the arguments, which it can
/// look at, but not move. A guard that panics fails its request, and nothing else.
///
/// ## `#[active(priority = "high")]`, on a method
///
/// `"high"`, `"normal"` (without this key) or `"low"`. Requests of a higher priority go first, those of one priority in their order.
/// There is no aging: while there are high ones, low ones wait.
///
/// ## `crate = "::path"`, on the `impl`
///
/// Where the library is, if it has another name: `#[active(crate = "::renamed")]`.
#[proc_macro_attribute]
pub fn active(args: TokenStream, item: TokenStream) -> TokenStream {
    active::run(args.into(), item.into()).into()
}
