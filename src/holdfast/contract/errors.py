"""Every error holdfast raises, drawn once. What happens to one call is a `Result`, not an exception.

HoldfastError
├── ToolError                a tool cannot exist or cannot be found
│   ├── InvalidName          the name is outside the grammar
│   ├── InvalidSchema        the schema is not a schema, or may not be used
│   ├── DuplicateTool        the name, alias or API name is taken
│   └── UnknownTool          no such tool for this caller
├── ArgumentsError           the arguments of a call cannot be used
│   ├── BadJson              the text is not the JSON we accept
│   └── InvalidArguments     the JSON does not fit the tool's schema
├── CallError                a call cannot go on
│   ├── UnknownCall          no call has that id
│   ├── NotPending           the call is not waiting for an answer
│   ├── StaleApproval        what was approved is not what would run now
│   └── SecretUnavailable    a secret is not granted or has no value
├── PathRefused              the path is outside what the call may touch
├── SandboxRefused           a command cannot be contained as it must be
├── NetworkRefused           a host or its addresses cannot be reached from where it was asked for
├── ConfigError              a configuration file says something wrong
├── GrantRefused             the "always allow" asked for would be too wide
├── UndoRefused              what a call changed cannot be put back
├── ModelError               a model did not answer (in `models.port`, with its fault)
├── LoginNeeded              a server wants a login that only a person can give (in `mcp.oauth_client`)
├── LoginFailed              a login went wrong on the way (there too)
├── DocumentError            a document cannot be read or written (in `chat.files`)
│   ├── DocumentBusy         another process drives it (in `chat.remembering`)
│   └── Unreadable           it is gone, or not a text file
└── LedgerError              the record cannot be kept
    ├── LedgerUnavailable    locked, full or read-only: nothing was written
    └── LedgerCorrupt        the file is damaged or was changed by someone else
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """Base of all errors of holdfast; the message is one sentence with the next step."""


class ToolError(HoldfastError): ...


class InvalidName(ToolError): ...


class InvalidSchema(ToolError): ...


class DuplicateTool(ToolError): ...


class UnknownTool(ToolError): ...


class ArgumentsError(HoldfastError): ...


class BadJson(ArgumentsError): ...


class InvalidArguments(ArgumentsError):
    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(violations))


class CallError(HoldfastError): ...


class UnknownCall(CallError): ...


class NotPending(CallError): ...


class StaleApproval(CallError): ...


class SecretUnavailable(CallError): ...


class PathRefused(HoldfastError): ...


class SandboxRefused(HoldfastError): ...


class NetworkRefused(HoldfastError): ...


class ConfigError(HoldfastError): ...


class GrantRefused(HoldfastError): ...


class UndoRefused(HoldfastError): ...


class LedgerError(HoldfastError): ...


class LedgerUnavailable(LedgerError): ...


class LedgerCorrupt(LedgerError): ...
