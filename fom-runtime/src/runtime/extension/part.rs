//! Parts of a locality that other packages bring.

use std::{fmt, marker::PhantomData, panic::AssertUnwindSafe};

use crate::{
    locality::{self, AnyPart, Core, PartId, Pause, Ran},
    operation::Operation,
    runtime::{Local, extension::Pieces, spawn},
};

/// A part of one locality: state that only the thread of that locality touches, and work beside the foms.
///
/// [`Local::add_part`] adds a part. Each round of the handler gives one [turn](Self::turn) to each part that is
/// [awake](Local::wake_part). A locality drops its parts when it ends. A panic of a part is an
/// [incident](crate::observe::Operations::incidents), and affects nothing else.
///
/// ```
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// use fom_runtime::{extension::{Part, Turn}, prelude::*};
/// # static SUM: AtomicU64 = AtomicU64::new(0);
/// # struct Add(u64);
/// # #[fom(operation(Add), transient)]
/// # enum Adding { #[phase(start, sync, to(Added))] Add, #[phase(end)] Added }
/// # impl AddingTransitions for Add {
/// #     fn add(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
/// #         SUM.fetch_add(self.0, Ordering::Relaxed);
/// #         Ok(())
/// #     }
/// # }
///
/// /// Numbers, each of which becomes an operation.
/// struct Numbers(Vec<u64>);
///
/// impl Part for Numbers {
///     fn turn(turn: &mut Turn<'_, Self>) {
///         while !turn.should_end()
///             && let Some(number) = turn.part().0.pop()
///         {
///             let _ = turn.run_here(Add(number), Default::default());
///         }
///         if !turn.part().0.is_empty() {
///             turn.wake();
///         }
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::builder().localities(1).build()?;
/// runtime.post(0, |local| {
///     let numbers = local.add_part(Numbers(vec![1, 2, 3]));
///     local.wake_part(numbers);
/// })?;
/// # futures::executor::block_on(async { runtime.quiet().await });
/// # assert_eq!(SUM.load(Ordering::Relaxed), 6);
/// # Ok(()) }
/// ```
pub trait Part: Sized + Send + 'static {
    /// Does some of the work. A part that has more work [wakes](Turn::wake) itself again. All parts have a turn when
    /// the runtime is closed.
    ///
    /// A turn must not block. The locality holds all its foms and timers back until the turn returns, and no other
    /// thread takes them over. An operation that blocks may do so in its own
    /// [blocking section](crate::Cx::enter_block).
    fn turn(turn: &mut Turn<'_, Self>) {
        let _ = turn;
    }

    /// Called when a fom that [`Turn::run_here`] has begun leaves its turn. The fom waits, has used up its budget, or is
    /// in a blocking section while another thread has the locality. `nanos` is the time of its run in nanoseconds, or
    /// zero if the time is not known. Returns the number that [`ended`](Self::ended) gets for the fom.
    fn goes_on(&mut self, nanos: u64) -> u64 {
        let _ = nanos;
        0
    }

    /// A fom that had left its turn has ended. The part has a turn after this.
    fn ended(&mut self, number: u64) {
        let _ = number;
    }

    /// Hands over what the part has gathered, if that is due. Called at each pause of the locality other than
    /// [`Pause::Passing`]; there, only if a part [asks](Local::ask_pause) for the call. Returns whether the part asks
    /// for the next call. The part is out of its place meanwhile: `local` does not find it.
    fn pause(&mut self, local: &mut Local<'_>, pause: Pause) -> bool {
        let _ = (local, pause);
        false
    }

    /// Returns whether the part waits for nothing that makes foms ready by itself. [`Runtime::quiet`] waits for that.
    ///
    /// [`Runtime::quiet`]: crate::Runtime::quiet
    fn is_quiet(&self) -> bool {
        true
    }
}

impl<P: Part> AnyPart for P {
    /// Gives the part one turn.
    fn turn(core: &mut Option<Box<Core>>, id: PartId<Self>) {
        let mut turn = Turn {
            core: core.take(),
            id,
            _here: PhantomData,
        };
        let home = turn.core().home.clone();
        home.fenced("a part of", AssertUnwindSafe(|| Part::turn(&mut turn)));
        turn.count_ended();
        *core = turn.core;
    }

    fn goes_on(&mut self, nanos: u64) -> u64 {
        Part::goes_on(self, nanos)
    }

    fn ended(&mut self, number: u64) {
        Part::ended(self, number);
    }

    fn pause(&mut self, core: &mut Core, pause: Pause) -> bool {
        Part::pause(self, &mut Local::new(core), pause)
    }

    fn is_quiet(&self) -> bool {
        Part::is_quiet(self)
    }
}

/// A turn of a part, on the thread that holds the locality.
pub struct Turn<'a, P> {
    /// `None` while a fom runs, which has the core.
    core: Option<Box<Core>>,
    id: PartId<P>,
    /// A turn stays on its thread.
    _here: PhantomData<(&'a (), *mut ())>,
}

impl<P> fmt::Debug for Turn<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.id).finish()
    }
}

impl<P: Part> Turn<'_, P> {
    #[inline]
    fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("a turn has the core")
    }

    /// Returns the address of the part.
    pub fn id(&self) -> PartId<P> {
        self.id
    }

    /// Returns the part. After [`run_here`](Self::run_here), other turns of the part may have changed it.
    ///
    /// # Panics
    ///
    /// Panics if the part [was removed](Local::remove_part).
    #[inline]
    pub fn part(&mut self) -> &mut P {
        let id = self.id;
        self.core().parts.get(id).expect("the part was removed")
    }

    /// Returns the locality.
    #[inline]
    pub fn local(&mut self) -> Local<'_> {
        Local::new(self.core())
    }

    /// Lets the part have another turn after this one.
    pub fn wake(&mut self) {
        let place = self.id.place();
        self.core().parts.wake(place);
    }

    /// Counts the foms that have ended in this turn as ended. The end of the turn does that, too.
    pub fn count_ended(&mut self) {
        self.core().count_ended();
    }

    /// Returns whether the part should end its turn: a thread waits for the locality, or the runtime is closed.
    #[inline]
    pub fn should_end(&mut self) -> bool {
        let home = &self.core().home;
        home.is_awaited() || home.env().is_closed()
    }

    /// Returns whether the runtime is closed.
    #[inline]
    pub fn is_closed(&mut self) -> bool {
        self.core().home.env().is_closed()
    }

    /// Makes a fom of the operation and runs it at once, before all other foms, until it ends or first waits. The fom
    /// has no key and no handle, and never moves to another locality.
    ///
    /// `piece` is the work that becomes this fom. It is no longer counted on its own. Without a piece, the fom is
    /// counted as if it were submitted here.
    ///
    /// While the fom is in a blocking section, another thread may have the locality and give the part another turn.
    /// So the part is not borrowed during the call; look it up again with [`part`](Self::part).
    ///
    /// # Panics
    ///
    /// Panics if `piece` is of another locality.
    #[inline]
    pub fn run_here<O: Operation>(&mut self, operation: O, piece: Pieces) -> Ran {
        let counted = match piece.count_in(&self.core().home) {
            0 => false,
            1 => true,
            more => {
                self.core().home.counts.given_away(more as u64 - 1);
                true
            }
        };
        locality::run_here(
            &mut self.core,
            self.id,
            operation,
            counted,
            spawn::cold::<O>,
        )
    }
}

impl Local<'_> {
    /// Adds a part to the locality.
    pub fn add_part<P: Part>(&mut self, part: P) -> PartId<P> {
        self.core().parts.add(part)
    }

    /// Returns the part with this address. Returns `None` if the part was removed, is in another locality, or is in its
    /// [`pause`](Part::pause).
    #[inline]
    pub fn part<P: Part>(&mut self, id: PartId<P>) -> Option<&mut P> {
        self.core().parts.get(id)
    }

    /// Takes a part out of the locality. Returns `None` where [`part`](Self::part) does.
    pub fn remove_part<P: Part>(&mut self, id: PartId<P>) -> Option<P> {
        self.core().parts.remove(id).map(|part| *part)
    }

    /// Lets a part have a turn.
    pub fn wake_part<P: Part>(&mut self, id: PartId<P>) {
        self.core().parts.wake(id.place());
    }

    /// Asks for a call of [`Part::pause`] soon, also while foms are ready.
    pub fn ask_pause(&mut self) {
        self.core().parts.ask();
    }

    /// Returns the number of foms in the run queue.
    pub fn ready_foms(&self) -> usize {
        self.core_ref().ready_foms()
    }

    /// Takes pieces of work off the count of this locality, which have ended or were given up.
    ///
    /// # Panics
    ///
    /// Panics if the pieces are of another locality.
    pub fn leave(&mut self, pieces: Pieces) {
        let home = &self.core().home;
        home.counts.given_away(pieces.count_in(home) as u64);
    }
}
