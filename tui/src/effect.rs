//! Runs what the model asked for; answers come back as [`Message`]s through one channel.
//!
//! What concerns the terminal is left to the event loop, which owns it.

use ctl::profile::TokenSource;
use secrecy::SecretString;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use std::sync::Arc;

use crate::connection::{self, Address, Connection};
use crate::message::Message;
use crate::model::change::Change;
use crate::model::subscription::Subscription;

/// How many changes may wait to be sent.
const CHANGE_QUEUE_CAPACITY: usize = 8;

/// Something to do outside of the model.
#[derive(Debug)]
pub enum Effect {
    /// Checks a password; answers with `SignedIn` or `SignInFailed`.
    SignIn {
        /// The account's name.
        name: String,
        /// Its password.
        password: SecretString,
    },
    /// Creates an account and signs in; answers as `SignIn` does.
    Register {
        /// The account's name.
        name: String,
        /// Its password.
        password: SecretString,
        /// The invite code, or nothing.
        invite: String,
    },
    /// Connects with `token` and keeps the model up to date from then on.
    Connect {
        /// The session token or the operator token.
        token: SecretString,
    },
    /// Ends the session and asks for another; answers with `SignedOut`.
    SignOut,
    /// Keeps up to date what the open screen needs.
    Subscribe(Subscription),
    /// Fetches everything anew, or connects without waiting for the next attempt.
    Refresh,
    /// Asks the gateway for a change; answers with `Changed`.
    Change(Change),
    /// Puts a text into the clipboard of the terminal.
    Copy(SecretString),
    /// Draws every cell anew, so that nothing of what was there is left.
    ClearScreen,
    /// Listens to the mouse, or leaves it to the terminal.
    Mouse(bool),
    /// Gives the terminal back to the shell until the program is continued.
    Suspend,
    /// Leaves the program.
    Quit,
}

/// Runs effects. Dropping it ends all that is under way.
#[derive(Debug)]
pub struct Runner {
    gateway: Address,
    /// Where the token that the program started with was found.
    source: TokenSource,
    messages: mpsc::Sender<Message>,
    subscription: watch::Sender<Subscription>,
    refresh: Arc<Notify>,
    session: Option<Session>,
    tasks: JoinSet<()>,
}

/// The session that is under way.
#[derive(Debug)]
struct Session {
    token: SecretString,
    changes: mpsc::Sender<Change>,
    task: AbortHandle,
}

// === impl Runner ===

impl Runner {
    /// Returns a runner for `gateway`, whose token was found at `source`, that answers to `messages`.
    pub fn new(gateway: Address, source: TokenSource, messages: mpsc::Sender<Message>) -> Self {
        Self {
            gateway,
            source,
            messages,
            subscription: watch::Sender::new(Subscription::default()),
            refresh: Arc::default(),
            session: None,
            tasks: JoinSet::new(),
        }
    }

    /// Starts `effect` and returns at once; hands back what is the terminal's.
    pub fn run(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
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
            Effect::Connect { token } => self.connect(token),
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
            terminal => return Some(terminal),
        }
        None
    }

    /// Waits until a task panics; for ever, if none does. Cancel safe.
    pub async fn next_panic(&mut self) -> JoinError {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Err(error) if error.is_panic() => return error,
                _ => {}
            }
        }
        std::future::pending().await
    }

    fn spawn_sign_in(
        &mut self,
        token: impl Future<Output = Result<SecretString, String>> + Send + 'static,
    ) {
        let messages = self.messages.clone();
        self.tasks.spawn(async move {
            let answer = match token.await {
                Ok(token) => Message::SignedIn(token),
                Err(problem) => Message::SignInFailed(problem),
            };
            // Fails only when the program is ending.
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
        self.session = Some(Session { token, changes: sender, task });
    }

    /// Ends the session at the gateway, too; without an answer it ends by itself in time.
    fn sign_out(&mut self) {
        if let Some(Session { token, task, .. }) = self.session.take() {
            task.abort();
            let gateway = self.gateway.clone();
            if std::mem::replace(&mut self.source, TokenSource::Nowhere) == TokenSource::Profile {
                // a session that is kept there though it has ended is found out when it is used
                let _ = ctl::profile::forget(gateway.server());
            }
            self.tasks.spawn(async move { connection::sign_out(&gateway, &token).await });
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
