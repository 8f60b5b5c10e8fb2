"""`browser.click`, `type` and `select`: what is shown is what is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from holdfast.contract.enums import Risk
from holdfast.contract.errors import GrantRefused
from holdfast.store.ledger import Ledger
from holdfast.tools.browser.actions import _check_secret_host  # pyright: ignore[reportPrivateUsage]
from holdfast.tools.browser.service import BrowserError
from tests.tools.browser.browsing import Browsing, needs_chromium

pytestmark = needs_chromium
SHOP = """<title>Shop</title><h1>Shop</h1>
<button onclick="out.textContent = 'paid'">Pay</button> <button>Cancel</button>
<form action="/done" method="post"><label>Name <input name="n"></label><button>Send</button></form>
<input type="password" aria-label="Password"><input aria-label="Card" autocomplete="cc-number">
<select aria-label="Colour"><option value="r">red</option><option value="b">blue</option></select>
<a href="/next?x=1">Next</a><p id="out"></p>"""
SECRET = "correct horse battery"


@pytest.fixture
def shop(browsing: Browsing, monkeypatch: pytest.MonkeyPatch) -> Browsing:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    browsing.config = {"secrets": {"shop": {"env": "SHOP_PASSWORD", "hosts": [f"shop.test:{browsing.site.port}"]}}}
    hosts = {"shop": [f"shop.test:{browsing.site.port}"]}
    browsing.browsers.settings = structs.replace(browsing.browsers.settings, secret_hosts=hosts)
    browsing.open(SHOP)
    browsing.asked.clear()
    return browsing


def proposed(browsing: Browsing) -> tuple[str, Risk]:
    proposal = browsing.asked[-1].proposal
    assert proposal is not None
    return proposal.summary, proposal.risk


@pytest.mark.spec("B7", "B7b")
def test_a_click_is_proposed_with_the_name_of_the_element_and_returns_only_what_changed(shop: Browsing) -> None:
    result = shop.call("browser.click", role="button", name="Pay")
    assert proposed(shop) == (f"click button «Pay» on shop.test:{shop.site.port}", Risk.MEDIUM)
    assert result.output.splitlines()[:2] == ["Clicked button «Pay».", "Changed lines:"]
    assert '+"paid"' in result.output
    assert "Cancel" not in result.output


@pytest.mark.spec("B7b")
def test_an_element_can_be_clicked_by_its_reference(shop: Browsing) -> None:
    line = next(line for line in shop.page().splitlines() if 'button "Pay"' in line)
    assert "paid" in shop.call("browser.click", ref=line.split()[0]).output


def test_a_submitting_click_and_sensitive_fields_are_high_risk_by_their_type(shop: Browsing) -> None:
    shop.call("browser.type", name="Password", text="x1")
    assert proposed(shop) == (f"type «x1» into textbox «Password» on shop.test:{shop.site.port}", Risk.HIGH)
    shop.call("browser.type", name="Card", text="4111")
    assert proposed(shop)[1] is Risk.HIGH
    shop.call("browser.type", name="Name", text="Ann")
    assert proposed(shop) == (f"type «Ann» into textbox «Name» on shop.test:{shop.site.port}", Risk.MEDIUM)
    shop.site.pages["/done"] = "<h1>Thanks</h1>"
    result = shop.call("browser.click", role="button", name="Send")
    assert proposed(shop)[1] is Risk.HIGH
    assert 'h1 "Thanks"' in result.output
    assert shop.site.requests[-1] == "POST shop.test/done"


def test_the_preview_says_where_a_link_leads(shop: Browsing) -> None:
    shop.site.pages["/next"] = "<h1>Next page</h1>"
    result = shop.call("browser.click", role="link", name="Next")
    proposal = shop.asked[-1].proposal
    assert proposal is not None
    assert f"The link leads to {shop.site.url('/next?x=1')}" in proposal.preview
    assert 'h1 "Next page"' in result.output


@pytest.mark.spec("B7a")
def test_options_are_selected_by_label_and_unknown_ones_are_listed(shop: Browsing) -> None:
    result = shop.call("browser.select", name="Colour", values=["blue"])
    assert '= "blue"' in result.output
    wrong = shop.call("browser.select", name="Colour", values=["green"])
    assert wrong.error == "There is no option «green». Options: «red», «blue»."


@pytest.mark.spec("B7b")
def test_a_change_between_the_question_and_the_answer_makes_the_call_stale(shop: Browsing) -> None:
    rename = "document.querySelectorAll('button')[1].textContent = 'Transfer'"
    shop.open(SHOP.replace("</h1>", f'</h1><button onclick="{rename}">Rename</button>'))
    # The element is renamed by another call while the first one waits for its answer.
    renamed: list[Any] = []

    def rename_meanwhile() -> None:
        shop.before_answer = None
        renamed.append(shop.call("browser.click", name="Rename"))

    shop.before_answer = rename_meanwhile
    result = shop.call("browser.click", role="button", name="Pay")
    assert renamed[0].success
    assert not result.success
    assert "paid" not in shop.page()


@pytest.mark.spec("B7b")
def test_a_stale_reference_names_what_it_was_and_the_closest_elements(shop: Browsing) -> None:
    line = next(line for line in shop.page().splitlines() if 'button "Pay"' in line)
    ref = line.split()[0]
    shop.open("<button>Pay later</button>", "/other")
    result = shop.call("browser.click", ref=ref)
    assert result.error is not None
    assert result.error.startswith(f"{ref} (button «Pay») is no longer on the page. Closest: ")
    assert "button «Pay later»" in result.error


def test_ambiguous_and_unknown_names_are_explained(shop: Browsing) -> None:
    shop.open("<button>Add</button><button>Add</button>", "/two")
    result = shop.call("browser.click", name="Add")
    assert result.error is not None
    assert result.error.startswith("2 elements match «Add»: ")
    assert shop.call("browser.click", label="x").error == "Name the element: by ref, or by role and name."
    missing = shop.call("browser.click", role="button", name="Pay").error
    assert missing is not None
    assert missing.startswith("There is no button «Pay» on the page.")


@pytest.mark.spec("B7e")
def test_a_secret_is_typed_into_its_host_and_reaches_neither_model_nor_ledger(shop: Browsing) -> None:
    with Ledger.open(shop.folder / "secrets.db") as ledger:

        async def type_and_read() -> str:
            async with shop.runtime(ledger) as runtime:
                typed = await runtime.call("browser.type", {"name": "Password", "text": "${secret:shop}"})
                assert typed.success, typed.error
                assert "••••" in typed.output
                page = await runtime.call("browser.text", {})
                plain = await runtime.call("browser.type", {"name": "Name", "text": "${secret:shop}"})
                return f"{typed}{page}{plain}"

        seen = asyncio.run(type_and_read())
    assert SECRET not in seen
    assert SECRET not in str(shop.asked)
    assert SECRET.encode() not in (shop.folder / "secrets.db").read_bytes()
    shop.site.pages["/done"] = "<h1>Thanks</h1>"
    shop.call("browser.click", role="button", name="Send")
    assert shop.site.requests[-1] == "POST shop.test/done"


@pytest.mark.spec("B7e")
def test_a_secret_is_not_typed_into_a_host_that_it_is_not_bound_to(shop: Browsing) -> None:
    shop.open("<input aria-label=Password>", "/phish", host="other.test")
    shop.asked.clear()
    result = shop.call("browser.type", name="Password", text="${secret:shop}")
    assert result.error is not None
    assert result.error.startswith(f"The secret 'shop' may not be typed into pages of other.test:{shop.site.port}.")
    assert shop.asked == []


@pytest.mark.spec("B7e")
def test_a_secret_is_not_typed_into_a_frame_of_another_host(shop: Browsing) -> None:
    shop.site.pages["/frame"] = "<input aria-label=Pass>"
    shop.open("<h1>Approved</h1>", "/other", host="other.test")
    shop.open("<iframe src='http://other.test:PORT/frame'></iframe>", "/around")
    shop.asked.clear()
    result = shop.call("browser.type", name="Pass", text="${secret:shop}")
    assert result.error is not None
    assert result.error.startswith(f"The secret 'shop' may not be typed into pages of other.test:{shop.site.port}")
    assert shop.asked == []
    shop.call("browser.type", name="Pass", text="plain")
    proposal = shop.asked[-1].proposal
    assert proposal is not None
    port = shop.site.port
    assert proposal.summary == (f"type «plain» into textbox «Pass» in a frame of other.test:{port} on shop.test:{port}")
    assert f"in the frame {shop.site.url('/frame', 'other.test')}\n" in proposal.preview


@pytest.mark.spec("B7e")
def test_a_secret_is_typed_into_a_frame_of_its_own_host_but_not_of_a_page_around_it(shop: Browsing) -> None:
    shop.site.pages["/frame"] = "<input aria-label=Pass>"
    shop.open("<iframe src='/frame'></iframe><iframe srcdoc='<input aria-label=Inner>'></iframe>", "/around")
    for name in ("Pass", "Inner"):
        assert shop.call("browser.type", name=name, text="${secret:shop}").success
    shop.open("<iframe src='http://shop.test:PORT/frame'></iframe>", "/around", host="other.test")
    result = shop.call("browser.type", name="Pass", text="${secret:shop}")
    assert result.error is not None
    assert f"pages of other.test:{shop.site.port}" in result.error


@pytest.mark.spec("B7b", "B7e")
@pytest.mark.parametrize("host", ["shop.test", "other.test"])
def test_a_secret_is_not_typed_into_a_frame_that_was_replaced_while_the_call_waited(shop: Browsing, host: str) -> None:
    shop.site.pages["/frame"] = "<input aria-label=Pass>"
    shop.open("<h1>Approved</h1>", "/other", host="other.test")
    swap = f"document.querySelector('iframe').src = 'http://{host}:PORT/frame'"
    shop.open(f'<iframe src="/frame"></iframe><button onclick="{swap}">Swap</button>', "/around")

    def swap_meanwhile() -> None:
        shop.before_answer = None
        assert shop.call("browser.click", name="Swap").success

    shop.before_answer = swap_meanwhile
    result = shop.call("browser.type", name="Pass", text="${secret:shop}")
    # A new question for the same host, and none for the other one.
    questions = [pending.summary for pending in shop.asked if pending.summary.startswith("type")]
    assert (len(questions), result.success) == ((2, True) if host == "shop.test" else (1, False))


@pytest.mark.spec("B7e")
def test_a_secret_is_typed_over_http_only_if_its_entry_names_the_port() -> None:
    _check_secret_host("bank", ["bank.example"], "https://bank.example/login")
    _check_secret_host("bank", ["bank.example:80"], "http://bank.example/login")
    _check_secret_host("bank", ["*.bank.example:8080"], "http://www.bank.example:8080/")
    with pytest.raises(BrowserError, match=r'over http, which is not encrypted\. To allow it, add "bank\.example:80"'):
        _check_secret_host("bank", ["bank.example"], "http://bank.example/login")
    for url in ("data:text/html,x", "blob:https://bank.example/1", "http://["):
        with pytest.raises(BrowserError, match="may not be typed"):
            _check_secret_host("bank", ["bank.example"], url)


def test_odd_addresses_and_links_of_pages_do_not_hinder_clicks(shop: Browsing) -> None:
    shop.site.pages["/q"] = "<a href='http://['>broken</a>"
    assert shop.call("browser.navigate", url=shop.site.url("/q")).success
    long = "/q?filter={a}|b^[c]&pad=" + "x" * 9000
    shop.open(f"<script>location = '{long}'</script>", "/start")
    assert shop.call("browser.wait", text="broken", seconds=30).success
    result = shop.call("browser.click", name="broken")
    assert result.success, result.error
    assert proposed(shop)[0] == f"click link «broken» on shop.test:{shop.site.port}"


@pytest.mark.spec("B7b")
def test_the_preview_shows_all_that_is_typed_and_selected(shop: Browsing) -> None:
    shop.call("browser.type", name="Password", text="user ${secret:shop}")
    assert proposed(shop)[0].startswith("type «user ${secret:shop}» into")
    long, values = "x" * 3000 + "end", [f"value {number}" for number in range(50)]
    shop.call("browser.type", name="Name", text=long)
    shop.call("browser.select", name="Colour", values=values)
    typed, selected = (pending.proposal for pending in shop.asked[-2:])
    assert typed is not None
    assert selected is not None
    assert f"«{long}»" in typed.preview
    assert typed.summary.startswith(f"type «{'x' * 500}…(+2,503 characters)» into")
    assert ", ".join(f"«{value}»" for value in values) in selected.preview
    assert "«value 19» and 30 more in" in selected.summary


@pytest.mark.spec("B7b")
def test_a_name_cannot_end_its_quotation(shop: Browsing) -> None:
    shop.open("<button aria-label='Close» on bank.example «x'>x</button>", "/odd")
    shop.call("browser.click", role="button")
    assert proposed(shop)[0].startswith("click button «Close‹\\xbb› on bank.example ‹\\xab›x» on shop.test")


def test_what_is_inside_a_submitting_button_submits_too(shop: Browsing) -> None:
    shop.open(
        "<form action=/done method=post><button id=b><img alt='Pay now' width=40 height=40></button></form>"
        "<label for=b><em>Pay too</em></label>",
        "/inner",
    )
    for name in ("Pay now", "Pay too"):
        asyncio.run(_propose_only(shop, name))
        proposal = shop.asked[-1].proposal
        assert proposal is not None
        assert "This submits a form." in proposal.preview
        assert proposal.risk is Risk.HIGH


async def _propose_only(shop: Browsing, name: str) -> None:
    async with shop.runtime() as runtime:
        role = "img" if name == "Pay now" else None
        await runtime.call("browser.click", {"role": role, "name": name})
    await shop.session.navigate(shop.site.url("/inner"), f"shop.test:{shop.site.port}")


@pytest.mark.spec("B7e")
def test_a_short_secret_stays_hidden_when_the_page_replaces_the_field(
    shop: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "4711")
    replace = "outerHTML = '<input aria-label=Other value=' + this.value + '>'"
    shop.open(f'<input aria-label=Pin oninput="this.{replace}">', "/pin")
    result = shop.call("browser.type", name="Pin", text="${secret:shop}")
    assert result.success, result.error
    assert 'textbox "Other" = "••••"' in result.output
    assert "4711" not in result.output


@pytest.mark.spec("B7e")
def test_a_secret_that_the_caller_does_not_have_is_refused(shop: Browsing) -> None:
    result = shop.call("browser.type", name="Password", text="${secret:bank}")
    assert result.error == "Tool 'browser.type' needs the secret 'bank', which this caller has not been granted."


@pytest.mark.spec("B7b")
def test_an_approval_of_an_action_is_never_remembered(shop: Browsing) -> None:
    async def grant() -> None:
        with Ledger.open(shop.folder / "grants.db") as ledger:
            async with shop.runtime(ledger) as runtime:
                await runtime.call("browser.click", {"name": "Cancel"})
                await runtime.allow(shop.asked[-1], "session")

    with pytest.raises(GrantRefused, match="depends on more than its arguments"):
        asyncio.run(grant())


def test_names_in_previews_show_control_and_direction_characters(shop: Browsing) -> None:
    shop.open("<button aria-label='Pay \u202e01$\u001b[2J'>x</button>", "/odd")
    shop.call("browser.click", role="button")
    assert proposed(shop)[0].startswith("click button «Pay ‹\\u{202e}›01$‹\\x1b›[2J»")
