//! Runs the effects that `update` returns. Results come back as [`Message`]s through one channel.
//!
//! Terminal effects are returned to the event loop, which owns the terminal.

use ctl::profile::{Environment, TokenSource};
use secrecy::SecretString;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;

use std::sync::Arc;
use std::time::Duration;

use crate::connection::{self, Address, Connection, NewSession, TrialKey};
use crate::message::Message;
use crate::model::change::Change;
use crate::model::operations::{OperationKind, OperationRequest};
use crate::model::sign_in::SignInRefusal;
use crate::model::subscription::Subscription;
use crate::model::trial::TrialRequest;

/// The maximum number of changes that wait to be sent. Further changes are refused.
const CHANGE_QUEUE_CAPACITY: usize = 8;

/// The longest time that the exit waits for the gateway.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A side effect requested by `update`.
#[derive(Debug)]
pub enum Effect {
    /// Checks whether the gateway can be reached, until it can. Answered with `GatewayChecked`.
    CheckGateway,
    /// Verifies a password. Answered with `SignedIn` or `SignInFailed`.
    SignIn {
        /// The account's name.
        name: String,
        /// Its password.
        password: SecretString,
    },
    /// Creates an account and signs in. Answered like `SignIn`.
    Register {
        /// The account's name.
        name: String,
        /// Its password.
        password: SecretString,
        /// The invite code; empty for none.
        invite: String,
    },
    /// Connects with `token` and delivers the subscribed data until the session ends.
    Connect {
        /// The session token or the operator token.
        token: SecretString,
        /// Whether the token is a new session that was kept in the profile file.
        is_kept: bool,
    },
    /// Ends the session and clears the token. Answered with `SignedOut`.
    SignOut,
    /// Replaces the set of data that the connection keeps up to date.
    Subscribe(Subscription),
    /// Fetches all subscribed data now. While disconnected, retries without waiting.
    Refresh,
    /// Sends a change to the gateway. Answered with `Changed`.
    Change(Change),
    /// Sends a request that tries a model. Answered with `Trial`. Stops the one before.
    Try(TrialRequest),
    /// Stops the request that tries a model.
    StopTrial,
    /// Starts an operation. Answered with `Operation`.
    Operate(OperationRequest),
    /// Stops an operation.
    StopOperation(OperationKind),
    /// Stops all operations.
    StopOperations,
    /// Asks how requests for the model with this id are routed. Answered with `RouteExplained`.
    Explain(String),
    /// Copies the text to the terminal's clipboard.
    Copy(SecretString),
    /// Clears the screen and redraws every cell, so that no secret remains on it.
    ClearScreen,
    /// Enables or disables mouse reporting.
    Mouse(bool),
    /// Releases the terminal and stops the process until it is continued.
    Suspend,
    /// Exits the program.
    Quit,
}

/// Runs effects. Dropping it aborts all running tasks.
#[derive(Debug)]
pub struct Runner {
    gateway: Address,
    /// The source of the token.
    source: TokenSource,
    /// Where sessions are kept.
    environment: Environment,
    messages: mpsc::Sender<Message>,
    subscription: watch::Sender<Subscription>,
    refresh: Arc<Notify>,
    session: Option<Session>,
    /// Stops the request that tries a model when it is dropped.
    trial: Option<oneshot::Sender<()>>,
    /// The operations that were started, some of which may have ended.
    operations: Vec<(OperationKind, AbortHandle)>,
    tasks: JoinSet<()>,
    /// The calls that end sessions on the gateway. The exit waits for them.
    sign_outs: JoinSet<()>,
}

/// The current session.
#[derive(Debug)]
struct Session {
    token: SecretString,
    changes: mpsc::Sender<Change>,
    task: AbortHandle,
    /// The key for trying models, once it is created.
    trial_key: TrialKey,
}

// === impl Effect ===

impl Effect {
    /// Returns whether the effect changes something on the gateway. A sign-in does not count: without
    /// it, nothing can be shown.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Register { .. } | Self::SignOut | Self::Change(_) | Self::Try(_) => true,
            Self::Operate(request) => request.kind == OperationKind::TestRequests,
            _ => false,
        }
    }
}

// === impl Runner ===

impl Runner {
    /// Returns a runner for `gateway` that sends results to `messages`. `source` is the source of
    /// the startup token; it decides whether signing out deletes the saved session. New sessions
    /// are kept in the profile file of `environment`, as by `ctl login`.
    pub fn new(
        gateway: Address,
        source: TokenSource,
        environment: Environment,
        messages: mpsc::Sender<Message>,
    ) -> Self {
        Self {
            gateway,
            source,
            environment,
            messages,
            subscription: watch::Sender::new(Subscription::default()),
            refresh: Arc::default(),
            session: None,
            trial: None,
            operations: Vec::new(),
            tasks: JoinSet::new(),
            sign_outs: JoinSet::new(),
        }
    }

    /// Starts `effect` without waiting for its result. Returns the effect if the event loop has to
    /// run it.
    pub fn run(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::CheckGateway => {
                let (gateway, messages) = (self.gateway.clone(), self.messages.clone());
                self.tasks.spawn(connection::check_until_reached(gateway, messages));
            }
            Effect::SignIn { name, password } => {
                let gateway = self.gateway.clone();
                let answer = async move { connection::sign_in(&gateway, name, &password).await };
                self.spawn_sign_in(answer);
            }
            Effect::Register { name, password, invite } => {
                let gateway = self.gateway.clone();
                let answer =
                    async move { connection::register(&gateway, name, &password, invite).await };
                self.spawn_sign_in(answer);
            }
            Effect::Connect { token, is_kept } => {
                if is_kept {
                    self.source = TokenSource::Profile;
                }
                self.connect(token);
            }
            Effect::SignOut => self.sign_out(),
            Effect::Subscribe(subscription) => {
                self.subscription.send_replace(subscription);
            }
            Effect::Refresh => self.refresh.notify_one(),
            Effect::Change(change) => {
                let session = self.session.as_ref();
                if session.is_none_or(|session| session.changes.try_send(change).is_err()) {
                    let problem = "not connected: try again when the gateway is back";
                    self.send(Message::Changed(Err(problem.to_owned())));
                }
            }
            Effect::Try(request) => self.try_model(request),
            Effect::StopTrial => self.trial = None,
            Effect::Operate(request) => self.operate(request),
            Effect::StopOperation(kind) => self.stop_operations(|it| it == kind),
            Effect::StopOperations => self.stop_operations(|_| true),
            Effect::Explain(model) => {
                if let Some(session) = &self.session {
                    let (gateway, token) = (self.gateway.clone(), session.token.clone());
                    let messages = self.messages.clone();
                    self.tasks.spawn(connection::explain(gateway, token, model, messages));
                }
            }
            terminal => return Some(terminal),
        }
        None
    }

    /// Waits until a task panics. Pending forever if none does.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn next_panic(&mut self) -> JoinError {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.tasks.join_next() => ended,
                Some(ended) = self.sign_outs.join_next() => ended,
                else => return std::future::pending().await,
            };
            match ended {
                Err(error) if error.is_panic() => return error,
                _ => {}
            }
        }
    }

    /// Revokes the key for trying models, and waits until the sessions of which the user signed out
    /// have ended on the gateway, before the program exits. Gives up after a second, after
    /// which the key and the sessions end by themselves.
    pub async fn end(mut self) {
        let key = async {
            if let Some(Session { token, trial_key, .. }) = &self.session {
                trial_key.end(&self.gateway, token).await;
            }
        };
        let sign_outs = async { while self.sign_outs.join_next().await.is_some() {} };
        let _ = timeout(END_TIMEOUT, async { tokio::join!(key, sign_outs) }).await;
    }

    fn spawn_sign_in(
        &mut self,
        session: impl Future<Output = Result<NewSession, SignInRefusal>> + Send + 'static,
    ) {
        let (messages, environment) = (self.messages.clone(), self.environment.clone());
        // A token from a variable or a file precedes the sessions in the profile file.
        let is_kept = environment.token.is_none()
            && environment.token_file.is_none()
            && !matches!(self.source, TokenSource::File(_));
        let server = self.gateway.server().to_owned();
        self.tasks.spawn(async move {
            let answer = match session.await {
                Ok(NewSession { account, token }) => {
                    let kept = is_kept
                        .then(|| environment.save_session(&server, &account, &token))
                        .transpose();
                    let kept = kept.map(|kept| kept.is_some()).map_err(|it| it.to_string());
                    Message::SignedIn { token, kept }
                }
                Err(refusal) => Message::SignInFailed(refusal),
            };
            // Fails only during shutdown.
            let _ = messages.send(answer).await;
        });
    }

    fn connect(&mut self, token: SecretString) {
        let (sender, changes) = mpsc::channel(CHANGE_QUEUE_CAPACITY);
        let connection = Connection::new(
            self.gateway.clone(),
            token.clone(),
            self.messages.clone(),
            self.subscription.subscribe(),
            changes,
            Arc::clone(&self.refresh),
        );
        let task = self.tasks.spawn(connection.run());
        let trial_key = TrialKey::default();
        self.session = Some(Session { token, changes: sender, task, trial_key });
    }

    fn try_model(&mut self, request: TrialRequest) {
        self.trial = None;
        let Some(session) = &self.session else { return };
        let (stop, stopped) = oneshot::channel();
        let trial = connection::try_model(
            self.gateway.clone(),
            session.token.clone(),
            session.trial_key.clone(),
            request,
            self.messages.clone(),
            stopped,
        );
        self.tasks.spawn(trial);
        self.trial = Some(stop);
    }

    fn operate(&mut self, request: OperationRequest) {
        let Some(session) = &self.session else { return };
        let (gateway, token) = (self.gateway.clone(), session.token.clone());
        let kind = request.kind;
        self.stop_operations(|it| it == kind);
        let work = connection::operate(gateway, token, request, self.messages.clone());
        self.operations.push((kind, self.tasks.spawn(work)));
    }

    fn stop_operations(&mut self, applies: impl Fn(OperationKind) -> bool) {
        self.operations.retain(|(kind, task)| {
            let stops = applies(*kind);
            if stops {
                task.abort();
            }
            !stops
        });
    }

    /// Ends the session locally and on the gateway. If the gateway is unreachable, the session
    /// expires there.
    fn sign_out(&mut self) {
        self.trial = None;
        self.stop_operations(|_| true);
        if let Some(Session { token, task, trial_key, .. }) = self.session.take() {
            task.abort();
            let gateway = self.gateway.clone();
            if std::mem::replace(&mut self.source, TokenSource::Missing) == TokenSource::Profile {
                // a session that is kept there though it has ended is found out when it is used
                let _ = self.environment.remove_session(gateway.server());
            }
            self.sign_outs.spawn(async move {
                trial_key.end(&gateway, &token).await;
                connection::sign_out(&gateway, &token).await;
            });
        }
        self.send(Message::SignedOut("signed out".to_owned()));
    }

    fn send(&mut self, message: Message) {
        let messages = self.messages.clone();
        self.tasks.spawn(async move {
            let _ = messages.send(message).await;
        });
    }
}
