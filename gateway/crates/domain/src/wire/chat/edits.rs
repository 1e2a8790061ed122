//! The changes to a forwarded chat request, as edits of its bytes.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;

use super::super::json::RawJson;
use super::super::range_in;
use super::super::splice::Edit;
use super::super::text::json_string;
use super::ChatRequest;
use super::fields::Member;

impl<'a> ChatRequest<'a> {
    /// Returns the edits for an upstream whose name for the model is `upstream_model` and which
    /// obeys an output cap in any field of `cap_names`, in order of preference.
    ///
    /// The forwarded request has at most one cap, in tokens per answer: the largest of the
    /// client's, or `cap` if that is less. If the client set none, `cap` is added.
    pub fn edits(&self, upstream_model: &str, cap: Option<u64>, cap_names: &[&str]) -> Vec<Edit> {
        let mut edits = Vec::with_capacity(1);
        let mut model = (self.model != upstream_model).then(|| json_string(upstream_model));
        let mut removed: Vec<Member<'a>> = Vec::new();
        removed.extend(self.ignored.iter().map(|ignored| ignored.member));

        if let Some(cap) = self.max_output.into_iter().chain(cap).min() {
            let is_given = |name: &&&str| self.caps().any(|given| given.name == **name);
            let kept = cap_names.iter().find(is_given);
            for given in self.caps() {
                if Some(&given.name) != kept {
                    removed.push(given.member);
                } else if given.value != Some(cap) {
                    let range = self.range(given.member.value);
                    edits.push(Edit { range, with: cap.to_string().into() });
                }
            }
            if let (None, Some(name)) = (kept, cap_names.first()) {
                _ = write!(self.after_model(&mut model), ",\"{name}\":{cap}");
            }
        }
        if self.stream && !self.include_usage {
            if let Some(given) = &self.stream_options {
                edits.push(given.with_usage(self.body));
            } else {
                // Inserted after the model's name, so that one edit changes both.
                let options = r#","stream_options":{"include_usage":true}"#;
                self.after_model(&mut model).push_str(options);
            }
        }
        if let Some(text) = model {
            edits.push(Edit { range: self.range(self.model_raw), with: Bytes::from(text) });
        }
        edits.extend(removals(self.body, removed));
        edits.sort_unstable_by_key(|edit| edit.range.start);
        edits
    }

    /// Returns the replacement of the model's value, to which fields can be appended.
    fn after_model<'t>(&self, text: &'t mut Option<String>) -> &'t mut String {
        text.get_or_insert_with(|| self.model_raw.get().to_owned())
    }

    fn range(&self, value: RawJson<'_>) -> Range<usize> {
        range_in(self.body, value.get())
    }
}

/// Returns the edits that remove fields from objects of `body`, each with one comma, so that the
/// rest is valid JSON.
fn removals(body: &str, mut members: Vec<Member<'_>>) -> impl Iterator<Item = Edit> {
    members.sort_unstable_by_key(|member| (member.object, member.index));
    let mut runs: Vec<Range<usize>> = Vec::with_capacity(members.len());
    let mut previous = None;
    for member in &members {
        let value = range_in(body, member.value.get());
        match runs.last_mut() {
            // Adjacent fields are removed by one edit; otherwise two edits would remove the same
            // comma.
            Some(run) if previous == Some((member.object, member.index)) => run.end = value.end,
            _ => runs.push(member_start(body, value.start)..value.end),
        }
        previous = Some((member.object, member.index + 1));
    }
    runs.into_iter().map(|run| Edit { range: with_comma(body, run), with: Bytes::new() })
}

/// Returns the start of the field whose value starts at `value`.
fn member_start(body: &str, value: usize) -> usize {
    let before = body[..value].trim_ascii_end();
    let before = before.strip_suffix(':').unwrap_or(before).trim_ascii_end();
    let name = before.strip_suffix('"').unwrap_or(before);
    // A quote inside the name follows a backslash, the opening quote does not.
    let opening = name.rmatch_indices('"').find(|(at, _)| !name[..*at].ends_with('\\'));
    opening.map_or(value, |(at, _)| at)
}

/// Extends a range by the comma after it, or by the one before it.
fn with_comma(body: &str, run: Range<usize>) -> Range<usize> {
    let (before, after) = (body[..run.start].trim_ascii_end(), body[run.end..].trim_ascii_start());
    if after.starts_with(',') {
        run.start..body.len() - after.len() + 1
    } else if before.ends_with(',') {
        before.len() - 1..run.end
    } else {
        run
    }
}
