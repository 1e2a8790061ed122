//! `ctl` and a gateway that demands client certificates.

use std::path::PathBuf;

use tests::{Certificate, ClientAuthority, Product};

use super::user::User;

/// A gateway that demands certificates of an authority on its admin plane.
struct Guarded {
    product: Product,
    /// `--server URL --ca-file FILE`
    options: String,
    server: String,
    ca_file: PathBuf,
    authority: ClientAuthority,
}

impl Guarded {
    async fn start() -> Self {
        let authority = ClientAuthority::new();
        let mut certificate = None;
        let product = Product::on_http1(|setup| {
            let dir = setup.config.data_dir.parent().unwrap().to_owned();
            let client_ca = dir.join("clients.pem");
            std::fs::write(&client_ca, authority.pem()).unwrap();
            let created = certificate.insert(Certificate::create());
            setup.config.tls = Some(created.write(&dir));
            setup.config.admin_client_ca = Some(client_ca);
        })
        .await;
        let ready = product.get("/readyz").tls(certificate.unwrap().client_config("http/1.1"));
        assert_eq!(ready.answer().await.status, 200);
        let ca_file = product.home.scratch().join("cert.pem");
        let port = product.admin.rsplit(':').next().unwrap();
        let server = format!("https://localhost:{port}");
        let options = format!("--server {server} --ca-file {}", ca_file.display());
        Self { product, options, server, ca_file, authority }
    }

    /// Writes an identity file of a certificate that `authority` issues.
    fn identity(&self, name: &str, authority: &ClientAuthority) -> PathBuf {
        let (certificate, key) = authority.issue();
        let path = self.product.home.scratch().join(name);
        std::fs::write(&path, certificate + &key).unwrap();
        path
    }
}

#[tokio::test]
async fn ctl_presents_the_certificate_of_its_identity_file() {
    let guarded = Guarded::start().await;
    let operator = User::operator(&guarded.product);
    let (options, server) = (&guarded.options, &guarded.server);
    let identity = guarded.identity("me.pem", &guarded.authority);
    let identity = format!("--identity-file {}", identity.display());
    operator.ok(&format!("account list {options} {identity}")).await;
    // A profile stores the name of the file.
    let set = format!(
        "profile set guarded --server {server} --ca-file {} {identity}",
        guarded.ca_file.display()
    );
    operator.ok(&set).await;
    assert!(operator.ok("profile show guarded -o json").await.contains("me.pem"));
    operator.ok(&format!("account list --server {server}")).await;
}

#[tokio::test]
async fn without_an_accepted_certificate_ctl_names_the_option() {
    let guarded = Guarded::start().await;
    let operator = User::operator(&guarded.product);
    let foreign = guarded.identity("foreign.pem", &ClientAuthority::new());
    let missing = guarded.product.home.scratch().join("missing.pem");
    for identity in [
        String::new(),
        format!("--identity-file {}", foreign.display()),
        format!("--identity-file {}", missing.display()),
        format!("--identity-file {}", guarded.ca_file.display()),
    ] {
        for command in ["whoami", "account list", "login alice --password-stdin"] {
            let line = format!("{command} {} {identity}", guarded.options);
            let ran = operator.ctl_with(line.trim_end(), "a password\n").await;
            assert!(
                ran.code != 0 && ran.err.contains("--identity-file FILE"),
                "{identity} {ran:?}"
            );
        }
    }
}
