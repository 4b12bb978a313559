//! The `#[fom]` and `#[active]` attributes. Users import `#[fom]` from `fom-runtime` and `#[active]` from
//! `fom-patterns`, which re-export them.
//!
//! A declaration goes through the modules in one direction: `syntax` parses it, `lower` turns it into the `model`,
//! `check` finds the mistakes, and `expand` writes the code. `diag` collects all mistakes, so that one build shows them
//! all. After a mistake, `fallback` writes code that causes no further errors. `active` does the same for `#[active]`.
//! No module imports from a later one; `tests/layout.rs` of the workspace checks this.
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

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Declares the state machine of an operation: its phases, and the transitions between them.
///
/// The attribute is for an enum. Each variant is a *phase*. The named fields of a variant are data that exist as long
/// as the phase lasts. The *operation*, a type of the user, keeps what must outlive a phase.
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
/// The attribute adds these items beside the enum, with names that begin with the enum's name:
///
/// | item | what it is |
/// | --- | --- |
/// | `FetchingTransitions` | the trait with one function for each phase except the ends; the user implements it for the operation |
/// | `FetchingAfterAsk` | the exits of phase `Ask`, with the data of the next phase; an exit that is not declared has no variant |
/// | `FetchingInAsk` | the data of phase `Ask`, by name, if it has several fields |
/// | `FetchingKind` | the phases without their data |
/// | `FetchingEnd` | the ends with their data: what a caller that waits for the operation gets |
/// | `impl Operation for Fetch` | the graph as a constant, and the run loop's way in |
/// | `impl Persistent for Fetch` | how it is saved and restored; not with `transient` |
///
/// The function of a phase has the phase's name in snake case (`HttpGet` gives `http_get`, `Match` gives `r#match`).
/// Its arguments are the context, then the data of the phase: `&mut` to a single field, or, for several fields, a struct
/// with `&mut` to each, `FetchingInAsk<'_>`. A function takes it apart by name, so fields of one type cannot change
/// places. It returns `Result<_, E>` of
///
/// - `()`, if there is one exit without data (a `sync` phase with `on(..)` always has a second exit, `Stay`);
/// - the phase's own exit enum otherwise.
///
/// | phase | function |
/// | --- | --- |
/// | no key | `async fn ring(&mut self, cx: &mut Cx<'_, Event>, ..)` |
/// | `sync` | `fn ring(&mut self, cx: &mut Cx<'_, Event>, ..)` |
/// | `sync, on(..)` | `fn ring(&mut self, cx: &mut Cx<'_, Event>, .., event: Event)`; its exits also have `Stay` |
/// | `blocking` | `fn ring(&mut self, cx: &mut BlockingCx<'_>, ..)` |
/// | `take` | the same, with the data by value |
/// | `late` | also `ring_late`: the same without the event; for a `blocking` phase, a plain `fn` with `&mut Cx<'_, Event>` |
/// | `exhausted` | also `ring_exhausted`: as for `late` |
/// | `locks` | also `fn ring_locks(&self, cx: &Cx<'_, Event>, ..) -> LockSet`, with `&` to a field, or `FetchingInAskRef<'_>` |
/// | `gate` | also `fn ring_gate(&self, cx: &Cx<'_, Event>, ..) -> impl Gate`, with the data as for `locks` |
/// | `invariant` | also `fn ring_invariant(&self, ..) -> bool`, with the data as for `locks`; an end can have it, too |
/// | `failed(..)` | also `ring_failed`: as for `late`, with the [`Cause`](https://docs.rs/fom-runtime/latest/fom_runtime/enum.Cause.html) as its last argument |
///
/// The trait has one more function, with a default body: `resume(&mut self, cx, phase)`. It runs once after an
/// operation is restored, before the function of the phase. Use it to reopen what cannot be saved.
///
/// Doc comments of the enum and its phases are copied to the functions and into the graph, where an editor shows them.
/// The enum's own page also gets a table and a drawing of the machine.
///
/// # Keys of the machine: `#[fom(..)]`
///
/// ### `operation(Type)`
///
/// Required. The type that the machine is for. Each type has one machine. A type with parameters may be in quotes:
/// `operation("Job<S>")`.
///
/// This type, as written here, is the operation's name in saved data. `operation(Type, was = "Old")` gives the name of
/// an earlier release; see [`was`](#was--name).
///
/// `operation("Job<S>", name = S::NAME)`, with `transient`: the name in listings. The name is a constant, so it can
/// differ for each `S`. By default, it is the type as written.
///
/// ### `generics("S: Bound")`
///
/// Parameters that the operation has and the enum does not have. The parameters of the enum are added to these.
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
/// The machine is a *layer*. Its phases run before and after the phases of another operation, which the layer's
/// operation has in a field. The layer knows nothing of those phases. One phase of the layer is marked
/// [`inner`](#innerfield), and the phases of the inner operation take its place. Both are one machine with one graph,
/// and run as one fom. Most layers work for any operation:
///
/// ```
/// # use fom_runtime::{prelude::*, machine::Layered};
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
/// The fom takes the events of the inner operation. Its errors are [`Layered`](https://docs.rs/fom-runtime/latest/fom_runtime/machine/enum.Layered.html): an
/// error of the layer, or an error of the inner operation. Graphs, records and listings show a phase inside with a
/// name like `Serve.Look`: the name of the `inner` phase, a dot, and its own name. A layer is an operation like any
/// other, so it may be inside another layer.
///
/// ### `error(Type)`
///
/// The error type of the functions. Default: `BoxError`, to which `?` converts every error. An error ends the
/// operation in the standard failed outcome, with the phase in which the error happened.
///
/// ### `event(Type)`
///
/// The enum of the events that the operation takes. For each event, some phase must have [`on`](#onevent-other). An
/// event that no phase takes is an error at this key, which rustc words as a pattern that is not covered.
///
/// ### `transient`
///
/// The operation cannot be saved. Without this key, the operation and all phase data are saved with serde: derive
/// `Serialize` and `Deserialize` for them.
///
/// ### `durability = "sync"`
///
/// When a transition counts as done, if there is a journal:
///
/// - `"sync"`, the default: when the transition is on disk.
/// - `"lazy"`: at once. The transition is on disk soon after. A crash can lose the commits of the last 50 ms.
/// - `"none"`: the transition is never written.
///
/// ### `group(Name, phases(Phase, Other), ..)`
///
/// Gives several phases one way out (`failed(..)`, `cancelled`), one deadline (`within = ".."`) or locks (`locks`). The
/// deadline and the locks hold from the entry into the group to its end. The functions have the name
/// of the group, and get no data of a phase: `name_failed(&mut self, cx, cause)`, `name_locks(&self, cx)`. A phase's own key
/// comes before the group's. May be written several times.
///
/// ### `unknown = "keep"`
///
/// After a rollback, a fom can have a field that only the later release knows. By default, such a fom waits in quarantine
/// for that release. With this key it runs on: each commit carries the field along, unread. This holds for the fields of
/// its phase, and for the fields at the top of the operation.
///
/// ### `secret(field, ..)`
///
/// Fields that no tool shows: `fom journal` and the inspector write `(secret)` in their place. Each is a field of the
/// operation or of a phase. `secret("name")` hides a name of the saved form: a field that serde renames, or one of an event
/// or of an inner value. The name counts everywhere. The journal has the values, and does not encrypt them.
///
/// ### `failed = "forget"`
///
/// An operation that fails is gone. Without this key, a journal keeps the failed operation in quarantine, with its cause.
/// A later release can then try it again from the phase in which it failed.
///
/// ### `version = 2`
///
/// The version of the saved data, counted from 1. Default: 1. Raise the version, and add a migration, when names
/// and defaults alone cannot read what an earlier release saved. Many changes need no new version: a new phase, a phase
/// with another name (`was`), a new field with a default, another order.
///
/// ### `migrate(v1(path), v2(path))`
///
/// One function for each earlier version that may still be saved, from the oldest on. Each function turns the data of
/// its version into the data of the next version: `fn(&mut Saved) -> Result<(), BoxError>`. The chain has no gap and
/// ends at this version. Data from a version before the first or after this one, and data that cannot be migrated, are
/// refused and stay unchanged.
///
/// ```
/// # use fom_runtime::{prelude::*, snapshot::Saved};
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
/// #     async fn ring(&mut self, _: &mut Cx<'_>, _: RouteInRing<'_>) -> Result<(), BoxError> { Ok(()) }
/// # }
/// ```
///
/// ### `was = "Name"`
///
/// The name of the enum in an earlier release. In `operation(Type, was = "Old")`, the earlier name of the operation's
/// type. Data saved under that name are read as data of this enum or operation. Write each of these keys once for every
/// earlier name. A runtime with a journal is not built if another linked type has, or had, one of these names.
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
/// Phases that no longer exist. No phase can have such a name again, because data saved in the old phase would be read
/// as data of the new one. Data saved in a retired phase are refused with that reason, unless a migration moves them to
/// another phase.
///
/// ### `crate = "::path"`
///
/// The path of the library, if it has another name: `crate = "::renamed"`. The path begins with `::` or `crate::`. If a
/// phase has `locks`, the path must also lead to the module `lock` of `fom-patterns`.
///
/// # Keys of a phase: `#[phase(..)]`
///
/// ### `start`
///
/// A new operation begins in this phase. Exactly one phase has this key. The phase has no data, because no phase before
/// it could provide them.
///
/// ### `end`
///
/// The operation is over. The outcome is the variant of `FetchingEnd` with the name and the data of this phase. The
/// phase has no function, and takes no other key than `failure`.
///
/// `FetchingEnd` has these derives of the enum: `Clone`, `Copy`, `Debug`, `Deserialize`, `Eq`, `Hash`, `Ord`,
/// `PartialEq`, `PartialOrd` and `Serialize`, with their `#[serde(..)]`. Write `#[derive(..)]` below `#[fom(..)]`,
/// because rustc hides a derive above it from the attribute. If the data of an end are not `Copy`, the outcome gets them
/// by a move out of the phase. So the enum of phases cannot implement `Drop`.
///
/// ### `failure`
///
/// With `end`: this end counts as a failure. Drawings and counts show this. The outcome is a value like any other.
///
/// ### `entry`
///
/// With `end`: the end has a function with its name, which runs when a fom enters the end and before the end counts. It gets
/// the data of the end by `&mut` and returns `Result<(), E>`. It is async, or a plain `fn` with `sync` or `blocking`. Its
/// error is one of the function that has chosen the end.
///
/// ### `inner(field)`
///
/// With [`around`](#aroundtype), on one phase: the phases of the operation in this field of the layer's operation take
/// the place of this phase. The phase has one field, the phase of that operation (`Serve { phase: R::Phase }`). A
/// transition to this phase goes to the start of the inner operation.
///
/// With `to(..)`, the ends of the inner operation do not end the machine. Instead, the function of this phase runs in
/// each of them. It has the end as its argument and decides the next phase. Without `to(..)`, this phase has no
/// function, and those ends are ends of the machine.
///
/// ### `to(Phase, Other)`
///
/// The next phases. Required for every phase that is not an end. A phase may name itself.
///
/// ### `within = "2s"`
///
/// The time limit of the phase, from entering to leaving it. Write numbers with `ns`, `us`, `ms`, `s`, `m`, `h`, `d`,
/// for example `"1m30s"`. For what happens after the limit, see `late`.
///
/// ### `within(RING_TIME)`
///
/// The same with a constant of the type `Duration`, by its path. Drawings show its name.
///
/// ### `within`
///
/// Without a value: the function `<phase>_within(&self, cx, ..) -> Duration` says the time when the fom enters the phase.
///
/// ### `within = "adaptive, 50ms..30s"`
///
/// A time limit that adapts. It follows the durations of earlier visits of this phase in the same locality, and the
/// number of visits under way. It stays between the two times, the floor and the ceiling. `within = "adaptive"` is
/// short for `"adaptive, 250ms..30s"`. Until 32 visits were answered, the limit is the ceiling. The limit is for one
/// phase, so it cannot be combined with `keep`. For the estimate, see the book, "Adaptive time-outs".
///
/// ### `exhausted`
///
/// With `retry`: after the last failed attempt, the phase's `_exhausted` function decides the next phase, instead of a
/// failure of the operation. `cx.causes()` has the errors of the attempts. The function belongs to the same visit. If a
/// later phase leads back to this one, a new visit begins, with a new `step_key`.
///
/// ### `late`
///
/// For a phase with `within`, or a phase that some `keep` names. When the time is over, the phase's function is
/// dropped, and its `_late` function decides the next phase. Without this key, a missed deadline is a failure of the
/// phase. The `_late` function has no deadline. Its error is a failure of the phase, even if attempts are left. A
/// failure ends the operation, unless the phase has `failed(..)`.
///
/// A plain function is never dropped in the middle. The result of a `sync` or `blocking` function counts even after the
/// deadline.
///
/// ### `failed(Phase, Other)`
///
/// The next phases after a failure of this phase: an error (after the last attempt), a panic, or a missed deadline
/// without a `late` function. The phase's `_failed` function then runs, with the cause as its last argument, and
/// decides between these phases. Its exits are an enum of its own, `FetchingAfterAskFailed` (or `()`, for one exit
/// without data). Without this key, a failure ends the operation in the standard failed outcome. A shutdown always
/// does, and a cancel does without `cancelled`.
///
/// The function belongs to the same visit and has no deadline. If the function also fails, that ends the operation, and
/// `Failure::attempts` has the first failure.
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
/// On the [`inner`](#innerfield) phase of a layer, this key is for failures inside for which the inner operation has
/// no exit. The cause says which operation the error belongs to (`Cause<Layered<E, R::Error>>`).
///
/// ### `cancelled`
///
/// With `failed(..)`: a cancel in this phase runs the `_failed` function, too, with `Cause::Cancelled`. The operation
/// goes back the way it came. It hears one cancel. `abort` drops it in any phase.
///
/// The way back of such a phase also begins after a failure. From then on a cancel drops the operation in no phase: only
/// a later phase with `cancelled` hears it.
///
/// ### `cancelled = "later"`
///
/// A cancel waits until the operation leaves this phase. The next phase without this key hears it. For a phase past the
/// point of no return, and for a way back that begins without a failure.
///
/// ### `keep(Phase, Other)`
///
/// With a `within` that is not adaptive: the deadline from entering this phase continues while the operation is in one
/// of these phases. So one time limit can span several phases.
///
/// ### `take`
///
/// The function owns the data of the phase, and hands them on without a copy. No later function of the phase can get
/// them. So `take` does not go with `retry`, `late`, `exhausted`, `failed(..)`, an exit back to the phase, or `on(..)` in
/// a `sync` phase.
///
/// ### `sync`
///
/// The function is a plain `fn` that returns at once. This is the cheapest kind. A machine with only `sync` and
/// `blocking` phases is stored without a future.
///
/// ### `blocking`
///
/// The function is a plain `fn` that may wait for a disk, a lock or a slow call. Meanwhile, another thread takes over
/// the locality. The context offers only what is safe outside the locality. The phase takes no events.
///
/// ### `on(Event, Other)`
///
/// The events that the phase takes. Other events are kept for a later phase, in order. An async phase waits for its
/// events with `cx.event().await`. A `sync` phase *is* the wait: its function runs when an event arrives, with the
/// event as the last argument. The function returns `Stay` to wait for the next event in the same visit.
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
/// Retries the phase after an error, here up to 3 more times. The first pause is 50 ms, and each later pause is twice
/// as long, up to 2 s. `cx.attempt()` counts.
///
/// ### `retry(PATIENT)`
///
/// The same with a constant of the type `fom_runtime::machine::Retry`, by its path. Drawings show its name.
///
/// ### `retry`
///
/// Without a value: the function `<phase>_retry(&self, cx, ..) -> Retry` is asked after each failed attempt.
///
/// ### `locks`
///
/// The phase holds [long locks](https://docs.rs/fom-patterns/latest/fom_patterns/lock/struct.LongLock.html). Its `_locks` function says which ones, and
/// the phase's own function runs when all of them are granted. The wait for the locks counts for `within`. If that time
/// ends first, the `_late` function runs without the locks. The phase keeps its locks over errors and their retries,
/// `Stay`, waits and commits.
///
/// If the next phase also has `locks`, the locks that it names stay held without a gap, and the others are released. A
/// lock that the next phase adds must come after the kept ones in the order of
/// [`LockSet`](https://docs.rs/fom-patterns/latest/fom_patterns/lock/struct.LockSet.html), or the operation fails. If the next phase has no `locks`, and
/// at every kind of end, all locks are released.
///
/// A restored operation takes its locks again after `resume` and before the function of its phase runs. With a journal,
/// no other operation gets the locks in between, if the operation held them when the runtime ended.
///
/// ### `gate`
///
/// The phase has a [gate](https://docs.rs/fom-runtime/latest/fom_runtime/extension/trait.Gate.html), which its `_gate` function returns. The phase's
/// own function runs when the gate is open. As for `locks`, the wait counts for `within`, and the `_late` function does
/// not wait. `locks` is a gate, too, and a phase has only one of them.
///
/// ### `limit = "charges"`
///
/// At most so many foms run the phase at once. The limit has this name, and `runtime.limits().set(..)` of the package
/// `fom-patterns` sets it. A limit is a gate, too.
///
/// ### `hung = "5m"`
///
/// A fom that has been in the phase for so long counts as hung, and the package `fom-watch` warns about it. With
/// `hung = "never"`, a fom may stay for any time. Without this key, the limit comes from the times of earlier foms in
/// the phase. Nothing else happens to the fom: that is what `within` is for.
///
/// ### `invariant`
///
/// The `_invariant` function is called before a fom enters the phase, in builds with debug assertions. If it returns
/// `false`, the function of the phase before counts as panicked, and the fom does not enter.
///
/// ### `was = "Name"`, of a phase
///
/// The name of the phase in an earlier release. An operation that was saved in that phase continues here. Write this
/// key once for each earlier name of the phase. No phase can have such a name again.
///
/// ### `default`, on a field
///
/// `#[phase(default)]` above a field of a phase: if an earlier release saved the phase without this field, its value is
/// `Default::default()`. In the operation itself, use `#[serde(default)]`.
///
/// # What is checked
///
/// One compile reports all mistakes of a declaration, each at the smallest wrong token and with its remedy:
///
/// - names that are not phases;
/// - a phase that cannot be reached, and a phase that cannot reach an end;
/// - no start or two starts;
/// - keys that do not go together;
/// - invalid durations;
/// - functions that would have the same name;
/// - a chain of migrations with a gap;
/// - names of earlier releases that would mean two things.
///
/// Mistakes that rustc reports well are left to rustc:
///
/// - a function that is missing, misspelt or of another type;
/// - an exit that is not declared;
/// - data that cannot be sent or saved.
///
/// # Attributes
///
/// `#[cfg(..)]` is allowed on a phase, and is copied to all items that are generated for the phase. Other attributes
/// stay on the enum. Phases and fields may have raw names (`r#type`). Records and drawings show these names without
/// `r#`.
#[proc_macro_attribute]
pub fn fom(args: TokenStream, item: TokenStream) -> TokenStream {
    fallback::run(args.into(), item.into()).into()
}

/// Makes active objects of a type. The attribute is for an `impl` block, and generates a proxy with the same methods.
///
/// ```
/// use fom_patterns::prelude::*;
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
/// The `impl` stays as it is. The attribute adds a struct with the type's name and `Proxy` behind it. The struct has
/// each method that is not private and takes `&self` or `&mut self`, with the same docs, arguments and visibility. Such
/// a method returns a `fom_patterns::active::Call` of the original method's result. The proxy can be cloned and sent,
/// and derefs to `fom_patterns::active::Proxy`. The type implements `Active`, which has `activate`.
///
/// The proxy of a type with parameters has the same parameters. Methods may have parameters of their own. In the proxy,
/// these must be `Send + 'static`, like all arguments and answers.
///
/// An `async fn` uses no thread while it waits. Nothing else runs in the object until the function is done.
///
/// # Keys
///
/// ## `#[when(condition)]`, on a method
///
/// The guard: the method runs only when this condition is true, and its request waits in the list until then. The
/// condition is checked when the request's turn comes, and again after each request that ran. The condition sees
/// `&self` and the arguments. It can read the arguments, but not move them. A guard that panics fails only its own
/// request.
///
/// ## `#[active(priority = "high")]`, on a method
///
/// `"high"`, `"normal"` or `"low"`. Default: `"normal"`. Requests of a higher priority go first, and requests of
/// one priority keep their order. There is no aging: low requests wait as long as there are high ones.
///
/// ## `remote`, on the `impl`
///
/// Calls can be sent to objects of other processes: the type also implements `fom_patterns::active::RemoteActive`. Arguments and
/// answers must implement serde's `Serialize` and `Deserialize`, and methods have no parameters of their own. Calls in the process stay
/// as they are. The package `fom-objects` gives each key of a cluster an object.
///
/// ## `crate = "::path"`, on the `impl`
///
/// The path of the library, if it has another name: `#[active(crate = "::renamed")]`.
#[proc_macro_attribute]
pub fn active(args: TokenStream, item: TokenStream) -> TokenStream {
    active::run(args.into(), item.into()).into()
}
