//! Tracks which choices of an answer have begun and ended.
//!
//! A choice ends with its first `finish_reason`. Later chunks, such as the usage chunk of some servers, which
//! repeats choice 0, do not reopen it.

use domain::wire::finish::FinishReason;

/// OpenAI allows `n` up to 128. Higher indices share one slot, so that an upstream cannot grow the table.
pub(super) const MAX_CHOICES: u8 = 128;

/// The choices of one answer.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// The states by index.
    states: Vec<ChoiceState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChoiceState {
    /// Not begun.
    #[default]
    Absent,
    /// Begun.
    Open,
    /// Its last chunk had an empty `finish_reason`; it has ended if the end marker follows.
    Unnamed,
    /// Ended.
    Ended,
}

impl Choices {
    /// Updates the state of the choice `index` from a chunk or a plain answer, which ends it if there is a `finish`.
    pub(super) fn observe(&mut self, index: u32, finish: Option<FinishReason>) {
        let index = usize::try_from(index).unwrap_or(usize::MAX).min(MAX_CHOICES.into());
        if self.states.len() <= index {
            self.states.resize(index + 1, ChoiceState::Absent);
        }
        let state = &mut self.states[index];
        *state = match (*state, finish) {
            (ChoiceState::Ended, _) => ChoiceState::Ended,
            (_, None) => ChoiceState::Open,
            (_, Some(FinishReason::Empty)) => ChoiceState::Unnamed,
            (_, Some(_)) => ChoiceState::Ended,
        };
    }

    /// Returns whether at least `asked` choices, and at least one, have begun, and all of them have ended.
    pub(super) fn is_finished(&self, asked: usize) -> bool {
        let has_ended = |state| state == ChoiceState::Ended;
        let ended = self.states.iter().filter(|state| has_ended(**state)).count();
        self.all(has_ended) && ended >= asked
    }

    /// Returns whether all choices have ended given the end marker of a stream or the end of a plain answer, which also
    /// ends choices with an empty `finish_reason` (§4.3).
    pub(super) fn is_finished_by_marker(&self) -> bool {
        self.all(|state| matches!(state, ChoiceState::Ended | ChoiceState::Unnamed))
    }

    /// Returns whether no choice has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    fn all(&self, has_ended: impl Fn(ChoiceState) -> bool) -> bool {
        let mut begun =
            self.states.iter().filter(|state| **state != ChoiceState::Absent).peekable();
        begun.peek().is_some() && begun.all(|state| has_ended(*state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::chunk::ChunkView;

    /// `finished` states whether the choices have ended without and with the end marker.
    fn check(chunks: &[&str], finished: (bool, bool)) {
        let mut choices = Choices::default();
        for chunk in chunks {
            let json = format!(r#"{{"choices":[{chunk}]}}"#);
            let view = ChunkView::parse(&json).unwrap();
            view.choices().iter().for_each(|choice| choices.observe(choice.index, choice.finish()));
        }
        let seen = (choices.is_finished(1), choices.is_finished_by_marker());
        assert_eq!(seen, finished, "{chunks:?}");
    }

    #[test]
    fn an_answer_has_ended_when_each_of_its_choices_has() {
        check(&[], (false, false));
        check(&[r#"{"index":0}"#], (false, false));
        check(&[r#"{"index":0,"finish_reason":null}"#], (false, false));
        check(&[r#"{"index":0}"#, r#"{"index":0,"finish_reason":"stop"}"#], (true, true));
        check(&[r#"{"index":1}"#, r#"{"index":0,"finish_reason":"stop"}"#], (false, false));
        check(
            &[r#"{"index":0,"finish_reason":"stop"},{"index":1,"finish_reason":"length"}"#],
            (true, true),
        );
    }

    #[test]
    fn an_answer_whose_choices_have_not_all_come_has_not_ended() {
        let mut choices = Choices::default();
        let view = ChunkView::parse(r#"{"choices":[{"finish_reason":"stop"}]}"#).unwrap();
        choices.observe(0, view.choices()[0].finish());
        assert!(choices.is_finished(1) && !choices.is_finished(3));
        assert!(choices.is_finished_by_marker(), "some servers give one answer, whatever `n` is");
    }

    #[test]
    fn a_choice_that_has_ended_stays_so() {
        check(&[r#"{"finish_reason":"stop"}"#, r#"{"finish_reason":null}"#], (true, true));
        check(&[r#"{"finish_reason":"stop"}"#, r#"{"finish_reason":""}"#], (true, true));
    }

    #[test]
    fn an_empty_reason_needs_the_end_marker() {
        check(&[r#"{"finish_reason":""}"#], (false, true));
        check(&[r#"{"finish_reason":""}"#, r#"{"finish_reason":null}"#], (false, false));
    }

    #[test]
    fn an_absurd_index_takes_no_memory() {
        let mut choices = Choices::default();
        for index in [u32::MAX, 4_000_000_000, 1 << 20] {
            let json = format!(r#"{{"choices":[{{"index":{index}}}]}}"#);
            choices.observe(ChunkView::parse(&json).unwrap().choices()[0].index, None);
        }
        assert_eq!(choices.states.len(), usize::from(MAX_CHOICES) + 1);
        assert!(!choices.is_finished(1));
    }
}
