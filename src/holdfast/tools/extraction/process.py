"""The process that parses what strangers wrote, under limits of memory and CPU time.

Frames on both pipes: four bytes of length, then JSON; a request is followed by a second frame with the body.
"""

from __future__ import annotations

import gc
import json
import os
import resource
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from holdfast.tools.extraction.documents import Unreadable, check_package, document_text
from holdfast.tools.extraction.pages import check_robots, read_search_page, render

_ADDRESS_SPACE: Final = 3 * 1024**3
_CPU_SECONDS: Final = 60
_PAGES_PER_COLLECTION: Final = 50

Answer = dict[str, Any]

_ACTIONS: Final[dict[str, Callable[[dict[str, Any], bytes], Answer]]] = {
    "render": render,
    "search page": read_search_page,
    "robots": check_robots,
    "document": document_text,
    "package": check_package,
}


def _read(size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        block = os.read(0, min(size - len(found), 1 << 20))
        if not block:
            os._exit(0)  # the parent has exited
        found += block
    return bytes(found)


def _read_frame() -> bytes:
    return _read(int.from_bytes(_read(4), "big"))


def _write(out: int, body: bytes) -> None:
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(out, view) :]


def _limit_resources() -> None:
    """Bound the memory, and forbid what a parser never needs: new processes and files."""
    for name, value in (("AS", _ADDRESS_SPACE), ("FSIZE", 0), ("CORE", 0), ("NPROC", 0)):
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))


def _allow_cpu_time() -> None:
    """Let the kernel end an endless loop even if the parent has died."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + _CPU_SECONDS, resource.RLIM_INFINITY))


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # output of a library must not mix with the replies
    _limit_resources()
    gc.disable()  # a page leaves little garbage in cycles, and looking for it costs a tenth of the time
    for number in count(1):
        if number % _PAGES_PER_COLLECTION == 0:
            gc.collect()
        request: dict[str, Any] = json.loads(_read_frame())
        body = _read_frame()
        _allow_cpu_time()
        try:
            answer = _ACTIONS[request["do"]](request, body)
        except Unreadable as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "it needs too much memory"}
        except (Exception, RecursionError) as error:
            answer = {"error": f"the parser failed ({type(error).__name__})"}
        _write(out, json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    main()
