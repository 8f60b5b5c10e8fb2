"""`process.*`: processes that go on after the call that started them."""

from __future__ import annotations

from holdfast.tools.processes.asking import PROCESS_LIST, PROCESS_OUTPUT, PROCESS_STATUS
from holdfast.tools.processes.ending import PROCESS_KILL
from holdfast.tools.processes.starting import PROCESS_START

PROCESS_TOOLS = (PROCESS_START, PROCESS_STATUS, PROCESS_OUTPUT, PROCESS_KILL, PROCESS_LIST)
