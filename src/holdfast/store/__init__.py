"""What is remembered: the ledger of calls, grants, trust, and the blobs that belong to them."""
