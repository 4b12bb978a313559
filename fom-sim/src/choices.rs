//! The choices of a run: one sequence of small numbers, in which 0 is the plainest choice.

/// Where the choices come from, and those that were made.
#[derive(Debug)]
pub(crate) struct Choices {
    from: From,
    made: Vec<u32>,
}

#[derive(Debug)]
enum From {
    /// A generator that a seed begins.
    Seed(u64),
    /// A list, after which each choice is 0.
    List(Vec<u32>),
}

impl Choices {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::new(From::Seed(seed))
    }

    pub(crate) fn of_list(list: Vec<u32>) -> Self {
        Self::new(From::List(list))
    }

    fn new(from: From) -> Self {
        let made = Vec::new();
        Self { from, made }
    }

    /// Draws a number below `below`, which is at least 1.
    pub(crate) fn draw(&mut self, below: u32) -> u32 {
        if below == 1 {
            return 0;
        }
        let drawn = match &mut self.from {
            From::Seed(state) => ((u64::from(below) * (next(state) >> 32)) >> 32) as u32,
            // A list that was shrunk may have larger numbers than this run asks for.
            From::List(list) => list.get(self.made.len()).map_or(0, |choice| choice % below),
        };
        self.made.push(drawn);
        drawn
    }

    /// Returns the choices so far.
    pub(crate) fn made(&self) -> &[u32] {
        &self.made
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn next(state: &mut u64) -> u64 {
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
