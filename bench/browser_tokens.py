"""Tokens that a model receives per browser step: holdfast and `@playwright/mcp` on the same 20 tasks.

    npm install --prefix bench/.envs/playwright-mcp @playwright/mcp
    .venv/bin/python bench/browser_tokens.py

Both use the system's Chromium on pages that this program serves on loopback. A step is one call: opening a page, a
click, typing, selecting. A token is counted as four bytes of the text of the result, the same for both. The results of
playwright-mcp name a file with the snapshot of the page, which the model has to read to know the outcome and the
references, so that file counts; without it, the result says only that the call was made.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402

from holdfast.tools.browser.chromium import find_chromium  # noqa: E402
from tests.tools.browser.browsing import Browsing, opened_browsing  # noqa: E402

PEER = ROOT / "bench/.envs/playwright-mcp/node_modules/.bin/playwright-mcp"
WORDS = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "tau",
)  # fmt: skip


class Step(NamedTuple):
    kind: str
    role: str = ""
    name: str = ""
    value: str = ""


def click(role: str, name: str) -> Step:
    return Step("click", role, name)


def put(name: str, value: str) -> Step:
    return Step("type", "textbox", name, value)


def select(name: str, value: str) -> Step:
    return Step("select", "combobox", name, value)


class Task(NamedTuple):
    name: str
    html: str
    steps: tuple[Step, ...]


def _menu(count: int) -> str:
    return "<nav><ul>" + "".join(f"<li><a href='#m{n}'>Section {n}</a></li>" for n in range(count)) + "</ul></nav>"


def _text(paragraphs: int) -> str:
    line = " ".join(WORDS)
    return "".join(f"<p>Paragraph {n}: {line}.</p>" for n in range(paragraphs))


def _table(rows: int, button: str = "Edit") -> str:
    body = "".join(
        f"<tr><td>Item {n}</td><td>{n * 7 % 100} EUR</td><td><button onclick=\"out.textContent='{button} {n}'\">"
        f"{button} {n}</button></td></tr>"
        for n in range(rows)
    )
    return f"<table><tr><th>Name</th><th>Price</th><th>Action</th></tr>{body}</table><p id=out></p>"


def _cards(count: int) -> str:
    return (
        "".join(
            f"<article><h3>Product {n}</h3><p>{' '.join(WORDS[: 6 + n % 6])}</p>"
            f"<a href='#p{n}'>Details {n}</a> "
            f"<button onclick=\"cart.textContent='Cart: {n}'\">Add {n}</button></article>"
            for n in range(count)
        )
        + "<p id=cart>Cart: empty</p>"
    )


FORM = (
    "<form onsubmit=\"event.preventDefault(); out.textContent = 'Saved'\">"
    + "".join(f"<label>Field {n} <input></label>" for n in range(12))
    + "<label>Country <select>" + "".join(f"<option>Country {n}</option>" for n in range(60)) + "</select></label>"
    "<label><input type=checkbox> Agree</label><button>Save</button></form><p id=out></p>"
)  # fmt: skip
TABS = (
    "<div role=tablist>" + "".join(
        f"<button role=tab onclick=\"document.querySelectorAll('section').forEach((s, i) => s.hidden = i !== {n})\">"
        f"Tab {n}</button>" for n in range(6)
    ) + "</div>" + "".join(f"<section {'hidden' if n else ''}><h2>Panel {n}</h2>{_text(8)}</section>" for n in range(6))
)  # fmt: skip
MODAL = (
    "<button onclick='d.showModal()'>Open dialog</button>" + _text(20)
    + "<dialog id=d><h2>Confirm</h2><p>Sure?</p><button onclick='d.close()'>Close</button></dialog>"
)  # fmt: skip
SEARCH = (
    "<input aria-label=Search oninput=\"document.querySelectorAll('li').forEach("
    "l => l.hidden = !l.textContent.includes(this.value))\"><ul>"
    + "".join(f"<li>{WORDS[n % 19]} {n}</li>" for n in range(120)) + "</ul>"
)  # fmt: skip
TODO = (
    "<input aria-label=Todo><button onclick=\"const l = document.createElement('li');"
    " l.textContent = document.querySelector('input').value; list.append(l)\">Add</button><ul id=list>"
    + "".join(f"<li><label><input type=checkbox> Task {n}</label></li>" for n in range(40)) + "</ul>"
)  # fmt: skip
COUNTER = "<button onclick='c.textContent = +c.textContent + 1'>More</button><p id=c>0</p>" + _menu(30) + _text(10)
ACCORDION = "".join(f"<details><summary>Question {n}</summary><p>{' '.join(WORDS)}</p></details>" for n in range(25))
LOGIN = (
    _menu(10) + "<form onsubmit=\"event.preventDefault(); document.body.insertAdjacentHTML('beforeend',"
    " '<p>Welcome</p>')\"><label>User <input></label><label>Password <input type=password></label>"
    "<button>Sign in</button></form>" + _text(5)
)  # fmt: skip
LIVE = (
    "<button onclick=\"feed.insertAdjacentHTML('afterbegin', '<li>New entry</li>')\">Refresh</button><ul id=feed>"
    + "".join(f"<li><a href='#{n}'>Headline {n} {' '.join(WORDS[:8])}</a> <i>{n} min ago</i></li>" for n in range(60))
    + "</ul>"
)  # fmt: skip
TASKS = (
    Task("form", FORM,
         (put("Field 0", "Ann"), put("Field 5", "x"), select("Country", "Country 7"), click("button", "Save"))),
    Task("form with menu", _menu(40) + FORM,
         (put("Field 3", "y"), click("checkbox", "Agree"), click("button", "Save"))),
    Task("long list", SEARCH, (put("Search", "gamma"), put("Search", "pi"))),
    Task("table of 20", _table(20), (click("button", "Edit 7"), click("button", "Edit 19"))),
    Task("table of 150", _table(150), (click("button", "Edit 70"), click("button", "Edit 140"))),
    Task("tabs", TABS, (click("tab", "Tab 3"), click("tab", "Tab 5"))),
    Task("dialog", MODAL, (click("button", "Open dialog"), click("button", "Close"))),
    Task("todo", TODO, (put("Todo", "milk"), click("button", "Add"), click("checkbox", "Task 3"))),
    Task("counter", COUNTER, (click("button", "More"), click("button", "More"), click("button", "More"))),
    Task("accordion", ACCORDION, (click("generic", "Question 3"), click("generic", "Question 20"))),
    Task("sign in", LOGIN, (put("User", "ann"), put("Password", "pw"), click("button", "Sign in"))),
    Task("feed", LIVE, (click("button", "Refresh"), click("button", "Refresh"))),
    Task("shop of 12", _cards(12), (click("button", "Add 3"), click("button", "Add 9"))),
    Task("shop of 60", _cards(60), (click("button", "Add 30"), click("button", "Add 59"))),
    Task("shop with menu", _menu(60) + _cards(30), (click("button", "Add 3"), click("link", "Details 20"))),
    Task("article", _menu(20) + _text(60) + "<button onclick=\"this.textContent='Liked'\">Like</button>",
         (click("button", "Like"),)),
    Task("settings", FORM + TABS, (click("tab", "Tab 2"), put("Field 1", "z"), click("button", "Save"))),
    Task("dashboard", _menu(25) + _table(40, "Open") + _text(10),
         (click("button", "Open 12"), click("button", "Open 30"))),
    Task("survey", "".join(f"<fieldset><legend>Q{n}</legend><label><input type=radio name=q{n}> Yes {n}</label>"
                           f"<label><input type=radio name=q{n}> No {n}</label></fieldset>" for n in range(20)),
         (click("radio", "Yes 3"), click("radio", "No 15"))),
    Task("wizard", "<button onclick=\"s.textContent = 'Step ' + (+s.textContent.slice(5) + 1)\">Next</button>"
         "<h2 id=s>Step 1</h2>" + FORM, (click("button", "Next"), click("button", "Next"), put("Field 2", "w"))),
)  # fmt: skip


def tokens(text: str) -> int:
    return round(len(text.encode()) / 4)


Open = Callable[[str], Awaitable[str]]
Do = Callable[[Step], Awaitable[str]]


async def measure(
    url: Callable[[str], str], serve: Callable[[str, str], None], open_page: Open, do: Do
) -> list[list[int]]:
    counted: list[list[int]] = []
    for number, task in enumerate(TASKS):
        serve(f"/task{number}", f"<title>{task.name}</title><h1>{task.name}</h1>{task.html}")
        counts = [tokens(await open_page(url(f"/task{number}")))]
        for step in task.steps:
            counts.append(tokens(await do(step)))
        counted.append(counts)
    return counted


async def measure_ours(browsing: Browsing) -> list[list[int]]:
    async def open_page(url: str) -> str:
        return await call("browser.navigate", url=url)

    async def do(step: Step) -> str:
        role = None if step.role == "generic" else step.role
        given = {"role": role, "name": step.name}
        if step.kind == "type":
            return await call("browser.type", **given, text=step.value)
        if step.kind == "select":
            return await call("browser.select", **given, values=[step.value])
        return await call("browser.click", **given)

    async def call(tool: str, **args: object) -> str:
        result = await browsing.acall(tool, **args)
        if not result.success:
            raise SystemExit(f"{tool} {args}: {result.error}")
        return result.text

    def serve(path: str, html: str) -> None:
        browsing.site.pages[path] = html

    return await measure(browsing.site.url, serve, open_page, do)


def _read(folder: str, name: str) -> str:
    return Path(folder, name).read_text(encoding="utf-8")


async def measure_peer(browsing: Browsing, bare: list[int]) -> list[list[int]]:
    """Count the tokens of each step; `bare` gets those without the snapshot files."""
    arguments = ["--headless", "--isolated", "--no-sandbox", "--executable-path", str(find_chromium())]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = StdioServerParameters(command=str(PEER), args=arguments, cwd=folder)
        read, write = await stack.enter_async_context(stdio_client(server))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()

        async def call(tool: str, **args: object) -> str:
            result = await session.call_tool(tool, args)
            text = "\n".join(str(getattr(part, "text", "")) for part in result.content)
            if getattr(result, "is_error", False) or text.startswith("### Error"):
                raise SystemExit(f"{tool} {args}: {text[:500]}")
            bare.append(tokens(text))
            named = re.search(r"\[Snapshot\]\((.+?)\)", text)
            return text if named is None else text + _read(folder, named[1])

        async def open_page(url: str) -> str:
            return await call("browser_navigate", url=url)

        async def do(step: Step) -> str:
            # The model would know the reference from the last snapshot; looking it up again is not counted.
            snapshot = await call("browser_snapshot")
            bare.pop()
            name = re.escape(step.name)
            found = re.search(rf'{step.role} "{name}"[^\n]*\[ref=(\w+)\]', snapshot)
            if found is None:
                raise SystemExit(f"no {step.role} {step.name} in\n{snapshot[:2000]}")
            given = {"element": f"{step.role} {step.name}", "ref": found[1], "target": found[1]}
            if step.kind == "type":
                return await call("browser_type", **given, text=step.value)
            if step.kind == "select":
                return await call("browser_select_option", **given, values=[step.value])
            return await call("browser_click", **given)

        def serve(path: str, html: str) -> None:
            browsing.site.pages[path] = html

        return await measure(lambda path: f"http://127.0.0.1:{browsing.site.port}{path}", serve, open_page, do)


def main() -> None:
    if not PEER.exists():
        raise SystemExit(f"Install the peer first: npm install --prefix {PEER.parents[2]} @playwright/mcp")
    with tempfile.TemporaryDirectory() as folder, opened_browsing(Path(folder)) as browsing:
        began = time.monotonic()
        ours = asyncio.run(measure_ours(browsing))
        middle = time.monotonic()
        bare: list[int] = []
        theirs = asyncio.run(measure_peer(browsing, bare))
        ended = time.monotonic()
    print(
        "| task | steps | holdfast: page | per action | playwright-mcp: page | per action |\n|---|---|---|---|---|---|"
    )
    for task, mine, other in zip(TASKS, ours, theirs, strict=True):
        row = (mine[0], round(statistics.mean(mine[1:])), other[0], round(statistics.mean(other[1:])))
        print(f"| {task.name} | {len(mine)} | {' | '.join(map(str, row))} |")
    flat = [[count for counts in side for count in counts] for side in (ours, theirs)]
    medians = [statistics.median(side) for side in flat]
    totals = [sum(side) for side in flat]
    print(f"\nMedian tokens per step: {medians[0]:g} and {medians[1]:g}, {medians[0] / medians[1]:.2f} of it.")
    print(f"All {len(flat[0])} steps: {totals[0]} and {totals[1]} tokens, {totals[0] / totals[1]:.2f} of it.")
    print(f"Without its snapshot files, the median of playwright-mcp is {statistics.median(bare):g}.")
    print(f"Seconds: {middle - began:.0f} and {ended - middle:.0f}.")


if __name__ == "__main__":
    main()
