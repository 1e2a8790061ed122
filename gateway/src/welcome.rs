//! The text that the first start prints: the path of the operator token and the next commands.
//!
//! It is printed as long as there is no token file, also without a terminal, so that it appears in a service's log.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::{AdminAddress, Config, DEFAULT_ADMIN_LISTEN, default_data_dir};
use crate::control::bootstrap::TOKEN_FILE;
use crate::programs::{Programs, shell_quote};

/// Returns whether no gateway has run on this data directory yet.
pub fn is_first_start(config: &Config) -> bool {
    !config.data_dir.join(TOKEN_FILE).exists()
}

/// Returns the text for a gateway whose admin plane listens on `admin`, with `programs` in the commands.
pub fn text(config: &Config, admin: &AdminAddress, programs: &Programs) -> String {
    let dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = |address: SocketAddr| format!("{scheme}://{}", local_address(address));
    let mut text = format!(
        "The operator token will be in {},\n\
         where `ctl` and `tui` on this host find it. Next, in another terminal:\n",
        dir.join(TOKEN_FILE).display()
    );
    // Defaults of `ctl` and `tui` are omitted. Writing to a string cannot fail.
    if admin.to_string() != DEFAULT_ADMIN_LISTEN || config.tls.is_some() {
        let server = match admin {
            AdminAddress::Tcp(address) => url(*address),
            AdminAddress::Unix(_) => admin.to_string(),
        };
        _ = writeln!(text, "   export TOLLGATE_SERVER={server}");
    }
    if default_data_dir().ok().as_ref() != Some(&dir) {
        _ = writeln!(text, "   export TOLLGATE_DATA_DIR={}", shell_quote(&dir));
    }
    let quickstart = programs.ctl("quickstart");
    let dashboard = programs.tui();
    let width = quickstart.len().max(dashboard.len()) + 2;
    _ = writeln!(text, "   {quickstart:width$}# an account, a key, code");
    _ = writeln!(text, "   {dashboard:width$}# the dashboard");
    text
}

/// Returns the address at which clients on this host can connect to a listener on `address`.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip =
        if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;

    fn welcome(settings: Settings, admin: &str) -> String {
        let config = settings.resolve().unwrap();
        let programs = Programs::beside(Path::new("gateway"));
        text(&config, &admin.parse().unwrap(), &programs)
    }

    #[test]
    fn exports_only_variables_that_differ_from_the_defaults() {
        let plain = welcome(Settings::default(), DEFAULT_ADMIN_LISTEN);
        assert!(!plain.contains("export"), "{plain}");
        let settings = Settings { data_dir: Some("/srv/toll gate".into()), ..Settings::default() };
        let moved = welcome(settings, "127.0.0.1:9");
        for line in [
            "will be in /srv/toll gate/operator.token,",
            "export TOLLGATE_SERVER=http://127.0.0.1:9\n",
            "export TOLLGATE_DATA_DIR='/srv/toll gate'\n",
            "   ctl quickstart ",
        ] {
            assert!(moved.contains(line), "`{line}` is missing in {moved}");
        }
        let socket = welcome(Settings::default(), "unix:/run/admin.sock");
        assert!(socket.contains("TOLLGATE_SERVER=unix:/run/admin.sock\n"), "{socket}");
    }
}
