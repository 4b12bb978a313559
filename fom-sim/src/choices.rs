//! The choices of a run: one sequence of small numbers, in which 0 is the plainest choice.

/// Where the choices come from, and those that were made.
#[derive(Debug)]
pub(crate) struct Choices {
    from: From,
    made: Vec<u32>,
    /// The number of possible choices at each one that was made.
    below: Vec<u32>,
}

#[derive(Debug)]
enum From {
    /// A generator that a seed begins.
    Seed(u64),
    /// A generator, and priorities for the threads.
    Pct(u64, Priorities),
    /// A list, after which each choice is 0.
    List(Vec<u32>),
}

impl Choices {
    /// Draws from a seed. An odd seed gives the threads priorities, so that few threads run for long, with few changes.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut state = seed;
        Self::new(match seed % 2 {
            0 => From::Seed(state),
            _ => {
                let priorities = Priorities::new(&mut state);
                From::Pct(state, priorities)
            }
        })
    }

    pub(crate) fn of_list(list: Vec<u32>) -> Self {
        Self::new(From::List(list))
    }

    fn new(from: From) -> Self {
        Self {
            from,
            made: Vec::new(),
            below: Vec::new(),
        }
    }

    /// Draws a number below `below`, which is at least 1.
    pub(crate) fn draw(&mut self, below: u32) -> u32 {
        if below == 1 {
            return 0;
        }
        let drawn = match &mut self.from {
            From::Seed(state) | From::Pct(state, _) => draw(state, below),
            // A list that was shrunk may have larger numbers than this run asks for.
            From::List(list) => list.get(self.made.len()).map_or(0, |choice| choice % below),
        };
        self.push(drawn, below)
    }

    /// Chooses one of the threads that are ready, of which the first is the plainest choice. Returns its place among them.
    pub(crate) fn choose(&mut self, ready: &[usize]) -> u32 {
        let below = ready.len() as u32;
        match &mut self.from {
            From::Pct(state, priorities) if below > 1 => {
                let drawn = priorities.choose(state, ready);
                self.push(drawn, below)
            }
            _ => self.draw(below),
        }
    }

    fn push(&mut self, drawn: u32, below: u32) -> u32 {
        self.made.push(drawn);
        self.below.push(below);
        drawn
    }

    /// Returns the choices so far.
    pub(crate) fn made(&self) -> &[u32] {
        &self.made
    }

    /// Returns how many possible choices there were at each one.
    pub(crate) fn below(&self) -> &[u32] {
        &self.below
    }
}

/// Returns the list that comes after these choices, if all lists with at most so many numbers other than 0 are tried.
pub(crate) fn successor(made: &[u32], below: &[u32], most: usize) -> Option<Vec<u32>> {
    let set = |at: usize| made[..at].iter().filter(|choice| **choice != 0).count();
    let ends = (0..made.len()).rev();
    let mut ends = ends.filter(|at| made[*at] + 1 < below[*at]);
    let at = ends.find(|at| set(*at) < most)?;
    let mut list = made[..=at].to_vec();
    list[at] += 1;
    Some(list)
}

/// The priorities of the threads: the thread with the highest one runs, and at two steps the one that runs gets the lowest.
/// This is PCT with d = 3 (Burckhardt and others, A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010).
#[derive(Debug)]
struct Priorities {
    of: Vec<i64>,
    /// The steps at which a priority changes.
    changes: [u32; 2],
    steps: u32,
}

impl Priorities {
    fn new(state: &mut u64) -> Self {
        // It is not known how many steps a run will have.
        let length = 32 << (2 * draw(state, 4));
        Self {
            of: Vec::new(),
            changes: [(); 2].map(|()| draw(state, length)),
            steps: 0,
        }
    }

    fn choose(&mut self, state: &mut u64, ready: &[usize]) -> u32 {
        /// Of so many steps, one is drawn: a thread that is always ready must not keep the others from running.
        const DRAWN: u32 = 32;
        while self.of.len() <= ready.iter().copied().max().unwrap_or_default() {
            self.of.push(i64::from(draw(state, 1 << 30)));
        }
        self.steps += 1;
        if self.changes.contains(&self.steps) {
            self.of[ready[0]] = -i64::from(self.steps);
        }
        if draw(state, DRAWN) == 0 {
            return draw(state, ready.len() as u32);
        }
        let highest = (0..ready.len()).max_by_key(|at| self.of[ready[*at]]);
        highest.unwrap_or_default() as u32
    }
}

/// Draws a number below `below`.
fn draw(state: &mut u64, below: u32) -> u32 {
    ((u64::from(below) * (next(state) >> 32)) >> 32) as u32
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the choices without the zeros at the end, which a replay adds by itself.
pub(crate) fn trimmed(choices: &[u32]) -> Vec<u32> {
    let end = choices.iter().rposition(|choice| *choice != 0);
    choices[..end.map_or(0, |end| end + 1)].to_vec()
}

/// Makes a failing list of choices plainer: shorter, with more zeros, and with lower numbers. `fails` runs a list. Hypothesis
/// shrinks in this way, too.
pub(crate) fn shrunk(choices: &[u32], mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut best = trimmed(choices);
    loop {
        let before = best.clone();
        // A shorter list: zeros follow its end.
        let mut cut = best.len() / 2;
        while cut > 0 {
            let end = best.len() - cut.min(best.len());
            let shorter = trimmed(&best[..end]);
            if shorter.len() < best.len() && fails(&shorter) {
                best = shorter;
            } else {
                cut /= 2;
            }
        }
        // Zeros, in blocks and then one by one.
        let mut block = best.len().next_power_of_two();
        while block > 0 {
            let mut at = 0;
            while at < best.len() {
                let end = (at + block).min(best.len());
                if best[at..end].iter().any(|choice| *choice != 0) {
                    let mut plainer = best.clone();
                    plainer[at..end].fill(0);
                    let plainer = trimmed(&plainer);
                    if fails(&plainer) {
                        best = plainer;
                    }
                }
                at += block;
            }
            block /= 2;
        }
        // Lower numbers.
        for at in 0..best.len() {
            while let Some(&choice) = best.get(at)
                && choice > 1
            {
                let lower = [choice / 2, choice - 1].into_iter().find_map(|choice| {
                    let mut lower = best.clone();
                    lower[at] = choice;
                    fails(&lower).then_some(lower)
                });
                match lower {
                    Some(lower) => best = lower,
                    None => break,
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed| {
            let mut choices = Choices::of_seed(seed);
            (1..50).map(|below| choices.draw(below)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_list_is_followed_by_zeros() {
        let mut choices = Choices::of_list(vec![3, 9]);
        assert_eq!(
            [choices.draw(4), choices.draw(5), choices.draw(6)],
            [3, 4, 0]
        );
        assert_eq!(choices.made(), [3, 4, 0]);
    }

    /// With three numbers of three choices each, at most two of which are not 0.
    #[test]
    fn all_lists_are_tried() {
        let mut lists = Vec::new();
        let mut list = Some(Vec::new());
        while let Some(next) = list {
            let mut choices = Choices::of_list(next);
            lists.push([(); 3].map(|()| choices.draw(3)));
            list = successor(choices.made(), choices.below(), 2);
        }
        let count = lists.len();
        lists.sort_unstable();
        lists.dedup();
        assert_eq!((count, lists.len()), (27 - 8, 27 - 8));
    }

    /// The thread with the highest priority runs, but for two changes and a few drawn steps.
    #[test]
    fn priorities_keep_a_thread_running() {
        let mut choices = Choices::of_seed(7);
        let chosen: Vec<_> = (0..300).map(|_| choices.choose(&[0, 1, 2])).collect();
        let switches = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(switches < 30, "{chosen:?}");
    }

    /// Of a long list, the two numbers that matter stay, as low as they may be.
    #[test]
    fn a_list_is_shrunk_to_what_matters() {
        let mut list: Vec<u32> = (0..200).map(|n| n % 7).collect();
        list[120] = 5;
        let fails = |list: &[u32]| {
            list.get(40).is_some_and(|n| *n >= 1) && list.get(120).is_some_and(|n| *n >= 4)
        };
        let best = shrunk(&list, fails);
        assert!(fails(&best));
        let set: Vec<_> = best.iter().enumerate().filter(|(_, n)| **n != 0).collect();
        assert_eq!(set, [(40, &1), (120, &4)]);
    }
}
