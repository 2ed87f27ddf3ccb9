//! How many requests may still be answered, when there is a bound to it (`--max-requests`).
//!
//! All workers draw on one number. It is the one thing that they share on the request path, and only
//! when somebody asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is left.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicU64>);

/// The right to answer one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// More are left.
    One,
    /// It is the last one.
    Last,
    /// There is none.
    None,
}

impl Budget {
    /// So many requests.
    pub fn new(requests: u64) -> Self {
        Self(Arc::new(AtomicU64::new(requests)))
    }

    /// Takes a share, if one is left.
    pub fn take(&self) -> Share {
        // Nothing else is published with the number, so no order is needed but its own.
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(1) => Share::Last,
            Ok(_) => Share::One,
            Err(_) => Share::None,
        }
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_and_no_more() {
        let budget = Budget::new(2);
        let of_another_worker = budget.clone();
        assert_eq!((budget.take(), of_another_worker.take()), (Share::One, Share::Last));
        assert_eq!((budget.take(), budget.is_spent()), (Share::None, true));
        budget.give_back();
        assert_eq!((of_another_worker.take(), budget.take()), (Share::Last, Share::None));
    }
}
