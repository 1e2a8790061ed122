//! The address of a database, as an operator writes it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use trust::{Trust, TrustError};

/// The time after which a connection attempt, or data that the server does not acknowledge, fails.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Lets the server end a session whose gateway is gone or suspended: its locks would keep other
/// gateways waiting. Notices, such as those of migrations, are not sent.
const SERVER_OPTIONS: &str = "-c idle_in_transaction_session_timeout=10000 \
    -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 \
    -c client_min_messages=warning";

/// A PostgreSQL database. `Display` and `Debug` omit the password.
#[derive(Clone)]
pub struct PostgresAddress {
    config: Box<tokio_postgres::Config>,
    trust: Trust,
}

/// The reason why an address is not usable. Does not show any part of it that may be secret.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not a URL of a database.
    #[error("it is not a URL like `postgres://user@host/database`: {0}")]
    Invalid(String),
    /// `sslmode` has another value.
    #[error("`sslmode` must be `disable`, `prefer`, `require` or `verify-full`")]
    SslMode,
    /// `sslrootcert` cannot be read.
    #[error("reading `{path}` (`sslrootcert`)")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// `sslrootcert` contains no certificates.
    #[error("`{path}` (`sslrootcert`)")]
    Trust {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: TrustError,
    },
}

impl PostgresAddress {
    /// Returns whether `text` is meant as such an address.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Parses a URL, and reads the certificates that it names.
    ///
    /// The parameters are those of libpq, with three differences: a server that is reached over TLS
    /// must always have a valid certificate for its name, and without `sslmode`, TLS is required
    /// except on the loopback interface and on Unix sockets. Of several hosts, tried in a random order, one that
    /// accepts writes is used (`target_session_attrs=read-write`), because a standby may be among them.
    ///
    /// # Errors
    /// The URL is not valid, or the certificates are not readable.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(value)),
                _ => rest.push(pair),
            }
        }
        let url = format!("{base}?{}", rest.join("&"));
        let mut config: tokio_postgres::Config = url
            .trim_end_matches('?')
            .parse()
            .map_err(|error: tokio_postgres::Error| AddressError::Invalid(reason(&error)))?;
        let is_local = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
            Host::Unix(_) => true,
        });
        config.ssl_mode(match mode {
            Some("disable") => SslMode::Disable,
            Some("prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(_) => return Err(AddressError::SslMode),
            None if is_local => SslMode::Disable,
            None => SslMode::Require,
        });
        config.connect_timeout(TIMEOUT).tcp_user_timeout(TIMEOUT).keepalives_idle(TIMEOUT);
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
        if hosts > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            // An attempt that ends at a host that does not answer must not be followed only by such
            // attempts, and one that ends in time reaches the other hosts.
            config.load_balance_hosts(LoadBalanceHosts::Random);
            config.connect_timeout(TIMEOUT / hosts.saturating_add(1));
        }
        if config.get_options().is_none() {
            config.options(SERVER_OPTIONS);
        }
        if config.get_application_name().is_none() {
            config.application_name("tollgate");
        }
        Ok(Self {
            config: Box::new(config),
            trust: roots.map_or_else(|| Ok(Trust::of_host()), trusted)?,
        })
    }

    /// Sets the password, unless the URL has one.
    #[must_use]
    pub fn with_password(mut self, password: &SecretString) -> Self {
        if self.config.get_password().is_none() {
            self.config.password(password.expose_secret());
        }
        self
    }

    pub(super) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }
}

/// Compares what is connected to, and not the trusted certificates.
impl PartialEq for PostgresAddress {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Eq for PostgresAddress {}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        for (number, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(number).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        self.config.get_dbname().map_or(Ok(()), |name| write!(f, "/{name}"))
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({self})")
    }
}

fn trusted(path: PathBuf) -> Result<Trust, AddressError> {
    match std::fs::read(&path) {
        Ok(pem) => Trust::only(&pem).map_err(|source| AddressError::Trust { path, source }),
        Err(source) => Err(AddressError::Certificates { path, source }),
    }
}

fn reason(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let address = PostgresAddress::parse("postgres://tg:secret@db.example:5433/main").unwrap();
        assert_eq!(address.to_string(), "postgres://tg@db.example:5433/main");
        assert!(!format!("{address:?}").contains("secret"));
        let other = address.with_password(&"other".into());
        assert_eq!(other.config.get_password(), Some(&b"secret"[..]));
        let without = PostgresAddress::parse("postgresql://tg@h/main").unwrap();
        let with = without.with_password(&"other".into());
        assert_eq!(with.config.get_password(), Some(&b"other"[..]));
        for url in ["postgres://tg:secret@h:port/main", "postgres://tg:secret@h/main?x=secret"] {
            let error = PostgresAddress::parse(url).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    /// Regression test: with a standby before its primary, all changes failed.
    #[test]
    fn of_several_hosts_one_that_accepts_writes_is_used() {
        for (url, expected) in [
            ("postgres://h/main", TargetSessionAttrs::Any),
            ("postgres://one:5432,two:5433/main", TargetSessionAttrs::ReadWrite),
            ("postgres://one,two/main?target_session_attrs=any", TargetSessionAttrs::ReadWrite),
        ] {
            let address = PostgresAddress::parse(url).unwrap();
            assert_eq!(address.config.get_target_session_attrs(), expected, "{url}");
        }
        let address = PostgresAddress::parse("postgres://tg@one:5432,two:5433/main").unwrap();
        assert_eq!(address.to_string(), "postgres://tg@one:5432,two:5433/main");
    }

    #[test]
    fn tls_is_required_over_a_network() {
        for (url, expected) in [
            ("postgres://localhost/main", SslMode::Disable),
            ("postgres://127.0.0.1/main", SslMode::Disable),
            ("postgres://tg@%2Frun%2Fpostgresql/main", SslMode::Disable),
            ("postgres://db.example/main", SslMode::Require),
            ("postgres://localhost,db.example/main", SslMode::Require),
            ("postgres://db.example/main?sslmode=prefer", SslMode::Prefer),
            ("postgres://db.example/main?sslmode=disable&connect_timeout=3", SslMode::Disable),
            ("postgres://localhost/main?sslmode=verify-full", SslMode::Require),
        ] {
            let address = PostgresAddress::parse(url).unwrap();
            assert_eq!(address.config.get_ssl_mode(), expected, "{url}");
        }
        let sometimes = PostgresAddress::parse("postgres://h/main?sslmode=sometimes").unwrap_err();
        assert!(matches!(sometimes, AddressError::SslMode), "{sometimes}");
    }
}
