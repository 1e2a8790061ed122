//! Response bodies with scripted pauses and faults.
//!
//! [`of_stream`] and [`of_plain`] are pure and return the sequence of steps; [`play`] executes it,
//! as fast as the client reads. No task is spawned: a body makes progress only while it is polled.

use std::convert::Infallible;
use std::future::pending;
use std::iter::{self, Peekable};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};

use super::cut::CutHandle;
use super::frames::{self, Frame};
use super::rejection::Rejection;
use super::script::Script;
use super::truth::{Record, RequestEnd};

/// The body of any response.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One step of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sends a frame.
    Send(Frame),
    /// Sends a frame with an error, which is the last one.
    Fail(Frame),
    /// Pauses.
    Wait(Duration),
    /// Sends nothing more and stays open.
    Stall,
    /// Drops the connection after all earlier frames were sent.
    Cut,
}

/// The state of a body in transmission.
struct ScriptedBody<I: Iterator<Item = Step>> {
    steps: Peekable<I>,
    record: Record,
    cut_handle: CutHandle,
}

/// Adds the pauses and faults of `script` to the events of a stream. A fault after more events than
/// the stream has does not occur.
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

/// Adds the faults of `script` to a plain body. Their positions are in bytes.
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

/// Returns a body that executes `steps` and records its progress in `record`.
pub(super) fn play(
    steps: impl Iterator<Item = Step> + Send + 'static,
    record: Record,
    cut_handle: CutHandle,
) -> Body {
    let body = ScriptedBody { steps: steps.peekable(), record, cut_handle };
    StreamBody::new(stream::unfold(body, ScriptedBody::next)).boxed_unsync()
}

// === impl ScriptedBody ===

impl<I: Iterator<Item = Step>> ScriptedBody<I> {
    async fn next(mut self) -> Option<(Result<http_body::Frame<Bytes>, Infallible>, Self)> {
        loop {
            match self.steps.next()? {
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Stall => return pending().await,
                Step::Cut => {
                    self.record.end(RequestEnd::Cut);
                    self.cut_handle.cut();
                    return pending().await;
                }
                Step::Fail(frame) => return Some(self.send(frame, RequestEnd::Error)),
                Step::Send(frame) => return Some(self.send(frame, RequestEnd::Answered)),
            }
        }
    }

    /// Sends `frame`. The last frame also records the end of the answer, because hyper does not
    /// poll the body again after `content-length` bytes.
    fn send(
        mut self,
        frame: Frame,
        end: RequestEnd,
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
    fn stream_faults_occur_after_the_given_number_of_events() {
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
    fn plain_faults_occur_after_the_given_number_of_bytes() {
        check_plain("", "answer");
        check_plain("cut=0", "cut");
        check_plain("cut=3", "ans cut");
        check_plain("cut=3&stall=2", "an stall");
        check_plain("cut=6", "answer");
        check_plain("error=0", "error");
        check_plain("garbage=0", "<html>simulated garbage</html>");
    }
}
