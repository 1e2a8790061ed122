//! Trying a model: a prompt, the streamed answer, and the record of the request.

use secrecy::SecretString;
use tui_input::Input;

use super::Model;
use super::catalogue::CatalogueModel;
use super::overlay::Secret;
use super::record::Record;

/// The maximum size of a displayed answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// The state of the overlay for trying a model.
#[derive(Debug)]
pub struct Trial {
    /// The number of the current request. Events of earlier ones are ignored.
    pub run: u64,
    /// The model id.
    pub model: String,
    /// The API of the request.
    pub api: TrialApi,
    /// The prompt.
    pub prompt: Input,
    /// The state of the request.
    pub state: TrialState,
    /// The answer as far as it has arrived.
    pub answer: String,
    /// Whether the answer was longer than what is kept of it.
    pub is_cut: bool,
    /// The number of lines that the answer is scrolled up from its end, or the record down from
    /// its start.
    pub scroll: usize,
    /// The record of the request.
    pub record: Option<Box<Record>>,
    /// Whether it is known that there will be no record.
    pub is_unrecorded: bool,
    /// Whether the record is shown instead of the answer.
    pub is_record_open: bool,
    /// The display of a new key below, which comes back when the trial is closed.
    pub secret: Option<Secret>,
}

/// The API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialApi {
    /// Chat completions.
    Chat,
    /// Responses.
    Responses,
}

/// The state of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialState {
    /// The prompt is typed.
    Asking,
    /// The request was sent.
    Running,
    /// The answer is complete.
    Done,
    /// The request failed; the text says why.
    Failed(String),
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    /// Its number.
    pub run: u64,
    /// The base URL of the API.
    pub base_url: String,
    /// The model id.
    pub model: String,
    /// The API.
    pub api: TrialApi,
    /// The prompt.
    pub prompt: String,
    /// The key to use; without one, a key is created for the session.
    pub key: Option<SecretString>,
}

/// What happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialEvent {
    /// A piece of the answer arrived.
    Text(String),
    /// The answer is complete.
    Done,
    /// The request failed; the text says why.
    Failed(String),
    /// The record was written.
    Recorded(Box<Record>),
    /// There is no record: the gateway did not answer, or the record was not found in time.
    Unrecorded,
}

/// Returns the models that can be tried, in the order of the catalogue: those of the key, or all.
pub fn offered<'a>(
    model: &'a Model,
    secret: Option<&'a Secret>,
) -> impl Iterator<Item = &'a CatalogueModel> {
    let allowed = secret.map_or(&[][..], |secret| secret.models.as_slice());
    let entries = model.data.models.entries.iter();
    entries.filter(move |entry| allowed.is_empty() || allowed.contains(&entry.id))
}

/// Returns the model after that of the trial; the first one after the last. `None` if there is no
/// other one.
pub fn next_model<'a>(model: &'a Model, trial: &'a Trial) -> Option<&'a str> {
    let ids = || offered(model, trial.secret.as_ref()).map(|it| it.id.as_str());
    let after = ids().skip_while(|id| *id != trial.model).nth(1);
    after.or_else(|| ids().next()).filter(|next| *next != trial.model)
}

// === impl TrialApi ===

impl TrialApi {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat completions",
            Self::Responses => "Responses",
        }
    }

    /// Returns the other API.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Chat => Self::Responses,
            Self::Responses => Self::Chat,
        }
    }
}

// === impl Trial ===

impl Trial {
    /// Returns a trial of `model` without a prompt.
    pub fn new(model: String, secret: Option<Secret>) -> Self {
        Self {
            run: 0,
            model,
            api: TrialApi::Chat,
            prompt: Input::default(),
            state: TrialState::Asking,
            answer: String::new(),
            is_cut: false,
            scroll: 0,
            record: None,
            is_unrecorded: false,
            is_record_open: false,
            secret,
        }
    }

    /// Starts the request with this number.
    pub fn start(&mut self, run: u64) {
        self.reset();
        self.run = run;
        self.state = TrialState::Running;
    }

    /// Forgets the request and its answer, but not the prompt. Later events of the request are
    /// ignored, because no request has the number zero.
    pub fn reset(&mut self) {
        self.run = 0;
        self.state = TrialState::Asking;
        self.answer.clear();
        self.is_cut = false;
        self.record = None;
        self.is_unrecorded = false;
        self.show_record(false);
    }

    /// Returns why there is no record to show, if there is none.
    pub fn missing_record(&self) -> Option<&'static str> {
        if self.record.is_some() {
            return None;
        }
        Some(match &self.state {
            TrialState::Asking => "there is no record before a prompt is sent",
            TrialState::Running => "the record is written when the answer ends",
            TrialState::Done | TrialState::Failed(_) if self.is_unrecorded => {
                "the log has no record of this request"
            }
            TrialState::Done | TrialState::Failed(_) => "the record has not arrived yet",
        })
    }

    /// Shows the record, if there is one, or the answer.
    pub fn show_record(&mut self, is_open: bool) {
        self.is_record_open = is_open && self.record.is_some();
        self.scroll = 0;
    }

    /// Applies an event of the current request.
    pub fn apply(&mut self, event: TrialEvent) {
        match event {
            TrialEvent::Text(text) => {
                self.is_cut |= self.answer.len() + text.len() > MAX_ANSWER_BYTES;
                if !self.is_cut {
                    self.answer.push_str(&text);
                }
            }
            TrialEvent::Done => self.state = TrialState::Done,
            TrialEvent::Failed(problem) => self.state = TrialState::Failed(problem),
            TrialEvent::Recorded(record) => self.record = Some(record),
            TrialEvent::Unrecorded => self.is_unrecorded = true,
        }
    }
}
