"""The exception hierarchy. The failure of a call is a `Result`, not an exception.

HoldfastError
├── ToolError                a tool is invalid or unknown
│   ├── InvalidName          the name does not match the grammar
│   ├── InvalidSchema        the schema is invalid or not allowed
│   ├── DuplicateTool        the name, alias or API name is taken
│   └── UnknownTool          no such tool for this caller
├── ArgumentsError           the arguments of a call are unusable
│   ├── BadJson              the text is not valid JSON
│   └── InvalidArguments     the JSON does not match the tool's schema
├── CallError                a call cannot continue
│   ├── UnknownCall          no call has that id
│   ├── NotPending           the call is not waiting for an answer
│   ├── StaleApproval        the call changed after it was approved
│   ├── AlreadyApproved      the same person approved it before, and another must
│   └── SecretUnavailable    a secret is not granted or has no value
├── PathRefused              the path is outside the allowed folders
├── SandboxRefused           a command cannot be sandboxed as required
├── NetworkRefused           a host or one of its addresses is not allowed
├── ConfigError              a configuration file is invalid
├── SkillRefused             a skill does not exist, or cannot be used
├── SessionRefused           a session does not exist, or cannot be deleted
├── ScheduleRefused          a schedule does not exist, or cannot be made
├── GrantRefused             the requested "always allow" is too broad
├── UndoRefused              the changes of a call cannot be undone
├── MemoryRefused            a namespace, an id or a size is not accepted
├── MemoryUnavailable        the memory is locked, full, read-only or damaged: nothing was written
├── ModelError               a model request failed (in `models.port`)
├── LoginNeeded              a server requires an interactive login (in `mcp.client.oauth_client`)
├── LoginFailed              a login failed (in `mcp.client.oauth_client`)
├── GoogleFailed             a Google API refused a request (in `tools.google.service`)
├── GoogleLoginFailed        a login to Google failed (in `tools.google.oauth`)
│   └── GoogleLoginNeeded    only a new login helps (in `tools.google.oauth`)
├── DocumentError            a document cannot be read or written (in `chat.document_file`)
│   ├── DocumentBusy         another process is using it (in `chat.state_file`)
│   └── UnreadableDocument   it is missing or not a text file (in `chat.document_file`)
└── LedgerError              the ledger cannot be used
    ├── LedgerUnavailable    locked, full or read-only: nothing was written
    └── LedgerCorrupt        the file is damaged or was modified by another program
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """Base class. The message is a sentence that ends with the next step."""


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


class AlreadyApproved(CallError): ...


class SecretUnavailable(CallError): ...


class PathRefused(HoldfastError): ...


class SandboxRefused(HoldfastError): ...


class NetworkRefused(HoldfastError): ...


class ConfigError(HoldfastError): ...


class SkillRefused(HoldfastError): ...


class SessionRefused(HoldfastError): ...


class ScheduleRefused(HoldfastError): ...


class GrantRefused(HoldfastError): ...


class UndoRefused(HoldfastError): ...


class MemoryRefused(HoldfastError): ...


class MemoryUnavailable(HoldfastError): ...


class LedgerError(HoldfastError): ...


class LedgerUnavailable(LedgerError): ...


class LedgerCorrupt(LedgerError): ...


class OutcomeUnknown(Exception):
    """The work of a tool may have taken effect, but its end was not seen, so the call ends as `unknown`.

    Not a `HoldfastError`: code that handles those must not turn it into an ordinary failure.
    """
