//! The proxy variables of the environment, which other programs read as well.

use std::env::VarError;

use anyhow::{Context, Result, bail};
use secrecy::SecretString;

use crate::upstream::{EnvironmentProxies, ProxyVariables};

/// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or the same names in lower case if these are not set.
///
/// # Errors
/// A variable cannot be used.
pub(super) fn read() -> Result<EnvironmentProxies> {
    let variables = ProxyVariables {
        http: secret(["HTTP_PROXY", "http_proxy"])?,
        https: secret(["HTTPS_PROXY", "https_proxy"])?,
        all: secret(["ALL_PROXY", "all_proxy"])?,
        no: first(["NO_PROXY", "no_proxy"])?,
    };
    let proxies = EnvironmentProxies::new(&variables).map_err(anyhow::Error::msg);
    proxies.context("`upstream_proxy_from_environment` is set")
}

fn secret(names: [&str; 2]) -> Result<SecretString> {
    first(names).map(Into::into)
}

/// Returns the value of the first variable that is set; empty if none is.
#[expect(clippy::disallowed_methods, reason = "this module is part of the configuration")]
fn first(names: [&str; 2]) -> Result<String> {
    for name in names {
        match std::env::var(name) {
            Ok(value) => return Ok(value),
            Err(VarError::NotPresent) => {}
            Err(VarError::NotUnicode(_)) => bail!("`{name}` is not valid UTF-8"),
        }
    }
    Ok(String::new())
}
