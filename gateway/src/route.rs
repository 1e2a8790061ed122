//! Routing: the deployments of a model in the order in which they are tried.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::Entropy;
use crate::upstream::Load;
use domain::model::{Deployment, Model, Routing};
use domain::wire::conversation::ConversationKey;

/// How much more than its share of the requests in flight a deployment may have before a conversation is sent to
/// another one that does not have it cached, as a fraction.
const AFFINITY_SLACK: (u64, u64) = (5, 4);

/// Orders the deployments of `model` by priority, and within one priority by the model's routing. `load` returns the
/// load of a deployment; it and `conversation` are called only if the routing depends on them.
pub fn order<'a>(
    model: &'a Model,
    load: impl Fn(&Deployment) -> Load,
    conversation: impl FnOnce() -> Option<ConversationKey>,
    entropy: &dyn Entropy,
) -> Vec<&'a Deployment> {
    let mut targets: Vec<_> = model.deployments.iter().collect();
    if targets.len() < 2 {
        return targets;
    }
    let conversation = match model.routing {
        Routing::PrefixAffinity => conversation(),
        Routing::Weighted | Routing::LeastLoaded => None,
    };
    targets.sort_by_key(|target| target.priority);
    for group in targets.chunk_by_mut(|a, b| a.priority == b.priority) {
        match (model.routing, conversation) {
            (Routing::PrefixAffinity, Some(key)) => prefer_cached(group, key, &load),
            (Routing::LeastLoaded, _) => {
                shuffle(group, entropy);
                prefer_less_loaded(group, &load);
            }
            (Routing::Weighted | Routing::PrefixAffinity, _) => shuffle(group, entropy),
        }
    }
    targets
}

/// Puts the less loaded of the first two first ("power of two choices"). Always choosing the least loaded of all would
/// send every request to the same deployment until its load is noticed.
fn prefer_less_loaded(group: &mut [&Deployment], load: impl Fn(&Deployment) -> Load) {
    let [first, second, ..] = group else { return };
    let loads = [load(first), load(second)];
    // Latencies are compared only if both are known.
    let is_known = loads.iter().all(|load| !load.latency.is_zero());
    // The time that a new request would wait, if the requests in flight were answered one after another.
    let [first_wait, second_wait] = loads.map(|Load { in_flight, latency }| {
        let latency = if is_known { latency.as_micros().max(1) } else { 1 };
        latency * (u128::from(in_flight) + 1)
    });
    // The weights are compared crosswise, which avoids a division.
    let (first_weight, second_weight) = (first.weight.max(1), second.weight.max(1));
    if second_wait * u128::from(first_weight) < first_wait * u128::from(second_weight) {
        std::mem::swap(first, second);
    }
}

/// Orders a group by weighted rendezvous hashing: each conversation has an order that does not depend on
/// other deployments, so that one that comes or goes moves only its own conversations. The first deployment without
/// more than its share of the load is then moved to the front (consistent hashing with bounded loads).
fn prefer_cached(
    group: &mut [&Deployment],
    key: ConversationKey,
    load: impl Fn(&Deployment) -> Load,
) {
    group.sort_by(|a, b| rank(a, key).total_cmp(&rank(b, key)));
    let weight = |target: &Deployment| u64::from(target.weight.max(1));
    let in_flight: Vec<_> = group.iter().map(|target| u64::from(load(target).in_flight)).collect();
    let all_weights: u64 = group.iter().map(|target| weight(target)).sum();
    let all_in_flight = in_flight.iter().sum::<u64>() + 1;
    let (more, than) = AFFINITY_SLACK;
    let chosen = group.iter().zip(in_flight).position(|(target, in_flight)| {
        let share = all_in_flight * weight(target) * more;
        in_flight < share.div_ceil(all_weights * than)
    });
    group[..=chosen.unwrap_or_default()].rotate_right(1);
}

/// Returns the rank of a deployment for a conversation; the lowest is the first choice, and each deployment is
/// the first choice of a share of the conversations that is proportional to its weight.
fn rank(target: &Deployment, key: ConversationKey) -> f64 {
    let name = [target.upstream.as_str(), &target.upstream_model].join("/");
    let hash = xxh3_64_with_seed(name.as_bytes(), key.0);
    // A number between 0 and 1, exclusive; 2^-53 is the distance of such numbers.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln() / f64::from(target.weight.max(1))
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
pub struct AttemptOrder<'a, F> {
    left: std::slice::Iter<'a, &'a Deployment>,
    held_back: VecDeque<&'a Deployment>,
    is_alone: bool,
    is_available: F,
}

impl<'a, F: Fn(&Deployment) -> bool> AttemptOrder<'a, F> {
    /// Creates the order of `targets`.
    pub fn new(targets: &'a [&'a Deployment], is_available: F) -> Self {
        let is_alone = targets.len() < 2;
        Self { left: targets.iter(), held_back: VecDeque::new(), is_alone, is_available }
    }

    /// Returns the next target that is available.
    pub fn next_available(&mut self) -> Option<&'a Deployment> {
        let Self { left, held_back, is_alone, is_available } = self;
        left.by_ref().copied().find(|target| {
            let is_next = *is_alone || is_available(target);
            if !is_next {
                held_back.push_back(*target);
            }
            is_next
        })
    }
}

impl<'a, F: Fn(&Deployment) -> bool> Iterator for AttemptOrder<'a, F> {
    type Item = &'a Deployment;

    fn next(&mut self) -> Option<&'a Deployment> {
        self.next_available().or_else(|| self.held_back.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::catalogue::simulated;
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

    fn model(routing: Routing, deployments: &[Deployment]) -> Model {
        let model = simulated(Timestamp::UNIX_EPOCH).models.remove(0);
        Model { routing, deployments: deployments.to_vec(), ..model }
    }

    /// Returns the names in the order for a conversation, under the load that `load` returns for a name.
    fn names(model: &Model, load: impl Fn(&str) -> Load, key: u64, draw: u64) -> Vec<String> {
        let entropy = Counting(AtomicU64::new(draw));
        let load = |target: &Deployment| load(target.upstream.as_str());
        let order = order(model, load, || Some(ConversationKey(key)), &entropy);
        order.iter().map(|target| target.upstream.to_string()).collect()
    }

    fn idle(_: &str) -> Load {
        Load::default()
    }

    fn in_flight(in_flight: u32) -> Load {
        Load { in_flight, latency: Duration::from_millis(100) }
    }

    #[test]
    fn lower_priorities_come_first() {
        let all = [deployment("spare", 9, 1), deployment("main", 1, 0), deployment("last", 1, 2)];
        for routing in [Routing::Weighted, Routing::LeastLoaded, Routing::PrefixAffinity] {
            assert_eq!(names(&model(routing, &all), idle, 1, 0), ["main", "spare", "last"]);
        }
    }

    #[test]
    fn weights_share_the_requests() {
        let all = [deployment("a", 3, 0), deployment("b", 1, 0), deployment("never", 0, 0)];
        let model = model(Routing::Weighted, &all);
        let mut first = [0; 2];
        for draw in 0..400 {
            match names(&model, idle, 1, draw)[0].as_str() {
                "a" => first[0] += 1,
                "b" => first[1] += 1,
                other => panic!("{other} came first"),
            }
        }
        assert_eq!(first, [300, 100]);
    }

    #[test]
    fn the_less_loaded_of_two_comes_first() {
        let all = [deployment("a", 1, 0), deployment("b", 1, 0)];
        let both = model(Routing::LeastLoaded, &all);
        let busy = |name: &str| in_flight(if name == "a" { 3 } else { 2 });
        let slow = |name: &str| Load {
            in_flight: 1,
            latency: Duration::from_millis(if name == "a" { 300 } else { 200 }),
        };
        for draw in 0..10 {
            assert_eq!(names(&both, busy, 1, draw), ["b", "a"]);
            assert_eq!(names(&both, slow, 1, draw), ["b", "a"]);
        }
        let heavy = [deployment("a", 2, 0), deployment("b", 1, 0)];
        for draw in 0..10 {
            // Four requests at twice the weight are fewer than three.
            assert_eq!(names(&model(Routing::LeastLoaded, &heavy), busy, 1, draw), ["a", "b"]);
        }
    }

    #[test]
    fn a_conversation_stays_where_it_is_while_others_come_and_go() {
        let all = ["a", "b", "c", "d"].map(|name| deployment(name, 1, 0));
        let four = model(Routing::PrefixAffinity, &all);
        let three = model(Routing::PrefixAffinity, &all[..3]);
        let mut first = std::collections::HashMap::<String, u32>::new();
        for key in 0..1_000 {
            let among_four = names(&four, idle, key, key);
            assert_eq!(among_four, names(&four, idle, key, key + 1), "chance has no part in it");
            let without_d: Vec<_> = among_four.iter().filter(|name| *name != "d").collect();
            assert_eq!(without_d, names(&three, idle, key, 0).iter().collect::<Vec<_>>());
            *first.entry(among_four[0].clone()).or_default() += 1;
        }
        assert!(
            first.len() == 4 && first.values().all(|count| (200..300).contains(count)),
            "{first:?}"
        );
    }

    #[test]
    fn weights_share_the_conversations() {
        let all = [deployment("a", 3, 0), deployment("b", 1, 0)];
        let model = model(Routing::PrefixAffinity, &all);
        let first = (0..1_000).filter(|key| names(&model, idle, *key, 0)[0] == "a").count();
        assert!((700..800).contains(&first), "{first}");
    }

    #[test]
    fn a_conversation_leaves_a_deployment_with_more_than_its_share_of_the_load() {
        let all = [deployment("a", 1, 0), deployment("b", 1, 0)];
        let model = model(Routing::PrefixAffinity, &all);
        let key = (0..100).find(|key| names(&model, idle, *key, 0)[0] == "a").unwrap();
        let loaded = |a: u32, b: u32| {
            let load = move |name: &str| in_flight(if name == "a" { a } else { b });
            names(&model, load, key, 0)[0].clone()
        };
        // The bound is 5/4 of half of all requests, this one included.
        assert_eq!([loaded(0, 0), loaded(5, 4), loaded(6, 4)], ["a", "a", "a"]);
        assert_eq!([loaded(9, 4), loaded(2, 0), loaded(100, 50)], ["b", "b", "b"]);
    }

    #[test]
    fn what_is_held_back_comes_last_and_what_is_alone_is_not() {
        let all = [deployment("a", 1, 0), deployment("b", 1, 0), deployment("c", 1, 0)];
        let targets: Vec<_> = all.iter().collect();
        let names = |targets: &[&Deployment], held_back: &[&str]| {
            let is_available = |target: &Deployment| !held_back.contains(&target.upstream.as_str());
            let order = AttemptOrder::new(targets, is_available);
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
        assert_eq!(AttemptOrder::new(&targets[..1], is_available).count(), 1);
        assert_eq!(asked.get(), 0);
    }
}
