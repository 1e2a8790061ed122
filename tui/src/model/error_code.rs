//! What the error codes of requests mean. The records have the codes only; the texts are for the
//! clients.

/// Returns what a code means, and where to look next, if that is known.
pub fn meaning(code: &str) -> Option<&'static str> {
    Some(match code {
        "insufficient_quota" => {
            "the balance, the key's spending cap or the tokens of the month are used up: the details of the \
             key and the account say what is used"
        }
        "rate_limit_exceeded" => {
            "more requests or tokens in a minute, or requests at once, than the plan, the key, the model \
             or the upstream allows; or the requests in flight hold what is left of the balance or the \
             key's spending cap until they end: a greater balance or cap, or a smaller `max_tokens` in \
             the requests, lets more of them run at once"
        }
        "invalid_api_key" => "the key is unknown, revoked or at its end",
        "account_suspended" => "the account is suspended: its audit log has the reason",
        "model_not_allowed" => "the plan or the key does not include this model",
        "model_not_found" => "no model has this id or alias",
        "request_cancelled" => "the account or an operator cancelled it",
        "upstream_unreachable" => "no connection to the upstream: a test of the upstream says why",
        "upstream_timeout" => "the upstream did not answer in time",
        "upstream_error" => "the upstream failed, or refused the credential of the gateway",
        "upstream_invalid_response" => {
            "the upstream sent something else than a chat answer, or ended it early"
        }
        "upstream_overloaded" => "the upstream has as many requests as it may have",
        "server_overloaded" => "the gateway could take no more requests at that time",
        "server_shutting_down" => "the gateway was stopping",
        "database_unreachable" => "the gateway did not reach its database",
        "internal_error" => "a bug of the gateway: its log has more, with the id of the request",
        "context_length_exceeded" => "the input is longer than the model's context",
        "request_timeout" => "the client sent its request too slowly",
        "request_too_large" | "headers_too_large" | "uri_too_long" => {
            "the request is larger than the gateway accepts"
        }
        "idempotency_in_progress" => "the first request with this Idempotency-Key was in progress",
        "idempotency_key_reused" => "another request had the same Idempotency-Key",
        "idempotent_answer_gone" => "the answer to this Idempotency-Key is not kept any more",
        "response_not_found" | "previous_response_not_found" => {
            "the stored response was deleted, has expired, or was never stored"
        }
        "unsupported_parameter"
        | "unsupported_tools"
        | "unsupported_tool_choice"
        | "unsupported_input_item"
        | "unsupported_content_part" => {
            "the request has something that cannot be converted: the client got its name"
        }
        "invalid_json"
        | "invalid_type"
        | "invalid_value"
        | "missing_required_parameter"
        | "malformed_request"
        | "unsupported_media_type"
        | "method_not_allowed"
        | "unknown_url"
        | "websocket_unsupported" => "the request is wrong: the client got the reason",
        _ => return None,
    })
}
