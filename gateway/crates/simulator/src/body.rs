//! The body of an answer, with its pauses and faults.
//!
//! [`of_stream`] and [`of_plain`] say what happens in which order and are pure; [`play`] does it,
//! as fast as the client reads. Nothing is spawned: an answer that nobody reads stands still.

use std::convert::Infallible;
use std::future::pending;
use std::iter::{self, Peekable};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};

use super::frames::{self, Frame};
use super::line::Cutter;
use super::rejection::Rejection;
use super::script::Script;
use super::truth::{End, Record};

/// The body of any response.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What happens next in a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A piece is sent.
    Send(Frame),
    /// A piece is sent that tells of an error; it is the last one.
    Fail(Frame),
    /// Time passes.
    Wait(Duration),
    /// Nothing happens any more.
    Stall,
    /// The connection is dropped, when all before is sent.
    Cut,
}

struct Playing<I: Iterator<Item = Step>> {
    steps: Peekable<I>,
    record: Record,
    cutter: Cutter,
}

/// Adds the pauses and faults of `script` to the events of a stream. A fault whose number of events
/// the stream does not reach does not happen.
pub(super) fn of_stream<I: Iterator<Item = Frame>>(
    frames: I,
    script: &Script,
) -> impl Iterator<Item = Step> + use<I> {
    let script = script.clone();
    let mut over = false;
    let places = frames.map(Some).chain(iter::once(None)).enumerate();
    let steps = places.flat_map(move |(at, frame)| {
        let is_here = |fault: Option<usize>| fault == Some(at);
        let wait = (at > 0 && !script.pace.is_zero()).then_some(Step::Wait(script.pace));
        let failure = || Step::Fail(frames::error(&Rejection::scripted(500, None)));
        [
            is_here(script.garbage).then(|| Step::Send(frames::garbage())),
            is_here(script.error).then(failure),
            is_here(script.cut).then_some(Step::Cut),
            is_here(script.stall).then_some(Step::Stall),
            wait.filter(|_| frame.is_some()),
            frame.map(Step::Send),
        ]
        .into_iter()
        .flatten()
    });
    steps.take_while(move |step| {
        let is_over = over;
        over |= matches!(step, Step::Fail(_) | Step::Cut | Step::Stall);
        !is_over
    })
}

/// Adds the faults of `script` to a plain body; they count bytes.
pub(super) fn of_plain(frame: Frame, script: &Script) -> Vec<Step> {
    if script.garbage.is_some() {
        let data = Bytes::from_static(b"<html>simulated garbage</html>");
        return vec![Step::Send(Frame { data, tokens: 0, usage: false })];
    }
    if script.error.is_some() {
        let data = Rejection::scripted(500, None).body().to_string().into();
        return vec![Step::Fail(Frame { data, tokens: 0, usage: false })];
    }
    let (after, fault) = match (script.cut, script.stall) {
        (Some(cut), stall) if stall.is_none_or(|stall| cut <= stall) => (cut, Step::Cut),
        (_, Some(stall)) => (stall, Step::Stall),
        _ => return vec![Step::Send(frame)],
    };
    if after >= frame.data.len() {
        return vec![Step::Send(frame)];
    }
    let part = Frame { data: frame.data.slice(..after), tokens: 0, usage: false };
    let part = (after > 0).then_some(Step::Send(part));
    part.into_iter().chain([fault]).collect()
}

/// Makes the body that goes through `steps` and notes in `record` how far it came.
pub(super) fn play(
    steps: impl Iterator<Item = Step> + Send + 'static,
    record: Record,
    cutter: Cutter,
) -> Body {
    let playing = Playing { steps: steps.peekable(), record, cutter };
    StreamBody::new(stream::unfold(playing, Playing::next)).boxed_unsync()
}

// === impl Playing ===

impl<I: Iterator<Item = Step>> Playing<I> {
    async fn next(mut self) -> Option<(Result<http_body::Frame<Bytes>, Infallible>, Self)> {
        loop {
            match self.steps.next()? {
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Stall => return pending().await,
                Step::Cut => {
                    self.record.end(End::Cut);
                    self.cutter.cut();
                    return pending().await;
                }
                Step::Fail(frame) => return Some(self.send(frame, End::Error)),
                Step::Send(frame) => return Some(self.send(frame, End::Answered)),
            }
        }
    }

    /// Sends `frame`. If it is the last, the answer has its end: hyper does not ask on when it has
    /// as many bytes as the head promised.
    fn send(
        mut self,
        frame: Frame,
        end: End,
    ) -> (Result<http_body::Frame<Bytes>, Infallible>, Self) {
        self.record.sent(frame.tokens, frame.usage);
        if self.steps.peek().is_none() {
            self.record.end(end);
        }
        (Ok(http_body::Frame::data(frame.data)), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Frame {
        Frame { data: Bytes::from_static(text.as_bytes()), tokens: 1, usage: true }
    }

    fn script(text: &str) -> Script {
        super::super::script::read(text, "").expect("a script").0
    }

    fn shown(steps: impl IntoIterator<Item = Step>) -> String {
        let show = |step: Step| match step {
            Step::Send(frame) if frame == frames::garbage() => "garbage".to_owned(),
            Step::Send(frame) => String::from_utf8_lossy(&frame.data).into_owned(),
            Step::Fail(_) => "error".to_owned(),
            Step::Wait(time) => format!("{time:?}"),
            Step::Stall => "stall".to_owned(),
            Step::Cut => "cut".to_owned(),
        };
        steps.into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check_stream(text: &str, expected: &str) {
        let frames = ["a", "b", "c"].map(frame).into_iter();
        assert_eq!(shown(of_stream(frames, &script(text))), expected, "{text}");
    }

    #[track_caller]
    fn check_plain(text: &str, expected: &str) {
        assert_eq!(shown(of_plain(frame("answer"), &script(text))), expected, "{text}");
    }

    #[test]
    fn faults_of_a_stream_come_after_their_number_of_events() {
        check_stream("", "a b c");
        check_stream("pace_ms=5", "a 5ms b 5ms c");
        check_stream("cut=0", "cut");
        check_stream("cut=2&pace_ms=5", "a 5ms b cut");
        check_stream("stall=3", "a b c stall");
        check_stream("cut=4", "a b c");
        check_stream("garbage=1", "a garbage b c");
        check_stream("garbage=1&error=2", "a garbage b error");
    }

    #[test]
    fn faults_of_a_plain_answer_come_after_their_number_of_bytes() {
        check_plain("", "answer");
        check_plain("cut=0", "cut");
        check_plain("cut=3", "ans cut");
        check_plain("cut=3&stall=2", "an stall");
        check_plain("cut=6", "answer");
        check_plain("error=0", "error");
        check_plain("garbage=0", "<html>simulated garbage</html>");
    }
}
