"""`attached`: a runtime with an interface attached, in one expression."""

from __future__ import annotations

from holdfast.contract.elicitation import Elicitor
from holdfast.runtime.interfaces import Asker
from holdfast.runtime.runtime import Runtime


def attached(runtime: Runtime, asker: Asker | None = None, *, elicitor: Elicitor | None = None) -> Runtime:
    runtime.attach(asker, elicitor=elicitor)
    return runtime
