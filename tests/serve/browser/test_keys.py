"""The keys of the page: few of them decide many calls, and a hand that types blindly approves nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from holdfast import Answer
from tests.serve.browser.served import Served, needs_chromium, shell, write
from tests.soak import rounds

pytestmark = needs_chromium

QUIET_MS = 600
_RECORD = """
// What a bystander sees: when each card appeared, changed or gained focus, when keys went down, and what was sent.
window.seen = { times: new Map(), sent: [], keys: [] };
const at = (card, what) => {
  const times = seen.times.get(card) ?? {};
  times[what] = performance.now();
  seen.times.set(card, times);
};
addEventListener('DOMContentLoaded', () => {
  const list = document.querySelector('#list');
  if (!list) return;
  for (const card of list.children) at(card, 'appeared');
  new MutationObserver((changes) => {
    for (const { target, addedNodes, type, attributeName } of changes) {
      for (const node of addedNodes) if (node.matches?.('.card')) at(node, 'appeared');
      const element = target.closest ? target : target.parentElement;
      const card = element?.closest('.card');
      if (!card || element.closest('time, .said, .folds')) continue;
      if (type === 'attributes' ? attributeName === 'data-digest' : true) at(card, 'changed');
    }
  }).observe(list, { subtree: true, childList: true, characterData: true, attributes: true });
});
let before = null;
const moved = () => {
  const card = document.activeElement?.closest('.card') ?? null;
  if (card && card !== before) at(card, 'focused');
  before = card;
};
document.addEventListener('focusin', moved, true);
document.addEventListener('focusout', () => queueMicrotask(moved), true);
addEventListener('keydown', (event) => {
  const card = document.activeElement?.closest('.card');
  const times = (card && seen.times.get(card)) ?? {};
  const last = Math.max(times.appeared ?? 0, times.changed ?? 0, times.focused ?? 0);
  const typing = document.activeElement?.matches('textarea, input:not([type=checkbox]), select') ?? false;
  seen.key = { key: event.key, call: card?.dataset.call ?? null, quiet: event.timeStamp - last, typing };
}, true);
const { fetch } = window;
window.fetch = (address, options) => {
  if (options?.method === 'POST') seen.sent.push({ address: String(address), ...seen.key });
  return fetch(address, options);
};
"""


def _sent(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("seen.sent")


@pytest.mark.spec("E3i")
def test_random_keys_while_cards_arrive_approve_nothing_that_was_not_seen(served: Served) -> None:
    generator = random.Random(7)
    page = served.open(init=_RECORD, clock=True)
    keys = "jjjkoaaaaaerAA/ \n\t"
    waits = (0, 0, 0, 20, 200, 590, 700)
    names = (f"file-{number}.txt" for number in range(10**6))
    waiting: list[str] = []
    for number in range(rounds(200, 10_000)):
        if number % 25 == 0:
            waiting += served.ask(write(next(names)), shell(f"make {next(names)}"))
        if number % 40 == 20 and waiting:
            _disturb(served, waiting.pop(generator.randrange(len(waiting))), generator)
        key = generator.choice(keys)
        page.keyboard.press({" ": "Space", "\n": "Enter", "\t": "Escape"}.get(key, key))
        if wait := generator.choice(waits):
            page.clock.run_for(wait)
    sent = _sent(page)
    for item in sent:
        assert item["quiet"] >= QUIET_MS, item
        assert not item["typing"], item
        assert item["key"] in ("a", "A", " "), item
        assert f"/{item['call']}/" in item["address"], item  # no group was rendered, so the card names the call
    assert sent, "no key approved anything, so that nothing was tested"


def _disturb(served: Served, call_id: str, generator: random.Random) -> None:
    """Change or answer a call elsewhere, if it is still pending."""
    if call_id not in served.pending():
        return
    if generator.random() < 0.5:
        served.answer(call_id, Answer(kind="reject", by="cli:ben"))
    else:
        with served.ledger() as ledger:
            pending = ledger.find_pending(call_id)
        assert pending is not None
        name = "content" if "content" in pending.call.args else "command"
        served.edit(call_id, {**pending.call.args, name: f"{pending.call.args[name]} again"})


@pytest.mark.spec("E3i")
@pytest.mark.spec("E7")
def test_twenty_calls_of_six_shapes_are_decided_in_at_most_thirty_keys(served: Served) -> None:
    served.ask(
        *(write(f"part-{number}.txt") for number in range(10)),
        *(
            shell(f"{program} {number}")
            for program in ("make", "git push", "npm run", "cargo", "pip")
            for number in "12"
        ),
    )
    page = served.open(clock=True)
    expect(page.locator(".card")).to_have_count(11)
    pressed = 0

    def press(key: str) -> None:
        nonlocal pressed
        pressed += 1
        page.clock.run_for(QUIET_MS + 100)
        page.keyboard.press(key)

    press("j")
    while (left := page.locator(".card:not(.done)").count()) > 0:
        key = "A" if page.locator(".group:not(.done)").count() else "a"
        press(key)
        expect(page.locator(".card:focus .approve[data-armed]")).to_have_count(1)
        press(key)
        expect(page.locator(".card:not(.done)")).to_have_count(left - 1)
    assert served.pending() == []
    assert pressed <= 30


@pytest.mark.spec("E3i")
def test_enter_never_approves_and_space_needs_two_presses(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md"))
    page = served.open(clock=True)
    card = served.card(page, call_id)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    approve = card.locator(".approve")
    approve.focus()
    page.clock.run_for(1000)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(card.locator(".said")).to_contain_text("Enter never approves")
    page.keyboard.press("Space")
    expect(approve).to_have_attribute("data-armed", "")
    assert served.answers(call_id) == []
    page.keyboard.press("Space")
    expect(card.locator(".note")).to_contain_text("by page:")


@pytest.mark.spec("E3i")
def test_a_held_key_and_a_key_too_soon_approve_nothing(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md"))
    page = served.open(clock=True)
    card = served.card(page, call_id)
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(card.locator(".said")).to_have_count(0)  # too soon after the focus: not even opened
    page.clock.run_for(1000)
    for _ in range(5):
        page.keyboard.down("a")  # the same key again without a release is a repeat
    page.keyboard.up("a")
    expect(card.locator(".approve[data-armed]")).to_have_count(1)
    page.keyboard.press("a")
    expect(card.locator(".said")).to_contain_text("Too soon")
    assert served.answers(call_id) == []


@pytest.mark.spec("E3i")
def test_reject_takes_words_and_is_sent_with_control_enter(served: Served) -> None:
    call_id, other = served.ask(write("notes.md"), shell("make all"))
    page = served.open(clock=True)
    page.keyboard.press("j")
    page.clock.run_for(1000)
    page.keyboard.press("r")
    words = served.card(page, call_id).locator("textarea[name=message]")
    expect(words).to_be_focused()
    page.keyboard.type("aa jk not now")
    page.clock.run_for(1000)
    page.keyboard.press("Control+Enter")
    expect(served.card(page, call_id).locator(".note")).to_contain_text("rejected")
    expect(served.card(page, other)).to_be_focused()
    assert [answer.message for answer in served.answers(call_id)] == ["aa jk not now"]
    assert served.pending() == [other]


@pytest.mark.spec("E3i")
def test_keys_can_be_changed_and_stay_changed(served: Served) -> None:
    served.ask(shell("make one"), shell("ls two"))
    page = served.open()
    page.keyboard.press("?")
    page.locator("#key-next").fill("n")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.reload()
    page.keyboard.press("j")
    expect(page.locator(".card:focus")).to_have_count(0)
    page.keyboard.press("n")
    page.keyboard.press("n")
    expect(page.locator(".card:focus")).to_contain_text("ls two")
    page.keyboard.press("/")
    expect(page.locator("[data-filter]")).to_be_focused()


@pytest.mark.spec("E3i")
def test_a_click_that_meets_a_change_is_not_an_answer(served: Served) -> None:
    (call_id,) = served.ask(write("notes.md"))
    page = served.open(clock=True)
    card = served.card(page, call_id)
    card.locator("a.open").click()
    card.locator(".approve").click()
    expect(card.locator(".said")).to_contain_text("Too soon")
    page.clock.run_for(1000)
    card.locator(".approve").click()
    expect(card.locator(".note")).to_contain_text("by page:")
