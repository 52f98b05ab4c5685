//! `http`: calls a host from an allow-list.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use engine_core::data::JOURNAL_BYTES;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler};
use engine_core::{Code, Error, Result};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::hosts::Hosts;
use super::{cancelled, simple};
use crate::handlers::invalid;
use crate::observe::shortened;

/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// How much of an answer is shown in an error.
const SHOWN: usize = 500;

/// Headers that carry somebody's rights, and do not go along to another host.
const RIGHTS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// What `http` may call. Nothing by default.
#[derive(Clone, Debug)]
pub struct HttpPolicy {
    hosts: Vec<String>,
    largest_answer: usize,
    connect_timeout: Duration,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self { hosts: Vec::new(), largest_answer: JOURNAL_BYTES, connect_timeout: Duration::from_secs(10) }
    }
}

impl HttpPolicy {
    /// No hosts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows a host: `api.example.com` (https on its usual port), `*.example.com` (every host below it),
    /// `api.example.com:8443`, or `http://localhost:8080` for a host without TLS.
    #[must_use]
    pub fn allow(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// The largest answer that is read. Default: 10 MiB.
    #[must_use]
    pub fn largest_answer(mut self, bytes: usize) -> Self {
        self.largest_answer = bytes;
        self
    }
}

/// The handler.
#[derive(Clone, Debug)]
pub struct Http {
    hosts: Hosts,
    largest_answer: usize,
    client: Client,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpInput {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    secret_headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    body: Option<Value>,
}

/// A request as it is sent, and sent again after a redirect.
struct Request {
    method: Method,
    url: Url,
    headers: HeaderMap,
    /// Headers that do not go along to another host.
    private: Vec<HeaderName>,
    body: Option<Vec<u8>>,
}

impl Http {
    /// A handler for these hosts.
    ///
    /// # Errors
    /// `UNSUPPORTED` when an entry of the allow-list names no host.
    pub fn new(policy: &HttpPolicy) -> Result<Self> {
        crate::tls::provide();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(policy.connect_timeout)
            .user_agent(concat!("drivetrain/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|cause| {
                Error::new(Code::Unsupported, format!("the http handler cannot be set up: {cause}"))
                    .with_hint("check the certificates of this machine")
            })?;
        Ok(Self { hosts: Hosts::read(&policy.hosts)?, largest_answer: policy.largest_answer, client })
    }

    async fn send(&self, mut request: Request) -> HandlerResult {
        for _ in 0..=REDIRECTS {
            self.check(&request.url)?;
            let mut sent = self.client.request(request.method.clone(), request.url.clone());
            sent = sent.headers(request.headers.clone());
            if let Some(body) = &request.body {
                sent = sent.body(body.clone());
            }
            let answer = sent.send().await.map_err(unreachable)?;
            let status = answer.status();
            match target(&request.url, &answer) {
                Some(target) if is_redirect(status) => redirect(&mut request, status, target),
                _ => return self.read(answer).await,
            }
        }
        let message = format!("more than {REDIRECTS} redirects, the last to {}", place(&request.url));
        Err(StepError::new(FailureClass::Permanent, "TOO_MANY_REDIRECTS", message))
    }

    fn check(&self, url: &Url) -> Result<(), StepError> {
        if self.hosts.allow(url) {
            return Ok(());
        }
        let message = format!("{} is not on the worker's allow-list ({})", place(url), self.hosts);
        Err(StepError::new(FailureClass::Permanent, "policy_deny", message))
    }

    async fn read(&self, mut answer: Response) -> HandlerResult {
        let status = answer.status();
        let headers = visible(answer.headers());
        let url = place(answer.url());
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.split(';').next().unwrap_or("").trim().ends_with("json"));
        let mut body: Vec<u8> = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.largest_answer {
                return Err(StepError::new(
                    FailureClass::Permanent,
                    Code::PayloadTooLarge.as_str(),
                    format!("the answer of {url} has more than {} bytes", self.largest_answer),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            let message = format!("{url} answered {status}: {}", shortened(text.trim(), SHOWN));
            let mut error = StepError::classified(&name_of(status), Some(status.as_u16()), message);
            if !status.is_client_error() && !status.is_server_error() {
                // A redirect to nowhere, or an answer that no request of ours asks for.
                error.class = FailureClass::Permanent;
            }
            return Err(error);
        }
        let body = match (body.is_empty(), is_json) {
            (true, _) => Value::Null,
            (false, true) => serde_json::from_slice(&body).map_err(|cause| {
                StepError::new(
                    FailureClass::Transient,
                    "InvalidAnswer",
                    format!("{url} says that it answers with JSON, and it does not: {cause}"),
                )
            })?,
            // DATA-20.
            (false, false) => Value::from(String::from_utf8(body).map_err(|_| {
                invalid(format!("{url} answered with something binary, which cannot be an output"))
            })?),
        };
        Ok(HandlerOutput::from(json!({"status": status.as_u16(), "headers": headers, "body": body})))
    }
}

#[async_trait]
impl StepHandler for Http {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let input: HttpInput = simple::read("http", input)?;
        let request = Request::new(&context, input)?;
        tokio::select! {
            biased;
            answer = self.send(request) => answer,
            () = context.cancellation.cancelled() => Err(cancelled()),
        }
    }
}

impl Request {
    fn new(context: &StepContext, input: HttpInput) -> Result<Self, StepError> {
        let mut url = Url::parse(&input.url)
            .map_err(|cause| invalid(format!("{:?} is not a URL: {cause}", shortened(&input.url, SHOWN))))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("a URL must not carry a password; use secretHeaders".to_owned()));
        }
        if !input.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in &input.query {
                pairs.append_pair(name, &plain(value));
            }
        }
        let method = input.method.unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| invalid(format!("{method:?} is not an HTTP method")))?;
        let mut headers = HeaderMap::new();
        let mut private: Vec<HeaderName> = RIGHTS.into_iter().map(HeaderName::from_static).collect();
        let token = header_value("Idempotency-Key", &context.idempotency_token)?;
        headers.insert(HeaderName::from_static("idempotency-key"), token);
        if input.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in &input.headers {
            headers.insert(header_name(name)?, header_value(name, value)?);
        }
        for (name, template) in &input.secret_headers {
            let key = header_name(name)?;
            let mut value = header_value(name, &filled(context, name, template)?)?;
            value.set_sensitive(true);
            private.push(key.clone());
            headers.insert(key, value);
        }
        Ok(Self { method, url, headers, private, body: input.body.map(|body| body.to_string().into_bytes()) })
    }
}

/// Puts secrets into a header: `{name}` stands for the secret of that name.
fn filled(context: &StepContext, header: &str, template: &str) -> Result<String, StepError> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return Err(invalid(format!("the secret header {header} has a {{ without }}")));
        };
        let Some(secret) = context.secret(name) else {
            return Err(invalid(format!(
                "the secret header {header} refers to {name:?}, and the step has no secret of that name \
                 (list it under the step's `secrets`)"
            )));
        };
        filled.push_str(before);
        filled.push_str(secret.expose());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn header_name(name: &str) -> Result<HeaderName, StepError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("{name:?} is not the name of a header")))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, StepError> {
    // The value stays out of the message: it may be a secret.
    HeaderValue::from_str(value)
        .map_err(|_| invalid(format!("the value of header {name} has a character that no header may have")))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn target(from: &Url, answer: &Response) -> Option<Url> {
    from.join(answer.headers().get(LOCATION)?.to_str().ok()?).ok()
}

/// Follows a redirect as browsers do; what carries rights stays with the host that it was meant for.
fn redirect(request: &mut Request, status: StatusCode, target: Url) {
    let becomes_get = match status.as_u16() {
        303 => request.method != Method::HEAD,
        301 | 302 => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        request.method = Method::GET;
        request.body = None;
        request.headers.remove(CONTENT_TYPE);
    }
    if request.url.origin() != target.origin() {
        for name in &request.private {
            request.headers.remove(name);
        }
    }
    request.url = target;
}

/// Headers of an answer that may stand in the log: cookies are somebody's rights.
fn visible(headers: &HeaderMap) -> Map<String, Value> {
    let mut visible = Map::new();
    for name in headers.keys().filter(|name| *name != reqwest::header::SET_COOKIE) {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        visible.insert(name.as_str().to_owned(), Value::from(values.join(", ")));
    }
    visible
}

/// The contract's names where it has one (FAIL-3, FAIL-4), so that `retryableErrors` can name them.
fn name_of(status: StatusCode) -> String {
    match status.as_u16() {
        400 => "BadRequest".to_owned(),
        401 => "AuthenticationError".to_owned(),
        403 => "AuthorizationError".to_owned(),
        404 => "NotFoundError".to_owned(),
        409 => "ConflictError".to_owned(),
        429 => "TooManyRequests".to_owned(),
        503 => "ServiceUnavailable".to_owned(),
        other => format!("HTTP_{other}"),
    }
}

fn unreachable(cause: reqwest::Error) -> StepError {
    let cause = cause.without_url();
    let mut message = cause.to_string();
    let mut source = std::error::Error::source(&cause);
    while let Some(deeper) = source {
        message = format!("{message}: {deeper}");
        source = deeper.source();
    }
    let name = if cause.is_timeout() {
        "ETIMEDOUT"
    } else if message.contains("dns error") {
        "ENOTFOUND"
    } else if cause.is_connect() {
        "ECONNREFUSED"
    } else {
        "NetworkError"
    };
    StepError::classified(name, None, message)
}

/// A URL as an error may show it: queries may hold what nobody should read.
fn place(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
