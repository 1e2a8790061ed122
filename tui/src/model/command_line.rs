//! The `ctl` command that makes a change, so that it can be put into a script.

use super::catalogue::{CatalogueModel, Deployment};
use super::change::{Change, CredentialDraft, KeyEnd, UpstreamDraft};
use super::keys::Key;
use super::plans::{Limits, Plan};
use super::upstreams::Deadlines;

/// Returns the commands that make `change`, one per line. Returns `None` if `ctl` cannot make it in
/// the same way. Secrets are not part of a command: `ctl` reads them from its standard input.
pub fn command_line(change: &Change) -> Option<String> {
    let commands = match change {
        Change::Batch(changes) => {
            changes.iter().map(arguments).collect::<Option<Vec<Vec<String>>>>()?
        }
        change => vec![arguments(change)?],
    };
    Some(commands.iter().map(|it| line(it)).collect::<Vec<_>>().join("\n"))
}

/// Returns `ctl` with these arguments, quoted for a shell.
pub fn line(arguments: &[String]) -> String {
    let words: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
    format!("ctl {}", words.join(" "))
}

/// Returns the arguments of `ctl` for a single change.
pub fn arguments(change: &Change) -> Option<Vec<String>> {
    let mut line = Line::default();
    match change {
        Change::Batch(_) => return None,
        Change::CreateKey { label, limits, spend_cap_usd, models, expires_in_seconds } => {
            line.words(&["key", "create", label]);
            line.limits(Limits::default(), *limits);
            line.optional("--spend-cap", spend_cap_usd.as_deref());
            line.optional("--expires", expires_in_seconds.map(duration).as_deref());
            for id in models {
                line.words(&["--model", id]);
            }
        }
        Change::UpdateKey { before, after, end } => line.key(before, after, *end),
        Change::RenameAccount { account, name } => {
            line.words(&["account", "rename", account, name]);
        }
        Change::CloseAccount { account } => line.words(&["account", "close", account]),
        Change::DeleteAccount { account } => {
            line.words(&["account", "delete", account, "--confirm", account]);
        }
        Change::ResetPassword { account } => line.words(&["account", "reset-password", account]),
        Change::AddPerson { account, name, role } => {
            line.words(&["account", "people", "add", name, "--role", role.as_str()]);
            line.optional("--account", Some(account.as_str()).filter(|it| !it.is_empty()));
        }
        Change::SetPersonRole { name, role } => {
            line.words(&["account", "people", "set", name, "--role", role.as_str()]);
        }
        Change::RemovePerson { name } => line.words(&["account", "people", "remove", name]),
        Change::CreateInvite { ttl_seconds, plan, credit_usd } => {
            line.words(&["account", "invite", "--ttl", &duration(*ttl_seconds)]);
            line.optional("--plan", Some(plan.as_str()).filter(|plan| !plan.is_empty()));
            line.optional("--credit", credit_usd.as_deref());
        }
        Change::RevokeInvite { id } => line.words(&["account", "uninvite", id]),
        Change::CancelRequest { id } => line.words(&["request", "cancel", id]),
        Change::RevokeSession { id } => line.words(&["session", "revoke", id]),
        Change::RevokeOtherSessions => line.words(&["session", "revoke", "--others"]),
        Change::RotateKey { id, overlap_seconds } => {
            line.words(&["key", "rotate", id, "--overlap", &duration(*overlap_seconds)]);
        }
        Change::RevokeKey { id, .. } => line.words(&["key", "revoke", id]),
        Change::Credit { account, amount_usd, reason } => {
            line.words(&["account", "credit", account, amount_usd, "--reason", reason]);
        }
        Change::Suspend { account, reason } => {
            line.words(&["account", "suspend", account, "--reason", reason]);
        }
        Change::Resume { account } => line.words(&["account", "resume", account]),
        Change::SetPlan { account, plan } => line.words(&["account", "plan", account, plan]),
        Change::GrantRole { account, role } => {
            line.words(&["account", "grant", account, role.as_str()]);
        }
        Change::ChangePassword { .. } => line.words(&["account", "password"]),
        Change::PutPlan { plan, .. } => line.plan(plan),
        Change::AddModel(model) => {
            line.words(&["model", "add", &model.id]);
            line.model(&CatalogueModel::default(), model)?;
        }
        Change::UpdateModel { before, after } => {
            line.words(&["model", "update", &after.id]);
            line.model(before, after)?;
        }
        Change::RemoveModel { id } => line.words(&["model", "remove", id]),
        Change::AddUpstream(draft) => {
            line.words(&["upstream", "add", &draft.name]);
            line.upstream(draft);
        }
        Change::UpdateUpstream(draft) => {
            line.words(&["upstream", "update", &draft.name]);
            line.upstream(draft);
        }
        Change::RemoveUpstream { name } => line.words(&["upstream", "remove", name]),
        Change::ResetUpstream { name } => line.words(&["upstream", "reset", name]),
        // It tests all of them.
        Change::TestUpstream { .. } => line.words(&["doctor"]),
        Change::DrainNode { name, is_draining } => {
            line.words(&["node", "drain", name]);
            line.flag("--undo", !is_draining);
        }
        Change::RemoveNode { name, is_lost } => {
            line.words(&["node", "remove", name]);
            line.flag("--lost", *is_lost);
        }
    }
    Some(line.0)
}

/// Quotes a word for a shell, if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./:@%+=,".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Formats a duration in the greatest unit without a remainder.
fn duration(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (unit, letter) = unit.unwrap_or((1, 's'));
    format!("{}{letter}", seconds / unit)
}

/// The arguments of a command.
#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|word| (*word).to_owned()));
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.words(&[name]);
        }
    }

    fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.words(&[name, value]);
        }
    }

    /// Adds a number that differs; 0 stands for none.
    fn number(&mut self, name: &str, before: Option<u64>, after: Option<u64>) {
        if before != after {
            self.words(&[name, &after.unwrap_or(0).to_string()]);
        }
    }

    /// Adds a text that differs; an empty one stands for none.
    fn text(&mut self, name: &str, before: Option<&str>, after: Option<&str>) {
        if before != after {
            self.words(&[name, after.unwrap_or_default()]);
        }
    }

    fn limits(&mut self, before: Limits, after: Limits) {
        self.number("--rpm", before.rpm, after.rpm);
        self.number("--tpm", before.tpm, after.tpm);
        self.number("--concurrency", before.concurrency, after.concurrency);
        self.number("--monthly-tokens", before.monthly_tokens, after.monthly_tokens);
        if before.observe != after.observe {
            let mode = if after.observe { "observe" } else { "enforce" };
            self.words(&["--limit-mode", mode]);
        }
    }

    /// Adds the differences between two keys, and the new end.
    fn key(&mut self, before: &Key, after: &Key, end: Option<KeyEnd>) {
        self.words(&["key", "set", &after.id]);
        self.text("--label", Some(&before.label), Some(&after.label));
        self.limits(before.limits, after.limits);
        match &after.spend_cap_usd {
            cap if *cap == before.spend_cap_usd => {}
            None => self.words(&["--no-spend-cap"]),
            Some(cap) => self.words(&["--spend-cap", cap]),
        }
        if before.models != after.models {
            self.words(&["--model", &after.models.join(",")]);
        }
        match end {
            None => {}
            Some(KeyEnd::Never) => self.words(&["--no-expiry"]),
            Some(KeyEnd::After(seconds)) => self.words(&["--expires", &duration(seconds)]),
        }
    }

    /// Adds all settings of a plan, because a form replaces the whole plan.
    fn plan(&mut self, plan: &Plan) {
        self.words(&["plan", "set", &plan.name]);
        self.optional("--trial-credit", plan.trial_credit_usd.as_deref());
        let limits = plan.limits;
        let all = [
            ("--rpm", limits.rpm),
            ("--tpm", limits.tpm),
            ("--concurrency", limits.concurrency),
            ("--monthly-tokens", limits.monthly_tokens),
            ("--max-keys", plan.max_keys.map(Into::into)),
        ];
        for (name, limit) in all {
            self.words(&[name, &limit.unwrap_or(0).to_string()]);
        }
        self.words(&["--limit-mode", if limits.observe { "observe" } else { "enforce" }]);
        self.words(&["--model", &plan.models.join(",")]);
    }

    /// Adds the differences between two catalogue entries. Returns `None` if there is one that
    /// `ctl` has no flag for.
    fn model(&mut self, before: &CatalogueModel, after: &CatalogueModel) -> Option<()> {
        if before.deployments != after.deployments {
            for deployment in &after.deployments {
                self.words(&["--upstream", &upstream_model(deployment)?]);
            }
        }
        let text = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let names = [&before.display_name, &after.display_name].map(|name| text(name));
        self.text("--display-name", names[0].as_deref(), names[1].as_deref());
        self.number("--context", before.context, after.context);
        self.number("--max-output", before.max_output, after.max_output);
        let (old, new) = (&before.price, &after.price);
        self.text("--price-in", old.input_usd.as_deref(), new.input_usd.as_deref());
        self.text("--price-cached", old.cached_usd.as_deref(), new.cached_usd.as_deref());
        self.text("--price-out", old.output_usd.as_deref(), new.output_usd.as_deref());
        self.limits(before.limits, after.limits);
        Some(())
    }

    fn upstream(&mut self, draft: &UpstreamDraft) {
        self.words(&["--url", &draft.url, "--profile", draft.profile.name()]);
        match &draft.credential {
            None => {}
            Some(CredentialDraft::Variable(name)) => self.words(&["--key-env", name]),
            Some(CredentialDraft::File(path)) => self.words(&["--key-file", path]),
            Some(CredentialDraft::Secret(_)) => self.words(&["--key-stdin"]),
        }
        let Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms } = draft.deadlines;
        self.number("--connect-ms", None, connect_ms);
        self.number("--first-byte-ms", None, first_byte_ms);
        self.number("--idle-ms", None, idle_ms);
        self.number("--total-ms", None, total_ms);
    }
}

/// Returns the deployment as `ctl` reads it; `None` with a weight or a priority, which it cannot set.
fn upstream_model(deployment: &Deployment) -> Option<String> {
    let Deployment { upstream, model, weight: 1, priority: 0 } = deployment else { return None };
    Some(if model.is_empty() { upstream.clone() } else { format!("{upstream}:{model}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let change = Change::Credit {
            account: "ada@example.org".to_owned(),
            amount_usd: "-2.5".to_owned(),
            reason: "it's $5 less".to_owned(),
        };
        let line = "ctl account credit ada@example.org -2.5 --reason 'it'\\''s $5 less'";
        assert_eq!(command_line(&change).as_deref(), Some(line));
    }

    #[test]
    fn only_changed_fields_of_a_model_are_named() {
        let before = Box::new(CatalogueModel { context: Some(8), ..CatalogueModel::default() });
        let mut after = before.clone();
        after.id = "a".to_owned();
        after.context = None;
        after.price.input_usd = Some("0.1".to_owned());
        let change = Change::UpdateModel { before: before.clone(), after: after.clone() };
        let line = "ctl model update a --context 0 --price-in 0.1";
        assert_eq!(command_line(&change).as_deref(), Some(line));
        let weighted =
            Deployment { upstream: "u".to_owned(), model: String::new(), weight: 2, priority: 0 };
        after.deployments = vec![weighted];
        assert_eq!(command_line(&Change::UpdateModel { before, after }), None);
    }

    #[test]
    fn durations_have_the_greatest_unit() {
        for (seconds, text) in [(0, "0s"), (90, "90s"), (120, "2m"), (7_200, "2h"), (172_800, "2d")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
