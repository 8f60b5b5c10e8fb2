"""Skip marks for what a machine may lack."""

from __future__ import annotations

import pytest

from tests.runtime.undo.support import overlay_bwrap

needs_overlay = pytest.mark.skipif(overlay_bwrap() is None, reason="no bubblewrap with overlays works here")
