//! Runs what the model asked for; answers come back as [`Message`]s through one channel.

use secrecy::SecretString;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::connection::{self, Connection};
use crate::message::Message;

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
    /// Connects with `token` and keeps the model up to date from then on.
    Follow {
        /// The session token or the operator token.
        token: SecretString,
    },
    /// Fetches everything anew, or connects without waiting for the next attempt.
    Refresh,
    /// Leaves the program.
    Quit,
}

/// Runs effects. Dropping it ends all that is under way.
#[derive(Debug)]
pub struct Runner {
    server: String,
    messages: mpsc::Sender<Message>,
    refresh: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl Runner {
    /// Returns a runner for the gateway at `server` that answers to `messages`.
    pub fn new(server: String, messages: mpsc::Sender<Message>) -> Self {
        Self { server, messages, refresh: Arc::default(), tasks: JoinSet::new() }
    }

    /// Starts `effect` and returns at once; breaks when the program shall end.
    pub fn run(&mut self, effect: Effect) -> ControlFlow<()> {
        match effect {
            Effect::SignIn { name, password } => {
                let (server, messages) = (self.server.clone(), self.messages.clone());
                self.tasks.spawn(async move {
                    let answer = match connection::sign_in(&server, name, &password).await {
                        Ok(token) => Message::SignedIn(token),
                        Err(problem) => Message::SignInFailed(problem),
                    };
                    // Fails only when the program is ending.
                    let _ = messages.send(answer).await;
                });
            }
            Effect::Follow { token } => {
                let connection = Connection::new(
                    self.server.clone(),
                    token,
                    self.messages.clone(),
                    Arc::clone(&self.refresh),
                );
                self.tasks.spawn(connection.run());
            }
            Effect::Refresh => self.refresh.notify_one(),
            Effect::Quit => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Waits until a task panics; for ever, if none does. Cancel safe.
    pub async fn panicked(&mut self) -> JoinError {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Err(error) if error.is_panic() => return error,
                _ => {}
            }
        }
        std::future::pending().await
    }
}
