//! Who a server runs as. Servers such as Postgres refuse to run as root, which CI machines and containers are.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Users that servers may run as in place of root, the better one first.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// The user a server runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Whoever runs this process.
    Caller,
    /// An unprivileged user, because the caller is root.
    Unprivileged {
        /// As in the list of users.
        name: String,
        /// User id.
        user: u32,
        /// Group id.
        group: u32,
    },
}

impl Account {
    /// The caller, or an unprivileged user that exists when the caller is root.
    pub(crate) fn for_servers() -> Result<Self> {
        if !caller_is_root()? {
            return Ok(Self::Caller);
        }
        let users = std::fs::read_to_string("/etc/passwd").context("cannot read the users in /etc/passwd")?;
        match unprivileged(&users) {
            Some(account) => Ok(account),
            None => bail!(
                "servers do not run as root, and /etc/passwd has none of the users {}: add one of them, or run as \
                 another user than root",
                UNPRIVILEGED.join(", ")
            ),
        }
    }

    /// Makes a command run as this user.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Self::Unprivileged { user, group, .. } = self {
            // The standard library drops root's other groups together with its user id.
            command.uid(*user).gid(*group);
        }
    }

    /// Gives a file or directory to this user.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        if let Self::Unprivileged { name, user, group } = self {
            chown(path, Some(*user), Some(*group))
                .with_context(|| format!("cannot give {} to the user {name}", path.display()))?;
        }
        Ok(())
    }

    /// Whether this user can reach what is in a directory, which every directory above it can forbid.
    pub(crate) fn can_enter(&self, directory: &Path) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", r#"test -x "$1""#, "sh"]).arg(directory).current_dir("/");
        self.apply(&mut command);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }
}

/// Whether this process runs as root.
pub(crate) fn caller_is_root() -> Result<bool> {
    // Asking the system directly takes unsafe code or one more dependency; every Unix has this program.
    let output =
        Command::new("id").arg("-u").output().context("cannot run `id -u` to learn who runs this")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn unprivileged(users: &str) -> Option<Account> {
    UNPRIVILEGED.iter().find_map(|wanted| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| name == wanted)?;
            let user = fields.nth(1)?.parse().ok()?;
            let group = fields.next()?.parse().ok()?;
            Some(Account::Unprivileged { name: name.to_owned(), user, group })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: &str =
        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/nonexistent:/bin/false\n";

    #[test]
    fn root_gives_way_to_the_user_postgres_when_there_is_one() {
        let users = format!("{NOBODY}postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n");
        let expected = Account::Unprivileged { name: "postgres".into(), user: 101, group: 104 };
        assert_eq!(unprivileged(&users), Some(expected));
    }

    #[test]
    fn root_gives_way_to_nobody_otherwise() {
        let expected = Account::Unprivileged { name: "nobody".into(), user: 65534, group: 65533 };
        assert_eq!(unprivileged(NOBODY), Some(expected));
        assert_eq!(unprivileged("root:x:0:0:root:/root:/bin/bash\n"), None);
    }

    #[test]
    fn a_directory_behind_a_closed_one_cannot_be_entered() {
        use std::os::unix::fs::PermissionsExt as _;
        let account = Account::for_servers().unwrap();
        let outer = tempfile::tempdir_in("/tmp").unwrap();
        let allow =
            |mode| std::fs::set_permissions(outer.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let inner = outer.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        allow(0o755);
        assert!(account.can_enter(&inner));
        allow(0o600);
        assert!(!account.can_enter(&inner));
        // Its owner must be able to enter a directory to remove what is in it.
        allow(0o700);
    }

    #[test]
    fn an_owned_directory_belongs_to_the_account() {
        use std::os::unix::fs::MetadataExt as _;
        let directory = tempfile::tempdir().unwrap();
        let before = directory.path().metadata().unwrap().uid();
        let account = Account::for_servers().unwrap();
        account.own(directory.path()).unwrap();
        let expected = match account {
            Account::Caller => before,
            Account::Unprivileged { user, .. } => user,
        };
        assert_eq!(directory.path().metadata().unwrap().uid(), expected);
    }
}
