"""Shell completion."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("E1a")
def test_the_shell_completes_commands_tools_and_pending_calls(asking: Cli) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [line.partition(",")[2] for line in asking.run(env=env).out.splitlines()]

    assert completed("holdfast", "app") == ["approve"]
    assert completed("holdfast", "call", "calc") == ["calculator"]
    call_id = asking.make_pending("file.write", "path=a", "content=b")
    assert completed("holdfast", "approve", call_id[:3]) == [call_id]
    assert completed("holdfast", "ledger", "show", call_id[:3]) == [call_id]
    for shell in ("bash", "zsh", "fish"):
        assert "_HOLDFAST_COMPLETE" in asking.run("completion", shell).out
