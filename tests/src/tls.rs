//! Certificates of the tests, and a simulator with TLS.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use gateway::tls::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};
use simulator::Simulator;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use trust::Trust;

/// A self-signed certificate with its key, by default for `localhost` and 127.0.0.1.
pub struct Certificate {
    /// The certificate in PEM.
    pub pem: String,
    /// The private key in PEM.
    key: String,
}

/// An authority that issues client certificates.
pub struct ClientAuthority(CertifiedIssuer<'static, KeyPair>);

/// A simulator that serves one version of HTTP over TLS. Dropping it closes its connections.
pub struct SecureSimulator {
    /// The base URL for the catalogue.
    pub url: String,
    _tasks: JoinSet<()>,
}

// === impl Certificate ===

impl Certificate {
    /// Creates a certificate.
    ///
    /// # Panics
    /// Never.
    pub fn create() -> Self {
        Self::for_hosts(["localhost", "127.0.0.1"])
    }

    /// Creates a certificate for other hosts.
    ///
    /// # Panics
    /// If a host is not valid.
    pub fn for_hosts<const N: usize>(hosts: [&str; N]) -> Self {
        Self::sign(&CertificateParams::new(hosts.map(str::to_owned)).unwrap())
    }

    /// Creates an expired certificate.
    ///
    /// # Panics
    /// Never.
    pub fn expired() -> Self {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2020, 1, 1);
        Self::sign(&params)
    }

    fn sign(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Returns the certificate that all servers of this process share unless a test creates another one.
    pub fn of_process() -> &'static Self {
        static SHARED: LazyLock<Certificate> = LazyLock::new(Certificate::create);
        &SHARED
    }

    /// Writes the certificate and its key to files in `dir`.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn write(&self, dir: &Path) -> TlsFiles {
        let files = TlsFiles { certificate: dir.join("cert.pem"), key: dir.join("key.pem") };
        std::fs::write(&files.certificate, &self.pem).unwrap();
        std::fs::write(&files.key, &self.key).unwrap();
        files
    }

    /// Returns an acceptor that presents this certificate and offers the ALPN `protocol`.
    ///
    /// # Panics
    /// Never.
    pub fn acceptor(&self, protocol: &str) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![protocol.into()];
        TlsAcceptor::from(Arc::new(config))
    }

    /// Returns the configuration of a client that trusts this certificate only, and offers the ALPN `protocol`.
    ///
    /// # Panics
    /// Never.
    pub fn client_config(&self, protocol: &str) -> Arc<ClientConfig> {
        let mut config = Trust::only(self.pem.as_bytes()).unwrap().client_config();
        config.alpn_protocols = vec![protocol.into()];
        Arc::new(config)
    }
}

// === impl ClientAuthority ===

impl ClientAuthority {
    /// Creates an authority.
    ///
    /// # Panics
    /// Never.
    #[expect(clippy::new_without_default, reason = "each authority has another key")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns the certificate of the authority in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a client, and returns it and its key in PEM.
    ///
    /// # Panics
    /// Never.
    pub fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["operator".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

// === impl SecureSimulator ===

impl SecureSimulator {
    /// Serves `simulator` on a free port, with a certificate and the ALPN `protocol`.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start(simulator: Simulator, certificate: &Certificate, protocol: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
        let acceptor = certificate.acceptor(protocol);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (acceptor, simulator) = (acceptor.clone(), simulator.clone());
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        simulator.serve(stream).await;
                    }
                });
            }
        });
        Self { url, _tasks: tasks }
    }
}
