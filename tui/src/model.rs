//! The application state as plain data.
//!
//! Contains no handles, channels or generated types. Only [`crate::update`] changes it. Start at
//! [`Model`]; the state of a screen is in the file of its name, data from the gateway in [`record`]
//! and its neighbours. [`fetched`] holds the load state of such data; [`subscription`] lists the
//! data that the open screen needs.

pub mod accounts;
pub mod action;
pub mod audit;
pub mod catalogue;
pub mod change;
pub mod chart;
pub mod choices;
pub mod command_line;
pub mod error_code;
pub mod fetched;
pub mod filter;
pub mod first_steps;
pub mod focus;
pub mod form;
pub mod in_flight;
pub mod invites;
pub mod kept;
pub mod keys;
pub mod ledger;
pub mod log;
pub mod money;
pub mod nodes;
pub mod operations;
pub mod overlay;
pub mod overview;
pub mod people;
pub mod picker;
pub mod plans;
pub mod recent;
pub mod record;
pub mod route;
pub mod screen;
pub mod sessions;
pub mod sign_in;
pub mod subscription;
pub mod table;
pub mod traffic;
pub mod trail;
pub mod trial;
pub mod upstreams;
pub mod usage;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use std::collections::BTreeMap;

use crate::theme::Theme;
use crate::theme::catalogue::{NamedTheme, bundled};

use self::accounts::{Account, Role};
pub use self::action::{Action, RowFormat};
use self::audit::AuditEntry;
use self::catalogue::CatalogueModel;
use self::change::SecretKind;
use self::fetched::{Fetched, List};
use self::filter::FilterMemory;
use self::first_steps::FirstSteps;
pub use self::focus::Focus;
use self::in_flight::InFlight;
use self::invites::Invite;
use self::keys::Key;
use self::ledger::LedgerEntry;
use self::log::RequestLog;
use self::nodes::Node;
use self::operations::Operations;
use self::overlay::Overlay;
use self::overview::Overview;
use self::people::{Person, PersonRole};
use self::plans::Plan;
pub use self::screen::Screen;
use self::sessions::Session;
use self::sign_in::SignIn;
use self::table::TableState;
use self::traffic::{LimitUse, Traffic};
use self::trail::Visit;
use self::upstreams::{Health, Upstream};
use self::usage::UsageScreen;

/// The base URL of the API for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseUrl {
    /// Set by the user; overrides the gateway's value.
    Configured(String),
    /// Reported by the gateway, or guessed until then.
    Discovered(String),
}

impl BaseUrl {
    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        let (Self::Configured(url) | Self::Discovered(url)) = self;
        url
    }
}

/// The age that the displayed time may reach, in seconds.
const MAX_CLOCK_LAG_SECONDS: i64 = 15;

/// The complete input of [`crate::view::render`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Model {
    /// The gateway's address as the user wrote it.
    pub server: String,
    /// The URL under which clients reach `/v1`, as far as known.
    pub base_url: BaseUrl,
    /// The time zone of all displayed times.
    pub zone: TimeZone,
    /// The time zone that `:utc` switches to.
    pub other_zone: TimeZone,
    /// The current time with the precision of the tick interval; `None` before the first tick.
    pub now: Option<Timestamp>,
    /// The terminal size as columns and rows.
    pub size: (u16, u16),
    /// The colour theme.
    pub theme: Theme,
    /// All themes.
    pub themes: Vec<NamedTheme>,
    /// The name of the theme that the user chose; `None` for the one that fits the terminal.
    pub chosen_theme: Option<String>,
    /// Whether times are in UTC by the user's choice.
    pub is_utc: bool,
    /// Whether mouse reporting is enabled.
    pub is_mouse_enabled: bool,
    /// The open screen.
    pub screen: Screen,
    /// The screen to open after the sign-in; `None` for the overview.
    pub start: Option<Start>,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
    /// Whether the hint for a new user is shown.
    pub first_steps: FirstSteps,
    /// The gateways whose first steps the user had finished when the dashboard started.
    pub introduced_servers: Vec<String>,
    /// The number of requests that were sent to try models.
    pub trials: u64,
    /// The number of operations that were started.
    pub operation_runs: u64,
    /// The steps from rows to what belongs to them that led to the open screen.
    pub trail: Vec<Visit>,
    /// The filters typed before, by the name of the screen.
    pub filters: BTreeMap<&'static str, FilterMemory>,
    /// The number of times that the request log started over.
    pub log_run: u64,
    /// The overlay above the screen.
    pub overlay: Option<Overlay>,
    /// Whether the detail pane is open: beside the list, or in its place in a narrow terminal.
    pub is_detail_open: bool,
    /// The number of lines that the detail pane is scrolled down by, as far as there are any.
    pub detail_scroll: usize,
    /// The result of the last user action.
    pub notice: Option<Notice>,
    /// The state of the connection to the gateway.
    pub connection: ConnectionState,
    /// Whether a refresh requested by the user is running.
    pub is_refreshing: bool,
    /// The state of the sign-in screen.
    pub sign_in: SignIn,
    /// Data of the signed-in account and the gateway.
    pub data: Data,
}

/// The data of a session. Signing out resets it.
#[derive(Debug, Default)]
pub struct Data {
    /// The signed-in account.
    pub account: Fetched<Account>,
    /// The state of the overview screen.
    pub overview: Overview,
    /// The limits of the account whose detail was open last, or that of one of its keys, with the
    /// name of the account.
    pub account_limits: Option<(String, Vec<LimitUse>)>,
    /// The reason for which the account is suspended whose detail was open last, as far as it is
    /// known, with the name of the account.
    pub suspension: Option<(String, Option<String>)>,
    /// The traffic of the last hour.
    pub traffic: Fetched<Traffic>,
    /// The request log.
    pub log: RequestLog,
    /// The account's keys.
    pub keys: List<Key>,
    /// The models in the catalogue.
    pub models: List<CatalogueModel>,
    /// The state of the usage screen.
    pub usage: UsageScreen,
    /// All accounts.
    pub accounts: List<Account>,
    /// All upstreams.
    pub upstreams: List<Upstream>,
    /// Upstream health by name. It may arrive before the upstreams.
    pub health: Vec<Health>,
    /// All plans for operators, else the account's own plan.
    pub plans: List<Plan>,
    /// The audit log.
    pub audit: List<AuditEntry>,
    /// The ledger.
    pub ledger: List<LedgerEntry>,
    /// The gateways of the database; empty on SQLite.
    pub nodes: List<Node>,
    /// The invites to register.
    pub invites: List<Invite>,
    /// The people of the account that the trail leads from, else of the signed-in account.
    pub people: List<Person>,
    /// The sessions of the account.
    pub sessions: List<Session>,
    /// The operations and their last runs.
    pub operations: Operations,
    /// The requests in flight.
    pub in_flight: List<InFlight>,
}

/// The screen to open after the sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The screen.
    pub screen: Screen,
    /// Its filter; empty for none.
    pub filter: String,
    /// Whether the user asked for it, rather than that it was open before.
    pub is_asked: bool,
}

/// The state of the connection to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Not connected yet, or not signed in.
    Idle,
    /// Connected; displayed data is current.
    Connected,
    /// Connection lost and retried automatically; displayed data may be stale.
    Reconnecting {
        /// The error and what to do about it.
        problem: String,
        /// The time of the next attempt; `None` while an attempt is running.
        retry_at: Option<Timestamp>,
    },
}

/// The result of a user action. Cleared by the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The action succeeded.
    Success(String),
    /// The action failed; the text says what to do.
    Problem(String),
}

// === impl Model ===

impl Model {
    /// Returns the initial model with the sign-in screen open. Without a `base_url`, assumes a
    /// gateway with default ports until the gateway reports its URL.
    pub fn new(server: String, base_url: Option<String>, zone: TimeZone, theme: Theme) -> Self {
        Self {
            base_url: base_url.map_or_else(
                || BaseUrl::Discovered(proto::client::guessed_api_url(&server)),
                BaseUrl::Configured,
            ),
            server,
            zone,
            other_zone: TimeZone::UTC,
            now: None,
            size: (80, 24),
            theme,
            themes: bundled(),
            chosen_theme: None,
            is_utc: false,
            is_mouse_enabled: false,
            screen: Screen::SignIn,
            start: None,
            is_read_only: false,
            first_steps: FirstSteps::default(),
            introduced_servers: Vec::new(),
            trials: 0,
            operation_runs: 0,
            trail: Vec::new(),
            filters: BTreeMap::new(),
            log_run: 0,
            overlay: None,
            is_detail_open: false,
            detail_scroll: 0,
            notice: None,
            connection: ConnectionState::Idle,
            is_refreshing: false,
            sign_in: SignIn::default(),
            data: Data::default(),
        }
    }

    /// Returns the current target of key events.
    pub fn focus(&self) -> Focus {
        match &self.overlay {
            None => self.focus_below(),
            Some(Overlay::Help(open)) if open.is_typing => Focus::HelpSearch,
            Some(Overlay::Help(_)) => Focus::Help,
            Some(Overlay::Palette(_)) => Focus::Palette,
            Some(Overlay::Filter(_)) => Focus::Filter,
            Some(Overlay::Chart(_)) => Focus::Chart,
            Some(Overlay::Columns(_)) => Focus::Columns,
            Some(Overlay::Values(_)) => Focus::Values,
            Some(Overlay::Themes(_)) => Focus::Themes,
            Some(Overlay::Form(_)) => Focus::Form,
            Some(Overlay::Choose(_)) => Focus::Choose,
            Some(Overlay::Confirm(_)) => Focus::Confirm,
            Some(Overlay::Secret(_)) => Focus::Secret,
            Some(Overlay::Trial(_)) => Focus::Trial,
            Some(Overlay::Route(_)) => Focus::Route,
        }
    }

    /// Returns the focus of the open screen, ignoring any overlay.
    pub fn focus_below(&self) -> Focus {
        Focus::Screen(self.screen)
    }

    /// Returns whether the time `now` would change the screen. Relative times show minutes, so
    /// seconds matter only to the countdown of a lost connection and to a running operation.
    pub fn needs_tick(&self, now: Timestamp) -> bool {
        let elapsed = self.now.map(|before| now.duration_since(before).as_secs());
        self.is_stale()
            || self.data.operations.is_any_running()
            || elapsed.is_none_or(|seconds| !(0..MAX_CLOCK_LAG_SECONDS).contains(&seconds))
    }

    /// Returns whether displayed data may be stale.
    pub fn is_stale(&self) -> bool {
        matches!(self.connection, ConnectionState::Reconnecting { .. })
    }

    /// Returns whether the signed-in account has this role or a greater one.
    pub fn has_role(&self, role: Role) -> bool {
        self.data.account.value.as_ref().is_some_and(|it| it.role >= Some(role))
    }

    /// Returns whether the signed-in account may see the data of all accounts.
    pub fn sees_all(&self) -> bool {
        self.has_role(Role::Support)
    }

    /// Returns the screens available to the account, in tab order. The nodes have a tab if there are
    /// any.
    pub fn tabs(&self) -> impl Iterator<Item = Screen> {
        let operator = self.sees_all();
        let has_nodes = self.screen == Screen::Nodes || !self.data.nodes.entries.is_empty();
        Screen::TABS
            .into_iter()
            .filter(move |screen| operator || !screen.is_for_operators())
            .filter(move |screen| has_nodes || *screen != Screen::Nodes)
    }

    /// Returns whether the signed-in account may perform `action` on the open screen.
    pub fn allows(&self, action: Action) -> bool {
        self.allows_on(self.screen, action)
    }

    /// Returns whether the signed-in account may perform `action` on `screen`.
    pub fn allows_on(&self, screen: Screen, action: Action) -> bool {
        if self.is_read_only && action.is_change() {
            return false;
        }
        match action {
            Action::New | Action::Remove | Action::Grant | Action::ResetPassword
                if screen == Screen::People =>
            {
                self.manages_people()
            }
            Action::Open(other) => self.sees_all() || !other.is_for_operators(),
            Action::New | Action::Modify | Action::Remove => {
                matches!(screen, Screen::Keys | Screen::Sessions | Screen::InFlight)
                    || self.has_role(Role::Operator)
            }
            Action::Credit
            | Action::SetPlan
            | Action::Rename
            | Action::ResetPassword
            | Action::ResetUpstream
            | Action::ToggleDraining => self.has_role(Role::Operator),
            Action::Run => {
                !self.data.operations.kind().needs_operator() || self.has_role(Role::Operator)
            }
            Action::Try => match &self.overlay {
                Some(Overlay::Secret(secret)) => secret.kind == SecretKind::Key,
                _ => true,
            },
            Action::Explain => self.sees_all(),
            Action::Grant => self.has_role(Role::Owner),
            Action::HideFirstSteps => self.first_steps == FirstSteps::Shown,
            _ => true,
        }
    }

    /// Returns the limits of an account as far as they were fetched for an open detail.
    pub fn limits_of(&self, account: &str) -> &[LimitUse] {
        match &self.data.account_limits {
            Some((name, limits)) if name == account => limits,
            _ => &[],
        }
    }

    /// Returns the account whose data the open screen shows because the trail leads from it.
    pub fn subject(&self) -> Option<&str> {
        self.trail.last()?.subject.as_deref()
    }

    /// Returns whether the account whose people are shown can have some: only one with the role
    /// `member` can. `true` if its role is unknown.
    pub fn can_have_people(&self) -> bool {
        let own = self.data.account.value.iter();
        let mut known = own.chain(&self.data.accounts.entries);
        let account = match self.subject() {
            None => self.data.account.value.as_ref(),
            Some(name) => known.find(|it| it.name == name),
        };
        account.and_then(|it| it.role).is_none_or(|role| role == Role::Member)
    }

    /// Returns whether the signed-in person may manage the people that are shown: those of the same
    /// account unless it is one of the members, those of others as an operator.
    fn manages_people(&self) -> bool {
        let account = self.data.account.value.as_ref();
        let is_own = |name| account.is_some_and(|it| it.name == name);
        let may = if self.subject().is_none_or(is_own) {
            account.is_some_and(|it| it.person_role != Some(PersonRole::Member))
        } else {
            self.has_role(Role::Operator)
        };
        may && self.can_have_people()
    }

    /// Returns how the table of the open screen is shown.
    pub fn table(&self) -> Option<&TableState> {
        let data = &self.data;
        match self.screen {
            Screen::Keys => Some(&data.keys.table),
            Screen::Models => Some(&data.models.table),
            Screen::Usage => Some(&data.log.table),
            Screen::Accounts => Some(&data.accounts.table),
            Screen::Upstreams => Some(&data.upstreams.table),
            Screen::Plans => Some(&data.plans.table),
            Screen::Audit => Some(&data.audit.table),
            Screen::Nodes => Some(&data.nodes.table),
            Screen::Ledger => Some(&data.ledger.table),
            Screen::Invites => Some(&data.invites.table),
            Screen::People => Some(&data.people.table),
            Screen::Sessions => Some(&data.sessions.table),
            Screen::InFlight => Some(&data.in_flight.table),
            Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => None,
        }
    }

    /// Applies the theme with this name. Returns whether there is one.
    pub fn choose_theme(&mut self, name: &str) -> bool {
        let Some(chosen) = self.themes.iter().find(|it| it.name == name) else { return false };
        self.theme = chosen.theme;
        self.chosen_theme = Some(name.to_owned());
        true
    }

    /// Switches between the local time zone and UTC.
    pub fn toggle_utc(&mut self) {
        std::mem::swap(&mut self.zone, &mut self.other_zone);
        self.is_utc = !self.is_utc;
    }

    /// Returns the number of rows that a page key moves.
    pub fn page(&self) -> isize {
        isize::try_from(self.size.1.saturating_sub(8).max(1)).unwrap_or(1)
    }

    /// Shows a success notice in the footer.
    pub fn set_success(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice::Success(text.into()));
    }

    /// Shows a problem in the footer. `text` should say what to do.
    pub fn set_problem(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice::Problem(text.into()));
    }
}
