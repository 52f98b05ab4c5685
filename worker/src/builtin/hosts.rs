//! Hosts that may be called.

use std::fmt;

use engine_core::{Code, Error, Result};
use url::{Host, Url};

/// An allow-list of hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    text: String,
    scheme: &'static str,
    /// Every host below `host`, and not `host` itself.
    below: bool,
    host: Host<String>,
    port: u16,
}

impl Hosts {
    /// Reads entries as `api.example.com`, `*.example.com`, `api.example.com:8443` or `http://localhost:8080`.
    pub(super) fn read(entries: &[String]) -> Result<Self> {
        entries.iter().map(|entry| Rule::read(entry)).collect::<Result<_>>().map(Self)
    }

    pub(super) fn allow(&self, url: &Url) -> bool {
        self.0.iter().any(|rule| rule.allows(url))
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("no host is allowed");
        }
        let texts: Vec<&str> = self.0.iter().map(|rule| rule.text.as_str()).collect();
        write!(formatter, "allowed: {}", texts.join(", "))
    }
}

impl Rule {
    fn read(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(
                Code::Unsupported,
                format!("{text:?} on the allow-list of the http handler is not a host"),
            )
            .with_hint("use api.example.com, *.example.com, api.example.com:8443 or http://localhost:8080")
        };
        let (scheme, rest) = match text.split_once("://") {
            None | Some(("https", _)) => ("https", text.strip_prefix("https://").unwrap_or(text)),
            Some(("http", rest)) => ("http", rest),
            Some(_) => return Err(wrong()),
        };
        let (below, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
        let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| wrong())?;
        let plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.username().is_empty();
        let host = url.host().map(|host| host.to_owned());
        let (Some(host), Some(port), true) = (host, url.port_or_known_default(), plain) else {
            return Err(wrong());
        };
        if below && !matches!(host, Host::Domain(_)) {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), scheme, below, host, port })
    }

    fn allows(&self, url: &Url) -> bool {
        let Some(host) = url.host() else { return false };
        let same_host = match (&self.host, host) {
            (Host::Domain(ours), Host::Domain(theirs)) if self.below => {
                theirs.strip_suffix(ours.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Host::Domain(ours), Host::Domain(theirs)) => ours == theirs,
            (Host::Ipv4(ours), Host::Ipv4(theirs)) => *ours == theirs,
            (Host::Ipv6(ours), Host::Ipv6(theirs)) => *ours == theirs,
            _ => false,
        };
        same_host && url.scheme() == self.scheme && url.port_or_known_default() == Some(self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_allows_its_scheme_host_and_port_and_nothing_else() {
        let cases: &[(&str, &str, bool)] = &[
            ("api.example.com", "https://api.example.com/x?y", true),
            ("api.example.com", "https://API.example.com:443/", true),
            ("api.example.com", "http://api.example.com/", false),
            ("api.example.com", "https://api.example.com:8443/", false),
            ("api.example.com", "https://api.example.com.evil.net/", false),
            ("api.example.com", "https://evil.net/api.example.com", false),
            ("api.example.com", "https://api.example.com@evil.net/", false),
            ("api.example.com:8443", "https://api.example.com:8443/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://notexample.com/", false),
            ("http://localhost:8080", "http://localhost:8080/", true),
            ("http://localhost:8080", "https://localhost:8080/", false),
            ("http://127.0.0.1:80", "http://127.0.0.1/", true),
            ("http://127.0.0.1:80", "http://0x7f.1/", true),
            ("127.0.0.1", "https://127.0.0.2/", false),
            ("[::1]", "https://[::1]/", true),
        ];
        for (entry, url, allowed) in cases {
            let hosts = Hosts::read(&[(*entry).to_owned()]).unwrap();
            assert_eq!(hosts.allow(&Url::parse(url).unwrap()), *allowed, "{entry} and {url}");
        }
    }

    #[test]
    fn an_entry_that_is_no_host_is_refused() {
        for entry in ["", "ftp://x", "a b", "example.com/path", "user@example.com", "*.127.0.0.1", "https://"]
        {
            let error = Hosts::read(&[entry.to_owned()]).unwrap_err();
            assert_eq!(error.code(), Code::Unsupported, "{entry:?}");
        }
        assert!(!Hosts::default().allow(&Url::parse("https://example.com").unwrap()));
    }
}
