//! The load: requests with a key and a number in the order of its key, and the checks that they make.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use kit::{Spent, cpu_time, mix};

pub(crate) const KEYS: usize = 10_000;
pub(crate) const WORKERS: usize = 2;
/// The steps of work in a request.
const STEPS: u32 = 100;

/// How long a waiting request waits.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);
/// The key of which every other request waits in the case `waiting`.
const PATIENT: u32 = 4_711;

/// The state of a key.
#[derive(Default)]
#[repr(align(64))]
struct Seat {
    next: AtomicU32,
    busy: AtomicBool,
}

#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) key: u32,
    /// The number of the request within its key.
    pub(crate) number: u32,
}

impl Request {
    /// Returns whether the request waits, in a case with waiting requests.
    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.key == PATIENT && self.number % 2 == 1
    }
}

/// All requests, and the state for their checks.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: &'static [Request],
    seats: &'static [Seat],
    broken: &'static AtomicU64,
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(mix(*state) ^ (*state >> 33))
}

impl Load {
    fn new(requests: usize, mut key: impl FnMut(u64) -> u32) -> Self {
        let mut state = 7;
        let mut numbers = vec![0; KEYS];
        let requests: Vec<_> = (0..requests)
            .map(|_| {
                let key = key(random(&mut state));
                let next: &mut u32 = &mut numbers[key as usize];
                let number = *next;
                *next += 1;
                Request { key, number }
            })
            .collect();
        Self {
            requests: Box::leak(requests.into_boxed_slice()),
            seats: Box::leak((0..KEYS).map(|_| Seat::default()).collect()),
            broken: Box::leak(Box::default()),
        }
    }

    pub(crate) fn uniform(requests: usize) -> Self {
        Self::new(requests, |random| {
            (((random >> 32) * KEYS as u64) >> 32) as u32
        })
    }

    /// Makes requests of which the hottest key gets 15 %.
    pub(crate) fn zipf(requests: usize) -> Self {
        let weight = |n: usize| ((n + 1) as f64).powf(-1.1);
        let total: f64 = (0..KEYS).map(weight).sum();
        let mut sum = 0.0;
        let upto: Vec<f64> = (0..KEYS)
            .map(|n| {
                sum += weight(n) / total;
                sum
            })
            .collect();
        Self::new(requests, move |random| {
            let at = (random >> 11) as f64 / (1_u64 << 53) as f64;
            upto.partition_point(|upto| *upto < at).min(KEYS - 1) as u32
        })
    }

    /// Does the work of a request, with its checks.
    #[inline]
    pub(crate) fn work(&self, request: Request) {
        self.begin(request);
        let mut x = u64::from(request.number);
        for _ in 0..STEPS {
            x = mix(x);
        }
        black_box(x);
        self.end(request);
    }

    #[inline]
    pub(crate) fn begin(&self, request: Request) {
        let seat = &self.seats[request.key as usize];
        let alone = !seat.busy.load(Ordering::Relaxed);
        seat.busy.store(true, Ordering::Relaxed);
        let in_order = seat.next.load(Ordering::Relaxed) == request.number;
        if !alone || !in_order {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn end(&self, request: Request) {
        let seat = &self.seats[request.key as usize];
        seat.next.store(request.number + 1, Ordering::Relaxed);
        seat.busy.store(false, Ordering::Relaxed);
    }

    /// Returns the duration of one request's work alone.
    pub(crate) fn work_ns(&self) -> f64 {
        let other = Self::uniform(200_000);
        let one = || {
            let begun = cpu_time();
            other
                .requests
                .iter()
                .for_each(|request| other.work(*request));
            let took = cpu_time().saturating_sub(begun).as_nanos() as f64;
            other
                .seats
                .iter()
                .for_each(|seat| seat.next.store(0, Ordering::Relaxed));
            took / other.requests.len() as f64
        };
        one().min(one()).min(one())
    }

    /// Submits all requests, and waits until all are done.
    pub(crate) fn measure(&self, submit: impl FnOnce(), mut done: impl FnMut() -> u64) -> Spent {
        let requests = self.requests.len() as u64;
        Spent::on(|| {
            submit();
            while done() < requests {
                thread::sleep(Duration::from_micros(200));
            }
            requests
        })
    }

    /// Panics unless each request came once and in order.
    pub(crate) fn check(&self) {
        let broken = self.broken.load(Ordering::Relaxed);
        assert_eq!(
            broken, 0,
            "requests of a key overlapped or came out of order"
        );
        let served: u64 = self
            .seats
            .iter()
            .map(|seat| u64::from(seat.next.load(Ordering::Relaxed)))
            .sum();
        assert_eq!(served, self.requests.len() as u64, "requests were lost");
    }
}

/// Returns the shard of a key.
#[inline]
pub(crate) fn shard(key: u32, shards: usize) -> usize {
    (((u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * shards as u64) >> 32) as usize
}
