"""References of elements, and pages that are hard to read."""

from __future__ import annotations

import pytest

from tests.tools.browser.browsing import Browsing, needs_chromium

pytestmark = needs_chromium


@pytest.mark.spec("B7b")
def test_references_are_stable_while_the_element_lives_and_never_reused(browsing: Browsing) -> None:
    def ref(name: str) -> str:
        return next(line.split()[0] for line in browsing.page().splitlines() if f'button "{name}"' in line)

    browsing.open("<button onclick=\"document.body.prepend(document.createElement('hr'))\">Keep</button>", "/one")
    first = ref("Keep")
    browsing.call("browser.click", ref=first)
    assert ref("Keep") == first
    browsing.open("<button>Other</button>", "/two")
    assert ref("Other") != first


def test_elements_inside_frames_can_be_acted_on(browsing: Browsing) -> None:
    browsing.site.pages["/inner"] = "<button onclick=\"this.textContent = 'Done'\">Inside</button>"
    browsing.open("<iframe src='/inner'></iframe>")
    assert 'button "Done"' in browsing.call("browser.click", name="Inside").output


def test_a_page_without_a_body_is_empty(browsing: Browsing) -> None:
    result = browsing.open("<script>location = 'http://other.test:PORT/'</script>")
    assert "The page wanted to go to" in result.output
    assert browsing.page() == ""
