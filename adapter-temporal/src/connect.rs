//! Reaching a Temporal server: address, namespace, TLS, keys, and profiles of `temporal.toml`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use engine_core::{Code, Error, Result};
use temporalio_client::envconfig::{DataSource, LoadClientConfigProfileOptions};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, GrpcCompression, TlsOptions,
};
use url::Url;

/// How long a server may take to answer for the first time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How a server is reached. What is not said here comes from the environment (`TEMPORAL_ADDRESS` and the like) and from
/// the profile of `temporal.toml` that is chosen; then from Temporal's own defaults.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Connect {
    /// `host:port`, or a URL.
    pub address: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The key of Temporal Cloud or of a proxy; it switches TLS on.
    pub api_key: Option<String>,
    /// What there is to say about TLS; some of it switches TLS on.
    pub tls: Option<Tls>,
    /// The profile of `temporal.toml`.
    pub profile: Option<String>,
    /// Where `temporal.toml` is, when not in its usual place.
    pub config_file: Option<PathBuf>,
    /// Whether the environment and `temporal.toml` are left alone.
    pub alone: bool,
    /// Whether requests are compressed: worth it over a long line, not beside the server.
    pub compress: bool,
    /// Who this process is, as Temporal's own tools show it.
    pub identity: Option<String>,
}

/// Certificates, by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authority that the server's certificate must come from; without it, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// This client's certificate.
    pub certificate: Option<PathBuf>,
    /// The key of this client's certificate.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have; without it, that of the address.
    pub server_name: Option<String>,
}

impl fmt::Debug for Connect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connect")
            .field("address", &self.address)
            .field("namespace", &self.namespace)
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .field("tls", &self.tls)
            .field("profile", &self.profile)
            .field("config_file", &self.config_file)
            .finish_non_exhaustive()
    }
}

impl Connect {
    /// A server without TLS, and nothing from the environment.
    #[must_use]
    pub fn to(address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), alone: true, ..Self::default() }
    }

    /// The same in a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// `ENGINE_UNAVAILABLE` when the server does not answer or refuses the connection, with what was tried;
    /// `ENGINE_REFUSED` when it refuses this client; `UNSUPPORTED` when what is configured cannot be right.
    pub async fn connect(&self) -> Result<Client> {
        let (mut connection, mut client) = if self.alone {
            let url = Url::parse("http://localhost:7233").map_err(|cause| wrong("the address", cause))?;
            (ConnectionOptions::new(url).build(), ClientOptions::new("default").build())
        } else {
            self.from_environment()?
        };
        if let Some(namespace) = &self.namespace {
            namespace.clone_into(&mut client.namespace);
        }
        if let Some(key) = &self.api_key {
            connection.api_key = Some(key.clone());
        }
        if let Some(tls) = &self.tls {
            connection.tls_options = Some(tls.options()?);
        } else if connection.api_key.is_some() && connection.tls_options.is_none() {
            connection.tls_options = Some(TlsOptions::default());
        }
        if let Some(address) = &self.address {
            connection.target = self.target(address, connection.tls_options.is_some())?;
        }
        if !self.compress {
            connection.grpc_compression = GrpcCompression::None;
        }
        if let Some(identity) = &self.identity {
            identity.clone_into(&mut connection.identity);
        }
        connection.connect_timeout = Some(CONNECT_LIMIT);
        let target = connection.target.clone();
        let connecting = tokio::time::timeout(CONNECT_LIMIT, Connection::connect(connection));
        let connected = match connecting.await {
            Ok(connected) => connected.map_err(|cause| away(&target, &rooted(&cause)))?,
            Err(_) => return Err(away(&target, &format!("no answer within {CONNECT_LIMIT:?}"))),
        };
        Client::new(connected, client).map_err(|cause| wrong("the client", cause))
    }

    #[expect(clippy::wrong_self_convention, reason = "it reads from the environment")]
    fn from_environment(&self) -> Result<(ConnectionOptions, ClientOptions)> {
        let source = self.config_file.as_ref().map(|file| DataSource::Path(file.display().to_string()));
        let options = LoadClientConfigProfileOptions::builder()
            .maybe_config_source(source)
            .maybe_config_file_profile(self.profile.clone())
            .build();
        ClientOptions::load_from_config(options).map_err(|cause| wrong("temporal.toml or TEMPORAL_*", cause))
    }

    fn target(&self, address: &str, tls: bool) -> Result<Url> {
        // Without a scheme the host would be taken for one.
        let text = if address.contains("://") {
            address.to_owned()
        } else {
            format!("{}://{address}", if tls { "https" } else { "http" })
        };
        Url::parse(&text).map_err(|cause| wrong(&format!("the address {address:?}"), cause))
    }
}

impl Tls {
    fn options(&self) -> Result<TlsOptions> {
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|cause| wrong(&format!("the file {}", file.display()), cause))
        };
        let client = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(
                ClientTlsOptions::builder()
                    .client_cert(read(certificate)?)
                    .client_private_key(read(key)?)
                    .build(),
            ),
            (None, None) => None,
            _ => {
                let what = "a client's certificate and its key go together";
                return Err(Error::new(Code::Unsupported, what).with_hint("configure both, or none"));
            }
        };
        Ok(TlsOptions::builder()
            .maybe_server_root_ca_cert(self.ca.as_ref().map(read).transpose()?)
            .maybe_domain(self.server_name.clone())
            .maybe_client_tls_options(client)
            .build())
    }
}

fn wrong(what: &str, cause: impl fmt::Display) -> Error {
    Error::new(Code::Unsupported, format!("{what} cannot be used: {cause}"))
        .with_hint("correct the configuration of the engine temporal")
}

fn away(target: &Url, why: &str) -> Error {
    Error::new(Code::EngineUnavailable, format!("the Temporal server at {target} cannot be reached: {why}"))
        .with_hint(
            "see that it runs, that address and namespace are right, and that both sides want TLS or neither",
        )
}

/// An error with what lies below it: the reason is usually there.
fn rooted(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let line = cause.to_string();
        if !text.contains(&line) {
            text = format!("{text}: {line}");
        }
        below = cause.source();
    }
    text
}
