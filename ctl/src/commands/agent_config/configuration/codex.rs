//! Codex 0.169.0, over the Responses API.

use std::fmt::Write as _;

use super::Target;

/// The path of the configuration file.
pub(super) const PATH: &str =
    "~/.codex/config.toml, or ~/.codex/tollgate.config.toml for `codex --profile tollgate`";

/// Generates the configuration.
///
/// Codex has no setting for the maximum output. Instead, it compacts early enough to leave room for
/// it.
pub(super) fn write(target: &Target<'_>) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = format!(
        "# Codex through Tollgate, as `ctl agent-config codex` writes it.\n\
         model = {}\nmodel_provider = \"tollgate\"\n",
        quoted(target.model)
    );
    // Writing to a string cannot fail.
    if let Some(context) = target.context {
        let _ = writeln!(text, "model_context_window = {context}");
        let room = target.output.and_then(|output| context.checked_sub(output));
        // By default, Codex compacts at 90 % of the context window.
        if let Some(room) = room.filter(|room| *room > 0 && *room < context / 10 * 9) {
            let _ = writeln!(text, "model_auto_compact_token_limit = {room}");
        }
    }
    let (url, key) = (quoted(target.base_url), quoted(target.key_env));
    let catalogue = quoted(&format!("{}/models", target.base_url));
    let _ = write!(
        text,
        "# Web search runs on OpenAI's servers alone; a request that offers it is refused.\n\
         web_search = \"disabled\"\n\
         \n\
         [model_providers.tollgate]\n\
         name = \"Tollgate\"\n\
         base_url = {url}\n\
         env_key = {key}\n\
         wire_api = \"responses\"\n\
         # To choose among the models here with /model (with short instructions instead of Codex's):\n\
         # model_catalog_url = {catalogue}\n"
    );
    text
}
