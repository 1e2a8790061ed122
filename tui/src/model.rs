//! Everything on screen as plain data.
//!
//! It holds no handles, no channels and no generated types, and does nothing: [`crate::update`] is
//! the only one who changes it. Start at [`Model`]; a screen's own state is in the file of its name,
//! what the server told us is in [`record`].

pub mod overview;
pub mod record;
pub mod sign_in;

use jiff::tz::TimeZone;

use crate::keymap::Focus;
use crate::theme::Theme;

use self::overview::Overview;
use self::sign_in::SignIn;

/// All that [`crate::view::render`] needs to know.
#[derive(Debug)]
pub struct Model {
    /// The gateway's address, as it was given.
    pub server: String,
    /// The time zone in which times are shown.
    pub zone: TimeZone,
    /// Colours or none.
    pub theme: Theme,
    /// The screen that is open.
    pub screen: Screen,
    /// Whether the help lies over it.
    pub help: bool,
    /// How things stand with the gateway.
    pub link: Link,
    /// The state of the sign-in screen.
    pub sign_in: SignIn,
    /// The state of the overview.
    pub overview: Overview,
}

/// The screens, by the name of their file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Asks for name and password.
    SignIn,
    /// The account at a glance.
    Overview,
}

/// How things stand with the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Not connected yet, or not signed in.
    Idle,
    /// What is shown is current.
    Live,
    /// What is shown may be out of date; the connection is trying again by itself.
    Reconnecting {
        /// What is wrong and what to do about it.
        problem: String,
    },
}

// === impl Model ===

impl Model {
    /// Returns the model that the program starts with: on the sign-in screen, knowing nothing.
    pub fn new(server: String, zone: TimeZone, theme: Theme) -> Self {
        Self {
            server,
            zone,
            theme,
            screen: Screen::SignIn,
            help: false,
            link: Link::Idle,
            sign_in: SignIn::default(),
            overview: Overview::default(),
        }
    }

    /// Returns who gets the keys.
    pub fn focus(&self) -> Focus {
        if self.help { Focus::Help } else { self.focus_below_help() }
    }

    /// Returns the focus that the help is about: the one below it.
    pub fn focus_below_help(&self) -> Focus {
        match self.screen {
            Screen::SignIn => Focus::SignIn,
            Screen::Overview => Focus::Overview,
        }
    }

    /// Says whether what is shown may be out of date.
    pub fn is_stale(&self) -> bool {
        matches!(self.link, Link::Reconnecting { .. })
    }
}
