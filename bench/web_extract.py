"""Quality and cost of reading web pages, on trafilatura's evaluation set: `python bench/web_extract.py --data PATH`.

PATH is the folder `tests` of the repository adbar/trafilatura, with `evaldata.json`, `cache` and `eval`. Each page is
served on loopback and read with `web.fetch` through the whole pipeline, and with the library alone. The two take turns,
in blocks of pages. The time is CPU time, of this process and of the one that parses pages: on a busy machine the clock
says more about the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from holdfast import Config, Runtime
from holdfast.config.tool_families import NetworkConfig
from holdfast.net.network import Network
from holdfast.tools import builtin_tools
from holdfast.tools.web.service import Web, WebSettings

BLOCK = 45
SERVER = """
import http.server, sys
class Pages(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        try: body = open(sys.argv[1] + self.path.split("?")[0], "rb").read()
        except OSError: self.send_response(404); self.send_header("Content-Length", "0"); self.end_headers(); return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Score:
    """Counts how many of the annotated passages a text has, as the evaluation of the library does."""

    def __init__(self) -> None:
        self.hits = self.misses = self.wrong = 0
        self.seconds = self.on_the_clock = 0.0

    def add(self, item: dict[str, Any], text: str | None) -> None:
        plain = squeezed(text or "")
        found = sum(squeezed(part) in plain for part in item["with"])
        self.hits += found
        self.misses += len(item["with"]) - found
        self.wrong += sum(squeezed(part) in plain for part in item["without"])

    def __str__(self) -> str:
        precision, recall = self.hits / (self.hits + self.wrong), self.hits / (self.hits + self.misses)
        f = 2 * self.hits / (2 * self.hits + self.wrong + self.misses)
        times = f"{self.seconds:.1f} s CPU, {self.on_the_clock:.1f} s on the clock"
        return f"F {f:.3f}  precision {precision:.3f}  recall {recall:.3f}  {times}"


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def with_library(body: bytes) -> str | None:
    from trafilatura import extract

    return extract(body, include_comments=False, include_tables=True, include_formatting=False)


async def with_tool(runtime: Runtime, url: str) -> str:
    text, offset = "", 0
    while True:
        args = {"url": url, "offset": offset or None, "limit": 100_000, "timeout": 60_000}
        result = await runtime.call("web.fetch", args)
        assert isinstance(result.structured, dict), result.text
        text += str(result.structured["content"])
        following = result.structured["next_offset"]
        if not isinstance(following, int):
            return text
        offset = following


def cpu_seconds(web: Web) -> float:
    """CPU time of this process and of the idle extraction processes."""
    used = process_time()
    for pid in web.extractor.pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def read_set(folder: Path, limit: int | None, served: str) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the annotations and the pages, and write the pages where the server finds them."""
    data: dict[str, dict[str, Any]] = json.loads((folder / "evaldata.json").read_text("utf-8"))
    items, bodies = list(data.values())[:limit], list[bytes]()
    for number, item in enumerate(items):
        place = next(path for kind in ("cache", "eval") if (path := folder / kind / item["file"]).is_file())
        bodies.append(place.read_bytes())
        Path(served, f"{number}.html").write_bytes(bodies[-1])
    return items, bodies


@contextmanager
def serving(folder: str) -> Generator[str]:
    """Serve a folder in another process; yield its host and port."""
    server = subprocess.Popen([sys.executable, "-c", SERVER, folder], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


async def measure(host: str, items: list[dict[str, Any]], bodies: list[bytes]) -> tuple[Score, Score]:
    library, tool = Score(), Score()
    web = Web(Network(hosts=(host,), private=(host,)), WebSettings(rate=1000.0, burst=1000))
    async with Runtime(tools=builtin_tools(), config=Config(network=NetworkConfig(hosts=(host,)))) as runtime:
        runtime.services.offer(Web, web)
        with_library(bodies[0])
        await with_tool(runtime, f"http://{host}/0.html")
        for start in range(0, len(items), BLOCK):
            numbers = range(start, min(start + BLOCK, len(items)))
            marks = [(cpu_seconds(web), perf_counter())]
            alone = [with_library(bodies[number]) for number in numbers]
            marks.append((cpu_seconds(web), perf_counter()))
            ours = [await with_tool(runtime, f"http://{host}/{number}.html?again") for number in numbers]
            marks.append((cpu_seconds(web), perf_counter()))
            for score, (began, ended), texts in zip((library, tool), pairwise(marks), (alone, ours), strict=True):
                score.seconds += ended[0] - began[0]
                score.on_the_clock += ended[1] - began[1]
                for number, text in zip(numbers, texts, strict=True):
                    score.add(items[number], text)
    web.close()
    return library, tool


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how well and how fast web pages are read.")
    parser.add_argument("--data", type=Path, required=True, help="the folder `tests` of adbar/trafilatura")
    parser.add_argument("--quick", action="store_true", help="only the first 100 pages")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as served:
        items, bodies = read_set(given.data, 100 if given.quick else None, served)
        with serving(served) as host:
            library, tool = asyncio.run(measure(host, items, bodies))
    print(f"{len(items)} pages")
    print(f"trafilatura alone  {library}")
    print(f"web.fetch          {tool}")
    print(f"CPU time of web.fetch / CPU time of the library: {tool.seconds / library.seconds:.2f}")


if __name__ == "__main__":
    main()
