//! Paths below `vars`.

/// The most names that a path may have.
pub(crate) const LONGEST_PATH: usize = 16;

/// The names of a path such as `report.totals`; `None` when it is not one.
pub(crate) fn parse_path(text: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = text.split('.').take(LONGEST_PATH + 1).collect();
    (names.len() <= LONGEST_PATH && names.iter().all(|name| is_name(name))).then_some(names)
}

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether writing one of the two paths changes what stands at the other.
pub(crate) fn overlap(left: &str, right: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(left, right) || within(right, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_names_with_dots_between() {
        assert_eq!(parse_path("report.totals_2"), Some(vec!["report", "totals_2"]));
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "1a", "a[0]", &vec!["a"; 17].join(".")] {
            assert_eq!(parse_path(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn paths_overlap_when_one_lies_within_the_other() {
        assert!(overlap("a", "a"));
        assert!(overlap("a", "a.b"));
        assert!(overlap("a.b.c", "a.b"));
        assert!(!overlap("a.b", "a.bc"));
        assert!(!overlap("ab", "a"));
    }
}
