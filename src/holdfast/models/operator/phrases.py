"""The operator's grammar: every phrase it understands, by tool. `docs/operator.md` lists exactly these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.contract.json import Args, encode_json
from holdfast.models.operator.slots import SLOTS
from holdfast.models.requests.masked_text import IT, Form, MaskedText

SlotValues = Mapping[str, Any]
BuildArgs = Callable[[SlotValues], list[Args] | None]


class Phrase:
    """One phrase: its form, an example, and a function from slot values to the arguments of calls."""

    def __init__(self, form: str, example: str, build: BuildArgs) -> None:
        self.form = Form(form, SLOTS)
        self.example = example
        self._build = build

    def match(self, text: str, masked: MaskedText) -> list[Args] | None:
        """Return the arguments of the requested calls; None if the text does not match."""
        slots = self.form.match(text, masked)
        return None if slots is None else self._build(slots)


def _folder(slots: SlotValues) -> str | None:
    return slots.get("FOLDER") or slots.get("DIR")


def _read(slots: SlotValues) -> list[Args]:
    first, last = slots.get("RANGE") or (slots.get("LINE") or slots.get("N"), slots.get("LINE"))
    limit = slots.get("COUNT") if last is None else last - first + 1
    paths = slots.get("FILES") or [slots.get("FILE") or slots["NAME"]]
    return [{"path": path, "offset": first, "limit": limit} for path in paths]


def _list(slots: SlotValues) -> list[Args]:
    folders: list[str | None] = slots.get("FOLDERS") or slots.get("DIRS") or [_folder(slots)]
    return [{"path": folder, "recursive": slots.get("recursively")} for folder in folders]


def _find(slots: SlotValues) -> list[Args]:
    return [{"pattern": slots.get("GLOB") or slots["NAME"], "path": _folder(slots)}]


def _search(slots: SlotValues) -> list[Args]:
    place = slots.get("PLACE")
    is_glob = place is not None and any(sign in place for sign in "*?[{")
    regex = True if slots.keys() & {"regex", "pattern", "regular"} else None
    case = "insensitive" if slots.keys() & {"ignoring", "regardless"} else None
    where: Args = {"path": None if is_glob else place, "glob": place if is_glob else None}
    return [{"query": slots["TEXT"], "regex": regex, "case": case, **where}]


def _run(slots: SlotValues) -> list[Args]:
    unit = 60_000 if slots.keys() & {"minutes", "minute"} else 1000
    timeout = slots["N"] * unit if "N" in slots else None
    return [{"command": slots["COMMAND"], "cwd": _folder(slots), "timeout": timeout}]


def _edit(slots: SlotValues) -> list[Args] | None:
    first, every = slots.get("first"), slots.keys() & {"all", "every", "each", "everywhere"}
    if not slots["OLD"] or (first and every):
        return None
    mode = "first" if first else "all" if every else None
    return [{"path": slots["FILE"], "search": slots["OLD"], "replace": slots.get("NEW", ""), "mode": mode}]


def _write(slots: SlotValues) -> list[Args] | None:
    if ("CONTENT" in slots) == ("BLOCK" in slots):
        return None
    return [{"path": slots.get("FILE") or slots["NAME"], "content": slots.get("CONTENT", slots.get("BLOCK"))}]


def no_arguments(slots: SlotValues) -> list[Args]:
    return [{}]


def _skill(slots: SlotValues) -> list[Args]:
    return [{"name": slots["SKILL"]}]


_ROLES: Final = ("button", "link", "tab", "checkbox")


def _click(slots: SlotValues) -> list[Args] | None:
    role = next((word for word in _ROLES if word in slots), None)
    if (word := slots.get("NAME")) in _ROLES:  # such as "click the button", which does not say which one
        return None
    return [{"role": role, "name": word or slots["QUOTED"]}]


def _process(slots: SlotValues) -> list[Args]:
    name = slots["ID"]
    return [{"pid": int(name) if name.isdigit() and len(name) < 10 else name}]


def _ask(slots: SlotValues) -> list[Args] | None:
    if not slots["QUOTED"].strip():
        return None
    return [{"questions": [{"question": slots["QUOTED"], "options": slots.get("QUOTES")}]}]


def _remember(slots: SlotValues) -> list[Args] | None:
    content = slots.get("QUERY") or slots["QUOTED"]
    return [{"namespace": slots["NAMESPACE"], "content": content}] if content.strip() else None


def _recall(slots: SlotValues) -> list[Args]:
    return [{"query": slots.get("QUOTED") or slots["TEXT"], "namespace": slots.get("NAMESPACE")}]


def _fetch(slots: SlotValues) -> list[Args]:
    mode = "links" if "links" in slots else None
    return [{"url": slots["URL"], "mode": mode, "find": slots.get("TEXT")}]


def _schedule(slots: SlotValues) -> list[Args] | None:
    if not slots["QUOTED"].strip():
        return None
    often = next(word for word in ("hourly", "daily", "weekly", "monthly") if word in slots)
    arguments = encode_json({"command": slots["QUOTED"]}).decode()
    return [{"expression": f"@{often}", "tool": "shell.exec", "arguments": arguments}]


def _one_file(slots: SlotValues) -> list[Args]:
    return [{"path": slots["FILE"]}]


_SECONDS: Final = {"minute": 60, "hour": 3600, "day": 86_400}


def _share(slots: SlotValues) -> list[Args]:
    unit = next((count for word, count in _SECONDS.items() if slots.keys() & {word, f"{word}s"}), 0)
    return [{"path": slots["FILE"], "expires": f"{slots['N'] * unit}s" if "N" in slots else None}]


def _cluster(slots: SlotValues) -> list[Args]:
    return [{"namespace": slots.get("NAMESPACE"), "all_namespaces": True if "namespaces" in slots else None}]


def _query(slots: SlotValues) -> list[Args]:
    return [{"query": slots["QUERY"]}]


_NAMESPACE: Final = "[in/of ([the] namespace NAMESPACE / all namespaces)]"
_SHOW: Final = "read/show/open/view/display/print/cat [me]"
_IN: Final = "[in/under/of (FOLDER / [the] folder/directory DIR)]"
_AT: Final = "[in (FOLDER / [the] folder/directory DIR)]"
_REGEX: Final = "[[the] (regex / pattern / regular expression)]"
_RUN: Final = "run/execute [the/this] [shell] [command] [:]"
_WHICH: Final = "[the text / the first [occurrence of] / all/every/each [occurrences/occurrence] [of]]"
_REPLACE: Final = f"replace/change {_WHICH} OLD with/by/to NEW [everywhere]"

GRAMMAR: Final[dict[str, tuple[Phrase, ...]]] = {
    "file.read": (
        Phrase(f"{_SHOW} [the contents of] FILES [again]", "read a.py and b.py", _read),
        Phrase(f"{_SHOW} [the] [contents of the] file NAME", "show me the file notes", _read),
        Phrase(f"{_SHOW} FILE [,] ([from] lines RANGE / [starting] from/at line N)", "read a.py lines 10-20", _read),
        Phrase(f"{_SHOW} (lines RANGE / line LINE / [the] first COUNT lines) of/from/in [the file] FILE",
               "read the first 5 lines of a.py", _read),
        Phrase("(what is / what's) in [the file] FILE", "what is in a.py?", _read),
    ),
    "file.list": (
        Phrase("list/ls/dir [all] [files/everything] [here] [recursively]", "ls", _list),
        Phrase(f"list/show [me] [all] [the] files/everything [here] {_IN} [recursively]",
               "list the files in src", _list),
        Phrase("list/ls (FOLDERS / [the] folder/directory DIRS) [recursively]", "list src and tests", _list),
        Phrase("list/show [me] [the] DIR folder/directory", "show the src folder", _list),
        Phrase("(show [me] the contents of / what is in / what's in) [the] folder/directory DIR",
               "what is in the folder x?", _list),
        Phrase("recursively list FOLDERS", "recursively list src", _list),
    ),
    "file.find": (
        Phrase(f"find/locate [me] [all] [the] [files] [named/called/matching/like] GLOB [files] {_IN}",
               "find *.py in src", _find),
        Phrase(f"find [me] [all] [the] files named/called NAME {_IN}", "find files named Makefile", _find),
        Phrase("(which/what files match / where is [the file]) GLOB", "where is conftest.py?", _find),
    ),
    "code.search": (
        Phrase(f"(search for / look for / grep [for]) {_REGEX} TEXT [in/under PLACE]"
               " [ignoring case / regardless of case]", "search for TODO in src", _search),
        Phrase(f"search (everything / everywhere / the project / [in] PLACE) for {_REGEX} TEXT",
               "search src for TODO", _search),
        Phrase("find/show [me] [all] [the] uses/usages/occurrences/mentions of TEXT [in/under PLACE]",
               "find all uses of parse", _search),
        Phrase("where is TEXT used/mentioned/defined", "where is parse used?", _search),
    ),
    "shell.exec": (
        Phrase(f"{_RUN} COMMAND {_AT} [with a timeout of N seconds/second/minutes/minute] [again]",
               "run `make test`", _run),
        Phrase("run/execute (it / that / that command) [again]",
               "run `make` then run it again", lambda slots: [{"command": IT}]),
        Phrase("$ COMMAND", "$ make test", _run),
    ),
    "process.start": (
        Phrase(f"({_RUN} / start/launch) COMMAND in the background {_AT}",
               "run `make serve` in the background",
               lambda slots: [{"command": slots["COMMAND"], "cwd": _folder(slots)}]),
    ),
    "process.list": (
        Phrase("list/show [me] [the] [running/background] processes", "list the processes", no_arguments),
    ),
    "process.status": (
        Phrase("[show] [me] [the] status of process ID", "status of process 4242", _process),
        Phrase("is process ID [still] running", "is process 4242 still running?", _process),
    ),
    "process.output": (
        Phrase("[show/read] [me] [the] output of process ID", "show the output of process 4242", _process),
    ),
    "process.kill": (Phrase("kill/stop/end process ID", "kill process 4242", _process),),
    "file.edit": (
        Phrase(f"edit/update/modify/in FILE [:/,] [and/by] {_REPLACE}", 'edit a.py: replace "x" with "y"', _edit),
        Phrase(f"{_REPLACE} in [the file] FILE", 'replace every "x" with "y" in a.py', _edit),
        Phrase("delete/remove [the text] OLD from/in [the file] FILE", 'remove "x" from a.py', _edit),
    ),
    "file.write": (
        Phrase("write/create/make [a/the] [new] (FILE / file [named/called] NAME) ([:] BLOCK / [:/,]"
               " (with / containing / that contains) [the] [content/contents/text] [:] CONTENT)",
               'create a.txt with the content "hello"', _write),
        Phrase("write/save/put (CONTENT / this / the following) to/into/in/as [the/a] [new] [file] FILE [[:] BLOCK]",
               'write "hello" to a.txt', _write),
        Phrase("create/make/write an empty file [named/called] NAME",
               "create an empty file notes", lambda slots: [{"path": slots["NAME"], "content": ""}]),
    ),
    "memory.write": (
        Phrase("remember [that] [:] (QUOTED in/under [the namespace] / QUERY in/under the namespace) NAMESPACE",
               'remember "we use PostgreSQL" in project/notes', _remember),
    ),
    "memory.search": (
        Phrase("search [my/your/the] memory for (QUOTED / TEXT) [in/under [the namespace] NAMESPACE]",
               'search your memory for "release date"', _recall),
        Phrase("(what do you remember / what do you know from memory) about (QUOTED / TEXT)",
               "what do you remember about PostgreSQL?", _recall),
    ),
    "memory.read": (
        Phrase("read/show [me] [the] (namespace / memory of) NAMESPACE", "read the namespace project/notes",
               lambda slots: [{"namespace": slots["NAMESPACE"]}]),
    ),
    "memory.list": (
        Phrase("list/show [me] [my/your/the] (memory / memories / namespaces) / what do you remember",
               "what do you remember?", no_arguments),
    ),
    "memory.forget": (
        Phrase("forget [the] memory item ID", "forget the memory item k4q7c2mzn3xa",
               lambda slots: [{"id": slots["ID"]}]),
    ),
    "calculator": (
        Phrase("[calculate/compute/evaluate / what is / what's / how much is] EXPRESSION",
               "calculate sqrt(2) * 10", lambda slots: [{"expression": slots["EXPRESSION"]}]),
    ),
    "git.status": (
        Phrase("[show] [me] [the] [git] status"
               " / what (changed / has changed / is changed / did I change / have I changed)",
               "git status", no_arguments),
    ),
    "git.diff": (Phrase("[git] diff / show [me] [the/my] [git] diff/changes", "show me the diff", no_arguments),),
    "git.log": (
        Phrase("git log / show [me] [the] [git] log/history / [show] [me] [the] last/latest/recent commits",
               "show the last commits", no_arguments),
    ),
    "system.info": (
        Phrase("[show] [me] [the] system info/information / what (system / machine / os / operating system) is this",
               "system info", no_arguments),
    ),
    "ask.user": (Phrase("ask [me] QUOTED [with [the] options/answers QUOTES]", 'ask me "Which colour?"', _ask),),
    "skill.load": (
        Phrase("load/use [the] skill SKILL", "load the skill release-notes", _skill),
        Phrase("load/use the SKILL skill", "use the release-notes skill", _skill),
        Phrase("list/show [me] [the/my/all] [available] skills / what/which skills (are there / do you have)",
               "list the skills", no_arguments),
    ),
    "sessions.list": (
        Phrase("list/show [me] [the/my/all] [recent/past] sessions/conversations", "list my sessions", no_arguments),
    ),
    "sessions.delete": (
        Phrase("delete/remove [the] session ID", "delete session ab12cd34", lambda slots: [{"session": slots["ID"]}]),
    ),
    "cron.list": (
        Phrase("list/show [me] [the/my/all] schedules / what is scheduled", "list the schedules", no_arguments),
    ),
    "cron.add": (
        Phrase("schedule QUOTED hourly/daily/weekly/monthly", "schedule `make test` daily", _schedule),
    ),
    "cron.remove": (
        Phrase("delete/remove [the] schedule ID", "remove schedule ab12cd34", lambda slots: [{"id": slots["ID"]}]),
    ),
    "web.fetch": (
        Phrase("fetch/get/read/open/show/view [me] [the] [web] [page/website/site/address/url] [at] URL",
               "fetch https://example.com", _fetch),
        Phrase("list/show/get [me] [all] [the] links on/of/from/in [the] [page/website/site] URL",
               "list the links on https://example.com", _fetch),
        Phrase("(find / search for / look for) TEXT on/in [the] [page/website/site] URL",
               'find "licence" on https://example.com', _fetch),
    ),
    "browser.navigate": (
        Phrase("open/show [me] [the] [page/website/site] URL in the/a browser",
               "open https://example.com in the browser",
               lambda slots: [{"url": slots["URL"]}]),
    ),
    "browser.text": (
        Phrase("read/show [me] the [open/current] page", "read the open page", no_arguments),
    ),
    "browser.find": (
        Phrase("find QUOTED on the [open/current] page", 'find "total" on the page',
               lambda slots: [{"query": slots["QUOTED"]}]),
    ),
    "browser.back": (Phrase("go back [to the last page]", "go back", no_arguments),),
    "browser.wait": (
        Phrase("wait for/until QUOTED [appears] [on the page]", 'wait for "done" on the page',
               lambda slots: [{"text": slots["QUOTED"]}]),
    ),
    "browser.close": (Phrase("close the browser", "close the browser", no_arguments),),
    "browser.select": (
        Phrase("select/choose QUOTED in [the] [list] NAME", 'select "blue" in Colour',
               lambda slots: [{"name": slots["NAME"], "values": [slots["QUOTED"]]}]),
    ),
    "browser.screenshot": (
        Phrase("take a screenshot [of the page]", "take a screenshot", no_arguments),
    ),
    "browser.click": (
        Phrase("click [on] [the] [button/link/tab/checkbox] (QUOTED / NAME)", 'click the button "Pay"', _click),
    ),
    "browser.type": (
        Phrase('type/enter QUOTED into/in [the] [field] NAME', 'type "Ann" into Name',
               lambda slots: [{"name": slots["NAME"], "text": slots["QUOTED"]}]),
    ),
    "web.search": (
        Phrase("search the web/internet for QUERY", "search the web for python tutorials", _query),
        Phrase("(search for / look up) QUERY on the web/internet", 'look up "sqlite fts5" on the web', _query),
    ),
    "media.send": (Phrase("send me [the file] FILE", "send me chart.png", _one_file),),
    "image.analyze": (
        Phrase("analyze/analyse/describe [the] [image/picture/photo] FILE", "describe the image chart.png", _one_file),
        Phrase("(what is / what's) in/on the image/picture/photo FILE", "what is in the picture chart.png?", _one_file),
    ),
    "audio.transcribe": (
        Phrase("transcribe [the] [recording/audio/file] FILE", "transcribe memo.ogg", _one_file),
    ),
    "minio.share": (
        Phrase("share [the file] FILE [for N minutes/minute/hours/hour/days/day]",
               "share report.pdf for 2 days", _share),
    ),
    "minio.ingest": (
        Phrase("ingest [the] object QUOTED [into [the namespace] NAMESPACE]", 'ingest the object "reports/2026.pdf"',
               lambda slots: [{"object_key": slots["QUOTED"], "namespace": slots.get("NAMESPACE")}]),
    ),
    "minio.sync": (
        Phrase("sync [the] objects below/under QUOTED [into [the namespace] NAMESPACE]",
               'sync the objects below "reports/"',
               lambda slots: [{"prefix": slots["QUOTED"], "namespace_base": slots.get("NAMESPACE")}]),
    ),
    "k8s.pods": (
        Phrase(f"list/show [me] [the] pods {_NAMESPACE}", "list the pods in the namespace web", _cluster),
    ),
    "k8s.deployments": (
        Phrase(f"list/show [me] [the] deployments {_NAMESPACE}", "show the deployments in all namespaces", _cluster),
    ),
    "k8s.logs": (
        Phrase("[show/read] [me] [the] [last COUNT lines of the] logs/log of [the] pod NAME"
               " [in [the] namespace NAMESPACE]", "show the logs of the pod web-0",
               lambda slots: [{"pod": slots["NAME"], "namespace": slots.get("NAMESPACE"),
                               "lines": slots.get("COUNT")}]),
    ),
    "gmail.search": (
        Phrase("search my/the mail/mails/email/inbox for QUERY", 'search my mail for "invoice"', _query),
    ),
    "gmail.read": (
        Phrase("read/show [me] [the] mail/email/message ID", "read the mail 18c2f0a1b2",
               lambda slots: [{"id": slots["ID"]}]),
    ),
    "gcal.events": (
        Phrase("list/show [me] my [next/upcoming] events/appointments/calendar / (what is / what's) on my calendar",
               "what is on my calendar?", no_arguments),
    ),
    "gdocs.read": (
        Phrase("read/show [me] the google doc/document (URL / ID)",
               "read the google document https://docs.google.com/document/d/1a2b3c/edit",
               lambda slots: [{"document": slots.get("URL") or slots["ID"]}]),
    ),
    "gdrive.search": (
        Phrase("search my/the google drive for QUERY", 'search my google drive for "budget"', _query),
    ),
    "gdrive.read": (
        Phrase("read/show [me] the google drive file (URL / ID)", "read the google drive file 1a2b3c",
               lambda slots: [{"file": slots.get("URL") or slots["ID"]}]),
    ),
    "gtasks.list": (Phrase("list/show [me] my [open] tasks", "list my tasks", no_arguments),),
    "output.read": (
        Phrase("read/show [me] [the] [full/whole] output of call ID [from line N]",
               "read the output of call abc-1", lambda slots: [{"call": slots["ID"], "offset": slots.get("N")}]),
    ),
}  # fmt: skip
"""The phrases of each tool."""
