"""holdfast: the tool runtime for AI agents. Public names are imported lazily, on first use."""

TYPE_CHECKING = False  # without importing `typing`, to save start-up time
if TYPE_CHECKING:
    from holdfast.config.config import Config
    from holdfast.contract.call import Answer, Call, Caller, Decision, PendingCall, Precondition, Proposal
    from holdfast.contract.context import Context
    from holdfast.contract.enums import Risk, State, Verdict
    from holdfast.contract.errors import HoldfastError
    from holdfast.contract.event import Event
    from holdfast.contract.function_tool import tool
    from holdfast.contract.result import Attachment, Result, fail, ok
    from holdfast.contract.tool import Tool, define
    from holdfast.contract.widening import Widening
    from holdfast.factory.runtime import open_runtime
    from holdfast.runtime.middleware import Deny
    from holdfast.runtime.runtime import Request, Runtime

__version__ = "0.1.0"

_HOMES = {
    "Answer": "contract.call",
    "Attachment": "contract.result",
    "Call": "contract.call",
    "Caller": "contract.call",
    "Config": "config.config",
    "Context": "contract.context",
    "Decision": "contract.call",
    "Deny": "runtime.middleware",
    "Event": "contract.event",
    "PendingCall": "contract.call",
    "HoldfastError": "contract.errors",
    "Precondition": "contract.call",
    "Proposal": "contract.call",
    "Request": "runtime.runtime",
    "Result": "contract.result",
    "Risk": "contract.enums",
    "Runtime": "runtime.runtime",
    "State": "contract.enums",
    "Tool": "contract.tool",
    "Verdict": "contract.enums",
    "Widening": "contract.widening",
    "define": "contract.tool",
    "fail": "contract.result",
    "ok": "contract.result",
    "open_runtime": "factory.runtime",
    "tool": "contract.function_tool",
}

__all__ = [
    "Answer",
    "Attachment",
    "Call",
    "Caller",
    "Config",
    "Context",
    "Decision",
    "Deny",
    "Event",
    "HoldfastError",
    "PendingCall",
    "Precondition",
    "Proposal",
    "Request",
    "Result",
    "Risk",
    "Runtime",
    "State",
    "Tool",
    "Verdict",
    "Widening",
    "define",
    "fail",
    "ok",
    "open_runtime",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f"holdfast.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
