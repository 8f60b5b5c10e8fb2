"""These tests need a real llama.cpp server and model: `make test-llama` says where they are, nothing else runs them."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "HOLDFAST_LLAMA" in os.environ else ["test_*.py"]
