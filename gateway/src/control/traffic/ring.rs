//! A ring buffer with a slot for each of the last `N` ticks of a clock.

/// Slots for the last `N` ticks; older ones are discarded. A tick before the newest one counts as
/// the newest: another thread may have started it concurrently.
pub(super) struct Ring<T, const N: usize> {
    slots: [T; N],
    newest: u64,
}

impl<T: Default, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| T::default()), newest: 0 }
    }
}

impl<T: Default, const N: usize> Ring<T, N> {
    /// Returns the slot of `tick`, reset to the default if the tick is new.
    pub(super) fn at(&mut self, tick: u64) -> &mut T {
        let gone = tick.saturating_sub(self.newest).min(N as u64);
        self.newest = self.newest.max(tick);
        for back in 0..gone {
            self.slots[Self::index(self.newest - back)] = T::default();
        }
        &mut self.slots[Self::index(self.newest)]
    }

    /// Returns the slot of `tick`; `None` if it has none.
    pub(super) fn get(&self, tick: u64) -> Option<&T> {
        let back = self.newest.checked_sub(tick)?;
        (back < N as u64).then(|| &self.slots[Self::index(tick)])
    }

    /// Returns the `N` slots that end with `tick`, oldest first; `None` for ticks without a slot.
    pub(super) fn until(&self, tick: u64) -> impl Iterator<Item = Option<&T>> {
        let tick = tick.max(self.newest);
        (0..N as u64).rev().map(move |back| {
            let tick = tick.checked_sub(back).filter(|&tick| tick <= self.newest)?;
            (self.newest - tick < N as u64).then(|| &self.slots[Self::index(tick)])
        })
    }

    fn index(tick: u64) -> usize {
        usize::try_from(tick % N as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_an_unbounded_map(
            steps in prop::collection::vec((0_u64..9, 1_u64..100), 0..40),
            later in 0_u64..9,
        ) {
            let mut ring = Ring::<u64, 5>::default();
            let (mut all, mut now) = (std::collections::HashMap::new(), 0);
            for (step, amount) in steps {
                now += step;
                *ring.at(now) += amount;
                *all.entry(now).or_insert(0) += amount;
            }
            now += later;
            let slots = ring.until(now);
            let actual: Vec<u64> = slots.map(|slot| slot.copied().unwrap_or_default()).collect();
            let expected = (0..5).rev().map(|back: u64| {
                now.checked_sub(back).and_then(|tick| all.get(&tick)).copied().unwrap_or_default()
            });
            prop_assert_eq!(actual, expected.collect::<Vec<_>>());
        }
    }
}
