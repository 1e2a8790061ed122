//! The proxy of an upstream: its flags.

use proto::v1::ProxyLogin;
use proto::v1::credential::Source;

use super::credentials;
use crate::Shell;
use crate::cli::upstream as cli;
use crate::error::Failure;

/// The text of `proxy` for no proxy, whatever the environment names.
const DIRECT: &str = "direct";

/// Converts the flags to the text of `proxy`; `None` if they do not choose one.
pub(super) fn chosen(flags: &mut cli::Proxy) -> Option<String> {
    flags.url.take().or_else(|| flags.is_direct.then(|| DIRECT.to_owned()))
}

/// Converts the flags to a login; `None` without a user. Its password is absent if no flag gives one.
pub(super) fn login(
    shell: &mut Shell<'_>,
    flags: cli::ProxyLogin,
) -> Result<Option<ProxyLogin>, Failure> {
    let Some(user) = flags.proxy_user else { return Ok(None) };
    let source = if flags.stdin {
        Some(credentials::from_stdin(shell, "password")?)
    } else {
        flags.env.map(Source::Env).or(flags.file.map(Source::File))
    };
    Ok(Some(ProxyLogin { user, password: source.map(credentials::credential) }))
}
