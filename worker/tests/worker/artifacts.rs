//! The artifact store.

use std::time::Duration;

use engine_core::{Code, RunId, TenantId, Timestamp};
use worker::Artifacts;
use worker::artifacts::Place;

use crate::support::{step, tenant};

fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

#[tokio::test]
async fn artifacts_are_kept_by_content_and_belong_to_their_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/deep/er", folder.path().display());
    for artifacts in [Artifacts::open("memory:").unwrap(), Artifacts::open(&url).unwrap()] {
        let artifacts = artifacts.retention(Duration::from_secs(60));
        let place = Place::attempt(&tenant(), &run("r1"), &step("a"), 2);
        let now = Timestamp::from_millis(1000);
        let one = artifacts.put(&place, "output", b"one".to_vec(), now).await.unwrap();
        let two = artifacts.put(&place, "output", b"two".to_vec(), now).await.unwrap();
        assert_eq!((one.size_bytes, one.expires_at), (Some(3), Some(Timestamp::from_millis(61_000))));
        // A late writer of the same attempt does not change what the first reference means.
        assert_eq!(artifacts.get(&tenant(), &one).await.unwrap(), b"one");
        assert_eq!(artifacts.get(&tenant(), &two).await.unwrap(), b"two");
        let other = TenantId::new("other").unwrap();
        assert_eq!(artifacts.get(&other, &one).await.unwrap_err().code(), Code::NotFound);
        for uri in ["s3://elsewhere/x", &format!("{}/../../etc/passwd", one.uri), "memory:///acme"] {
            let forged = engine_core::event::step::ArtifactRef { uri: uri.to_owned(), ..one.clone() };
            assert_eq!(artifacts.get(&tenant(), &forged).await.unwrap_err().code(), Code::NotFound, "{uri}");
        }
        let forged = engine_core::event::step::ArtifactRef { sha256: two.sha256.clone(), ..one.clone() };
        assert_eq!(artifacts.get(&tenant(), &forged).await.unwrap_err().code(), Code::Internal);
    }
}

#[tokio::test]
async fn deleting_a_run_deletes_what_belongs_to_it_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    for artifacts in [Artifacts::open("memory:").unwrap(), Artifacts::open(&url).unwrap()] {
        let now = Timestamp::from_millis(0);
        let mut kept = Vec::new();
        for (owner, id) in [("acme", "r1"), ("acme", "r10"), ("other", "r1"), ("..", "r1")] {
            let owner = TenantId::new(owner).unwrap();
            for place in [Place::attempt(&owner, &run(id), &step("a"), 1), Place::run(&owner, &run(id))] {
                kept.push((
                    owner.clone(),
                    artifacts.put(&place, "output", b"x".to_vec(), now).await.unwrap(),
                ));
            }
        }
        assert_eq!(artifacts.delete_run(&tenant(), &run("r1")).await.unwrap(), 2);
        assert_eq!(artifacts.delete_run(&tenant(), &run("r1")).await.unwrap(), 0);
        for (position, (owner, artifact)) in kept.iter().enumerate() {
            assert_eq!(artifacts.get(owner, artifact).await.is_ok(), position >= 2, "{}", artifact.uri);
        }
    }
    let parent = folder.path().parent().unwrap();
    assert!(!parent.join("r1").exists(), "nothing lies outside the folder");
}

#[test]
fn a_url_that_names_no_store_is_refused() {
    for url in ["", "ftp://x/y", "relative/path", "https://example.com"] {
        assert_eq!(Artifacts::open(url).unwrap_err().code(), Code::Unsupported, "{url:?}");
    }
}

#[test]
#[cfg(not(feature = "s3"))]
fn s3_is_refused_by_a_program_without_it_with_the_name_of_what_is_missing() {
    let error = Artifacts::open("s3://bucket/prefix").unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
    assert!(
        error.message().contains("feature `s3`") && error.hint().unwrap().contains("--features s3"),
        "{error}"
    );
}
