"""What each phrase makes of its slots: the arguments of one call, or of several that go together."""

from __future__ import annotations

from holdfast.contract.values import Args
from holdfast.models.operator.forms import Build, Slots
from holdfast.models.operator.literals import IT


def read(slots: Slots) -> list[Args] | None:
    first, last = slots.get("RANGE") or (slots.get("N"), None)
    limit = last - first + 1 if last is not None else None
    return [{"path": path, "offset": first, "limit": limit} for path in _paths(slots)]


def read_first(slots: Slots) -> list[Args]:
    return [{"path": path, "limit": slots["N"]} for path in _paths(slots)]


def read_one_line(slots: Slots) -> list[Args]:
    return [{"path": path, "offset": slots["N"], "limit": 1} for path in _paths(slots)]


def _paths(slots: Slots) -> list[str]:
    return slots.get("FILES") or [slots.get("FILE") or slots["NAME"]]


def _folder(slots: Slots) -> str | None:
    return slots.get("FOLDER") or slots.get("DIR")


def listing(recursive: bool | None) -> Build:
    def build(slots: Slots) -> list[Args]:
        folders: list[str | None] = slots.get("FOLDERS") or slots.get("DIRS") or [_folder(slots)]
        return [{"path": folder, "recursive": recursive} for folder in folders]

    return build


def find(slots: Slots) -> list[Args]:
    return [{"pattern": slots.get("GLOB") or slots["NAME"], "path": _folder(slots)}]


def search(*, regex: bool | None = None, case: str | None = None) -> Build:
    def build(slots: Slots) -> list[Args]:
        place = slots.get("PLACE")
        is_glob = place is not None and any(sign in place for sign in "*?[{")
        where: Args = {"path": None if is_glob else place, "glob": place if is_glob else None}
        return [{"query": slots["TEXT"], "regex": regex, "case": case, **where}]

    return build


def run(unit: int = 1000) -> Build:
    def build(slots: Slots) -> list[Args]:
        timeout = slots["N"] * unit if "N" in slots else None
        return [{"command": slots["COMMAND"], "cwd": _folder(slots), "timeout": timeout}]

    return build


def run_it(slots: Slots) -> list[Args]:
    return [{"command": IT}]


def start(slots: Slots) -> list[Args]:
    return [{"command": slots["COMMAND"], "cwd": _folder(slots)}]


def edit(mode: str | None = None) -> Build:
    def build(slots: Slots) -> list[Args] | None:
        if not slots["OLD"]:
            return None
        return [{"path": slots["FILE"], "search": slots["OLD"], "replace": slots.get("NEW", ""), "mode": mode}]

    return build


def write(slots: Slots) -> list[Args]:
    path = slots.get("FILE") or slots["NAME"]
    return [{"path": path, "content": slots.get("CONTENT") or slots.get("BLOCK") or ""}]


def calculate(slots: Slots) -> list[Args]:
    return [{"expression": slots["EXPRESSION"]}]


def nothing(slots: Slots) -> list[Args]:
    return [{}]


def process(slots: Slots) -> list[Args]:
    name = slots["ID"]
    return [{"pid": int(name)} if name.isdigit() and len(name) < 10 else {"id": name}]


def ask(slots: Slots) -> list[Args] | None:
    if not slots["QUOTED"].strip():
        return None
    return [{"questions": [{"question": slots["QUOTED"], "options": slots.get("QUOTES")}]}]


def output(slots: Slots) -> list[Args]:
    return [{"call": slots["ID"], "offset": slots.get("N")}]
