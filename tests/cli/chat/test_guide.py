"""`docs/chat.md`: everything it shows is executed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from holdfast.agent.events import EXIT_CODES, AgentEvent
from holdfast.chat.document import Document
from holdfast.cli.reference import objects
from holdfast.contract.event import Event
from tests.cli.command_line import Cli
from tests.cli.documents import NAME, answer, start

GUIDE = (Path(__file__).parents[3] / "docs" / "chat.md").read_text()


def _blocks(language: str) -> list[str]:
    return [body for _, body in re.findall(rf"^(`{{3,}}){language}\n(.*?)^\1$", GUIDE, re.MULTILINE | re.DOTALL)]


@pytest.mark.spec("E1c")
def test_the_commands_of_the_guide_do_what_it_says(cli: Cli) -> None:
    first, second = _blocks("sh")
    ends: dict[str, int] = {}
    for line in (first + second).splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "holdfast"
        ends[" ".join(words[2:])] = cli.run(*words[1:]).code
        if words[2] == NAME and len(words) == 3 and "status=pending" in (cli.project / NAME).read_text():
            answer(cli.project / NAME, "approved")
            assert cli.run("chat", NAME).code == 0
    assert [words for words, code in ends.items() if code] == [], "after the approval nothing waits any more"


def _requests() -> list[str]:
    """Return every request to the operator in the guide."""
    prose = GUIDE.split("understands plain requests such as", 1)[1].split("For a model", 1)[0].replace("\n", " ")
    spans = [words for _, words in re.findall(r"(?<!`)(`+)(?!`) ?(.+?) ?(?<!`)\1(?!`)", prose)]
    shown = [words.group(1) for words in re.finditer(r"^@You:\n(\w.*)$", GUIDE, re.MULTILINE)]
    typed = [shlex.split(line, comments=True) for line in "".join(_blocks("sh")).splitlines()]
    return [*spans, *shown, *(words[words.index("-m") + 1] for words in typed if "-m" in words)]


@pytest.mark.spec("E1c")
def test_the_operator_understands_every_request_of_the_guide(cli: Cli) -> None:
    requests = _requests()
    assert len(requests) == 7 and "run `make test`" in requests, requests
    for number, words in enumerate(requests):
        document = start(cli, words, name=f"{number}.chat")
        done = cli.run("chat", document.name)
        assert done.code in (0, 4) and "**Tool Use:**" in document.read_text(), (words, done)


@pytest.mark.spec("E1c")
def test_the_exit_codes_of_the_guide_and_of_the_help_are_those_of_the_outcomes(cli: Cli) -> None:
    guide = re.findall(r"^\| (\d+) \| (.+) \|$", GUIDE, re.MULTILINE)
    told = cli.run("chat", "advance", "--help").out.split("Exit codes", 1)[1].split("Options:")[0]
    assert re.findall(r"^ +(\d+)  +(.+)$", told, re.MULTILINE) == guide
    kinds = [(int(code), text.partition(":")[0].split(", ")) for code, text in guide]
    codes = {kind: code for code, names in kinds for kind in names if kind in EXIT_CODES}
    assert codes == EXIT_CODES


@pytest.mark.spec("E1c")
def test_the_document_of_the_guide_is_one_and_is_approved_by_editing(cli: Cli) -> None:
    (text,) = _blocks("chat")
    parsed = Document.parse(text)
    assert [message.role for message in parsed.messages] == ["System", "You", "Assistant", "You"]
    assert parsed.frontmatter is not None and not parsed.diagnostics
    document = cli.project / NAME
    document.write_text(text)
    assert cli.run("chat", NAME).code == 4
    assert not (cli.project / "hello.txt").exists()
    answer(document, "approved")
    assert cli.run("chat", NAME).code == 0
    assert (cli.project / "hello.txt").read_text() == "hello"


@pytest.mark.spec("E1c")
def test_the_frontmatter_of_the_guide_is_understood(cli: Cli) -> None:
    (frontmatter,) = [block for block in _blocks("toml") if "max_turns" in block]
    (cli.project / NAME).write_text(f"```toml\n{frontmatter}```\n\n@You:\ncalculate 6 * 7\n")
    done = cli.run("chat", NAME)
    assert done.code == 0 and "42" in done.out, done


@pytest.mark.spec("E1c")
def test_the_guide_names_every_event_and_every_field_of_those_it_explains() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| (.+) \|$", GUIDE.split("## Events")[1], re.MULTILINE)
    fields = {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}
    tags = {kind.__struct_config__.tag: kind for kind in (*get_args(AgentEvent), *get_args(Event))}
    assert set(fields) == set(tags)
    for tag, kind in tags.items():
        if "what the pipeline reports about that call" in fields[str(tag)]:
            continue
        named = objects()["outcome"] if tag == "outcome" else [item.name for item in msgspec.structs.fields(kind)]
        assert all(f"`{name}`" in fields[str(tag)] or name == "event" for name in named), tag
