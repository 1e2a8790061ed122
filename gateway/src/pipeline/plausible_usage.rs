//! Validates the usage that an upstream reports.
//!
//! A missing count, or a count of zero for text, is unknown and replaced by our own count. A report that more
//! of the answer follows is a lower bound. A count above what the request can have used is charged only up to
//! the bound: the operator pays the rest, the record notes the reported number, and the upstream's health shows
//! it.

use std::ops::ControlFlow;

use super::coverage::Coverage;
use crate::ledger::UsageBound;
use domain::model::Modality;
use domain::money::Nanos;
use domain::price::Price;
use domain::record::RequestRecord;
use domain::usage::{Tokens, Usage};
use domain::wire::content::for_each_part;
use domain::wire::usage::{AnswerUsage, UsageReport};

/// The largest excess that is recorded as the operator's loss, in tokens. A larger number is not a count and
/// would make the sum of losses useless.
const MAX_BOOKED_EXCESS: u64 = u32::MAX as u64;

/// The validated report, and what was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlausibleUsage {
    /// The plausible part of the report.
    pub(super) report: UsageReport,
    /// Whether the upstream could not report its usage, because the gateway ended the answer.
    is_ended_by_gateway: bool,
    /// The report of an answer that more text followed.
    earlier: Option<OutdatedReport>,
    /// The bound on our own counts.
    max_counts: MaxCounts,
    /// The reported input tokens, if they exceed the bound.
    input_excess: Option<Excess>,
    /// The reported output tokens, if they exceed the bound.
    output_excess: Option<Excess>,
}

/// A report that came before the end of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OutdatedReport {
    output: Tokens,
    reasoning: Option<Tokens>,
}

/// The bound on tokens that are counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MaxCounts {
    input: Tokens,
    output: Tokens,
}

/// A count above its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Excess {
    reported: u64,
    bound: u64,
}

impl PlausibleUsage {
    /// Returns the plausible part of what the upstream reports; empty if it reports nothing. `input_bytes` is the
    /// text that was sent upstream.
    pub(super) fn new(coverage: &Coverage, bound: UsageBound, input_bytes: u64) -> Self {
        let (meter, body) = (&coverage.meter, coverage.request_body());
        let produced = meter.produced_bytes() as u64;
        let max_counts = MaxCounts {
            input: Tokens(bound.input_tokens(body.len() as u64, 0)),
            output: Tokens(bound.output_tokens(coverage.output_cap(), produced)),
        };
        let is_ended_by_gateway = meter.is_ended_by_gateway;
        let Some(mut report) = meter.reported else {
            return Self { is_ended_by_gateway, max_counts, ..Self::default() };
        };
        // A request and an answer with text have tokens.
        report.input = report.input.filter(|it| it.0 > 0 || body.is_empty());
        report.output = report.output.filter(|it| it.0 > 0 || produced == 0);
        let input_excess = cut(&mut report.input, |tokens| {
            let text = bound.input_tokens(input_bytes, 0);
            if tokens <= text {
                return text;
            }
            bound.input_tokens(body.len() as u64, media_parts(body))
        });
        let output_excess = cut(&mut report.output, |_| max_counts.output.0);
        if input_excess.is_some() || report.input.is_none() {
            // It is a part of an implausible number.
            report.cached = None;
        }
        let mut earlier = None;
        if coverage.has_withheld() {
            // The report includes text that the client did not get.
            (report.output, report.reasoning) = (None, None);
        } else if meter.is_report_outdated() {
            let reasoning = report.reasoning.take();
            earlier = report.output.take().map(|output| OutdatedReport { output, reasoning });
        }
        Self { report, is_ended_by_gateway, earlier, max_counts, input_excess, output_excess }
    }

    /// Returns the input tokens counted by the upstream; `None` if it reported none or an implausible number.
    pub(super) fn reported_input(&self) -> Option<Tokens> {
        self.report.input.filter(|_| self.input_excess.is_none())
    }

    /// Returns whether the upstream reports its usage, as shown by this whole answer; `None` if it could not.
    pub(super) fn shows_reporting(&self) -> Option<bool> {
        (!self.is_ended_by_gateway).then(|| self.report.is_complete())
    }

    /// Returns the usage; `None` if a count is needed.
    pub(super) fn complete(&self) -> Option<AnswerUsage> {
        self.report.complete()
    }

    /// Returns the usage, with unknown parts taken from `counted`.
    pub(super) fn or_counted(&self, counted: &Usage) -> AnswerUsage {
        let mut counted = *counted;
        if let Some(earlier) = self.earlier {
            counted.output = counted.output.max(earlier.output);
            counted.reasoning = counted.reasoning.max(earlier.reasoning);
        }
        counted.input = counted.input.min(self.max_counts.input);
        counted.output = counted.output.min(self.max_counts.output);
        self.report.or_counted(&counted)
    }

    /// Notes on the record what was implausible, and what was counted because it is unknown.
    pub(super) fn note(&self, record: &mut RequestRecord) {
        record.notes.extend(self.excess_notes());
        for (name, is_unknown) in [
            ("prompt_tokens", self.report.input.is_none()),
            ("completion_tokens", self.report.output.is_none()),
        ] {
            if is_unknown && !self.report.is_empty() {
                record.notes.push(format!("usage_counted={name}"));
            }
        }
    }

    /// Describes the implausible counts for the operator; `None` if there are none.
    pub(super) fn complaint(&self) -> Option<String> {
        let describe = |name: &str, excess: Option<Excess>| {
            let Excess { reported, bound } = excess?;
            Some(format!("{reported} {name} tokens for a request that can have had {bound}"))
        };
        let input = describe("prompt", self.input_excess);
        let complaints: Vec<_> =
            input.into_iter().chain(describe("output", self.output_excess)).collect();
        (!complaints.is_empty()).then(|| format!("it reported {}", complaints.join(", and ")))
    }

    /// Returns the cost of the implausible tokens: the operator's loss.
    pub(super) fn loss(&self, price: &Price) -> Nanos {
        let beyond = |excess: Option<Excess>| {
            let tokens = excess.map_or(0, |excess| excess.reported - excess.bound);
            Tokens(tokens.min(MAX_BOOKED_EXCESS))
        };
        let (input, output) = (beyond(self.input_excess), beyond(self.output_excess));
        price.cost(&Usage { input, output, ..Usage::default() })
    }

    fn excess_notes(&self) -> impl Iterator<Item = String> {
        let note = |name, excess: Excess| format!("usage_bounded:{name}={}", excess.reported);
        let input = self.input_excess.map(|excess| note("prompt_tokens", excess));
        input.into_iter().chain(self.output_excess.map(|excess| note("completion_tokens", excess)))
    }
}

/// Lowers a count to its bound, and returns the original if it was higher.
fn cut(tokens: &mut Option<Tokens>, bound: impl FnOnce(u64) -> u64) -> Option<Excess> {
    let reported = (*tokens)?.0;
    let bound = bound(reported);
    if reported <= bound {
        return None;
    }
    *tokens = Some(Tokens(bound));
    Some(Excess { reported, bound })
}

/// Counts the images, audio, files and parts of unknown types in a chat request's messages.
fn media_parts(body: &[u8]) -> u64 {
    let mut count = 0;
    let read = for_each_part(body, |part| {
        count += u64::from(part.modality() != Some(Modality::Text));
        ControlFlow::<()>::Continue(())
    });
    if read.is_none() {
        // In a body that cannot be read, each `type` may be that of a part.
        count = memchr::memmem::find_iter(body, br#""type""#).count() as u64;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_no_text_are_found() {
        let check = |body: &str, expected: u64| {
            assert_eq!(media_parts(body.as_bytes()), expected, "{body}");
        };
        check(r#"{"messages":[{"role":"user","content":"\"type\""}]}"#, 0);
        check(
            r#"{"messages":[{"content":[{"type":"text","text":"a"},{"type":"image_url"}]},
                {"content":[{"type":"file"},{"type":"new"},{}]},{"content":null},{}]}"#,
            4,
        );
        check(r#"{"messages":{"type":1,"type":2}}"#, 2);
        check("", 0);
    }

    /// Regression test: an upstream was taken for one that reports no usage.
    #[test]
    fn an_answer_that_the_gateway_ended_does_not_show_whether_the_upstream_reports_usage() {
        let shown = |is_ended_by_gateway, output| {
            let report = UsageReport { input: output, output, ..UsageReport::default() };
            PlausibleUsage { report, is_ended_by_gateway, ..PlausibleUsage::default() }
                .shows_reporting()
        };
        assert_eq!(shown(false, None), Some(false));
        assert_eq!(shown(false, Some(Tokens(1))), Some(true));
        assert_eq!(shown(true, None), None);
        assert_eq!(shown(true, Some(Tokens(1))), None);
    }

    #[test]
    fn a_loss_is_booked_as_far_as_it_is_a_count() {
        let price =
            Price { input: Nanos(1_000_000_000), output: Nanos(2_000_000_000), ..Price::default() };
        let loss = |input: u64, output: u64| {
            let excess = |reported| Some(Excess { reported, bound: 0 });
            let (input_excess, output_excess) = (excess(input), excess(output));
            PlausibleUsage { input_excess, output_excess, ..PlausibleUsage::default() }.loss(&price)
        };
        assert_eq!(loss(1_000_000, 500_000), Nanos(2_000_000_000));
        assert_eq!(loss(u64::MAX, 0), Nanos(4_294_967_295_000));
    }
}
