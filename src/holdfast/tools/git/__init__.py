"""`git.status`, `git.diff` and `git.log`: read-only views of the repository that run none of its hooks, filters or
pagers."""
