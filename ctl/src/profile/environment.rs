//! What `ctl` takes from its process beside arguments and standard streams: the only file that reads the environment.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use jiff::Timestamp;
use secrecy::SecretString;

use crate::clock;

/// The inputs of `ctl` from its process, other than arguments and standard streams.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `TOLLGATE_SERVER`.
    pub server: Option<String>,
    /// `TOLLGATE_TOKEN`.
    pub token: Option<SecretString>,
    /// `TOLLGATE_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// `TOLLGATE_PROFILE`: the name of a profile.
    pub profile: Option<String>,
    /// `TOLLGATE_CA_FILE`: certificate authorities to trust instead of the public ones, in PEM.
    pub ca_file: Option<PathBuf>,
    /// `TOLLGATE_IDENTITY_FILE`: the client's certificate and key, in PEM.
    pub identity_file: Option<PathBuf>,
    /// `COMPLETE`: the shell that requests completions, instead of running a command.
    pub complete: Option<String>,
    /// `TOLLGATE_API_KEY`: an API key, which `ctl` uses only to check the configuration of an
    /// agent.
    pub api_key: Option<SecretString>,
    /// The directory of the profile file: `$XDG_CONFIG_HOME/tollgate`. `None` without a home
    /// directory.
    pub config_dir: Option<PathBuf>,
    /// The data directory of a gateway on this host: `TOLLGATE_DATA_DIR`, else
    /// `$XDG_DATA_HOME/tollgate`.
    pub data_dir: Option<PathBuf>,
    /// Whether to use colour on stdout: it is a terminal, `TERM` is not `dumb` and `NO_COLOR` is
    /// not set.
    pub colour: bool,
    /// Whether the terminal displays Unicode: the locale is UTF-8, and `TERM` is not `dumb`.
    pub unicode: bool,
    /// The width of stdout in columns; `None` if it is not a terminal.
    pub width: Option<u16>,
    /// The height of stdout in lines; `None` if it is not a terminal, or its height is unknown.
    pub height: Option<u16>,
    /// Whether prompts are possible: stdin and stderr are terminals.
    pub interactive: bool,
    /// The start time of the command.
    pub now: Timestamp,
}

impl Environment {
    /// Reads the environment of the process.
    #[expect(clippy::disallowed_methods, reason = "the one place where ctl reads the environment")]
    pub fn of_process() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let base = etcetera::choose_base_strategy().ok();
        let terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let dumb = text("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            server: text("TOLLGATE_SERVER"),
            token: text("TOLLGATE_TOKEN").map(|token| SecretString::from(token.trim())),
            token_file: set("TOLLGATE_TOKEN_FILE").map(PathBuf::from),
            profile: text("TOLLGATE_PROFILE"),
            ca_file: set("TOLLGATE_CA_FILE").map(PathBuf::from),
            identity_file: set("TOLLGATE_IDENTITY_FILE").map(PathBuf::from),
            complete: text("COMPLETE").filter(|shell| shell != "0"),
            api_key: text("TOLLGATE_API_KEY").map(|key| SecretString::from(key.trim())),
            config_dir: base.as_ref().map(|base| base.config_dir().join("tollgate")),
            data_dir: set("TOLLGATE_DATA_DIR")
                .map(PathBuf::from)
                .or_else(|| base.as_ref().map(|base| base.data_dir().join("tollgate"))),
            colour: terminal && !dumb && set("NO_COLOR").is_none(),
            unicode: !dumb && (locale.contains("utf-8") || locale.contains("utf8")),
            // A terminal of unknown width reports 0 columns.
            width: comfy_table::Table::new()
                .width()
                .filter(|_| terminal)
                .map(|width| if width == 0 { 80 } else { width }),
            height: rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| size.ws_row)
                .filter(|height| *height > 0),
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            now: clock::now(),
        }
    }

    /// Returns an environment without variables and terminals, with both directories under `home`
    /// (`.config/tollgate` and `.local/share/tollgate`), to run `ctl` in process.
    pub fn for_home(home: &Path) -> Self {
        Self {
            server: None,
            token: None,
            token_file: None,
            profile: None,
            ca_file: None,
            identity_file: None,
            complete: None,
            api_key: None,
            config_dir: Some(home.join(".config/tollgate")),
            data_dir: Some(home.join(".local/share/tollgate")),
            colour: false,
            unicode: true,
            width: None,
            height: None,
            interactive: false,
            now: clock::now(),
        }
    }
}
