"""The state of a pod in a few words, as kubectl shows it, and why its containers failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from holdfast.tools.k8s.objects import ContainerState, ContainerStatus, Pod, PodStatus, Terminated, parse_time

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Failure(Struct, frozen=True, kw_only=True):
    """How an instance of a container ended."""

    container: str
    reason: str | None
    exit_code: int
    signal: int | None
    finished_at: datetime | None
    message: str | None


class PodSummary(Struct, frozen=True, kw_only=True):
    status: str
    """One word or two: `Running`, `CrashLoopBackOff`, `Init:0/1`, `Terminating`."""
    ready: int
    containers: int
    restarts: int
    last_restart: datetime | None
    last_failure: Failure | None
    message: str | None
    """Why the pod does not run, in the words of the cluster."""

    @property
    def is_well(self) -> bool:
        """Whether nothing needs attention: everything is ready, or has ended as it should."""
        return self.status == "Completed" or (self.status == "Running" and self.ready == self.containers)


class _Count:
    """Restarts of some containers, and when the last of them was."""

    def __init__(self) -> None:
        self.restarts = 0
        self.last: datetime | None = None

    def add(self, status: ContainerStatus) -> None:
        self.restarts += max(0, status.restart_count)
        ended = None if status.before is None else parse_time(status.before.finished_at)
        if ended is not None and (self.last is None or ended > self.last):
            self.last = ended


def summarize_pod(pod: Pod) -> PodSummary:
    status, spec = pod.status, pod.spec
    containers, inits = spec.containers or (), spec.init_containers or ()
    sidecars = {container.name for container in inits if container.is_sidecar}
    shown = status.reason or status.phase or "Unknown"
    if any(each.type == "PodScheduled" and each.reason == "SchedulingGated" for each in status.conditions or ()):
        shown = "SchedulingGated"
    starting, ready, count = _initialization(status, sidecars, len(inits))
    if starting is not None:
        shown = starting
    if starting is None or _condition(status, "Initialized"):
        # What the init containers did before no longer matters; sidecars still count.
        count = _Count()
        for each in status.init_container_statuses or ():
            if each.name in sidecars:
                count.add(each)
        running = False
        for each in reversed(status.container_statuses or ()):
            count.add(each)
            told = _ended_or_waiting(each.now)
            if told is not None:
                shown = told
            elif each.ready and each.now.running is not None:
                running = True
                ready += 1
        if shown == "Completed" and running:
            shown = "Running" if _condition(status, "Ready") else "NotReady"
    if pod.metadata.deletion_timestamp is not None:
        if status.reason == "NodeLost":
            shown = "Unknown"
        elif status.phase not in ("Succeeded", "Failed"):
            shown = "Terminating"
    return PodSummary(
        status=shown,
        ready=ready,
        containers=len(containers) + len(sidecars),
        restarts=count.restarts,
        last_restart=count.last,
        last_failure=_last_failure(status),
        message=_message(status),
    )


def _initialization(status: PodStatus, sidecars: set[str], total: int) -> tuple[str | None, int, _Count]:
    """Return the init container that the pod waits for, the sidecars that are ready, and the restarts so far."""
    ready, count = 0, _Count()
    for number, each in enumerate(status.init_container_statuses or ()):
        count.add(each)
        ended, waiting = each.now.terminated, each.now.waiting
        if ended is not None and ended.exit_code == 0:
            continue
        if each.name in sidecars and each.started:
            ready += each.ready
            continue
        if ended is not None:
            return f"Init:{_end(ended)}", ready, count
        if waiting is not None and waiting.reason and waiting.reason != "PodInitializing":
            return f"Init:{waiting.reason}", ready, count
        return f"Init:{number}/{total}", ready, count
    return None, ready, count


def _ended_or_waiting(state: ContainerState) -> str | None:
    if state.waiting is not None and state.waiting.reason:
        return state.waiting.reason
    return None if state.terminated is None else _end(state.terminated)


def _end(ended: Terminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


def _condition(status: PodStatus, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in status.conditions or ())


def _all_containers(status: PodStatus) -> Iterator[ContainerStatus]:
    yield from status.init_container_statuses or ()
    yield from status.container_statuses or ()


def _last_failure(status: PodStatus) -> Failure | None:
    """Return the most recent end of a container that was a failure."""
    found = [
        Failure(
            container=each.name,
            reason=ended.reason,
            exit_code=ended.exit_code,
            signal=ended.signal or None,
            finished_at=parse_time(ended.finished_at),
            message=ended.message,
        )
        for each in _all_containers(status)
        for ended in (each.now.terminated, each.before)
        if ended is not None and (ended.exit_code != 0 or ended.signal)
    ]
    return max(found, key=lambda failure: failure.finished_at or _NEVER, default=None)


def _message(status: PodStatus) -> str | None:
    """Return what the cluster says about a pod that does not run: of the pod, a container that waits, or scheduling."""
    if status.message:
        return status.message
    for each in _all_containers(status):
        waiting = each.now.waiting
        if waiting is not None and waiting.message:
            return f"container {each.name}: {waiting.message}"
    for each in status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False" and each.message:
            return each.message
    return None
