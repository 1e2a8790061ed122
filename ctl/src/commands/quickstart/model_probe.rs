//! Finds the first model that answers, by sending each the request of the printed code.

use http::StatusCode;
use http_body_util::BodyExt as _;
use secrecy::SecretString;
use serde_json::json;

use super::PROMPT;
use crate::Shell;
use crate::api::{self, Api};
use crate::error::{Exit, Failure};

/// The maximum number of models to try, one after the other.
const MAX_ATTEMPTS: usize = 8;

/// The result of probing a model.
enum ProbeResult {
    /// The model answered.
    Answered,
    /// The model did not answer; another may.
    Failed(Failure),
    /// The key was refused, whatever the model.
    Unauthorized(Failure),
}

/// Returns the first model that answers.
///
/// # Errors
/// The key is refused, or no model answers.
pub(super) async fn first_answering(
    shell: &mut Shell<'_>,
    api: &Api,
    key: &SecretString,
    models: &[String],
) -> Result<String, Failure> {
    for model in models.iter().take(MAX_ATTEMPTS) {
        let probe = probe(api, key, model);
        match shell.output.with_timer(&format!("trying {model}"), probe).await {
            ProbeResult::Answered => {
                let other =
                    if models.len() > 1 { "; choose another with `--model ID`" } else { "" };
                shell.output.note(&format!("{model} answers, and the code uses it{other}"));
                return Ok(model.clone());
            }
            ProbeResult::Failed(failure) => {
                shell.output.note(&format!("{model} does not answer: {failure}"));
            }
            ProbeResult::Unauthorized(failure) => return Err(failure),
        }
    }
    Err(if models.is_empty() {
        Failure::new(Exit::NotFound, "there is no model yet")
            .advise("an operator adds one: `ctl upstream add --help`, then `ctl model add --help`")
    } else {
        Failure::new(Exit::Unavailable, "no model answers, so this code will not work yet").advise(
            "run `ctl doctor` as an operator for the cause, or choose another of `ctl model list` \
             with `--model ID`",
        )
    })
}

/// Sends the request of the printed code.
async fn probe(api: &Api, key: &SecretString, model: &str) -> ProbeResult {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": PROMPT }] });
    let answer = match api.post("chat/completions", key, &body).await {
        Ok(answer) => answer,
        Err(failure) => return ProbeResult::Failed(failure),
    };
    let status = answer.status();
    let answer = match api::ensure_success(answer).await {
        Ok(answer) => answer,
        Err(failure) if status == StatusCode::UNAUTHORIZED => {
            return ProbeResult::Unauthorized(failure);
        }
        Err(failure) => return ProbeResult::Failed(failure),
    };
    // Read to the end, or the gateway records a client disconnect.
    match answer.into_body().collect().await {
        Ok(_) => ProbeResult::Answered,
        Err(error) => ProbeResult::Failed(Failure::new(Exit::Unavailable, error.to_string())),
    }
}
