//! No order of operations loses an entry of the journal.

use std::collections::HashMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::{Completed, Interrupted, ended, found, journal, open};
use domain::id::RequestId;

/// An operation on a journal.
#[derive(Clone, Debug)]
enum Step {
    Begin(u8),
    Write,
    Update(u8),
    Close(u8),
    Commit,
    Rotate,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..20_u8).prop_map(Step::Begin),
        2 => Just(Step::Write),
        2 => (0..20_u8).prop_map(Step::Update),
        4 => (0..20_u8).prop_map(Step::Close),
        1 => Just(Step::Commit),
        1 => Just(Step::Rotate),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_nothing_that_the_store_lacks_is_missing(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&dir);
        let (mut begun, mut written) = (HashMap::new(), HashMap::new());
        let (mut waiting, mut stored) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Begin(number) if begun.get(&number) != Some(&Completed) => {
                    journal.begin(open(number.into())).unwrap();
                    begun.insert(number, Interrupted);
                }
                Step::Write => {
                    journal.flush().unwrap();
                    written.clone_from(&begun);
                }
                Step::Update(number) => journal
                    .update(RequestId(Uuid::from_u128(number.into())), |open| open.output_bytes += 1),
                Step::Close(number) if begun.get(&number) != Some(&Completed) => {
                    waiting.push((number, journal.close(&ended(number.into())).unwrap()));
                    // A request that never began is written at once.
                    if begun.insert(number, Completed).is_none() {
                        written.insert(number, Completed);
                    }
                }
                Step::Commit => {
                    journal.release_committed(waiting.iter().map(|(_, position)| *position));
                    stored.extend(waiting.drain(..).map(|(number, _)| number));
                }
                Step::Rotate => journal.lock().rotate(),
                Step::Begin(_) | Step::Close(_) => {}
            }
        }
        let found: HashMap<_, _> = found(dir.path()).into_iter().collect();
        for (number, status) in written {
            let seen = found.get(&u128::from(number));
            // Later entries may have been written, too.
            if !stored.contains(&number) && seen != begun.get(&number) {
                prop_assert_eq!(seen, Some(&status), "request {}", number);
            }
        }
    }
}
