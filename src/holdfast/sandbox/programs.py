"""Which program a command's first word means, found before anything is started."""

from __future__ import annotations

import os
import shutil

from holdfast.contract.errors import SandboxRefused


def found_program(word: str, path: str, cwd: str) -> str:
    """The absolute path of a program: a bare name is looked up on the path commands get, never in the folder."""
    if not word or "\0" in word:
        raise SandboxRefused("The command is empty; name a program to run.")
    if "/" in word:
        return os.path.join(cwd, word)  # noqa: PTH118
    found = shutil.which(word, path=path)
    if found is None:
        raise SandboxRefused(
            f"There is no program {word!a} on the path that commands get; install it, or name it by its path."
        )
    return found
