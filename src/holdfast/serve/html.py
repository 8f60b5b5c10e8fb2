"""Pages: the templates, what every one of them is given, and the files that they refer to.

Templates escape everything they are given (`autoescape`); `show` also makes control characters visible, like the
terminal does. A file's address has a digest of its content, so browsers may keep it for ever.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast.serve.security import PERSON
from holdfast.text.escape import escape, escape_block

FOLDER: Final = Path(__file__).parent
STATIC: Final = FOLDER / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MAX_DIGITS: Final = 9
MAX_SHOWN: Final = 99
"""The highest number in the icon."""
_DIGEST_CHARS: Final = 12


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(show=escape, showblock=escape_block, iso=iso_time, when=local_time, age=age)
    made.globals["static"] = static_url  # pyright: ignore[reportArgumentType]
    return made


def render(template: str, **values: Any) -> str:
    """The text of a template, for a part of a page."""
    return _environment().get_template(template).render(values)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A whole page for the person who asked."""
    return HTMLResponse(render(template, person=request.scope.get(PERSON), path=request.url.path, **values), status)


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    """The files by the name in their address, which carries a digest of the content."""
    found: dict[str, tuple[bytes, str]] = {}
    for path in sorted(STATIC.iterdir()):
        if path.suffix in _TYPES:
            data = path.read_bytes()
            digest = sha256(data).hexdigest()[:_DIGEST_CHARS]
            found[f"{path.stem}.{digest}{path.suffix}"] = (data, _TYPES[path.suffix])
    return found


@cache
def static_url(name: str) -> str:
    """The address of a file of the page."""
    stem, _, suffix = name.rpartition(".")
    found = next(full for full in _static_files() if full.startswith(f"{stem}.") and full.endswith(f".{suffix}"))
    return f"/static/{found}"


def static_file(request: Request) -> Response:
    found = _static_files().get(request.path_params["name"])
    if found is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    data, kind = found
    return Response(data, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})


def icon(request: Request) -> Response:
    """The icon of the page, with the number of pending calls if there are any."""
    given: str = request.path_params["count"]
    if not (given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS):
        return Response("There is no such icon.", 404, media_type="text/plain")
    count = min(int(given), MAX_SHOWN)
    shape = '<path d="M5 3v10M11 3v10M5 8h6" stroke="#fff" stroke-width="2" stroke-linecap="round"/>'
    if count:
        shape = f'<text x="8" y="12" font-size="11" text-anchor="middle" fill="#fff">{count}</text>'
    colour = "#a40e26" if count else "#1f4e79"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
        f'<rect width="16" height="16" rx="4" fill="{colour}"/>{shape}</svg>'
    )
    return Response(svg, media_type="image/svg+xml", headers={"Cache-Control": "private, max-age=86400"})


def iso_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def local_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((time.time() if now is None else now) - since))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
