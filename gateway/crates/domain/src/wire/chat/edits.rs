//! What must change in a chat request on its way upstream, as edits of its bytes.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::super::range_in;
use super::super::splice::Edit;
use super::super::text::json_string;
use super::ChatRequest;
use super::fields::Member;

impl<'a> ChatRequest<'a> {
    /// What must change for an upstream that calls the model `upstream_model` and obeys a cap under each
    /// of `cap_names`, the first of which is preferred.
    ///
    /// The upstream gets at most one cap, in tokens for each answer: the largest that the client set, or
    /// `cap` if that is less. Without a cap of the client's, `cap` is added.
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
                // in the same place as the model's name, so that one edit does for both
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

    /// What replaces the model, for members to be added to.
    fn after_model<'t>(&self, text: &'t mut Option<String>) -> &'t mut String {
        text.get_or_insert_with(|| self.model_raw.get().to_owned())
    }

    fn range(&self, value: &RawValue) -> Range<usize> {
        range_in(self.body, value.get())
    }
}

/// The edits that remove members from the objects of `body`, each with one comma, so that what remains
/// is JSON.
fn removals(body: &str, mut members: Vec<Member<'_>>) -> impl Iterator<Item = Edit> {
    members.sort_unstable_by_key(|member| (member.object, member.index));
    let mut runs: Vec<Range<usize>> = Vec::with_capacity(members.len());
    let mut previous = None;
    for member in &members {
        let value = range_in(body, member.value.get());
        match runs.last_mut() {
            // members that follow one another go together, or they would share a comma
            Some(run) if previous == Some((member.object, member.index)) => run.end = value.end,
            _ => runs.push(member_start(body, value.start)..value.end),
        }
        previous = Some((member.object, member.index + 1));
    }
    runs.into_iter().map(|run| Edit { range: with_comma(body, run), with: Bytes::new() })
}

/// Where the member begins whose value begins at `value`.
fn member_start(body: &str, value: usize) -> usize {
    let before = body[..value].trim_ascii_end();
    let before = before.strip_suffix(':').unwrap_or(before).trim_ascii_end();
    let name = before.strip_suffix('"').unwrap_or(before);
    // a quote in the name has a backslash before it, and the one that opens the name cannot have any
    let opening = name.rmatch_indices('"').find(|(at, _)| !name[..*at].ends_with('\\'));
    opening.map_or(value, |(at, _)| at)
}

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
