//! The table of all key bindings.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest::{
    self, DeleteFromStart, DeleteNextChar, DeletePrevChar, DeletePrevWord, GoToEnd, GoToNextChar,
    GoToNextWord, GoToPrevChar, GoToPrevWord, GoToStart,
};

use super::binding::{Binding, row};
use crate::model::Action::{
    self, Back, Chart, Columns, Complete, Copy, CopyAgent, CopyCommand, CopyRows, CopyValue,
    Credit, Detail, Explain, Field, First, Grant, HideFirstSteps, Jump, Last, Mark, Measure,
    Modify, Mouse, Move, New, NextModel, Open, OpenRecord, Page, Password, Pause, Pick, Quit,
    Range, Refresh, Remove, RemoveOthers, Rename, Reset, ResetPassword, ResetUpstream, Reverse,
    Rotate, Run, SaveFilter, Scroll, SetPlan, Shift, Sideways, SignOut, Sort, Stop, Submit,
    Suspend, Tab, TestUpstream, Theme, ToggleDraining, ToggleRegistration, ToggleSuspension,
    ToggleUtc, Try,
};
use crate::model::Focus::{Choose, Confirm, Filter, Form, Help, HelpSearch, Palette, Secret};
use crate::model::{Focus, RowFormat, Screen};

use self::KeyCode::{
    BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp,
    Right, Up,
};

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

const SIGN_IN: Focus = Focus::Screen(Screen::SignIn);
const OVERVIEW: Focus = Focus::Screen(Screen::Overview);
const KEYS: Focus = Focus::Screen(Screen::Keys);
const MODELS: Focus = Focus::Screen(Screen::Models);
const USAGE: Focus = Focus::Screen(Screen::Usage);
const LIVE: Focus = Focus::Screen(Screen::Live);
const ACCOUNTS: Focus = Focus::Screen(Screen::Accounts);
const UPSTREAMS: Focus = Focus::Screen(Screen::Upstreams);
const PLANS: Focus = Focus::Screen(Screen::Plans);
const AUDIT: Focus = Focus::Screen(Screen::Audit);
const NODES: Focus = Focus::Screen(Screen::Nodes);
const LEDGER: Focus = Focus::Screen(Screen::Ledger);
const INVITES: Focus = Focus::Screen(Screen::Invites);
const IN_FLIGHT: Focus = Focus::Screen(Screen::InFlight);
const OPERATIONS: Focus = Focus::Screen(Screen::Operations);
const PEOPLE: Focus = Focus::Screen(Screen::People);
const SESSIONS: Focus = Focus::Screen(Screen::Sessions);
/// The screens whose rows lead to others.
const SOURCES: &[Focus] = &[KEYS, MODELS, ACCOUNTS, UPSTREAMS, PLANS, LEDGER];

/// All screens of a signed-in account.
const SCREENS: &[Focus] = &[
    OVERVIEW, KEYS, MODELS, USAGE, LIVE, ACCOUNTS, UPSTREAMS, PLANS, AUDIT, NODES, LEDGER, INVITES,
    PEOPLE, SESSIONS, IN_FLIGHT, OPERATIONS,
];
/// Every focus.
const EVERYWHERE: &[Focus] = &[
    SIGN_IN,
    OVERVIEW,
    KEYS,
    MODELS,
    USAGE,
    LIVE,
    ACCOUNTS,
    UPSTREAMS,
    PLANS,
    AUDIT,
    NODES,
    LEDGER,
    INVITES,
    PEOPLE,
    SESSIONS,
    IN_FLIGHT,
    OPERATIONS,
    Filter,
    Palette,
    Focus::Chart,
    Focus::Columns,
    Focus::Values,
    Focus::Themes,
    Form,
    Choose,
    Confirm,
    Secret,
    Focus::Trial,
    Focus::Route,
    Help,
    HelpSearch,
];
/// Screens with a row cursor.
const LISTS: &[Focus] = &[
    KEYS, MODELS, USAGE, ACCOUNTS, UPSTREAMS, PLANS, AUDIT, NODES, LEDGER, INVITES, PEOPLE,
    SESSIONS, IN_FLIGHT,
];
/// Lists in which the arrows at the side go to what belongs to a row, and back.
const SIDEWAYS: &[Focus] = &[
    KEYS, MODELS, ACCOUNTS, UPSTREAMS, PLANS, AUDIT, NODES, LEDGER, INVITES, PEOPLE, SESSIONS,
    IN_FLIGHT,
];
/// Choices from a list.
const CHOICES: &[Focus] = &[Focus::Columns, Focus::Values, Focus::Themes];
/// Where typed characters are text.
const TEXTS: &[Focus] = &[SIGN_IN, Form, Filter, Palette, Focus::Trial, HelpSearch];
/// Where the user moves between fields.
const FORMS: &[Focus] = &[SIGN_IN, Form];

/// All bindings. Invariant: within one focus, no key appears in two rows. Help and footer keep this
/// order.
#[rustfmt::skip]
pub const TABLE: &[Binding] = &[
    // forms, filter, palette
    row(FORMS, &[(NONE, Enter)], Submit, "take the chosen value, next field, then send").hint("send"),
    row(FORMS, &[(NONE, KeyCode::Tab)], Field(1), "take the chosen value, or next field").hint("field"),
    row(FORMS, &[(NONE, BackTab)], Field(-1), "previous field"),
    row(FORMS, &[(NONE, Down)], Pick(1), "next offered value or field"),
    row(FORMS, &[(NONE, Up)], Pick(-1), "previous offered value or field"),
    row(&[SIGN_IN], &[(CTRL, Char('n'))], ToggleRegistration, "register, or sign in").hint("register/sign in").also("sign up signup create account log in login"),
    row(&[Filter], &[(NONE, Enter)], Submit, "keep the filter").hint("keep"),
    row(&[Filter], &[(NONE, KeyCode::Tab)], Complete, "the next word that begins like this").hint("complete"),
    row(&[Filter], &[(NONE, Up), (CTRL, Char('p'))], Move(-1), "an earlier filter").hint("earlier"),
    row(&[Filter], &[(NONE, Down), (CTRL, Char('n'))], Move(1), "a later filter"),
    row(&[Filter], &[(CTRL, Char('s'))], SaveFilter, "save the filter, or forget it").hint("save"),
    row(&[Palette], &[(NONE, Enter)], Submit, "run the command").hint("run"),
    row(&[Palette], &[(NONE, KeyCode::Tab)], Complete, "complete the command").hint("complete"),
    row(&[Palette], &[(NONE, Down), (CTRL, Char('n'))], Move(1), "next command"),
    row(&[Palette], &[(NONE, Up), (CTRL, Char('p'))], Move(-1), "previous command"),
    row(&[Focus::Trial], &[(NONE, Enter)], Submit, "send the prompt").hint("send"),
    row(&[Focus::Trial], &[(NONE, KeyCode::Tab)], Complete, "the other API: chat completions or Responses").hint("API"),
    row(&[Focus::Trial], &[(CTRL, Char('n'))], NextModel, "the next model").hint("model"),
    row(&[Focus::Trial], &[(CTRL, Char('o'))], OpenRecord, "its record, or the answer").hint("record"),
    row(&[Focus::Trial], &[(NONE, Up)], Move(-1), "scroll up"),
    row(&[Focus::Trial], &[(NONE, Down)], Move(1), "scroll down"),
    row(TEXTS, &[(NONE, Backspace), (CTRL, Char('h'))], Action::Type(DeletePrevChar), "delete before the cursor"),
    row(TEXTS, &[(NONE, Delete), (CTRL, Char('d'))], Action::Type(DeleteNextChar), "delete under the cursor"),
    row(TEXTS, &[(CTRL, Char('w'))], Action::Type(DeletePrevWord), "delete the word"),
    row(TEXTS, &[(CTRL, Char('u'))], Action::Type(DeleteFromStart), "delete to the start"),
    row(TEXTS, &[(CTRL, Char('k'))], Action::Type(InputRequest::DeleteTillEnd), "delete to the end"),
    row(TEXTS, &[(NONE, Left), (CTRL, Char('b'))], Action::Type(GoToPrevChar), "left, or the previous choice"),
    row(TEXTS, &[(NONE, Right), (CTRL, Char('f'))], Action::Type(GoToNextChar), "right, or the next choice"),
    row(TEXTS, &[(CTRL, Left)], Action::Type(GoToPrevWord), "word to the left"),
    row(TEXTS, &[(CTRL, Right)], Action::Type(GoToNextWord), "word to the right"),
    row(TEXTS, &[(NONE, Home), (CTRL, Char('a'))], Action::Type(GoToStart), "start of the field"),
    row(TEXTS, &[(NONE, End), (CTRL, Char('e'))], Action::Type(GoToEnd), "end of the field"),
    row(&[Form], &[(CTRL, Char('y'))], CopyCommand, "copy the `ctl` command that does the same").hint("copy ctl"),
    row(&[Form, Filter, Palette], &[(NONE, Esc)], Back, "cancel").hint("cancel"),
    row(&[Focus::Trial], &[(NONE, Esc)], Back, "stop and close").hint("close"),

    // confirmation, key secret
    row(&[Confirm], &[(NONE, Char('y'))], Action::Confirm, "yes").hint("yes"),
    row(&[Confirm], &[(NONE, Char('Y')), (CTRL, Char('y'))], CopyCommand, "copy the `ctl` command that does the same").hint("copy ctl"),
    row(&[Confirm], &[(NONE, Char('n')), (NONE, Esc), (NONE, Char('q'))], Back, "no").hint("no"),
    row(&[Secret], &[(NONE, Char('y')), (NONE, Char('c'))], Copy, "copy the key").hint("copy"),
    row(&[Secret], &[(NONE, Char('t'))], Try, "try it with a model").hint("try"),
    row(&[Secret], &[(NONE, Esc), (NONE, Char('q'))], Back, "close; twice if the key was not copied").hint("close"),

    // chart
    row(&[Focus::Chart], &[(NONE, Left), (NONE, Char('h'))], Move(-1), "the period before").hint("cursor"),
    row(&[Focus::Chart], &[(NONE, Right), (NONE, Char('l'))], Move(1), "the period after"),
    row(&[Focus::Chart], &[(NONE, Home), (NONE, Char('g'))], First, "the first period"),
    row(&[Focus::Chart], &[(NONE, End), (NONE, Char('G'))], Last, "the newest period"),
    row(&[Focus::Chart], &[(NONE, KeyCode::Tab), (NONE, Char('c'))], Measure(1), "tokens, requests, cost, durations").hint("measure"),
    row(&[Focus::Chart], &[(NONE, BackTab)], Measure(-1), "the measure before"),
    row(&[Focus::Chart], &[(NONE, Char(']'))], Range(1), "longer range").hint("range"),
    row(&[Focus::Chart], &[(NONE, Char('['))], Range(-1), "shorter range"),
    row(&[Focus::Chart], &[(NONE, Enter)], Submit, "the requests of the period").hint("requests"),
    row(&[Focus::Chart], &[(NONE, Esc), (NONE, Char('q'))], Back, "close the chart").hint("close"),

    // choices
    row(CHOICES, &[(NONE, Down), (NONE, Char('j'))], Move(1), "next"),
    row(CHOICES, &[(NONE, Up), (NONE, Char('k'))], Move(-1), "previous"),
    row(&[Focus::Columns], &[(NONE, Char(' ')), (NONE, Char('x'))], Mark, "show or hide it").hint("show/hide"),
    row(&[Focus::Columns], &[(NONE, Char('J')), (NONE, Right)], Shift(1), "move it to the right").hint("move"),
    row(&[Focus::Columns], &[(NONE, Char('K')), (NONE, Left)], Shift(-1), "move it to the left"),
    row(&[Focus::Columns], &[(NONE, Char('r'))], Reset, "all columns in their usual order").hint("reset"),
    row(&[Focus::Columns], &[(NONE, Enter), (NONE, Esc), (NONE, Char('q'))], Back, "close").hint("close"),
    row(&[Focus::Values], &[(NONE, Enter), (NONE, Char('y'))], Submit, "copy it").hint("copy"),
    row(&[Focus::Themes], &[(NONE, Enter)], Submit, "keep it").hint("keep"),
    row(&[Focus::Values, Focus::Themes], &[(NONE, Esc), (NONE, Char('q'))], Back, "cancel").hint("cancel"),

    // what belongs to the selected row
    row(&[Choose], &[(NONE, Enter), (NONE, Right), (NONE, Char('l'))], Submit, "open it").hint("open"),
    row(&[Choose], &[(NONE, Down), (NONE, Char('j'))], Move(1), "next"),
    row(&[Choose], &[(NONE, Up), (NONE, Char('k'))], Move(-1), "previous"),
    row(&[Choose], &[(NONE, Esc), (NONE, Left), (NONE, Char('h')), (NONE, Char('q'))], Back, "cancel").hint("cancel"),
    row(SOURCES, &[(NONE, Right), (NONE, Char('l'))], Action::Enter, "go to what belongs to it").hint("go in"),
    row(&[OVERVIEW, LIVE], &[(NONE, Char('e'))], Action::Enter, "the requests with an error in the last hour").hint("errors"),
    row(SIDEWAYS, &[(NONE, Left), (NONE, Char('h'))], Back, "go back"),

    // route
    row(&[Focus::Route], &[(NONE, Char('r'))], Refresh, "ask again").hint("again"),
    row(&[Focus::Route], &[(NONE, Char('y'))], Copy, "copy the `ctl` command that shows the same").hint("copy ctl"),
    row(&[Focus::Route], &[(NONE, Down), (NONE, Char('j'))], Move(1), "scroll down"),
    row(&[Focus::Route], &[(NONE, Up), (NONE, Char('k'))], Move(-1), "scroll up"),
    row(&[Focus::Route], &[(NONE, Esc), (NONE, Enter), (NONE, Char('q'))], Back, "close it").hint("close"),

    // actions on the selected row
    row(&[KEYS], &[(NONE, Char('n'))], New, "new key").hint("new").command("new").also("create add api token secret budget"),
    row(&[KEYS], &[(NONE, Char('e'))], Modify, "change its label, limits, models or end").hint("edit").command("edit").also("budget spending cap quota expiry"),
    row(&[KEYS], &[(NONE, Char('R'))], Rotate, "replace it; both work for a while").hint("rotate").command("rotate").also("renew regenerate roll"),
    row(&[KEYS], &[(NONE, Char('x')), (NONE, Delete)], Remove, "revoke it").hint("revoke").command("revoke").also("delete remove disable"),
    row(&[MODELS], &[(NONE, Char('y'))], Copy, "copy a ready curl command").hint("copy curl").also("example request snippet"),
    row(&[MODELS], &[(NONE, Char('a'))], CopyAgent, "copy a coding agent's configuration").hint("agent").also("codex claude opencode setup config"),
    row(&[MODELS], &[(NONE, Char('t'))], Try, "try it").hint("try").command("try").also("test chat prompt playground ask"),
    row(&[MODELS], &[(NONE, Char('n'))], New, "new model").hint("new").command("new").also("create add"),
    row(&[MODELS], &[(NONE, Char('e'))], Modify, "change it").hint("edit").command("edit").also("price pricing context"),
    row(&[MODELS], &[(NONE, Char('x')), (NONE, Delete)], Remove, "remove it").hint("remove").command("remove"),
    row(&[MODELS], &[(NONE, Char('w'))], Explain, "where its requests go, and why").hint("route").command("route").also("routing explain deployment failover load balancing"),
    row(&[USAGE], &[(NONE, Char('p')), (NONE, Char(' '))], Pause, "pause or resume the log").hint("pause").command("pause").also("stop freeze hold tail follow"),
    row(&[OVERVIEW, USAGE, LIVE], &[(NONE, Char('c'))], Chart, "chart of tokens, requests, cost and durations").hint("chart").command("chart").also("graph plot histogram latency heat map"),
    row(&[USAGE], &[(NONE, Char('t'))], Jump, "go to a time").hint("time").command("time").also("date jump history since until"),
    row(&[USAGE], &[(NONE, Char(']')), (NONE, Right), (NONE, Char('l'))], Range(1), "longer range").hint("range"),
    row(&[USAGE], &[(NONE, Char('[')), (NONE, Left), (NONE, Char('h'))], Range(-1), "shorter range"),
    row(&[ACCOUNTS], &[(NONE, Char('c'))], Credit, "add to its balance").hint("credit").command("credit").also("money fund top up pay deposit refund budget"),
    row(&[ACCOUNTS], &[(NONE, Char('s'))], ToggleSuspension, "suspend or resume it").hint("suspend").command("suspend").also("block ban lock disable unblock enable"),
    row(&[ACCOUNTS], &[(NONE, Char('p'))], SetPlan, "put it on another plan").hint("plan").command("plan").also("limits quota upgrade"),
    row(&[ACCOUNTS], &[(NONE, Char('o'))], Grant, "give it another role").hint("role").command("role").also("permission admin operator owner promote"),
    row(&[ACCOUNTS], &[(NONE, Char('N'))], Rename, "rename it").command("rename"),
    row(&[ACCOUNTS], &[(NONE, Char('w'))], ResetPassword, "a code for a new password").command("reset-password").also("forgot lost recover"),
    row(&[ACCOUNTS], &[(NONE, Char('x')), (NONE, Delete)], Remove, "close it; delete it if it is closed").command("close"),
    row(&[INVITES], &[(NONE, Char('n'))], New, "new invite").hint("new").command("new").also("register user sign up code create"),
    row(&[INVITES], &[(NONE, Char('x')), (NONE, Delete)], Remove, "revoke it").hint("revoke").command("revoke"),
    row(&[LIVE], &[(NONE, Char('i'))], Open(Screen::InFlight), "all requests in flight").hint("in flight"),
    row(&[IN_FLIGHT], &[(NONE, Char('x')), (NONE, Delete)], Remove, "cancel it").hint("cancel").command("cancel").also("kill abort stop"),
    row(&[PEOPLE], &[(NONE, Char('n'))], New, "add a person").hint("add").command("new").also("user member team invite"),
    row(&[PEOPLE], &[(NONE, Char('o'))], Grant, "give it another role").hint("role").command("role"),
    row(&[PEOPLE], &[(NONE, Char('w'))], ResetPassword, "a code for a new password").hint("code").command("reset-password"),
    row(&[PEOPLE], &[(NONE, Char('x')), (NONE, Delete)], Remove, "remove it").hint("remove").command("remove"),
    row(&[OPERATIONS], &[(NONE, Enter)], Run, "run it").hint("run").command("run").also("backup back up doctor check verify diagnose health dump"),
    row(&[OPERATIONS], &[(NONE, Char('x')), (NONE, Delete)], Stop, "stop it").hint("stop").command("stop"),
    row(&[OPERATIONS], &[(NONE, Char('y'))], Copy, "copy the `ctl` command that does the same").hint("copy ctl"),
    row(&[OPERATIONS], &[(NONE, Down), (NONE, Char('j'))], Move(1), "next operation"),
    row(&[OPERATIONS], &[(NONE, Up), (NONE, Char('k'))], Move(-1), "previous operation"),
    row(&[OPERATIONS], &[(NONE, Char('J'))], Scroll(1), "scroll the result down").hint("scroll"),
    row(&[OPERATIONS], &[(NONE, Char('K'))], Scroll(-1), "scroll the result up"),
    row(&[OPERATIONS], &[(NONE, PageDown)], Scroll(10), "scroll the result ten lines down"),
    row(&[OPERATIONS], &[(NONE, PageUp)], Scroll(-10), "scroll the result ten lines up"),
    row(&[SESSIONS], &[(NONE, Char('x')), (NONE, Delete)], Remove, "end it").hint("end").command("end").also("log out logout sign out"),
    row(&[SESSIONS], &[(NONE, Char('X'))], RemoveOthers, "end all others").hint("end others").command("end-others").also("log out logout everywhere"),
    row(&[UPSTREAMS], &[(NONE, Char('n'))], New, "new upstream").hint("new").command("new").also("create add provider server backend endpoint"),
    row(&[UPSTREAMS, PLANS], &[(NONE, Char('e'))], Modify, "change it").hint("edit").command("edit"),
    row(&[UPSTREAMS], &[(NONE, Char('x')), (NONE, Delete)], Remove, "remove it").hint("remove").command("remove"),
    row(&[UPSTREAMS], &[(NONE, Char('t'))], TestUpstream, "test whether it can be reached").hint("test").command("test").also("ping check probe doctor connection"),
    row(&[UPSTREAMS], &[(NONE, Char('R'))], ResetUpstream, "close its breaker, end its pauses").hint("reset").command("reset").also("circuit breaker reopen retry unblock"),
    row(&[PLANS], &[(NONE, Char('n'))], New, "new plan").hint("new").command("new").also("create add limits quota tier"),
    row(&[NODES], &[(NONE, Char('d'))], ToggleDraining, "drain it, or end that").hint("drain").command("drain").also("maintenance cordon"),
    row(&[NODES], &[(NONE, Char('x')), (NONE, Delete)], Remove, "remove it").hint("remove").command("remove"),
    row(&[KEYS, USAGE, ACCOUNTS, UPSTREAMS, AUDIT, NODES, LEDGER, INVITES, PEOPLE, SESSIONS, IN_FLIGHT], &[(NONE, Char('y'))], Copy, "copy its id").also("yank clipboard"),

    // list navigation
    row(LISTS, &[(NONE, Char('/'))], Action::Filter, "filter").hint("filter").command("filter").also("search find grep"),
    row(LISTS, &[(NONE, Enter)], Detail, "show or hide the detail").hint("detail"),
    row(LISTS, &[(NONE, Down), (NONE, Char('j'))], Move(1), "next row"),
    row(LISTS, &[(NONE, Up), (NONE, Char('k'))], Move(-1), "previous row"),
    row(LISTS, &[(NONE, PageDown), (CTRL, Char('f')), (CTRL, Char('d'))], Page(1), "page down"),
    row(LISTS, &[(NONE, PageUp), (CTRL, Char('b')), (CTRL, Char('u'))], Page(-1), "page up"),
    row(LISTS, &[(NONE, Home), (NONE, Char('g'))], First, "first row"),
    row(LISTS, &[(NONE, End), (NONE, Char('G'))], Last, "last row"),
    row(LISTS, &[(NONE, Char('>'))], Sort(1), "sort by the next column").hint("sort"),
    row(LISTS, &[(NONE, Char('<'))], Sort(-1), "sort by the previous column"),
    row(LISTS, &[(NONE, Char('='))], Reverse, "reverse the order"),
    row(LISTS, &[(NONE, Char('-'))], Columns, "choose columns and their order").command("columns"),
    row(LISTS, &[(NONE, Char('v'))], CopyValue, "copy a value of the row").command("copy-value"),
    row(LISTS, &[(CTRL, Right)], Sideways(1), "columns further right"),
    row(LISTS, &[(CTRL, Left)], Sideways(-1), "columns further left"),
    row(&[KEYS, ACCOUNTS], &[(NONE, Char(' '))], Mark, "mark it for what is done next").hint("mark"),
    row(LISTS, &[(NONE, Char('Y'))], CopyRows(RowFormat::Csv), "copy the marked rows, or this one, as CSV").command("copy-csv").also("export spreadsheet"),
    row(LISTS, &[], CopyRows(RowFormat::Json), "copy the marked rows, or this one, as JSON").command("copy-json").also("export"),
    row(LISTS, &[(NONE, Char('J'))], Scroll(1), "scroll the detail down"),
    row(LISTS, &[(NONE, Char('K'))], Scroll(-1), "scroll the detail up"),
    row(LISTS, &[(NONE, Esc)], Back, "close the detail, clear marks and filter, then go back"),

    // global
    row(SCREENS, &[(NONE, Char('1'))], Open(Screen::Overview), "overview").command("overview").also("home start balance limits"),
    row(SCREENS, &[(NONE, Char('2'))], Open(Screen::Keys), "keys").command("keys").also("api tokens secrets"),
    row(SCREENS, &[(NONE, Char('3'))], Open(Screen::Models), "models").command("models").also("catalogue catalog prices"),
    row(SCREENS, &[(NONE, Char('4'))], Open(Screen::Usage), "usage").command("usage").also("requests log logs history cost spend tokens"),
    row(SCREENS, &[(NONE, Char('5'))], Open(Screen::Live), "live").command("live").also("top monitor traffic now"),
    row(SCREENS, &[(NONE, Char('6'))], Open(Screen::Accounts), "accounts").command("accounts").also("users customers register"),
    row(SCREENS, &[(NONE, Char('7'))], Open(Screen::Upstreams), "upstreams").command("upstreams").also("providers servers backends health"),
    row(SCREENS, &[(NONE, Char('8'))], Open(Screen::Plans), "plans").command("plans").also("tiers quota limits"),
    row(SCREENS, &[(NONE, Char('9'))], Open(Screen::Audit), "audit").command("audit").also("history changes who"),
    row(SCREENS, &[(NONE, Char('0'))], Open(Screen::Nodes), "nodes").command("nodes").also("fleet cluster gateways drain"),
    row(SCREENS, &[], Open(Screen::Ledger), "the ledger").command("ledger").also("money billing transactions charges credits payments"),
    row(SCREENS, &[], Open(Screen::Invites), "invites to register").command("invites").also("sign up signup users"),
    row(SCREENS, &[], Open(Screen::InFlight), "requests in flight").command("in-flight").also("running active current"),
    row(SCREENS, &[], Open(Screen::People), "people of your account").command("people").also("users team members"),
    row(SCREENS, &[], Open(Screen::Operations), "check, verify, back up").command("operations").also("backup doctor ledger health diagnose dump maintenance"),
    row(SCREENS, &[], Open(Screen::Sessions), "your sessions").command("sessions").also("log out logout devices login"),
    row(SCREENS, &[(NONE, KeyCode::Tab)], Tab(1), "next screen").hint("next"),
    row(SCREENS, &[(NONE, BackTab)], Tab(-1), "previous screen"),
    row(SCREENS, &[(NONE, Char('r')), (CTRL, Char('l'))], Refresh, "refresh, or reconnect now").command("refresh").also("reload update"),
    row(SCREENS, &[], Theme, "choose a theme").command("theme").also("colour color dark light palette"),
    row(SCREENS, &[], Mouse, "turn the mouse on or off").command("mouse"),
    row(SCREENS, &[], ToggleUtc, "show times in UTC, or in the local zone").command("utc").also("timezone time zone"),
    row(SCREENS, &[(NONE, Char('H'))], HideFirstSteps, "hide the first steps for good").command("hide-first-steps"),
    row(SCREENS, &[], Password, "change your password").command("password").also("passwd"),
    row(SCREENS, &[], SignOut, "sign out").command("sign-out").also("log out logout log off end session switch account register"),
    row(SCREENS, &[(NONE, Char(':'))], Action::Palette, "command").hint("command").also("palette run"),
    row(&[Help, HelpSearch], &[(NONE, Enter)], Submit, "run the row, or open its screen").hint("run"),
    row(&[Help], &[(NONE, Char('/'))], Action::Filter, "search, also what begins with q or ?").hint("search"),
    row(&[Help], &[(NONE, Down)], Move(1), "next row"),
    row(&[Help], &[(NONE, Up)], Move(-1), "previous row"),
    row(&[HelpSearch], &[(NONE, Down), (CTRL, Char('n'))], Move(1), "next row"),
    row(&[HelpSearch], &[(NONE, Up), (CTRL, Char('p'))], Move(-1), "previous row"),
    row(&[Help, HelpSearch], &[(NONE, PageDown)], Page(1), "page down"),
    row(&[Help, HelpSearch], &[(NONE, PageUp)], Page(-1), "page up"),
    row(&[Help], &[(NONE, Home)], First, "first row"),
    row(&[Help], &[(NONE, End)], Last, "last row"),
    row(&[Help], &[(NONE, Esc), (NONE, Char('q')), (NONE, Char('?')), (NONE, F(1))], Back, "close the help").hint("close"),
    row(&[HelpSearch], &[(NONE, Esc), (NONE, F(1))], Back, "end the search").hint("all keys"),
    row(SCREENS, &[(NONE, Char('?')), (NONE, F(1))], Action::Help, "help").hint("help").command("help"),
    row(FORMS, &[(NONE, F(1))], Action::Help, "help").hint("help"),
    row(EVERYWHERE, &[(CTRL, Char('z'))], Suspend, "suspend until `fg`"),
    row(SCREENS, &[(NONE, Char('q'))], Quit, "leave").hint("leave").command("quit").also("exit close"),
    row(&[SIGN_IN], &[(NONE, Esc)], Quit, "leave").hint("leave"),
    row(EVERYWHERE, &[(CTRL, Char('c'))], Quit, "leave from anywhere"),
];
