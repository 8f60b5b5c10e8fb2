"""Two names of one file system exchange their files in one step, where the system can do that."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

_HERE: Final = -100
"""Paths are relative to the working folder, as everywhere."""
_EXCHANGE: Final = 2


_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


def swap(first: Path, second: Path) -> bool:
    """False, and nothing changed, where the system or the file system cannot do it. Both have to exist."""
    rename = _rename()
    if rename is None:
        return False
    problem = rename(os.fsencode(first), os.fsencode(second))
    if problem and problem not in _CANNOT:
        raise OSError(problem, os.strerror(problem), str(second))
    return not problem


@lru_cache(maxsize=1)
def _rename() -> Callable[[bytes, bytes], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return None
    library.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def rename(first: bytes, second: bytes) -> int:
        failed = library.renameat2(_HERE, first, _HERE, second, _EXCHANGE)
        return ctypes.get_errno() if failed else 0

    return rename
