"""History, live calls, policy and documents in a real browser: output as it is printed, undo, answers in place."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from holdfast import Answer
from tests.serve.browser.served import Served, needs_chromium, shell, write

pytestmark = [needs_chromium, pytest.mark.spec("E3")]

ROOT = Path(__file__).parents[3]
DOCUMENT = """@You:
Make it.

@Assistant:
Here.

**Tool Use:** `shell.exec` (`c1`)

```json
{"command": "touch made"}
```
"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_SMALL_TARGETS = """[...document.querySelectorAll('main :is(button, select, .button, input:not([type=hidden]))')]
  .filter((e) => e.offsetParent && e.getBoundingClientRect().height < 44 && !e.closest('label'))
  .map((e) => e.outerHTML)"""


def approve(served: Served, page: Page, call_id: str) -> None:
    """Approve by the card's own page, with two presses of its button."""
    page.goto(f"{served.url}/calls/{served.key}/{call_id}")
    button = page.locator("button.approve")
    expect(button).to_be_enabled()
    page.wait_for_timeout(700)  # the page accepts no answer to a card that has just appeared
    button.click()
    expect(page.locator(".card")).to_have_class("card done")


def document(served: Served) -> str:
    (served.folder / "plan.chat").write_text(DOCUMENT)
    return f"/documents/{served.key}?path=plan.chat"


def every_page(served: Served) -> list[str]:
    """Addresses of all pages, with a call on each that has one."""
    done, *_ = served.ask(write("a.txt"), shell("touch b"))
    served.answer(done, Answer(kind="respond", by="cli:ann", message="<b>It is there.</b>"))
    call = f"/history/{served.key}/{done}"
    explained = "/policy?tool=shell.exec&args=%7B%22command%22%3A%22ls%20%7C%20sh%22%7D"
    return ["/history", "/history?text=none", call, f"{call}/undo", "/live", explained, "/documents", document(served)]


@pytest.fixture
def uncontained(served: Served) -> Generator[None]:
    """Commands without a sandbox: where there is none, they would be refused."""
    config = served.folder.parent / "config/holdfast/config.toml"
    text = config.read_text()
    config.write_text(f'{text}[sandbox]\nmode = "off"\n')
    yield
    config.write_text(text)


@pytest.mark.usefixtures("uncontained")
def test_output_appears_as_it_is_printed_and_cancel_stops_the_call(served: Served) -> None:
    (call_id,) = served.ask(shell("touch x; for n in $(seq 1 200); do echo line $n; sleep 0.1; done"))
    page = served.open()
    approve(served, page, call_id)
    page.goto(f"{served.url}/live")
    output = page.locator("[data-output]")
    expect(output).to_contain_text("line 3")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.outerHTML")
    expect(output).to_contain_text("line 12")
    assert page.evaluate("document.activeElement.outerHTML") == focused
    other = served.open("/live")
    page.get_by_role("button", name="Cancel").click()
    expect(other.locator("[data-state]")).to_have_text("cancelled")
    expect(other.get_by_role("button", name="Cancel")).to_be_disabled()
    page.goto(f"{served.url}/live")
    expect(page.locator(".empty")).to_have_text("No call is running.")
    assert served.problems == []


@pytest.mark.usefixtures("uncontained")
def test_a_call_of_a_document_is_answered_in_place_and_the_document_goes_on(served: Served) -> None:
    page = served.open(document(served))
    page.get_by_role("button", name="Advance").click()
    with served.ledger() as ledger:
        before = len(ledger.calls())
    while page.locator(".card").count() == 0:
        page.reload()
    card = page.locator(".card")
    expect(card.locator("button.approve")).to_be_enabled()
    page.wait_for_timeout(700)  # as in `approve`
    card.locator("button.approve").click()
    expect(card).to_have_class("card done")
    again = page.get_by_role("button", name="Advance", exact=True)
    page.reload()
    while again.count() == 0:  # while it is still in use
        page.reload()
    again.click()
    expect(page.locator("h1")).to_have_text("plan.chat")
    while not (served.folder / "made").exists():
        page.wait_for_timeout(100)
    with served.ledger() as ledger:
        assert len(ledger.calls()) >= before


@pytest.mark.parametrize("scripted", [True, False])
def test_undo_by_the_page_puts_a_file_back(served: Served, scripted: bool) -> None:
    (served.folder / "a.txt").write_text("before\n")
    (call_id,) = served.ask(write("a.txt", "after\n"))
    approve(served, served.open(), call_id)
    page = served.open("/history", java_script_enabled=scripted)
    page.get_by_role("link", name="Undo the last change").click()
    expect(page.locator(".diff")).to_contain_text("before")
    page.get_by_role("button", name="Put back 1 path").click()
    expect(page.locator("h1")).to_contain_text("holdfast.undo")
    assert (served.folder / "a.txt").read_text() == "before\n"


def test_no_page_violates_the_policy_or_loads_anything_from_elsewhere(served: Served) -> None:
    page = served.open()
    for address in every_page(served):
        page.goto(f"{served.url}{address}")
        assert page.evaluate("window.violations ?? []") == [], address
    assert [url for url in served.requests if not url.startswith((served.url, "data:"))] == []
    assert served.problems == []


def test_every_page_fits_a_phone_with_targets_for_a_finger(served: Served) -> None:
    page = served.open(viewport={"width": 360, "height": 740}, has_touch=True)
    for address in every_page(served):
        page.goto(f"{served.url}{address}")
        assert page.evaluate(_OVERFLOW) <= 0, address
        assert page.locator(".top nav").evaluate("nav => nav.scrollWidth - nav.clientWidth") <= 0, address
        assert page.evaluate(_SMALL_TARGETS) == [], address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(served: Served, scheme: Literal["light", "dark"]) -> None:
    axe = next((ROOT / ".venv").glob("peers-*/node_modules/axe-core/axe.min.js"), None)
    if axe is None:
        pytest.skip("axe-core is not installed: make peers")
    page = served.open(bypass_csp=True, color_scheme=scheme, reduced_motion="reduce")
    for address in every_page(served):
        page.goto(f"{served.url}{address}")
        page.evaluate(axe.read_text())
        found = page.evaluate("axe.run()")["violations"]
        shown = [(item["id"], [(node["html"], node["failureSummary"]) for node in item["nodes"]]) for item in found]
        assert shown == [], address
