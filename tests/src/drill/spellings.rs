//! Every spelling of a cap, to upstreams that honour each one.
//!
//! Each request sets a small cap that the gateway reads and a large one, or a multiple of answers, that
//! it may overlook. Whatever of it reaches an upstream, in whatever way that reads it, the answer must
//! not cost more than was held.

use domain::money::Nanos;
use proto::v1;

use super::client::{Seen, Shape};
use super::lenient::{Keys, Lenient, Reading, UPSTREAM_MODEL};
use super::reconcile::{self, Books, Evidence, Verdict};
use super::rig::{Customer, DEAR, Rig, price_of};
use crate::http::Request;
use crate::product::priced_model;

/// What the models are called, before the place of their upstream's reading.
pub(super) const LENIENT: &str = "lenient-";
/// What there is before each request: a hundred tokens of an answer, while one without a cap has
/// twenty times as many.
const BALANCE: Nanos = Nanos(20_000_000);

/// The upstream of the drill, in the catalogue once for each reading.
pub(super) struct Spellings {
    upstream: Lenient,
}

/// A body without its model, for one endpoint.
struct Body {
    shape: Shape,
    members: String,
}

impl Spellings {
    /// Starts the upstream, and adds its models.
    pub(super) async fn prepare(rig: &Rig) -> Self {
        let upstream = Lenient::start().await;
        let operator = rig.operator().await;
        let price = price_of(DEAR).expect("it is one of the models");
        for place in 0..Reading::all().len() {
            let name = format!("{LENIENT}{place}");
            let url = upstream.url(place);
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

    /// Has a new account send every `step`th request, beginning with the one at `first`, and counts
    /// those that were served.
    pub(super) async fn play(
        &self,
        rig: &Rig,
        name: &str,
        (first, step): (usize, usize),
    ) -> (Verdict, usize) {
        let mut customer = rig.customer(name).await;
        let (mut seen, mut wrong): (Vec<Seen>, Vec<String>) = (Vec::new(), Vec::new());
        for (place, reading) in Reading::all().into_iter().enumerate() {
            for body in bodies(reading).into_iter().skip((place + first) % step).step_by(step) {
                rig.fund(&mut customer, BALANCE).await;
                match ask(rig, &customer, place, &body).await {
                    Some(end) if matches!(end.status, 200 | 400) => seen.push(end),
                    end => wrong.push(format!("{reading:?}: {}: {end:?}", body.members)),
                }
            }
        }
        wrong.extend(rig.rest().await);
        let truth = self.upstream.take();
        let renamed = truth.iter().filter(|entry| entry.model != UPSTREAM_MODEL);
        wrong.extend(renamed.map(|entry| format!("an upstream read another model: {entry:?}")));
        reconcile::wait_for_records(&customer.session, seen.len()).await;
        let evidence = Evidence { seen, truth, credit: customer.credit };
        let books = Books::read(&customer.session, &rig.operator().await).await;
        for id in evidence.truth.iter().filter_map(|entry| entry.id.as_ref()) {
            if let Some(overrun) = books.overruns.get(id) {
                wrong.push(format!("{id} cost {overrun} more than there was"));
            }
        }
        let mut verdict = reconcile::reconcile(&evidence, &books);
        verdict.differences.extend(wrong);
        (verdict, evidence.truth.len())
    }
}

async fn ask(rig: &Rig, customer: &Customer, place: usize, body: &Body) -> Option<Seen> {
    let is_chat = matches!(body.shape, Shape::Chat | Shape::ChatStream);
    let path = if is_chat { "/v1/chat/completions" } else { "/v1/responses" };
    let text = format!(r#"{{"model":"{LENIENT}{place}",{}}}"#, body.members);
    let request = Request::post(rig.gateway().http, path).bearer(&customer.key).body(text);
    let answer = request.try_send().await.ok()?.try_answer().await.ok()?;
    Seen::of(body.shape, &answer)
}

/// The requests for an upstream that reads like this.
fn bodies(reading: Reading) -> Vec<Body> {
    let mut bodies = Vec::new();
    for (number, attack) in attacks(reading).into_iter().enumerate() {
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

/// The content of the message, and further members: an image, several answers, tools, reasoning.
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

/// Members, each with a comma before it, that ask for more than the cap that precedes them allows.
fn attacks(reading: Reading) -> Vec<String> {
    let mut attacks: Vec<_> =
        forms(reading.cap).iter().map(|form| member(form, "1000000")).collect();
    let (exact, upper) = (reading.cap, reading.cap.to_uppercase());
    attacks.push(member(exact, "-1"));
    attacks.push(member(exact, "null"));
    attacks.push(member(exact, "1") + &member(&upper, "1000000"));
    attacks.push(member(exact, "1000000") + &member(exact, "1"));
    attacks.push(member(exact, "1") + &member(exact, "1000000"));
    if reading.keys == Keys::Coarse || reading.cap == "max_tokens" {
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

/// The last name of a path, in every case.
fn forms(path: &str) -> Vec<String> {
    let (object, name) = path.rsplit_once('.').map_or(("", path), |(object, name)| (object, name));
    let camel: String = name
        .split('_')
        .enumerate()
        .map(|(place, word)| match (place, word.split_at(1)) {
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
    let place = |name: String| match object {
        "" => name,
        object => format!("{object}.{name}"),
    };
    forms.into_iter().map(place).collect()
}

/// A member at a path, with a comma before it.
fn member(path: &str, value: &str) -> String {
    let mut names = path.rsplit('.');
    let last = format!(r#""{}":{value}"#, names.next().unwrap_or_default());
    let inner = names.fold(last, |member, name| format!(r#""{name}":{{{member}}}"#));
    format!(",{inner}")
}
