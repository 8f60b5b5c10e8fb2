"""A short tour on real parts: a tool, a held call, its approval, a contained command, its undoing, the ledger."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.config.model import ApprovalConfig, Config
from holdfast.contract.call import Answer, HeldCall
from holdfast.contract.function import tool
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import State
from holdfast.runtime.runtime import Runtime
from holdfast.store.changes import changes_of
from holdfast.store.ledger import Ledger
from holdfast.text.visible import visible_block
from holdfast.tools import builtin_tools

_LIST = "eggs\nmilk\n"
_NEW_LIST = "eggs\noat milk\nbread\n"
_COMMAND = "sort -o list.txt list.txt; echo sorted; echo evil > /etc/planted"


@tool(effects=())
def price(item: str, count: int = 1) -> float:
    """What some groceries cost."""
    return {"eggs": 3.2, "milk": 1.1}.get(item, 2.0) * count


class Guide:
    """Tells, shows and asks; without a terminal it answers for itself."""

    def __init__(self, *, interactive: bool, colour: bool, width: int, say: Callable[[str], None]) -> None:
        self.interactive = interactive
        self._colour = colour
        self._width = max(30, min(width, 88))
        self._say = say

    def title(self, number: int, text: str) -> None:
        self._say("")
        self._say(self._paint(f"{number}. {text}", "1"))

    def pause(self) -> None:
        self._say("")

    def tell(self, text: str) -> None:
        for line in textwrap.wrap(" ".join(text.split()), self._width - 2):
            self._say(f"  {line}")

    def show(self, text: str) -> None:
        for line in visible_block(text).rstrip("\n").split("\n"):
            code = {"+": "32", "-": "31", "@": "36"}.get(line[:1], "2")
            self._say(self._paint(f"    {line}", code))

    def ask(self, question: str) -> bool:
        if not self.interactive:
            self._say(f"  {question} [Y/n] y   (no terminal: the tour answers yes)")
            return True
        try:
            return input(f"  {question} [Y/n] ").strip().lower() not in ("n", "no")
        except EOFError:
            return False

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def main() -> int:
    """Take the tour. 0 when it was taken to its end."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    guide = Guide(interactive=terminal, colour=colour, width=_columns(), say=print)
    with tempfile.TemporaryDirectory(prefix="holdfast-tour-") as scratch:
        try:
            asyncio.run(_tour(guide, Path(scratch).resolve()))
        except KeyboardInterrupt:
            print("\nThe tour was left early; nothing of it stays behind.")
            return 130
    return 0


async def _tour(guide: Guide, scratch: Path) -> None:
    project = scratch / "groceries"
    project.mkdir()
    (project / "list.txt").write_text(_LIST)
    config = Config(approval=ApprovalConfig(auto_approve=("$readonly",)))
    ledger = Ledger.open(scratch / "state" / "ledger.db")
    guide.tell(
        "holdfast is the one path every action of a model must take: found, allowed, validated, shown, held, run, "
        "bounded, recorded. This tour plays on real parts in a scratch folder that is removed afterwards."
    )
    async with Runtime(
        tools=[price, *builtin_tools()], config=config, root=project, ledger=ledger, nobody="park"
    ) as runtime:
        await _call_a_tool(guide, runtime)
        held = await _see_it_held(guide, runtime)
        await _answer_it(guide, runtime, held)
        await _run_a_command(guide, runtime, ledger)
        _see_the_ledger(guide, ledger)
    ledger.close()
    guide.pause()
    guide.tell(
        "That is the path. Next: `holdfast tools`, `holdfast call calculator expression='6 * 7'`, "
        "`holdfast doctor`, `holdfast policy explain shell.exec command='git status; rm x'`, and the README for the "
        "Python side."
    )


async def _call_a_tool(guide: Guide, runtime: Runtime) -> None:
    guide.title(1, "A typed Python function is a tool")
    guide.show("@tool(effects=())\ndef price(item: str, count: int = 1) -> float: ...")
    guide.tell("It declares no effects, so it is pure and needs nobody's leave. A model sends JSON:")
    began = time.perf_counter()
    result = await runtime.call("price", '{"item": "eggs", "count": 2}')
    guide.show(
        f'price {{"item": "eggs", "count": 2}}  ->  {result.output}   ({(time.perf_counter() - began) * 1000:.1f} ms)'
    )
    guide.tell("A slip is named so that the model can mend it:")
    guide.show((await runtime.call("price", '{"itme": "eggs"}')).text)


async def _see_it_held(guide: Guide, runtime: Runtime) -> HeldCall:
    guide.title(2, "A change is proposed, and held")
    await runtime.call("file.write", {"path": "list.txt", "content": _NEW_LIST, "label": "healthier"})
    (held,) = runtime.pending()
    guide.show(held.preview)
    assert held.proposal is not None
    guide.tell(
        f"Risk: {held.proposal.risk}. Why it is held: {held.decision.reason} (This tour approves only reading; by "
        "default, writing inside a project is approved too.) What would happen:"
    )
    guide.show(held.proposal.preview)
    guide.tell(f"Nothing has been written yet. The call waits as {held.call.id}, also after a restart.")
    return held


async def _answer_it(guide: Guide, runtime: Runtime, held: HeldCall) -> None:
    guide.title(3, "You answer; what was shown is what runs")
    yes = guide.ask("Approve it?")
    answer = Answer(kind="approve", by="you") if yes else Answer(kind="reject", by="you", message="not today")
    if yes:
        assert runtime.root is not None
        (runtime.root / "list.txt").write_text("eggs\nmilk\nbirthday cake\n")
        guide.tell("Somebody edited list.txt in the meantime. The approval was for another file, so it is not used:")
        stale = await runtime.answer(held.call.id, answer, digest=held.digest)
        guide.show(stale.text)
        (held,) = runtime.pending()
        assert held.proposal is not None
        guide.show(held.proposal.preview)
        if not guide.ask("Approve it as it is now?"):
            answer = Answer(kind="reject", by="you", message="keep the cake")
    _tell_end(guide, await runtime.answer(held.call.id, answer, digest=held.digest))


def _tell_end(guide: Guide, result: Result) -> None:
    guide.show(f"{result.state}: {result.text}")
    if result.state is State.REJECTED:
        guide.tell("The model is told your words, and nothing was written.")


async def _run_a_command(guide: Guide, runtime: Runtime, ledger: Ledger) -> None:
    guide.title(4, "A command runs where it can do no harm, and can be undone")
    await runtime.call("shell.exec", {"command": _COMMAND, "label": "tidy up"})
    (held,) = runtime.pending()
    assert held.proposal is not None
    guide.show(held.proposal.preview)
    if not guide.ask("Run it?"):
        _tell_end(guide, await runtime.reject(held.call.id, by="you"))
        return
    result = await runtime.approve(held.call.id, by="you", digest=held.digest)
    guide.show(f"{result.state}: {result.text}")
    changes = changes_of(ledger, held.call.id)
    if not changes:
        guide.tell("It changed nothing.")
        return
    guide.tell("What it changed in the project was recorded:")
    for change in changes:
        guide.show(f"{change.kind:<9} {Path(change.path).name}")
    if guide.ask("Undo it?"):
        done = await runtime.undo(held.call.id, by="you")
        guide.show(f"{done.state}: {done.text}")


def _see_the_ledger(guide: Guide, ledger: Ledger) -> None:
    guide.title(5, "Everything is in the ledger")
    for record in reversed(ledger.calls(limit=10)):
        by = f" by {record.answers[-1].answer.by}" if record.answers else ""
        guide.show(f"{record.call.id}  {record.state:<9} {record.call.tool}{by}")
    verified = ledger.verify()
    guide.tell(f"{verified.entries} entries, chained by hash; verified: {'yes' if verified.ok else 'NO'}.")


def _columns() -> int:
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80
