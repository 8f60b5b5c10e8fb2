"""The process that parses what strangers wrote, under limits of memory and CPU time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import count
from typing import Final

from holdfast.tools.extraction.documents import check_package, document_text
from holdfast.tools.extraction.pages import check_robots, read_search_page, render
from holdfast.tools.worker_frames import Pipe, Reply, Request, allow_cpu_time, limit_resources

_ADDRESS_SPACE: Final = 3 * 1024**3
_CPU_SECONDS: Final = 60
_PAGES_PER_COLLECTION: Final = 50

_ACTIONS: Final[dict[str, Callable[[Request, bytes], Reply]]] = {
    "render": render,
    "search page": read_search_page,
    "robots": check_robots,
    "document": document_text,
    "package": check_package,
}


def _handle(request: Request, body: bytes) -> tuple[Reply, bytes]:
    return _ACTIONS[request["do"]](request, body), b""


def main() -> None:
    pipe = Pipe()
    limit_resources(_ADDRESS_SPACE, threads=False)
    gc.disable()  # a page leaves little garbage in cycles, and looking for it costs a tenth of the time
    for number in count(1):
        if number % _PAGES_PER_COLLECTION == 0:
            gc.collect()
        found = pipe.read_request()
        if found is None:  # the parent has exited
            return
        allow_cpu_time(_CPU_SECONDS)
        pipe.answer(_handle, *found)


if __name__ == "__main__":
    main()
