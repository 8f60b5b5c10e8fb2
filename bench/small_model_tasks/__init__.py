"""Look-ups and small edits in generated projects, with answers that a program can check.

`build_project` writes one of two projects and `TASKS` holds the questions about it. Prompts and rules are tuned on the
set "dev"; the set "held_out" is only for the final measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import dev, held_out
from .checks import Task
from .project import SetName, build_project, final_files, snapshot

TASKS: Final[Mapping[SetName, tuple[Task, ...]]] = {"dev": dev.TASKS, "held_out": held_out.TASKS}

__all__ = ["TASKS", "SetName", "Task", "build_project", "final_files", "snapshot"]
