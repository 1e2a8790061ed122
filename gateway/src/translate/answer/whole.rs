//! A whole chat answer as a response object (§4).

use std::sync::Arc;

use bytes::Bytes;

use super::events::Events;
use super::object::{Head, State};
use super::reading::{Mode, Reading};
use super::{End, Envelope, Outcome, Produced, Trouble, UsageReport};
use crate::translate::plan::Plan;
use crate::wire::chunk::ChunkView;
use crate::wire::error::ForeignError;
use crate::wire::flaw;

/// An answer that has come whole and can be given to the client.
pub struct Whole {
    head: Head,
    reading: Reading,
}

/// An answer that cannot be given to the client, and what it has cost all the same.
#[derive(Debug)]
pub struct Broken {
    /// Why not.
    pub trouble: Trouble,
    /// What the upstream says that it used; `None` if it does not.
    pub usage: Option<UsageReport>,
    /// What the model produced, as far as it was read, to be counted.
    pub produced: Produced,
}

/// Reads a whole chat answer.
///
/// # Errors
/// It is none, or an error, or the upstream broke it off, or the model called what it must not.
pub fn whole(body: &str, envelope: &Envelope, plan: Arc<Plan>) -> Result<Whole, Box<Broken>> {
    let head = Head::new(envelope, &plan);
    let mut reading = Reading::new(envelope, plan);
    match read(body, &mut reading) {
        Ok(()) => Ok(Whole { head, reading }),
        Err(trouble) => {
            let (usage, produced) = (reading.usage, reading.items.produced());
            Err(Box::new(Broken { trouble, usage, produced }))
        }
    }
}

fn read(body: &str, reading: &mut Reading) -> Result<(), Trouble> {
    let view = ChunkView::parse(body).map_err(|error| {
        Trouble::Invalid(format!("its answer is not a chat answer: {}", flaw(&error)))
    })?;
    reading.head(&view);
    let Some(choice) = view.choices().iter().find(|choice| choice.index == 0) else {
        let error = ForeignError::parse(body.as_bytes());
        return Err(if view.error.is_some() || error.message.is_some() {
            Trouble::Reported(error)
        } else {
            Trouble::Invalid("its answer has no `choices`".to_owned())
        });
    };
    reading.choice(choice, Mode::Whole, &mut Events::nowhere())?;
    reading.settle()
}

impl Whole {
    /// What the upstream says that the answer used; `None` if it does not.
    pub fn usage(&self) -> Option<UsageReport> {
        self.reading.usage
    }

    /// What the model produced, to be counted.
    pub fn produced(&self) -> Produced {
        self.reading.items.produced()
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        self.reading.outcome()
    }

    /// Makes the response object.
    pub fn finish(mut self, end: End) -> Bytes {
        self.reading.close(&mut Events::nowhere());
        let state = match self.reading.reason() {
            None => State::Completed(end.now),
            Some(reason) => State::Incomplete(reason),
        };
        self.reading.object(&self.head, state, Some(&end.usage))
    }
}
