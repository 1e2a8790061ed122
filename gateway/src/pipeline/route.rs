//! Routing: the deployments of a model in the order in which they are tried.

use std::collections::VecDeque;

use crate::clock::Entropy;
use domain::model::Deployment;

/// Orders deployments by priority, and by weighted chance within one priority.
pub fn order<'a>(deployments: &'a [Deployment], entropy: &dyn Entropy) -> Vec<&'a Deployment> {
    let mut targets: Vec<_> = deployments.iter().collect();
    if targets.len() < 2 {
        return targets;
    }
    targets.sort_by_key(|target| target.priority);
    for group in targets.chunk_by_mut(|a, b| a.priority == b.priority) {
        shuffle(group, entropy);
    }
    targets
}

/// Draws one after another, with a chance proportional to the weight among the remaining ones.
fn shuffle(group: &mut [&Deployment], entropy: &dyn Entropy) {
    for next in 0..group.len().saturating_sub(1) {
        let rest = &mut group[next..];
        let whole: u64 = rest.iter().map(|target| u64::from(target.weight)).sum();
        let mut random = [0; 8];
        entropy.fill(&mut random);
        let mut draw = u64::from_ne_bytes(random) % whole.max(1);
        let drawn = rest.iter().position(|target| {
            let weight = u64::from(target.weight);
            let hit = draw < weight;
            draw = draw.saturating_sub(weight);
            hit
        });
        rest.swap(0, drawn.unwrap_or_default());
    }
}

/// Yields the targets in the order in which to try them: those that `is_available` accepts when they are reached,
/// then those that it rejected, because an attempt that may fail is better than none. A single target is not
/// checked.
pub fn attempt_order<'a>(
    targets: &'a [&'a Deployment],
    is_available: impl Fn(&Deployment) -> bool,
) -> impl Iterator<Item = &'a Deployment> {
    let alone = targets.len() < 2;
    let (mut left, mut held_back) = (targets.iter().copied(), VecDeque::new());
    std::iter::from_fn(move || {
        let next = left.by_ref().find(|target| {
            let is_next = alone || is_available(target);
            if !is_next {
                held_back.push_back(*target);
            }
            is_next
        });
        next.or_else(|| held_back.pop_front())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use domain::id::UpstreamName;

    struct Counting(AtomicU64);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            let next = self.0.fetch_add(1, Ordering::Relaxed);
            bytes.copy_from_slice(&next.to_ne_bytes());
        }
    }

    fn deployment(name: &'static str, weight: u32, priority: u32) -> Deployment {
        let upstream = UpstreamName::new(name);
        Deployment { upstream, upstream_model: name.into(), weight, priority }
    }

    #[test]
    fn lower_priorities_come_first() {
        let all = [deployment("spare", 9, 1), deployment("main", 1, 0), deployment("last", 1, 2)];
        let entropy = Counting(AtomicU64::new(0));
        let names: Vec<_> = order(&all, &entropy).iter().map(|d| d.upstream.to_string()).collect();
        assert_eq!(names, ["main", "spare", "last"]);
    }

    #[test]
    fn weights_share_the_requests() {
        let all = [deployment("a", 3, 0), deployment("b", 1, 0), deployment("never", 0, 0)];
        let entropy = Counting(AtomicU64::new(0));
        let mut first = [0; 2];
        for _ in 0..400 {
            match order(&all, &entropy)[0].upstream.as_str() {
                "a" => first[0] += 1,
                "b" => first[1] += 1,
                other => panic!("{other} came first"),
            }
            entropy.0.store(first[0] + first[1], Ordering::Relaxed);
        }
        assert_eq!(first, [300, 100]);
    }

    #[test]
    fn what_is_held_back_comes_last_and_what_is_alone_is_not() {
        let all = [deployment("a", 1, 0), deployment("b", 1, 0), deployment("c", 1, 0)];
        let targets: Vec<_> = all.iter().collect();
        let names = |targets: &[&Deployment], held_back: &[&str]| {
            let is_available = |target: &Deployment| !held_back.contains(&target.upstream.as_str());
            let order = attempt_order(targets, is_available);
            order.map(|target| target.upstream.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&targets, &[]), ["a", "b", "c"]);
        assert_eq!(names(&targets, &["a", "b"]), ["c", "a", "b"]);
        assert_eq!(names(&targets, &["a", "b", "c"]), ["a", "b", "c"]);
        let asked = std::cell::Cell::new(0);
        let is_available = |_: &Deployment| {
            asked.set(asked.get() + 1);
            false
        };
        assert_eq!(attempt_order(&targets[..1], is_available).count(), 1);
        assert_eq!(asked.get(), 0);
    }
}
