"""`holdfast memory`: list, search, show, edit, forget, import and export what agents remember.

Everything is a call of a `memory.*` tool, with the rules, approvals and records of any other call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.memory_files import markdown_files, read_file, render, write_file
from holdfast.cli.project_context import Flags, open_runtime
from holdfast.cli.prompt import edit_text
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.cli.tool_calls import ToolCalls, run_calls
from holdfast.contract.errors import MemoryRefused
from holdfast.contract.result import Result
from holdfast.json_output import WrittenOutput
from holdfast.text.escape import escape

T = TypeVar("T")
Json = dict[str, Any]
_PAGE = 100


class MemoryCalls(ToolCalls):
    """Calls of the `memory.*` tools."""

    async def read(self, tool: str, **args: Any) -> Json:
        """Make a call that must succeed; return what it returned. Raises `MemoryRefused` with its error."""
        result = await self.make(tool, **args)
        if not result.success:
            raise MemoryRefused(result.error or "The call failed.")
        return cast(Json, result.structured)

    async def item(self, item_id: str) -> tuple[Result, Json]:
        """Return an item and the call that found it."""
        result = await self.make("memory.search", query=item_id, limit=1, keywordOnly=True)
        hits = [hit for hit in cast(Json, result.structured or {}).get("hits", ()) if hit["id"] == item_id]
        if not hits:
            raise MemoryRefused(result.error or f"There is no item '{item_id}'. `holdfast memory search` finds ids.")
        return result, hits[0]


def _run(flags: Flags, work: Callable[[MemoryCalls], Awaitable[T]], *, as_json: bool) -> T:
    with open_runtime(flags, entry_points=False) as runtime:
        return run_calls(MemoryCalls(runtime, as_json=as_json), work)


def _run_call(flags: Flags, tool: str, args: Json, *, as_json: bool) -> int:
    async def work(calls: MemoryCalls) -> int:
        return calls.show(await calls.make(tool, **args))

    return _run(flags, work, as_json=as_json)


@click.group(cls=DefaultGroup)
def memory() -> None:
    """List, search, edit and forget what agents remember."""


@memory.command("list")
@click.argument("namespace", required=False)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="How many items to list."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="How many items to skip.")
@with_flags
def list_items(flags: Flags, namespace: str | None, limit: int, offset: int, as_json: bool) -> int:
    """List the namespaces, or the items of NAMESPACE and below.

    \b
    Example:
      holdfast memory
      holdfast memory list project/decisions
    """
    args = {"namespace": namespace, "limit": limit, "offset": offset}
    return _run_call(flags, "memory.list", args, as_json=as_json)


@memory.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--namespace", help="Search only this namespace and those below it.")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many results.")
@click.option("--keywords", is_flag=True, help="Search by keywords only, not by meaning.")
@with_flags
def search(
    flags: Flags, words: tuple[str, ...], namespace: str | None, limit: int, keywords: bool, as_json: bool
) -> int:
    """Search by keywords and by meaning.

    \b
    Example:
      holdfast memory search which database do we use
      holdfast memory search retry policy --namespace code
    """
    args = {"query": " ".join(words), "namespace": namespace, "limit": limit, "keywordOnly": keywords}
    return _run_call(flags, "memory.search", args, as_json=as_json)


@memory.command()
@click.argument("item_id", metavar="ID")
@with_flags
def show(flags: Flags, item_id: str, as_json: bool) -> int:
    """Show an item with everything known about it.

    \b
    Example:
      holdfast memory show k4q7c2mzn3xa
    """

    async def work(calls: MemoryCalls) -> int:
        result, item = await calls.item(item_id)
        return calls.show(result if as_json else replace(result, output=render(item)))

    return _run(flags, work, as_json=as_json)


@memory.command()
@click.argument("item_id", metavar="ID")
@with_flags
def edit(flags: Flags, item_id: str, as_json: bool) -> int:
    """Edit an item in your editor; the new text supersedes the old.

    The old text stays in the history until you forget it.

    \b
    Example:
      holdfast memory edit k4q7c2mzn3xa
    """

    async def work(calls: MemoryCalls) -> int:
        result, item = await calls.item(item_id)
        text = await edit_text(f"{item['content']}\n", ".md")
        if text is None:
            raise UsageProblem("Nothing changed: no editor was found, or it failed. Set VISUAL or EDITOR.")
        content = text.removesuffix("\n")
        if content == item["content"]:
            return calls.show(replace(result, output="Nothing changed."))
        args = {"namespace": item["namespace"], "content": content, "supersedes": item_id, "expires": item["expires"]}
        return calls.show(await calls.make("memory.write", **args))

    return _run(flags, work, as_json=as_json)


@memory.command()
@click.argument("item_id", metavar="ID")
@with_flags
def forget(flags: Flags, item_id: str, as_json: bool) -> int:
    """Forget an item for good: its text, keywords and vector.

    The ledger still has the call that wrote it; see `holdfast ledger prune`.

    \b
    Example:
      holdfast memory forget k4q7c2mzn3xa
    """
    return _run_call(flags, "memory.forget", {"id": item_id}, as_json=as_json)


@memory.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--namespace", help="For files whose front matter names none.")
@with_flags
def import_files(flags: Flags, paths: tuple[Path, ...], namespace: str | None, as_json: bool) -> int:
    """Remember Markdown files, or all those in folders; one item each.

    The front matter of a file may contain `namespace` and `expires`. A content
    that the namespace already has is not written again. Each item is a call,
    and may need approval; the second example approves all of this run.

    \b
    Example:
      holdfast memory import notes.md --namespace project/notes
      holdfast --set approval.auto_approve='["memory.write"]' memory import notes
    """
    files = [(path, read_file(path)) for path in markdown_files(paths)]
    if not files:
        raise UsageProblem("There are no Markdown files (*.md) there.")
    for path, found in files:
        if found.namespace is None and namespace is None:
            raise UsageProblem(f"{path} names no namespace. Add `namespace: …` to its front matter, or --namespace.")

    async def work(calls: MemoryCalls) -> int:
        codes: list[int] = []
        for _, found in files:
            args = {"namespace": found.namespace or namespace, "content": found.content, "expires": found.expires}
            codes.append(calls.show(await calls.make("memory.write", **args)))
        return max(codes)

    return _run(flags, work, as_json=as_json)


@memory.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--namespace", help="Export only this namespace and those below it.")
@click.option("--history", is_flag=True, help="Export superseded items too.")
@with_flags
def export(flags: Flags, folder: Path, namespace: str | None, history: bool, as_json: bool) -> int:
    """Write every item to a Markdown file in FOLDER.

    \b
    Example:
      holdfast memory export backup
      holdfast memory export backup --namespace project
    """

    async def work(calls: MemoryCalls) -> list[Json]:
        listed = await calls.read("memory.list", namespace=namespace, limit=1)
        found: list[Json] = []
        for each in listed["namespaces"]:
            found += await _all_items(calls, each["namespace"], history=history)
        return found

    items = _run(flags, work, as_json=as_json)
    for item in items:
        path = write_file(folder, item)
        if as_json:
            console.print_json(WrittenOutput(path=str(path), content=render(item)))
    if not as_json:
        count = "1 item" if len(items) == 1 else f"{len(items):,} items"
        console.print_out(f"Wrote {count} to {escape(str(folder))}.")
    return 0


async def _all_items(calls: MemoryCalls, namespace: str, *, history: bool) -> list[Json]:
    items: list[Json] = []
    while True:
        args = {"namespace": namespace, "limit": _PAGE, "offset": len(items), "history": history}
        page = await calls.read("memory.read", **args)
        items += page["items"]
        if not page["items"] or len(items) >= page["total"]:
            return items
