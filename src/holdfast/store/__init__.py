"""Persistent state: the ledger of calls, grants, trusted files, pinned tools, and the blobs they refer to."""
