"""Describes calls and summarises their results in a sentence or two."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from holdfast.contract.json import Args, Json
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.models.requests.masked_text import quoted
from holdfast.text.attachments import describe


def describe_call(tool: str, args: Args) -> str:
    """Return a verb phrase that completes "I will …": read `a.py`, run `make`."""
    if tool not in _VERBS:
        return f"call {quoted(tool)}"
    verb, key = _VERBS[tool]
    value = args.get(key)
    if value is None:
        return (_VERBS_ALONE.get(tool, f"{verb} something") if key else verb) + _details(tool, args)
    return f"{verb} {quoted(_argument_text(value))}" + _details(tool, args)


def _details(tool: str, args: Args) -> str:
    said = ""
    offset, limit = (args.get("offset"), args.get("limit")) if tool in _READS_LINES else (None, None)
    if isinstance(offset, int) and isinstance(limit, int):
        said += f", lines {offset}-{offset + limit - 1}"
    elif isinstance(offset, int):
        said += f" from line {offset}"
    elif isinstance(limit, int):
        said += f", the first {limit} lines"
    for key in ("path", "glob", "cwd"):
        if key != _VERBS[tool][1] and args.get(key) is not None:
            said += f" in {quoted(_argument_text(args[key]))}"
    return f"{said} recursively" if args.get("recursive") else said


def _argument_text(value: Json) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return str(value[0].get("question", ""))
    return str(value)


_VERBS: Final[dict[str, tuple[str, str]]] = {
    "ask.user": ("ask you", "questions"), "calculator": ("calculate", "expression"),
    "code.search": ("search for", "query"), "file.find": ("find files like", "pattern"),
    "file.edit": ("edit", "path"), "file.list": ("list", "path"),
    "file.read": ("read", "path"), "file.write": ("write", "path"),
    "git.diff": ("look at the diff", ""), "git.log": ("look at the last commits", ""),
    "git.status": ("look at the git status", ""), "system.info": ("look at the system", ""),
    "memory.forget": ("forget the memory item", "id"), "memory.list": ("list the memory", "namespace"),
    "memory.read": ("read the memory of", "namespace"), "memory.search": ("search the memory for", "query"),
    "memory.write": ("remember something in", "namespace"),
    "output.read": ("read the output of call", "call"), "process.output": ("read the output of process", "pid"),
    "process.kill": ("kill process", "pid"), "process.list": ("list the processes", ""),
    "process.start": ("start", "command"), "process.status": ("look at process", "pid"),
    "shell.exec": ("run", "command"),
    "skill.load": ("load the skill", "name"),
    "sessions.list": ("list the sessions", ""),
    "sessions.delete": ("delete session", "session"),
    "web.fetch": ("fetch", "url"), "web.search": ("search the web for", "query"),
    "browser.back": ("go back in the browser", ""), "browser.click": ("click", "name"),
    "browser.close": ("close the browser", ""), "browser.find": ("find on the open page", "query"),
    "browser.navigate": ("open in the browser", "url"), "browser.screenshot": ("take a screenshot", ""),
    "browser.select": ("select in", "name"), "browser.text": ("read the open page", ""),
    "browser.type": ("type into", "name"), "browser.wait": ("wait on the open page for", "text"),
    "media.send": ("send you", "path"), "image.analyze": ("look at", "path"),
    "audio.transcribe": ("transcribe", "path"),
    "minio.share": ("share", "path"), "minio.ingest": ("ingest the object", "object_key"),
    "minio.sync": ("sync the objects below", "prefix"), "k8s.pods": ("list the pods of", "namespace"),
    "k8s.deployments": ("list the deployments of", "namespace"), "k8s.logs": ("read the logs of the pod", "pod"),
    "gmail.search": ("search the mail for", "query"), "gmail.read": ("read the mail", "id"),
    "gcal.events": ("list the events of", "calendar"), "gdocs.read": ("read the document", "document"),
    "gdrive.search": ("search Drive for", "query"), "gdrive.read": ("read the Drive file", "file"),
    "gtasks.list": ("list the tasks of", "list"), "cron.list": ("list the schedules", ""),
    "cron.add": ("add a schedule at", "expression"), "cron.remove": ("remove schedule", "id"),
}  # fmt: skip
"""For each tool, its verb and the argument that names the object."""
_READS_LINES: Final = frozenset({"browser.text", "file.read", "output.read", "process.output"})
"""Tools whose `offset` and `limit` count lines."""
_VERBS_ALONE: Final = {
    "file.list": "list the project's folder",
    "memory.list": "list the memory",
    "process.kill": "kill a process",
    "process.output": "read the output of a process",
    "process.status": "look at a process",
    "skill.load": "list the skills",
    "browser.wait": "wait on the open page",
    "audio.transcribe": "transcribe a recording",
    "gcal.events": "list the events of the calendar",
    "gdrive.search": "list the files in Drive",
    "gmail.search": "list the mail",
    "gtasks.list": "list the tasks",
    "image.analyze": "look at an image",
    "k8s.deployments": "list the deployments",
    "k8s.pods": "list the pods",
    "media.send": "send you a file",
}
"""Used if that argument is missing."""


REJECTED: Final = "This tool has been rejected by the user."
DENIED: Final = "The tool was denied by a policy."
PLANNED: Final = "Plan mode: nothing was run or changed."
_CHANGED: Final = re.compile(r"\AThe arguments were changed to (\{.*\}) before it ran\.\n\n")
_TRUNCATED: Final = re.compile(
    r"^\[(?:Showing (?:lines|last|the first)|showing first|Output t(?:oo large|runcated)|Results limited"
    r"|The diff is longer|[0-9]+ more lines|Line [0-9]+ is)[^\n]*\]$",
    re.MULTILINE,
)
_ENTRY_COUNT: Final = re.compile(r"\[([0-9]+) (entry|entries)(?:, [^\]\n]*)?\]\Z")
_FILE_MATCHES: Final = re.compile(r"^\S.* \(([0-9]+) match(?:es)?(?:, showing [0-9]+)?\)$", re.MULTILINE)
_TOTAL_MATCHES: Final = re.compile(r"\A\[showing first [0-9]+ of ([0-9]+) matches")
_HIT: Final = re.compile(r"^[0-9]+\. .*\n   \S", re.MULTILINE)
_EMPTY: Final = frozenset({"(no output)", "(empty file)", ""})


def report(use: ToolUse, result: ToolResult) -> str:
    """Summarise one call and its result in a paragraph."""
    if changed := _CHANGED.match(result.output):
        use = replace(use, arguments=changed[1])
        return f"You changed it first. {report(use, replace(result, output=result.output[changed.end() :]))}"
    said = describe_call(use.name, use.parsed or {})
    if result.error:
        return _failure(said, use.name, result.output)
    tell = _SUMMARIES.get(use.name, _line_count)
    parts = [f"{said[:1].upper()}{said[1:]}: {tell(result.output)}"]
    if result.attachments:
        parts.append(f"Attached: {quoted(', '.join(map(describe, result.attachments)))}.")
    if cut := _TRUNCATED.search(result.output):
        parts.append(f"Not all of it is shown: {quoted(cut[0].strip('[]'))}.")
    return " ".join(parts)


def _failure(said: str, tool: str, output: str) -> str:
    text = output.strip()
    if text.startswith(PLANNED):
        return f"Only planned: {said}."
    if text == REJECTED:
        return f"You rejected this: {said}."
    if text.startswith(DENIED):
        reason = text[len(DENIED) :].strip()
        return f"A policy denied this: {said}." + (f" {quoted(reason)}" if reason else "")
    lines = [line for line in text.split("\n") if line.strip()] or ["no reason was given"]
    telling = lines[-1] if tool == "shell.exec" else lines[0]
    return f"This did not succeed: {said}. {quoted(telling)}"


def _count(count: int, what: str, plural: str = "s") -> str:
    return f"{count} {what}{'' if count == 1 else plural}"


def _line_count(output: str) -> str:
    if output.strip() in _EMPTY:
        return "there is nothing in it."
    return f"{_count(output.rstrip(chr(10)).count(chr(10)) + 1, 'line')}."


def _read(output: str) -> str:
    if output.strip() == "(empty file)":
        return "it is empty."
    notices = list(_TRUNCATED.finditer(output))
    shown = output[: notices[-1].start() - 2] if notices and notices[-1].end() == len(output) else output
    return f"{_count(shown.count(chr(10)) + 1, 'line')}."


def _printed_lines(output: str) -> str:
    text = output.strip("\n")
    if text in _EMPTY:
        return "it printed nothing."
    if text.startswith("(no output)\n\n["):
        return f"it printed nothing. {quoted(text.partition(chr(10))[2].strip())}"
    lines = text.split("\n")
    many = f"{len(lines)} lines, the first " if len(lines) > 1 else ""
    return f"it printed {many}{quoted(lines[0])}."


def _listing(output: str) -> str:
    found = _ENTRY_COUNT.search(output.rstrip())
    return f"{found[1]} {found[2]}." if found else _line_count(output)


def _found_files(output: str) -> str:
    if output.startswith("No files found"):
        return "no files."
    names = [line for line in output.split("\n\n")[0].split("\n") if line]
    few = f" ({', '.join(quoted(name) for name in names)})" if len(names) <= 3 else ""
    return f"{_count(len(names), 'file')}{few}."


def _matches(output: str) -> str:
    if output.startswith("No matches found."):
        return "no matches."
    files = [int(number) for number in _FILE_MATCHES.findall(output)]
    whole = _TOTAL_MATCHES.match(output)
    if not files:
        return _line_count(output)
    if whole:
        return f"{_count(int(whole[1]), 'match', 'es')}."
    return f"{_count(sum(files), 'match', 'es')} in {_count(len(files), 'file')}."


def _first_line(output: str) -> str:
    line = output.strip().partition("\n")[0]
    return quoted(line) + ("" if line.endswith(".") else ".")


def _status(output: str) -> str:
    head, _, rest = output.partition("\n")
    if not head.startswith("## "):
        return _line_count(output)
    branch = f"on {quoted(head[3:])}"
    if rest.strip() == "nothing to commit, working tree clean":
        return f"{branch}, nothing is changed."
    count = sum(1 for line in rest.split("\n") if line and not line.startswith("["))
    return f"{branch}, {_count(count, 'changed path')}."


def _commits(output: str) -> str:
    return "no commits yet." if output.startswith("No commits yet.") else _line_count(output).replace("line", "commit")


def _hits(output: str) -> str:
    count = len(_HIT.findall(output))
    return f"{_count(count, 'result')}." if count else _first_line(output)


_SUMMARIES: Final[dict[str, Callable[[str], str]]] = {
    **dict.fromkeys(("ask.user", "calculator", "file.edit", "file.write"), _first_line),
    **dict.fromkeys(("process.kill", "process.start", "process.status"), _first_line),
    **dict.fromkeys(("memory.forget", "memory.write"), _first_line),
    **dict.fromkeys(("media.send", "image.analyze", "minio.share", "minio.ingest", "minio.sync"), _first_line),
    "code.search": _matches, "file.find": _found_files, "file.list": _listing, "file.read": _read,
    "git.diff": lambda output: "no unstaged changes." if output == "No unstaged changes." else _line_count(output),
    **dict.fromkeys(("browser.back", "browser.close", "browser.navigate", "web.fetch"), _first_line),
    "web.search": _hits,
    "git.log": _commits, "git.status": _status, "shell.exec": _printed_lines,
}  # fmt: skip
