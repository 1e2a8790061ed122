//! All spellings of a cap, sent to upstreams that accept each of them.
//!
//! Each request contains a small cap that the gateway reads and a large one, or a number of
//! choices, that it may overlook. However an upstream reads the request that reaches it, the cost
//! of the answer must not exceed the hold.

use domain::money::Nanos;
use proto::v1;

use super::client::{ObservedResponse, Shape};
use super::lenient::{KeyMatching, LenientParser, LenientUpstream, UPSTREAM_MODEL};
use super::reconcile::{self, Evidence, LedgerSnapshot, Reconciliation};
use super::rig::{Customer, EXPENSIVE, Rig, price_of};
use crate::http::Request;
use crate::product::priced_model;

/// The prefix of the model names; the index of the upstream's parser follows.
pub(super) const LENIENT: &str = "lenient-";
/// The balance before each request: it pays for a hundred answer tokens. An answer without a cap
/// has twenty times as many.
const BALANCE: Nanos = Nanos(20_000_000);

/// The lenient upstream, in the catalogue once for each parser.
pub(super) struct Spellings {
    upstream: LenientUpstream,
}

/// A request body without its model, for one endpoint.
struct Body {
    shape: Shape,
    members: String,
}

impl Spellings {
    /// Starts the upstream and adds its models.
    pub(super) async fn prepare(rig: &Rig) -> Self {
        let upstream = LenientUpstream::start().await;
        let operator = rig.operator().await;
        let price = price_of(EXPENSIVE).expect("a model of the drills");
        for index in 0..LenientParser::all().len() {
            let name = format!("{LENIENT}{index}");
            let url = upstream.url(index);
            let added = v1::Upstream { name: name.clone(), url, ..Default::default() };
            operator.add_upstream(added).await;
            let mut model = priced_model(&name, &[(&name, UPSTREAM_MODEL)]);
            let [input_usd, cached_usd, output_usd] =
                [price.input, price.cached, price.output].map(|price| price.to_string());
            model.price = Some(v1::Price { input_usd, cached_usd, output_usd, version: 0 });
            operator.add_model(model).await;
        }
        Self { upstream }
    }

    /// Has a new account send every `step`th request from `first` on, and counts the served ones.
    pub(super) async fn play(
        &self,
        rig: &Rig,
        name: &str,
        (first, step): (usize, usize),
    ) -> (Reconciliation, usize) {
        let mut customer = rig.customer(name).await;
        let (mut seen, mut wrong): (Vec<ObservedResponse>, Vec<String>) = (Vec::new(), Vec::new());
        for (index, parser) in LenientParser::all().into_iter().enumerate() {
            for body in bodies(parser).into_iter().skip((index + first) % step).step_by(step) {
                rig.fund(&mut customer, BALANCE).await;
                match send_request(rig, &customer, index, &body).await {
                    Some(end) if matches!(end.status, 200 | 400) => seen.push(end),
                    end => wrong.push(format!("{parser:?}: {}: {end:?}", body.members)),
                }
            }
        }
        wrong.extend(rig.wait_until_idle().await);
        let truth = self.upstream.take();
        let renamed = truth.iter().filter(|entry| entry.model != UPSTREAM_MODEL);
        wrong.extend(renamed.map(|entry| format!("an upstream received another model: {entry:?}")));
        reconcile::wait_for_records(&customer.session, seen.len()).await;
        let evidence = Evidence { seen, truth, credit: customer.credit };
        let books = LedgerSnapshot::read(&customer.session, &rig.operator().await).await;
        for id in evidence.truth.iter().filter_map(|entry| entry.id.as_ref()) {
            if let Some(overrun) = books.overruns.get(id) {
                wrong.push(format!("{id} cost {overrun} more than the balance"));
            }
        }
        let mut verdict = reconcile::reconcile(&evidence, &books);
        verdict.differences.extend(wrong);
        (verdict, evidence.truth.len())
    }
}

async fn send_request(
    rig: &Rig,
    customer: &Customer,
    index: usize,
    body: &Body,
) -> Option<ObservedResponse> {
    let is_chat = matches!(body.shape, Shape::Chat | Shape::ChatStream);
    let path = if is_chat { "/v1/chat/completions" } else { "/v1/responses" };
    let text = format!(r#"{{"model":"{LENIENT}{index}",{}}}"#, body.members);
    let request = Request::post(rig.gateway().http, path).bearer(&customer.key).body(text);
    let answer = request.try_send().await.ok()?.try_answer().await.ok()?;
    ObservedResponse::of(body.shape, &answer)
}

/// Returns the requests for an upstream with this parser.
fn bodies(parser: LenientParser) -> Vec<Body> {
    let mut bodies = Vec::new();
    for (number, attack) in attacks(parser).into_iter().enumerate() {
        let (content, more) = extras(number);
        for shape in Shape::COUNTED {
            let is_chat = matches!(shape, Shape::Chat | Shape::ChatStream);
            let mut members = if is_chat {
                format!(
                    r#""messages":[{{"role":"user","content":{content}}}],"max_tokens":3{more}{attack}"#
                )
            } else {
                format!(r#""input":"go on","max_output_tokens":3{attack}"#)
            };
            if shape.is_stream() {
                members.push_str(r#","stream":true"#);
            }
            if shape == Shape::ChatStream {
                members.push_str(r#","stream_options":{"include_usage":true}"#);
            }
            bodies.push(Body { shape, members });
        }
    }
    bodies
}

/// Returns the content of the message and further members: an image, several choices, tools,
/// reasoning.
fn extras(number: usize) -> (&'static str, &'static str) {
    const IMAGE: &str =
        r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]"#;
    match number % 5 {
        0 => (r#""go on""#, ""),
        1 => (r#""go on""#, r#","n":3"#),
        2 => (IMAGE, ""),
        3 => (r#""go on""#, r#","reasoning_effort":"high","n":2"#),
        _ => (
            r#""go on""#,
            r#","tools":[{"type":"function","function":{"name":"max_tokens","parameters":{"type":"object"}}}]"#,
        ),
    }
}

/// Returns members, each with a leading comma, that request more than the preceding cap allows.
fn attacks(parser: LenientParser) -> Vec<String> {
    let mut attacks: Vec<_> =
        forms(parser.cap).iter().map(|form| member(form, "1000000")).collect();
    let (exact, upper) = (parser.cap, parser.cap.to_uppercase());
    attacks.push(member(exact, "-1"));
    attacks.push(member(exact, "null"));
    attacks.push(member(exact, "1") + &member(&upper, "1000000"));
    attacks.push(member(exact, "1000000") + &member(exact, "1"));
    attacks.push(member(exact, "1") + &member(exact, "1000000"));
    if parser.keys == KeyMatching::Coarse || parser.cap == "max_tokens" {
        for (name, value) in [
            ("best_of", "50"),
            ("bestOf", "50"),
            ("N", "50"),
            ("n_cmpl", "50"),
            ("num_return_sequences", "50"),
            ("Model", "\"flagship\""),
            ("STREAM_OPTIONS", r#"{"include_usage":false}"#),
        ] {
            attacks.push(member(name, value));
        }
    }
    attacks
}

/// Returns all spellings of the last name of a path.
fn forms(path: &str) -> Vec<String> {
    let (object, name) = path.rsplit_once('.').map_or(("", path), |(object, name)| (object, name));
    let camel: String = name
        .split('_')
        .enumerate()
        .map(|(index, word)| match (index, word.split_at(1)) {
            (0, _) => word.to_owned(),
            (_, (first, rest)) => first.to_uppercase() + rest,
        })
        .collect();
    let escaped = format!(r"\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]);
    let forms = [
        name.to_owned(),
        name.to_uppercase(),
        camel,
        name.replace('k', "\u{212a}").replace('s', "\u{17f}"),
        name.replace('_', "-"),
        escaped,
    ];
    let qualified = |name: String| match object {
        "" => name,
        object => format!("{object}.{name}"),
    };
    forms.into_iter().map(qualified).collect()
}

/// Returns the member at a path, with a leading comma.
fn member(path: &str, value: &str) -> String {
    let mut names = path.rsplit('.');
    let last = format!(r#""{}":{value}"#, names.next().unwrap_or_default());
    let inner = names.fold(last, |member, name| format!(r#""{name}":{{{member}}}"#));
    format!(",{inner}")
}
