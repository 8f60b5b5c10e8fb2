"""Ways to make a web tool or a browser reach what is not public (SSRF). Every one must fail.

`case.prepare(site)` puts the pages and DNS answers of a case in place, and returns the URL to open. Afterwards
`site.hits` must be empty. `kind` says through which way a case makes sense, and how it ends:

| kind | through | opening the URL |
|---|---|---|
| `url` | fetch, browser, gateway | is refused: the URL itself leads to a forbidden place |
| `scheme` | fetch, browser | is refused: only http and https are opened |
| `redirect` | fetch, browser | is refused at one of the redirects |
| `refresh` | fetch, browser | succeeds with the first page; a browser tries to go on and is refused |
| `page` | browser | succeeds with the page; what the page loads is refused |

In URLs and pages, PORT is the port of the site and its canaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.net.dns_server import Answers
from tests.net.public_site import SECURE_SITE, SITE, Page, PublicSite

Kind = Literal["url", "scheme", "redirect", "refresh", "page"]
_HTML: Final = ("Content-Type", "text/html; charset=utf-8")
_SCRIPT: Final = ("Content-Type", "text/javascript")


@dataclass(frozen=True)
class SsrfCase:
    name: str
    kind: Kind
    url: str = ""
    """The URL to open; by default `/case` of the site."""
    pages: Mapping[str, Page] = field(default_factory=dict[str, Page])
    names: Mapping[str, Answers] = field(default_factory=dict[str, Answers])
    """Answers of the DNS server."""
    alternating: bool = False
    """Whether the answers of `names` repeat in turn."""
    action: Literal["click"] | None = None
    """What a person does on the page, on the element with the id `go`."""

    def prepare(self, site: PublicSite) -> str:
        def placed(text: str) -> str:
            return text.replace("PORT", str(site.port))

        site.reset()
        for path, page in self.pages.items():
            body = placed(page.body) if isinstance(page.body, str) else page.body
            headers = tuple((name, placed(value)) for name, value in page.headers)
            site.pages[path] = Page(body, page.status, headers)
        site.dns.answers.update(self.names)
        if self.alternating:
            site.dns.cycle.update(self.names)
        return placed(self.url) if self.url else site.url("/case")


_LITERALS: Final = {
    "loopback": "127.0.0.1",
    "loopback, another address": "127.9.9.9",
    "loopback, trailing dot": "127.0.0.1.",
    "loopback, decimal": "2130706433",
    "loopback, octal": "0177.0.0.1",
    "loopback, octal number": "017700000001",
    "loopback, hexadecimal": "0x7f000001",
    "loopback, hexadecimal parts": "0x7f.0x0.0x0.0x1",
    "loopback, mixed bases": "0x7f.0.0.01",
    "loopback, two parts": "127.1",
    "loopback, three parts": "127.0.1",
    "loopback, padded": "127.000.000.001",
    "loopback, full-width digits": "１２７.０.０.１",
    "loopback, ideographic full stops": "127。0。0。1",
    "loopback, half-width full stops": "127｡0｡0｡1",
    "loopback, enclosed digits": "①②⑦.⓪.⓪.①",
    "loopback, percent-encoded": "%31%32%37.0.0.1",
    "loopback, percent-encoded dots": "127%2E0%2E0%2E1",
    "loopback, overflowing number": "4425097729",
    "unspecified": "0.0.0.0",
    "unspecified, short": "0",
    "unspecified network": "0.1.2.3",
    "IPv6 loopback": "[::1]",
    "IPv6 loopback, full": "[0:0:0:0:0:0:0:1]",
    "IPv6 loopback, zone": "[::1%25lo]",
    "IPv6 unspecified": "[::]",
    "IPv6 mapped loopback": "[::ffff:127.0.0.1]",
    "IPv6 mapped loopback, hexadecimal": "[::ffff:7f00:1]",
    "IPv6 mapped loopback, full": "[0:0:0:0:0:ffff:7f00:0001]",
    "IPv6 compatible loopback": "[::127.0.0.1]",
    "IPv6 translated loopback": "[::ffff:0:127.0.0.1]",
    "IPv6 NAT64 loopback": "[64:ff9b::7f00:1]",
    "IPv6 local NAT64 loopback": "[64:ff9b:1::7f00:1]",
    "IPv6 6to4 loopback": "[2002:7f00:1::]",
    "IPv6 Teredo with loopback client": "[2001:0:808:808:0:0:80ff:fffe]",
    "IPv6 Teredo with loopback server": "[2001:0:7f00:1::f7f7:f7f7]",
    "IPv6 ISATAP loopback": "[2606:4700::5efe:7f00:1]",
    "IPv6 link-local": "[fe80::1]",
    "IPv6 link-local, zone": "[fe80::1%25eth0]",
    "IPv6 site-local": "[fec0::1]",
    "IPv6 unique local": "[fd12:3456:789a::1]",
    "IPv6 multicast": "[ff02::1]",
    "IPv6 documentation": "[2001:db8::1]",
    "IPv6 discard": "[100::1]",
    "private, 10": "10.0.0.1",
    "private, 172.16": "172.16.0.1",
    "private, 172.31": "172.31.255.254",
    "private, 192.168": "192.168.0.1",
    "private, decimal": "167772161",
    "private, mapped": "[::ffff:10.0.0.1]",
    "link-local": "169.254.1.1",
    "container metadata": "169.254.170.2",
    "carrier-grade NAT": "100.64.0.1",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "reserved": "240.0.0.1",
    "benchmarking": "198.18.0.1",
    "documentation": "192.0.2.1",
    "protocol assignments": "192.0.0.8",
    "cloud metadata": "169.254.169.254",
    "cloud metadata, decimal": "2852039166",
    "cloud metadata, hexadecimal": "0xa9fea9fe",
    "cloud metadata, octal": "0251.0376.0251.0376",
    "cloud metadata, mapped": "[::ffff:a9fe:a9fe]",
    "cloud metadata, NAT64": "[64:ff9b::a9fe:a9fe]",
    "cloud metadata, 6to4": "[2002:a9fe:a9fe::]",
    "Amazon metadata, IPv6": "[fd00:ec2::254]",
    "Azure wire server": "168.63.129.16",
    "Azure wire server, decimal": "2822734096",
    "Alibaba metadata": "100.100.100.200",
    "Oracle metadata": "192.0.0.192",
    "Google metadata, IPv6": "[fd20:ce::254]",
}  # fmt: skip

_HERE: Final = [["127.0.0.1"]]
_NAMES: Final[dict[str, tuple[str, Mapping[str, Answers]]]] = {
    "localhost": ("localhost", {"localhost": _HERE}),
    "localhost, upper case": ("LOCALHOST", {"localhost": _HERE}),
    "localhost, trailing dot": ("localhost.", {"localhost": _HERE}),
    "below localhost": ("app.localhost", {"app.localhost": _HERE}),
    "localhost, circled letters": ("ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", {"localhost": _HERE}),
    "localhost, soft hyphen": ("local\u00adhost", {"localhost": _HERE}),
    "IPv6 localhost": ("ip6-localhost", {"ip6-localhost": [["::1"]]}),
    "name with its address": ("127.0.0.1.nip.test", {}),
    "name with a private address in it": ("app.10.0.0.1.nip.test", {}),
    "name with a metadata address in it": ("169.254.169.254.nip.test", {}),
    "name of a metadata service": ("metadata.google.internal", {"metadata.google.internal": [["169.254.169.254"]]}),
    "name with a loopback address": ("inside.test", {"inside.test": _HERE}),
    "name with the IPv6 loopback address": ("inside6.test", {"inside6.test": [["::1"]]}),
    "name with a mapped address": ("mapped.test", {"mapped.test": [["::ffff:127.0.0.1"]]}),
    "name with a NAT64 address": ("nat64.test", {"nat64.test": [["64:ff9b::7f00:1"]]}),
    "name with the unspecified address": ("zero.test", {"zero.test": [["0.0.0.0"]]}),
    "name with a public and a private address": ("both.test", {"both.test": [[SITE, "127.0.0.1"]]}),
    "name with a private and a public address": ("both2.test", {"both2.test": [["10.0.0.1", SITE]]}),
    "name with a public IPv4 and a private IPv6 address": ("dual.test", {"dual.test": [[SITE, "::1"]]}),
    "alias of a private name": ("alias.test", {"alias.test": [["CNAME inside.test"]], "inside.test": _HERE}),
    "alias of an alias": (
        "far.test",
        {"far.test": [["CNAME near.test"]], "near.test": [["CNAME inside.test"]], "inside.test": _HERE},
    ),
    "alias of localhost": ("alias2.test", {"alias2.test": [["CNAME localhost"]], "localhost": _HERE}),
    "IDN name with a loopback address": ("bücher.test", {"xn--bcher-kva.test": _HERE}),
    "IDN look-alike of the site": ("ѕite.test", {"xn--ite-ehd.test": _HERE}),
}

_URLS: Final = {
    "user name that looks like the site": "http://site.test@127.0.0.1:PORT/",
    "user name and password that look like the site": "http://site.test:80@127.0.0.1:PORT/",
    "encoded at sign": "http://site.test%40127.0.0.1:PORT/",
    "fragment with an at sign": "http://127.0.0.1:PORT#@site.test/",
    "query with an at sign": "http://127.0.0.1:PORT?@site.test/",
    "backslash before an at sign": "http://127.0.0.1:PORT\\@site.test:PORT/",
    "backslashes instead of slashes": "http:\\\\127.0.0.1:PORT\\",
    "many slashes": "http:////127.0.0.1:PORT/",
    "tab in the host": "http://127.0.\t0.1:PORT/",
    "line break in the host": "http://127.0.0.1\n:PORT/",
    "carriage return in the scheme": "ht\rtp://127.0.0.1:PORT/",
    "space before the URL": " http://127.0.0.1:PORT/",
    "two ports": "http://127.0.0.1:PORT:80/",
    "two at signs": "http://a@site.test@127.0.0.1:PORT/",
    "empty host": "http:///127.0.0.1:PORT/",
    "https": "https://127.0.0.1:PORT/",
}

_SCHEMES: Final = {
    "file": "file:///etc/passwd",
    "file with a host": "file://localhost/etc/passwd",
    "ftp": "ftp://127.0.0.1:PORT/",
    "gopher": "gopher://127.0.0.1:PORT/_GET%20/",
    "dict": "dict://127.0.0.1:PORT/info",
    "data": "data:text/html,<img src='http://127.0.0.1:PORT/'>",
    "javascript": "javascript:fetch('http://127.0.0.1:PORT/')",
    "view-source": "view-source:http://127.0.0.1:PORT/",
    "view-source of a file": "view-source:file:///etc/passwd",
    "blob": "blob:http://127.0.0.1:PORT/3e8a1b1c-0000-4000-8000-000000000000",
    "about": "about:version",
    "chrome": "chrome://version",
    "devtools": "devtools://devtools/bundled/inspector.html?ws=127.0.0.1:PORT",
    "filesystem": "filesystem:http://127.0.0.1:PORT/temporary/a",
    "WebSocket": "ws://127.0.0.1:PORT/",
    "jar": "jar:http://127.0.0.1:PORT/a.jar!/",
    "LDAP": "ldap://127.0.0.1:PORT/",
    "no scheme": "127.0.0.1:PORT/",
    "no scheme with slashes": "//127.0.0.1:PORT/",
}

_CANARY: Final = "http://127.0.0.1:PORT/"
_METADATA: Final = "http://169.254.169.254/latest/meta-data/"


def _redirect(target: str, status: int = 302) -> Page:
    return Page("", status, (("Location", target), _HTML))


def _redirects() -> Iterator[SsrfCase]:
    for status in (301, 302, 303, 307, 308):
        yield SsrfCase(f"redirect {status} to loopback", "redirect", pages={"/case": _redirect(_CANARY, status)})
    for name, target in {
        "loopback, decimal": "http://2130706433:PORT/",
        "IPv6 loopback": "http://[::1]:PORT/",
        "mapped loopback": "http://[::ffff:127.0.0.1]:PORT/",
        "localhost": "http://localhost:PORT/",
        "cloud metadata": _METADATA,
        "the Azure wire server": "http://168.63.129.16/machine?comp=goalstate",
        "a private address": "http://10.0.0.1/",
        "a private name": "http://inside.test:PORT/",
        "loopback without a scheme": "//127.0.0.1:PORT/",
        "loopback with backslashes": "\\\\127.0.0.1:PORT\\",
        "loopback with a user name": "http://site.test@127.0.0.1:PORT/",
        "https on loopback": "https://127.0.0.1:PORT/",
        "a file": "file:///etc/passwd",
        "ftp": "ftp://127.0.0.1:PORT/",
        "gopher": "gopher://127.0.0.1:PORT/_GET",
        "data": "data:text/html,<img src='http://127.0.0.1:PORT/'>",
        "javascript": "javascript:fetch('http://127.0.0.1:PORT/')",
        "view-source": "view-source:http://127.0.0.1:PORT/",
        "about": "about:version",
        "chrome": "chrome://version",
    }.items():
        names = {"inside.test": _HERE, "localhost": _HERE}
        yield SsrfCase(f"redirect to {name}", "redirect", pages={"/case": _redirect(target)}, names=names)
    hops = {f"/{number}": _redirect(f"/{number + 1}") for number in range(1, 11)}
    yield SsrfCase(
        "redirect after redirects", "redirect", pages={"/case": _redirect("/9"), **hops, "/11": _redirect(_CANARY)}
    )
    yield SsrfCase(
        "redirects to one more than the limit, then loopback",
        "redirect",
        pages={"/case": _redirect("/1"), **hops, "/11": _redirect(_CANARY)},
    )
    yield SsrfCase("redirect loop", "redirect", pages={"/case": _redirect("/back"), "/back": _redirect("/case")})
    yield SsrfCase(
        "redirect to another site, then to loopback",
        "redirect",
        pages={"/case": _redirect("http://other.test:PORT/next"), "/next": _redirect(_CANARY)},
    )
    yield SsrfCase(
        "rebinding between two requests",
        "redirect",
        url="http://rebind.test:PORT/case",
        pages={"/case": _redirect("/next"), "/next": _redirect("/third"), "/third": _redirect("/case")},
        names={"rebind.test": [[SITE], ["127.0.0.1"]]},
    )
    yield SsrfCase(
        "rebinding with both families",
        "redirect",
        url="http://rebind6.test:PORT/case",
        pages={"/case": _redirect("/next"), "/next": _redirect("/third"), "/third": _redirect("/case")},
        names={"rebind6.test": [[SITE], ["::1"]]},
    )
    yield SsrfCase(
        "alternating answers, public first",
        "redirect",
        url="http://turns.test:PORT/case",
        pages={"/case": _redirect("/next"), "/next": _redirect("/third"), "/third": _redirect("/case")},
        names={"turns.test": [[SITE], ["127.0.0.1"]]},
        alternating=True,
    )
    yield SsrfCase(
        "rebinding to metadata",
        "redirect",
        url="http://rebind-metadata.test:PORT/case",
        pages={"/case": _redirect("/next"), "/next": _redirect("/third"), "/third": _redirect("/case")},
        names={"rebind-metadata.test": [[SITE], ["169.254.169.254"]]},
    )


def _refreshes() -> Iterator[SsrfCase]:
    for name, target in {"loopback": _CANARY, "cloud metadata": _METADATA, "a file": "file:///etc/passwd"}.items():
        header = Page("<p>first</p>", 200, (("Refresh", f"0; url={target}"), _HTML))
        yield SsrfCase(f"Refresh header to {name}", "refresh", pages={"/case": header})
        meta = Page(f"<meta http-equiv=refresh content='0; url={target}'><p>first</p>")
        yield SsrfCase(f"meta refresh to {name}", "refresh", pages={"/case": meta})
    yield SsrfCase(
        "meta refresh to another site, then redirect",
        "refresh",
        pages={
            "/case": Page("<meta http-equiv=refresh content='0; url=http://other.test:PORT/next'><p>first</p>"),
            "/next": _redirect(_CANARY),
        },
    )


_WORKER: Final = (
    "self.addEventListener('install', e => e.waitUntil(fetch('http://127.0.0.1:PORT/', {mode: 'no-cors'})))"
)
_PAGES: Final = {
    "image": "<img src='http://127.0.0.1:PORT/'>",
    "image of a metadata service": f"<img src='{_METADATA}'>",
    "image without a scheme": "<img src='//127.0.0.1:PORT/'>",
    "script": "<script src='http://127.0.0.1:PORT/'></script>",
    "style sheet": "<link rel=stylesheet href='http://127.0.0.1:PORT/'>",
    "style sheet import": "<style>@import url(http://127.0.0.1:PORT/);</style>",
    "font": "<style>@font-face{font-family:x;src:url(http://127.0.0.1:PORT/)}p{font-family:x}</style><p>text</p>",
    "icon": "<link rel=icon href='http://127.0.0.1:PORT/'>",
    "prefetch": "<link rel=prefetch href='http://127.0.0.1:PORT/'>",
    "preconnect": "<link rel=preconnect href='http://127.0.0.1:PORT/'>",
    "DNS prefetch": "<link rel=dns-prefetch href='http://inside.test:PORT/'>",
    "frame": "<iframe src='http://127.0.0.1:PORT/'></iframe>",
    "frame of a file": "<iframe src='file:///etc/passwd'></iframe>",
    "frame with a document": "<iframe srcdoc=\"<img src='http://127.0.0.1:PORT/'>\"></iframe>",
    "object": "<object data='http://127.0.0.1:PORT/'></object>",
    "embed": "<embed src='http://127.0.0.1:PORT/'>",
    "video": "<video src='http://127.0.0.1:PORT/' autoplay></video>",
    "fetch": "<script>fetch('http://127.0.0.1:PORT/', {mode: 'no-cors'}).catch(() => 0)</script>",
    "fetch by POST": "<script>fetch('http://127.0.0.1:PORT/', {method: 'POST', mode: 'no-cors', body: 'x'})</script>",
    "XMLHttpRequest": "<script>x = new XMLHttpRequest(); x.open('GET', 'http://127.0.0.1:PORT/'); x.send()</script>",
    "WebSocket": "<script>new WebSocket('ws://127.0.0.1:PORT/')</script>",
    "WebSocket to localhost": "<script>new WebSocket('ws://localhost:PORT/')</script>",
    "event source": "<script>new EventSource('http://127.0.0.1:PORT/')</script>",
    "beacon": "<script>navigator.sendBeacon('http://127.0.0.1:PORT/', 'x')</script>",
    "form post": "<form id=f method=post action='http://127.0.0.1:PORT/'></form><script>f.submit()</script>",
    "location": "<script>location = 'http://127.0.0.1:PORT/'</script>",
    "location of a file": "<script>location = 'file:///etc/passwd'</script>",
    "WebRTC": (
        "<script>const c = new RTCPeerConnection({iceServers: [{urls: 'turn:127.0.0.1:PORT?transport=tcp', "
        "username: 'a', credential: 'b'}]}); c.createDataChannel('x'); "
        "c.createOffer().then(o => c.setLocalDescription(o))</script>"
    ),
    "worker": (
        "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('http://127.0.0.1:PORT/', {mode: 'no-cors'})\"])))"
        "</script>"
    ),
    "WebTransport": "<script>try { new WebTransport('https://127.0.0.1:PORT/') } catch (e) {}</script>",
}  # fmt: skip
_CLICKS: Final = {
    "link": "<a id=go href='http://127.0.0.1:PORT/'>go</a>",
    "link to a new window": "<a id=go target=_blank href='http://127.0.0.1:PORT/'>go</a>",
    "link of a file": "<a id=go href='file:///etc/passwd'>go</a>",
    "download": "<a id=go download href='http://127.0.0.1:PORT/'>go</a>",
    "ping": "<a id=go ping='http://127.0.0.1:PORT/' href='#'>go</a>",
    "window.open": "<button id=go onclick=\"window.open('http://127.0.0.1:PORT/')\">go</button>",
    "form button": "<form method=post action='http://127.0.0.1:PORT/'><button id=go>go</button></form>",
}


def _pages() -> Iterator[SsrfCase]:
    for name, html in _PAGES.items():
        yield SsrfCase(f"page with {name}", "page", pages={"/case": Page(html)}, names={"inside.test": _HERE})
    for name, html in _CLICKS.items():
        yield SsrfCase(f"page with {name}", "page", pages={"/case": Page(html)}, action="click")
    yield SsrfCase(
        "page with image that redirects",
        "page",
        pages={"/case": Page("<img src='/image'>"), "/image": _redirect(_CANARY)},
    )
    yield SsrfCase(
        "page with service worker",
        "page",
        url=f"http://{SECURE_SITE}:PORT/case",
        pages={
            "/case": Page("<script>navigator.serviceWorker && navigator.serviceWorker.register('/worker.js')</script>"),
            "/worker.js": Page(_WORKER, 200, (_SCRIPT,)),
        },
    )
    yield SsrfCase(
        "page with rebinding fetch",
        "page",
        url="http://rebind-page.test:PORT/case",
        pages={"/case": Page("<script>fetch('/next').catch(() => 0)</script>"), "/next": Page("next")},
        names={"rebind-page.test": [[SITE], ["127.0.0.1"]]},
    )
    yield SsrfCase(
        "page with a proxy configuration",
        "page",
        pages={
            "/case": Page("<p>first</p><img src='/wpad.dat'>"),
            "/wpad.dat": Page("function FindProxyForURL() { return 'PROXY 127.0.0.1:PORT' }"),
        },
    )


SSRF_CASES: Final = (
    *(SsrfCase(name, "url", f"http://{host}:PORT/") for name, host in _LITERALS.items()),
    *(SsrfCase(name, "url", f"http://{host}:PORT/", names=names) for name, (host, names) in _NAMES.items()),
    *(SsrfCase(name, "url", url) for name, url in _URLS.items()),
    *(SsrfCase(f"scheme {name}", "scheme", url) for name, url in _SCHEMES.items()),
    *_redirects(),
    *_refreshes(),
    *_pages(),
)


def cases_of(*kinds: Kind) -> list[SsrfCase]:
    return [case for case in SSRF_CASES if case.kind in kinds]
