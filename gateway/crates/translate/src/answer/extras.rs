//! Metadata of text: annotations (`R-4`) and log probabilities (`R-14`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use domain::wire::json::{JsonReader, Malformed, RawJson};

/// A URL citation in the flat form of the Responses API.
#[derive(Serialize)]
struct Citation {
    #[serde(rename = "type")]
    kind: &'static str,
    url: String,
    title: String,
    start_index: u64,
    end_index: u64,
}

/// Returns the URL citations among the annotations, each as JSON; drops other kinds.
pub(super) fn annotations(raw: RawJson<'_>) -> Vec<String> {
    let mut citations = Vec::new();
    // One by one: all of a long list together would take many times their text.
    _ = JsonReader::new(raw.get()).array::<Malformed>(|json| {
        let annotation: Value = serde_json::from_str(json.value()?.get()).unwrap_or_default();
        citations.extend(citation(&annotation));
        Ok(())
    });
    citations
}

/// Returns an annotation as JSON if it is a URL citation.
fn citation(annotation: &Value) -> Option<String> {
    if annotation["type"] != "url_citation" {
        return None;
    }
    let fields = annotation.get("url_citation").unwrap_or(annotation);
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let number = |name: &str| fields[name].as_u64().unwrap_or_default();
    let citation = Citation {
        kind: "url_citation",
        url: text("url")?,
        title: text("title").unwrap_or_default(),
        start_index: number("start_index"),
        end_index: number("end_index"),
    };
    Some(serde_json::to_string(&citation).expect("texts and numbers serialise"))
}

/// Returns the log probabilities of the tokens as comma-separated JSON; empty if there are none.
pub(super) fn logprobs(raw: RawJson<'_>) -> String {
    #[derive(Deserialize)]
    struct Logprobs {
        #[serde(default)]
        content: Option<Vec<Token>>,
    }
    #[derive(Deserialize)]
    struct Token {
        #[serde(flatten)]
        one: TokenLogprob,
        #[serde(default)]
        top_logprobs: Option<Vec<TokenLogprob>>,
    }
    #[derive(Deserialize)]
    struct TokenLogprob {
        token: String,
        logprob: f64,
        #[serde(default)]
        bytes: Option<Vec<u8>>,
    }
    #[derive(Serialize)]
    struct LogprobView<'a> {
        token: &'a str,
        logprob: f64,
        bytes: &'a [u8],
        #[serde(skip_serializing_if = "Option::is_none")]
        top_logprobs: Option<Vec<LogprobView<'a>>>,
    }
    impl TokenLogprob {
        fn view<'a>(&'a self, top_logprobs: Option<Vec<LogprobView<'a>>>) -> LogprobView<'a> {
            let bytes = self.bytes.as_deref().unwrap_or(self.token.as_bytes());
            LogprobView { token: &self.token, logprob: self.logprob, bytes, top_logprobs }
        }
    }
    let Ok(Logprobs { content: Some(tokens) }) = serde_json::from_str(raw.get()) else {
        return String::new();
    };
    let views = tokens.iter().map(|token| {
        let others = token.top_logprobs.iter().flatten();
        let view = token.one.view(Some(others.map(|other| other.view(None)).collect()));
        serde_json::to_string(&view).expect("texts and finite numbers serialise")
    });
    views.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> RawJson<'_> {
        JsonReader::new(json).value().unwrap()
    }

    #[test]
    fn r_4_citations_become_flat() {
        let json = r#"[{"type":"url_citation","url_citation":{"url":"https://a","title":"A","start_index":1,"end_index":2}},
            {"type":"url_citation","url":"https://b"},{"type":"file_citation"},{"type":"url_citation"},3]"#;
        assert_eq!(
            annotations(raw(json)),
            [
                r#"{"type":"url_citation","url":"https://a","title":"A","start_index":1,"end_index":2}"#,
                r#"{"type":"url_citation","url":"https://b","title":"","start_index":0,"end_index":0}"#,
            ]
        );
        assert!(annotations(raw("{}")).is_empty());
    }

    #[test]
    fn r_14_log_probabilities_have_all_fields() {
        let json = r#"{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1,"bytes":null}]},{"token":"c","logprob":0}]}"#;
        assert_eq!(
            logprobs(raw(json)),
            concat!(
                r#"{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1.0,"bytes":[98]}]},"#,
                r#"{"token":"c","logprob":0.0,"bytes":[99],"top_logprobs":[]}"#
            )
        );
        for json in ["{}", r#"{"content":null}"#, r#"{"content":[3]}"#, "3"] {
            assert_eq!(logprobs(raw(json)), "");
        }
    }
}
