//! Everything on screen as plain data.
//!
//! It holds no handles, no channels and no generated types, and does nothing: [`crate::update`] is
//! the only one who changes it. Start at [`Model`]; a screen's own state is in the file of its name,
//! what the server told us is in [`record`] and its neighbours. [`remote`] is how any of that is kept
//! while it is fetched, fails or grows old; [`subscription`] says what the open screen needs.

pub mod accounts;
pub mod action;
pub mod audit;
pub mod catalogue;
pub mod change;
pub mod fetched;
pub mod focus;
pub mod form;
pub mod keys;
pub mod log;
pub mod money;
pub mod overlay;
pub mod overview;
pub mod plans;
pub mod record;
pub mod screen;
pub mod sign_in;
pub mod subscription;
pub mod traffic;
pub mod upstreams;
pub mod usage;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::theme::Theme;

use self::accounts::{Account, Role};
pub use self::action::Action;
use self::audit::AuditEntry;
use self::catalogue::CatalogueModel;
use self::fetched::{Fetched, List};
pub use self::focus::Focus;
use self::keys::Key;
use self::log::RequestLog;
use self::overlay::Overlay;
use self::overview::Overview;
use self::plans::Plan;
pub use self::screen::Screen;
use self::sign_in::SignIn;
use self::traffic::Traffic;
use self::upstreams::{Health, Upstream};
use self::usage::UsageScreen;

/// The base URL of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseUrl {
    /// The user has named it, whatever the gateway says.
    Configured(String),
    /// What the gateway says, or a guess until it does.
    Discovered(String),
}

impl BaseUrl {
    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        let (Self::Configured(url) | Self::Discovered(url)) = self;
        url
    }
}

/// All that [`crate::view::render`] needs to know.
#[derive(Debug)]
pub struct Model {
    /// The gateway's address, as it was given.
    pub server: String,
    /// Where clients reach `/v1`, as far as it is known.
    pub base_url: BaseUrl,
    /// The time zone in which times are shown.
    pub zone: TimeZone,
    /// About what time it is; `None` before the first tick.
    pub now: Option<Timestamp>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Colours or none.
    pub theme: Theme,
    /// Whether the mouse is listened to.
    pub is_mouse_enabled: bool,
    /// The screen that is open.
    pub screen: Screen,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// Whether the selected row is shown in full, where the terminal is too narrow to do so anyway.
    pub is_detail_open: bool,
    /// What came of the last thing that the user did.
    pub notice: Option<Notice>,
    /// How things stand with the gateway.
    pub connection: ConnectionState,
    /// Whether everything is being fetched because the user asked.
    pub is_refreshing: bool,
    /// The state of the sign-in screen.
    pub sign_in: SignIn,
    /// What the account that is signed in and the gateway have.
    pub data: Data,
}

/// What is known while somebody is signed in; signing out forgets all of it.
#[derive(Debug, Default)]
pub struct Data {
    /// Who is signed in.
    pub account: Fetched<Account>,
    /// The state of the overview.
    pub overview: Overview,
    /// The traffic of the last hour.
    pub traffic: Fetched<Traffic>,
    /// The request log.
    pub log: RequestLog,
    /// The account's keys.
    pub keys: List<Key>,
    /// The catalogue.
    pub models: List<CatalogueModel>,
    /// The state of the usage screen.
    pub usage: UsageScreen,
    /// All accounts.
    pub accounts: List<Account>,
    /// All upstreams.
    pub upstreams: List<Upstream>,
    /// How upstreams do; it may come before them.
    pub health: Vec<Health>,
    /// All plans, or the account's own.
    pub plans: List<Plan>,
    /// The audit log.
    pub audit: List<AuditEntry>,
}

/// How things stand with the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Not connected yet, or not signed in.
    Idle,
    /// What is shown is current.
    Connected,
    /// What is shown may be out of date; the connection is trying again by itself.
    Reconnecting {
        /// What is wrong and what to do about it.
        problem: String,
    },
}

/// A line about what the user did. It goes away with the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It worked.
    Success(String),
    /// It did not; the text says what to do.
    Problem(String),
}

// === impl Model ===

impl Model {
    /// Returns the model that the program starts with: on the sign-in screen, knowing nothing. Without
    /// a `base_url`, the one of a gateway with default ports is taken until the gateway says its own.
    pub fn new(server: String, base_url: Option<String>, zone: TimeZone, theme: Theme) -> Self {
        Self {
            base_url: base_url.map_or_else(
                || BaseUrl::Discovered(proto::client::guessed_api_url(&server)),
                BaseUrl::Configured,
            ),
            server,
            zone,
            now: None,
            size: (80, 24),
            theme,
            is_mouse_enabled: false,
            screen: Screen::SignIn,
            overlay: None,
            is_detail_open: false,
            notice: None,
            connection: ConnectionState::Idle,
            is_refreshing: false,
            sign_in: SignIn::default(),
            data: Data::default(),
        }
    }

    /// Returns who gets the keys.
    pub fn focus(&self) -> Focus {
        match &self.overlay {
            None => self.focus_below(),
            Some(Overlay::Help { .. }) => Focus::Help,
            Some(Overlay::Palette(_)) => Focus::Palette,
            Some(Overlay::Filter { .. }) => Focus::Filter,
            Some(Overlay::Form(_)) => Focus::Form,
            Some(Overlay::Confirm(_)) => Focus::Confirm,
            Some(Overlay::Secret(_)) => Focus::Secret,
        }
    }

    /// Returns the focus of the screen below whatever lies over it.
    pub fn focus_below(&self) -> Focus {
        Focus::Screen(self.screen)
    }

    /// Says whether what is shown may be out of date.
    pub fn is_stale(&self) -> bool {
        matches!(self.connection, ConnectionState::Reconnecting { .. })
    }

    /// Says whether an operator is signed in.
    pub fn is_operator(&self) -> bool {
        self.data.account.value.as_ref().is_some_and(|it| it.role == Some(Role::Operator))
    }

    /// Returns the screens that may be opened, in the order of their tabs.
    pub fn tabs(&self) -> impl Iterator<Item = Screen> {
        let operator = self.is_operator();
        Screen::TABS.into_iter().filter(move |screen| operator || !screen.is_for_operators())
    }

    /// Says whether `action` can have an effect for who is signed in.
    pub fn allows(&self, action: Action) -> bool {
        match action {
            Action::Open(screen) => self.is_operator() || !screen.is_for_operators(),
            Action::New | Action::Modify | Action::Remove if self.screen == Screen::Models => {
                self.is_operator()
            }
            _ => true,
        }
    }

    /// Returns how many rows a list jumps over at once.
    pub fn page(&self) -> isize {
        isize::try_from(self.size.1.saturating_sub(8).max(1)).unwrap_or(1)
    }

    /// Remembers to say that something worked.
    pub fn set_success(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice::Success(text.into()));
    }

    /// Remembers to say what went wrong and what to do.
    pub fn set_problem(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice::Problem(text.into()));
    }
}
