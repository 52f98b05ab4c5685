//! Large outputs: kept beside the log, which holds only a reference (DATA-19).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine_core::data::{JOURNAL_BYTES, check_size};
use engine_core::event::step::ArtifactRef;
use engine_core::hash::sha256_hex;
use engine_core::{Code, Error, Result, RunId, StepId, TenantId, Timestamp};
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

/// What kind of artifact a large output is. Steps after it see its content; of other kinds they see the reference.
pub const OUTPUT: &str = "output";

/// The artifact store.
pub struct Artifacts {
    store: Arc<dyn ObjectStore>,
    /// The URL that all artifacts lie below, without a slash at its end.
    base: String,
    root: Path,
    retention: Option<Duration>,
}

/// How an S3 store is reached. What is not said comes from the usual `AWS_…` variables.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// The server, for what speaks like S3: `https://minio.example.com`. With `http://` nothing is encrypted.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` when nothing says another.
    pub region: Option<String>,
    /// The access key.
    pub access_key_id: Option<String>,
    /// Its secret.
    pub secret_access_key: Option<String>,
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("S3Settings")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "s3")]
impl S3Settings {
    /// Refuses a server that nothing could be sent to, before something must be.
    fn check(&self) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let parsed = Url::parse(endpoint).ok();
        if parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Ok(());
        }
        Err(Error::new(Code::Unsupported, format!("{endpoint:?} is no address of an S3 server"))
            .with_hint("write it as https://minio.example.com"))
    }

    fn open(&self, url: &str) -> object_store::Result<object_store::aws::AmazonS3> {
        crate::tls::provide();
        let mut builder = object_store::aws::AmazonS3Builder::from_env().with_url(url);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(id) = &self.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &self.secret_access_key {
            builder = builder.with_secret_access_key(secret);
        }
        builder.build()
    }
}

/// What an artifact belongs to.
#[derive(Clone, Debug)]
pub struct Place {
    tenant_id: TenantId,
    run_id: RunId,
    attempt: Option<(StepId, u32)>,
}

impl Place {
    /// An attempt of a step.
    #[must_use]
    pub fn attempt(tenant_id: &TenantId, run_id: &RunId, step: &StepId, attempt: u32) -> Self {
        Self { attempt: Some((step.clone(), attempt)), ..Self::run(tenant_id, run_id) }
    }

    /// A run as a whole.
    #[must_use]
    pub fn run(tenant_id: &TenantId, run_id: &RunId) -> Self {
        Self { tenant_id: tenant_id.clone(), run_id: run_id.clone(), attempt: None }
    }

    /// `tenant/run/step/attempt`; the run itself is called RUN, which no step is. Segments that a file system would take
    /// for something else, as `..`, are written in another way.
    fn below(&self, root: &Path) -> Path {
        let run = root.clone().join(self.tenant_id.as_str()).join(self.run_id.as_str());
        match &self.attempt {
            Some((step, attempt)) => run.join(step.as_str()).join(attempt.to_string().as_str()),
            None => run.join(engine_core::id::RUN_SUBJECT),
        }
    }
}

impl Artifacts {
    /// Opens the store that a URL names: `file:///var/lib/drivetrain/artifacts`, `s3://bucket/prefix` (with the feature
    /// `s3`; credentials come from the usual `AWS_…` variables), or `memory:`, which is gone with the process.
    ///
    /// # Errors
    /// `UNSUPPORTED` when the URL names no store that there is; `STORE_UNAVAILABLE` when a folder cannot be made.
    pub fn open(url: &str) -> Result<Self> {
        Self::open_with(url, &S3Settings::default())
    }

    /// The same, and an `s3:` URL is reached as the settings say.
    ///
    /// # Errors
    /// The same.
    #[cfg_attr(not(feature = "s3"), expect(unused_variables, reason = "there is no S3 to reach"))]
    pub fn open_with(url: &str, settings: &S3Settings) -> Result<Self> {
        let unsupported = |reason: &str| {
            Error::new(Code::Unsupported, format!("{url:?} names no artifact store: {reason}"))
                .with_hint("use file:///path/to/folder, s3://bucket/prefix, or memory:")
        };
        let parsed = Url::parse(url).map_err(|cause| unsupported(&cause.to_string()))?;
        let base = url.trim_end_matches('/').to_owned();
        let (store, root): (Arc<dyn ObjectStore>, Path) = match parsed.scheme() {
            "memory" => return Ok(Self::new(Arc::new(InMemory::new()), "memory://", Path::default())),
            "file" => {
                let folder = parsed.to_file_path().map_err(|()| unsupported("it is not an absolute path"))?;
                let unavailable = |cause: &dyn fmt::Display| {
                    Error::new(
                        Code::StoreUnavailable,
                        format!("the artifact folder {} cannot be used: {cause}", folder.display()),
                    )
                    .with_hint("check that it exists and may be written")
                };
                std::fs::create_dir_all(&folder).map_err(|cause| unavailable(&cause))?;
                let store = object_store::local::LocalFileSystem::new_with_prefix(&folder)
                    .map_err(|cause| unavailable(&cause))?
                    .with_automatic_cleanup(true);
                (Arc::new(store), Path::default())
            }
            #[cfg(feature = "s3")]
            "s3" => {
                settings.check()?;
                let store = settings.open(url).map_err(|cause| unsupported(&cause.to_string()))?;
                let root =
                    Path::from_url_path(parsed.path()).map_err(|cause| unsupported(&cause.to_string()))?;
                (Arc::new(store), root)
            }
            #[cfg(not(feature = "s3"))]
            "s3" => {
                return Err(unsupported("this program was built without the feature `s3`")
                    .with_hint("build it with `--features s3`, or use file:///path/to/folder"));
            }
            other => return Err(unsupported(&format!("there is none for {other}:"))),
        };
        Ok(Self::new(store, &base, root))
    }

    /// Any object store. Its artifacts are called `base` and their path below `root`.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, base: &str, root: Path) -> Self {
        let base = if base.ends_with("://") { base } else { base.trim_end_matches('/') };
        Self { store, base: base.to_owned(), root, retention: None }
    }

    /// Says how long artifacts are kept: their references carry `expiresAt`. Deleting is [`Artifacts::delete_run`]'s.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Stores an artifact. Its name holds the digest of its content, so a late writer never changes what another's
    /// reference means, and storing the same again changes nothing.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` over 10 MiB; `STORE_UNAVAILABLE` when it cannot be stored.
    pub async fn put(
        &self,
        place: &Place,
        kind: &str,
        content: Vec<u8>,
        now: Timestamp,
    ) -> Result<ArtifactRef> {
        check_size("the artifact", content.len(), JOURNAL_BYTES)?;
        let sha256 = sha256_hex(&content);
        let size = content.len() as u64;
        let path = place.below(&self.root).join(format!("{sha256}.json"));
        self.store.put(&path, PutPayload::from(content)).await.map_err(|cause| unavailable(&path, &cause))?;
        let name = path.as_ref().strip_prefix(self.root.as_ref()).unwrap_or(path.as_ref());
        Ok(ArtifactRef {
            uri: format!("{}/{}", self.base, name.trim_start_matches('/')),
            kind: kind.to_owned(),
            sha256: Some(sha256),
            size_bytes: Some(size),
            expires_at: self
                .retention
                .map(|retention| now.plus_millis(u64::try_from(retention.as_millis()).unwrap_or(u64::MAX))),
        })
    }

    /// The content of an artifact, if it is what was stored.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is not in this store, is not the tenant's, or is gone (START-6); `INTERNAL` when its content
    /// does not match its digest; `STORE_UNAVAILABLE` when the store is away.
    pub async fn get(&self, tenant_id: &TenantId, artifact: &ArtifactRef) -> Result<Vec<u8>> {
        let path = self.path_of(tenant_id, artifact)?;
        let missing = || not_found(artifact, "it is gone");
        let found = match self.store.get(&path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Err(missing()),
            Err(cause) => return Err(unavailable(&path, &cause)),
        };
        // What somebody put there since must not fill the memory.
        check_size("the artifact", usize::try_from(found.meta.size).unwrap_or(usize::MAX), JOURNAL_BYTES)?;
        let content = found.bytes().await.map_err(|cause| unavailable(&path, &cause))?;
        if artifact.sha256.as_deref().is_some_and(|sha256| sha256 != sha256_hex(&content)) {
            return Err(Error::new(
                Code::Internal,
                format!("the artifact {} does not match its SHA-256", artifact.uri),
            )
            .with_hint("it was changed after it was stored; run the step again"));
        }
        Ok(content.into())
    }

    /// Deletes everything that belongs to a run, and says how many artifacts that were. Call it once the run is forgotten
    /// and what its references say about `expiresAt` has passed (DATA-21).
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away; calling it again goes on where it stopped.
    pub async fn delete_run(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<usize> {
        let folder = self.root.clone().join(tenant_id.as_str()).join(run_id.as_str());
        let found = self.store.list(Some(&folder)).map_ok(|found| found.location).boxed();
        let deleted = self.store.delete_stream(found).filter_map(|outcome| async {
            match outcome {
                Err(object_store::Error::NotFound { .. }) => None,
                other => Some(other),
            }
        });
        let deleted: Vec<Path> = deleted.try_collect().await.map_err(|cause| unavailable(&folder, &cause))?;
        Ok(deleted.len())
    }

    /// Where an artifact of this store and this tenant lies.
    fn path_of(&self, tenant_id: &TenantId, artifact: &ArtifactRef) -> Result<Path> {
        let below =
            artifact.uri.strip_prefix(&self.base).and_then(|rest| rest.strip_prefix('/')).ok_or_else(
                || not_found(artifact, &format!("this worker's artifacts lie below {}", self.base)),
            )?;
        let path = Path::parse(below).map_err(|cause| not_found(artifact, &cause.to_string()))?;
        let tenants = Path::default().join(tenant_id.as_str());
        if !path.prefix_matches(&tenants) {
            return Err(not_found(artifact, "there is no such artifact for this tenant"));
        }
        Ok(path.parts().fold(self.root.clone(), Path::join))
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Artifacts").field("base", &self.base).finish_non_exhaustive()
    }
}

fn not_found(artifact: &ArtifactRef, reason: &str) -> Error {
    Error::new(Code::NotFound, format!("the artifact {} cannot be read: {reason}", artifact.uri))
        .with_hint("give every worker the same artifact store, and keep artifacts as long as their runs")
}

fn unavailable(path: &Path, cause: &object_store::Error) -> Error {
    Error::new(Code::StoreUnavailable, format!("the artifact store does not take or give {path}: {cause}"))
        .with_hint("check that the artifact store can be reached and written")
}
