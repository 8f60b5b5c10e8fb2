"""`git.status`, `git.diff` and `git.log`: fixed, bounded looks at the repository, which can run nothing of it."""
