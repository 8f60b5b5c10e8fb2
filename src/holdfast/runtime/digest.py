"""The digest an approval is bound to. Change any part and the approval is for something else."""

from __future__ import annotations

import os

from holdfast.contract.call import Call, Proposal
from holdfast.contract.tool import Tool
from holdfast.contract.values import digest_of
from holdfast.store.changes import to_text


def approval_digest(tool: Tool, call: Call, sandbox_profile: str, proposal: Proposal | None) -> str:
    """Over definition, canonical arguments, working directory, sandbox profile and what was proposed."""
    shown = None
    if proposal is not None:
        shown = [
            proposal.summary,
            proposal.risk,
            proposal.payload,
            [[item.kind, item.subject, item.value] for item in proposal.preconditions],
        ]
    return digest_of([tool.name, tool.digest, call.args, to_text(os.path.realpath(call.cwd)), sandbox_profile, shown])
