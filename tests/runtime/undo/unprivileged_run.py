"""Records and undoes as an ordinary user, with files and folders that not even their owner may read or write.

Usage: unprivileged_run.py FOLDER MECHANISM. Everything is imported before the user changes, because that user may not
be able to read the files of the interpreter.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from importlib import import_module
from pathlib import Path
from typing import cast

from tests.runtime.undo.support import Mechanism, RecordedProject, overlay_bwrap, snapshot

SCRIPT = """
chmod 700 shut; echo more >> shut/f; rm shut/g; chmod 0 shut
chmod 600 secret; echo more >> secret; chmod 0 secret
mkdir -p new/closed; echo x > new/closed/x; chmod 0 new/closed/x; chmod 500 new/closed
chmod 700 gone gone/in; rm -rf gone
chmod 444 plain; echo over > plain.tmp; mv -f plain.tmp plain; chmod 0 plain
"""


def main(folder: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(folder, mechanism)
    root = project.root
    for name in ("shut/f", "shut/g", "secret", "gone/in/x", "plain"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
        (root / name).chmod(0o400)
    (root / "secret").chmod(0)
    (root / "shut" / "f").chmod(0o200)
    for name, mode in (("gone/in", 0), ("gone", 0o500), ("shut", 0o555)):
        (root / name).chmod(mode)
    before = snapshot(root)
    call_id, changes = project.shell(SCRIPT)
    after = snapshot(root)
    assert after != before
    assert {"shut", "shut/f", "shut/g", "secret", "new/closed", "gone/in/x", "plain"} <= project.changed(changes).keys()
    undone = project.undo_call(call_id)
    assert undone.success, undone.error
    assert snapshot(root) == before
    again = project.undo_call(undone.call_id)
    assert again.success, again.error
    assert snapshot(root) == after
    project.ledger.close()
    used = "overlay" if mechanism == "overlay" and overlay_bwrap() else "copy"
    sys.stdout.write(f"undone with {used}")


def become_nobody() -> None:
    assert unicodedata.name("a")
    import_module("holdfast.runtime.undo.copy_recorder")
    import_module("tempfile")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


if __name__ == "__main__":
    become_nobody()
    main(Path(sys.argv[1]), cast(Mechanism, sys.argv[2]))
