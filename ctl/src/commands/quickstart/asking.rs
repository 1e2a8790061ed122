//! Which model answers: each is sent the request that the code will send.

use http::StatusCode;
use http_body_util::BodyExt as _;
use secrecy::SecretString;
use serde_json::json;

use super::PROMPT;
use crate::Shell;
use crate::commands::api::{self, Api};
use crate::error::{Exit, Failure};

/// So many models are asked, one after the other.
const MAX_ATTEMPTS: usize = 8;

/// What came of asking a model.
enum Asked {
    /// It answers.
    Answered,
    /// It does not; another may.
    Silent(Failure),
    /// Who asks is refused, whatever the model.
    Refused(Failure),
}

/// Returns the first model that answers.
pub(super) async fn answering(
    shell: &mut Shell<'_>,
    api: &Api,
    key: &SecretString,
    models: &[String],
) -> Result<String, Failure> {
    for model in models.iter().take(MAX_ATTEMPTS) {
        let asking = ask(api, key, model);
        match shell.output.waiting(&format!("asking {model}"), asking).await {
            Asked::Answered => {
                let other = if models.len() > 1 { "; `--model ID` takes another" } else { "" };
                let said = format!("{model} answers, and is what the code asks for{other}");
                shell.output.note(&said);
                return Ok(model.clone());
            }
            Asked::Silent(why) => shell.output.note(&format!("{model} does not answer: {why}")),
            Asked::Refused(failure) => return Err(failure),
        }
    }
    Err(if models.is_empty() {
        Failure::new(Exit::NotFound, "there is no model yet")
            .advise("an operator adds one: `ctl upstream add --help`, then `ctl model add --help`")
    } else {
        Failure::new(Exit::Unavailable, "no model answers, so neither will this code yet").advise(
            "`ctl doctor`, as an operator, says why; `--model ID` asks another of `ctl model list`",
        )
    })
}

/// Sends the request that the code will send.
async fn ask(api: &Api, key: &SecretString, model: &str) -> Asked {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": PROMPT }] });
    let answer = match api.post("chat/completions", key, &body).await {
        Ok(answer) => answer,
        Err(failure) => return Asked::Silent(failure),
    };
    let status = answer.status();
    let answer = match api::accepted(answer).await {
        Ok(answer) => answer,
        Err(failure) if status == StatusCode::UNAUTHORIZED => return Asked::Refused(failure),
        Err(failure) => return Asked::Silent(failure),
    };
    // To its end, or the request is recorded as one whose client went away.
    match answer.into_body().collect().await {
        Ok(_) => Asked::Answered,
        Err(error) => Asked::Silent(Failure::new(Exit::Unavailable, error.to_string())),
    }
}
