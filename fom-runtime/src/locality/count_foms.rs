//! The count of the foms that were in flight when the runtime began to count: see [`counters`](crate::fom::counters).

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    fom::{
        Env, Page,
        counters::{count_found, is_uncounted},
    },
    locality::{Core, Locality},
};

/// How long the handler counts before it runs foms again.
const PIECE: Duration = Duration::from_millis(1);

impl Locality {
    /// Makes the handler count the foms of the locality that are not counted yet.
    pub(crate) fn count_foms(&self, env: &Env) {
        let homes = env.homes.iter();
        let pools = homes.flat_map(|home| home.pools.all());
        // A fom may have moved here from any locality. Its memory did not.
        let pages: Vec<_> = pools.flat_map(|pool| pool.pages()).collect();
        self.post_job(Box::new(|core| count_pages(core, pages)));
    }
}

/// Counts the foms of some pages, and goes on with the others later.
fn count_pages(core: &mut Core, mut pages: Vec<Arc<Page>>) {
    let here = core.home.index;
    let began = Instant::now();
    while let Some(page) = pages.pop() {
        let is_wanted = |fom: &_| is_uncounted(fom, here);
        let _: ControlFlow<()> = page.visit(&is_wanted, &mut |fom| {
            if is_wanted(&fom) {
                count_found(&fom);
            }
            ControlFlow::Continue(())
        });
        if began.elapsed() >= PIECE {
            break;
        }
    }
    if !pages.is_empty() {
        core.home
            .post_job(Box::new(|core| count_pages(core, pages)));
    }
}
