//! The faults of a run. Whether each one happens is drawn, and 0 says that it does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fom_protocol::{
    schedule::{Schedule as _, address},
    sync::sleep,
};

use crate::baton::Baton;

/// The faults that may happen until the program [settles](crate::Sim::settle). [`Sim::during`](crate::Sim::during) sets them.
#[derive(Debug, Default)]
pub struct Chaos {
    /// How many kills of each node are left.
    kills: BTreeMap<String, u32>,
    /// How many stops of each node are left, and the longest.
    stops: BTreeMap<String, (u32, Duration)>,
    /// How long a node stays down after a kill, at most.
    downtime: Option<Duration>,
    /// A kill happens at one of so many places.
    rate: u32,
    slow_disk: Duration,
    full_disk: bool,
    delay: Duration,
    loses: bool,
    /// The links that are broken now.
    broken: BTreeSet<(String, String)>,
    long_phases: Duration,
    slow_calls: Duration,
    clock_jumps: Duration,
}

impl Chaos {
    /// Kills the node of this name, at most so many times: before and after a commit, before a run of a fom, after a transition,
    /// and during a long wait. The node stays down for a drawn time, of at most 38 hours.
    pub fn kill(&mut self, node: &str, times: u32) -> &mut Self {
        self.kills.insert(node.to_owned(), times);
        self
    }

    /// A node that is killed stays down for at most this time. So the run of a program with heartbeats stays short.
    pub fn downtime(&mut self, most: Duration) -> &mut Self {
        self.downtime = Some(most);
        self
    }

    /// Stops the node of this name for a time of at most `most`, at most so many times, as `SIGSTOP` does: at the places where a
    /// node may be [killed](Self::kill). No thread of it runs meanwhile, and time goes on.
    pub fn stop(&mut self, node: &str, times: u32, most: Duration) -> &mut Self {
        self.stops.insert(node.to_owned(), (times, most));
        self
    }

    /// Each commit of a [disk](crate::Disk) takes at most this time.
    pub fn slow_disk(&mut self, most: Duration) -> &mut Self {
        self.slow_disk = most;
        self
    }

    /// Disks are full for a while: commits fail.
    pub fn full_disk(&mut self) -> &mut Self {
        self.full_disk = true;
        self
    }

    /// Each request of [`Node::call`](crate::Node::call) and each answer takes at most this time. So they overtake each other.
    pub fn delay(&mut self, most: Duration) -> &mut Self {
        self.delay = most;
        self
    }

    /// The network loses requests and answers of [`Node::call`](crate::Node::call): single ones, and all between two nodes for a while.
    pub fn lose(&mut self) -> &mut Self {
        self.loses = true;
        self
    }

    /// Some runs of foms begin after a pause of at most this time, in which their locality is busy.
    pub fn long_phases(&mut self, most: Duration) -> &mut Self {
        self.long_phases = most;
        self
    }

    /// Each [`sleep`](crate::sleep) in a phase, which stands for a slow call, may take this much longer.
    pub fn slow_calls(&mut self, most: Duration) -> &mut Self {
        self.slow_calls = most;
        self
    }

    /// The wall clock of a node jumps by at most this time, forward or back. Foms measure time with another clock, so this is
    /// for phases that use `SystemTime`. It needs [`interpose`](crate::interpose).
    pub fn clock_jumps(&mut self, most: Duration) -> &mut Self {
        self.clock_jumps = most;
        self
    }
}

impl Chaos {
    /// Draws how long a node stays down.
    fn draw_pause(&self, baton: &Baton) -> Duration {
        let drawn = Duration::from_micros(1 << baton.draw(PAUSES + 1));
        self.downtime.map_or(drawn, |most| drawn.min(most))
    }
}

/// The faults that may happen now.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    chaos: Mutex<Chaos>,
    /// Whether the pauses end. Its address stands for that.
    calm: AtomicBool,
}

/// The places of which one is a kill: few for short programs, more for long ones.
const RATES: [u32; 4] = [16, 4, 64, 256];

/// The longest pause of a node is two to this number of microseconds: 38 hours.
const PAUSES: u32 = 37;

/// Faults go on for a second, or for one of so many times that double: 36 hours at most.
const RESTS: u32 = 18;

/// Draws a time up to this one, and so often none. Shorter ones are as frequent as longer ones.
fn draw_time(baton: &Baton, most: Duration) -> Duration {
    const STEPS: u32 = 8;
    match baton.draw(STEPS + 1) {
        0 => Duration::ZERO,
        step => most / (1 << (2 * (STEPS - step))),
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Chaos> {
        self.chaos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(
        &self,
        baton: &Baton,
        set: impl FnOnce(&mut Chaos) -> &mut Chaos,
    ) -> Vec<(String, Duration)> {
        let mut chaos = self.lock();
        self.calm.store(false, Ordering::Relaxed);
        set(&mut chaos);
        chaos.rate = RATES[baton.draw(RATES.len() as u32) as usize];
        // Nothing may happen during a long wait. So some kills have a time.
        let kills = chaos.kills.iter().filter(|(_, left)| **left > 0);
        kills
            .filter(|_| baton.draw(2) == 1)
            .map(|(node, _)| (node.clone(), chaos.draw_pause(baton)))
            .collect()
    }

    /// Returns how long the faults go on. `None` if there are none.
    pub(crate) fn draw_rest(&self, baton: &Baton) -> Option<Duration> {
        let is_set = self.lock().rate > 0;
        is_set.then(|| Duration::from_secs(1 << baton.draw(RESTS)))
    }

    /// Ends all faults.
    pub(crate) fn stop(&self) {
        *self.lock() = Chaos::default();
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn tell_calm(&self, baton: &Baton) {
        baton.notify(address(&self.calm), true);
    }

    /// Returns the names of the nodes that may be killed or stopped.
    pub(crate) fn victims(&self) -> Vec<String> {
        let chaos = self.lock();
        chaos
            .kills
            .keys()
            .chain(chaos.stops.keys())
            .cloned()
            .collect()
    }

    /// Returns how long the node is stopped now, if it is.
    pub(crate) fn draw_stop(&self, baton: &Baton, node: &str) -> Option<Duration> {
        let (rate, (left, most)) = {
            let chaos = self.lock();
            (chaos.rate, chaos.stops.get(node).copied()?)
        };
        if left == 0 || baton.draw(rate) != rate - 1 {
            return None;
        }
        self.lock().stops.insert(node.to_owned(), (left - 1, most));
        Some(draw_time(baton, most))
    }

    pub(crate) fn draw_pause(&self, baton: &Baton) -> Duration {
        self.lock().draw_pause(baton)
    }

    /// Waits for this time, or until all faults end.
    pub(crate) fn pause(&self, baton: &Baton, time: Duration) {
        let by = baton.now() + time;
        while !self.calm.load(Ordering::Relaxed) && baton.now() < by {
            baton.wait(address(&self.calm), Some(by - baton.now()));
        }
    }

    /// Whether the node is killed now.
    pub(crate) fn draw_kill(&self, baton: &Baton, node: &str) -> bool {
        let (rate, left) = {
            let chaos = self.lock();
            (chaos.rate, chaos.kills.get(node).copied())
        };
        left.is_some_and(|left| left > 0) && baton.draw(rate) == rate - 1 && self.takes_kill(node)
    }

    /// Takes one of the kills that are left for a node.
    pub(crate) fn takes_kill(&self, node: &str) -> bool {
        match self.lock().kills.get_mut(node) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Returns by how many nanoseconds a wall clock jumps now.
    pub(crate) fn draw_jump(&self, baton: &Baton) -> Option<i64> {
        const RATE: u32 = 32;
        let most = self.lock().clock_jumps;
        if most.is_zero() || baton.draw(RATE) != RATE - 1 {
            return None;
        }
        let time = i64::try_from(draw_time(baton, most).as_nanos()).unwrap_or(i64::MAX);
        Some(if baton.draw(2) == 1 { -time } else { time })
    }

    /// Lets the time of a commit pass.
    pub(crate) fn commit(&self, baton: &Baton) {
        let most = self.lock().slow_disk;
        if !most.is_zero() {
            sleep(draw_time(baton, most));
        }
    }

    /// Returns whether a disk is full now, if it was before or not.
    pub(crate) fn draw_full(&self, baton: &Baton, was_full: bool) -> bool {
        const RATE: u32 = 8;
        if !self.lock().full_disk {
            return false;
        }
        let drawn = baton.draw(RATE);
        if was_full {
            drawn >= RATE / 2
        } else {
            drawn == RATE - 1
        }
    }

    /// Lets the time of a message pass. Returns whether it arrives.
    pub(crate) fn arrives(&self, baton: &Baton, from: &str, to: &str) -> bool {
        const RATE: u32 = 16;
        let (delay, loses) = {
            let chaos = self.lock();
            (chaos.delay, chaos.loses)
        };
        if !delay.is_zero() {
            sleep(draw_time(baton, delay));
        }
        if !loses {
            return true;
        }
        let link = (from.to_owned(), to.to_owned());
        let drawn = baton.draw(RATE);
        let mut chaos = self.lock();
        let was_broken = chaos.broken.contains(&link);
        let is_lost = if was_broken {
            drawn >= RATE / 4
        } else {
            drawn >= RATE - 2
        };
        // Of those that are lost, some break the link.
        if is_lost && (was_broken || drawn == RATE - 1) {
            chaos.broken.insert(link);
        } else {
            chaos.broken.remove(&link);
        }
        !is_lost
    }

    /// Lets the pause before a run of a fom pass.
    pub(crate) fn long_run(&self, baton: &Baton) {
        const RATE: u32 = 8;
        let most = self.lock().long_phases;
        if !most.is_zero() && baton.draw(RATE) == RATE - 1 {
            sleep(draw_time(baton, most));
        }
    }

    /// Returns how much longer a call in a phase takes.
    pub(crate) fn slow_call(&self, baton: &Baton) -> Duration {
        let most = self.lock().slow_calls;
        match most {
            Duration::ZERO => most,
            most => draw_time(baton, most),
        }
    }
}
