//! Who a process is, as /proc tells.

use std::fs;

/// Longest chain of parents that is followed.
const DEPTH_MAX: usize = 64;

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; behind it come state and parent.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    words.nth(1)?.parse().ok()
}

/// A process, its parent, and so on.
pub(crate) fn with_ancestors(pid: i32) -> Vec<i32> {
    let chain = std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 0));
    chain.take(DEPTH_MAX).collect()
}

/// The name of its program; its number if that is gone.
pub(crate) fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| pid.to_string(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_descend_from_our_parent() {
        let pid = std::process::id() as i32;
        let chain = with_ancestors(pid);
        assert_eq!(chain[..2], [pid, std::os::unix::process::parent_id() as i32]);
        assert!(!name(pid).is_empty());
        assert_eq!(with_ancestors(-1), [-1]);
    }
}
