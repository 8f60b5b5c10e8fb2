"""`holdfast help`: the guide pages that are installed with holdfast."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.root import COMMANDS, json_option
from holdfast.json_output import TopicOutput
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

_PAGES: Final = Path(__file__).parent.parent / "topics"
"""Links to the pages in `docs/`; a wheel holds the pages themselves."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:([\w-]+)\.md)?(?:#[\w-]+)?\)")
_HEADING: Final = re.compile(r"(#+) +(.*)")


def topics() -> dict[str, Path]:
    return {path.stem: path for path in sorted(_PAGES.glob("*.md"))}


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in topics() if name.startswith(incomplete)]


@click.command()
@click.argument("topic", required=False, shell_complete=_complete)
@click.argument("section", nargs=-1)
@json_option
def help(topic: str | None, section: tuple[str, ...], as_json: bool) -> int:  # noqa: A001 - the name of the command
    """Read the guide; without TOPIC, list the topics.

    SECTION is a word of a heading. For the options of a command, use
    `holdfast COMMAND --help`.

    \b
    Example:
      holdfast help config
      holdfast help config sandbox
    """
    pages = topics()
    for name in pages if topic is None else (topic,):
        if name not in pages:
            raise UsageProblem(_unknown(name, pages))
        text = pages[name].read_text()
        title = text.partition("\n")[0].removeprefix("# ")
        if topic is not None:
            text = _section(name, text, " ".join(section)) if section else text
        if as_json:
            console.print_json(TopicOutput(topic=name, title=title, text="" if topic is None else text))
        elif topic is None:
            console.print_out(f"  {name:<12} {title}")
        else:
            _print(text)
    if topic is None and not as_json:
        console.print_err("Read one with `holdfast help TOPIC`.")
    elif topic in COMMANDS and not as_json:
        console.print_err(f"For the command's options, run `holdfast {topic} --help`.")
    return 0


def _unknown(name: str, pages: dict[str, Path]) -> str:
    if name in COMMANDS:
        return f"There is no topic '{name}'. For the command's options, run `holdfast {name} --help`."
    meant = did_you_mean(name, pages)
    hint = f"Did you mean '{meant}'?" if meant else f"Use one of: {', '.join(pages)}."
    return f"There is no topic '{escape(name)}'. {hint}"


def _section(topic: str, text: str, wanted: str) -> str:
    """Return the text from the first heading that contains `wanted` to the next heading of the same level."""
    lines = text.split("\n")
    rank, found, headings = 0, list[str](), list[str]()
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading and rank and len(heading[1]) <= rank:
            break
        if heading and not rank and len(heading[1]) > 1:
            headings.append(heading[2].replace("`", ""))
            rank = len(heading[1]) if wanted.lower() in headings[-1].lower() else 0
        if rank:
            found.append(line)
    if not found:
        raise UsageProblem(f"'{topic}' has no section '{escape(wanted)}'. It has: {', '.join(headings)}.")
    return "\n".join(found).rstrip("\n") + "\n"


def _print(text: str) -> None:
    """Print the Markdown as it is, with bold headings, and links replaced by the `holdfast help` command."""
    for line in text.rstrip("\n").split("\n"):
        if not line.startswith("<!--"):
            text = _LINK.sub(_replace_link, line)
            console.print_out(console.paint(text, "bold") if _HEADING.match(line) else text)


def _replace_link(link: re.Match[str]) -> str:
    return link[1] if link[2] is None or link[1] == link[2] else f"{link[1]} (`holdfast help {link[2]}`)"
