"""A runtime with an interface attached, in one expression."""

from __future__ import annotations

from holdfast.contract.elicitation import Inquirer
from holdfast.runtime.interfaces import Asker
from holdfast.runtime.runtime import Runtime


def attached(runtime: Runtime, asker: Asker | None = None, *, inquirer: Inquirer | None = None) -> Runtime:
    runtime.attach(asker, inquirer=inquirer)
    return runtime
