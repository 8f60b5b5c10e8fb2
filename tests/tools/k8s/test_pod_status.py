"""The state of a pod in words: what kubectl shows, for any mixture of states."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from holdfast.tools.k8s.objects import Pod
from holdfast.tools.k8s.pod_status import PodSummary, summarize_pod
from tests.soak import rounds
from tests.tools.k8s.api_server import Object, container_status, ended, pod, running, waiting
from tests.tools.k8s.object_strategies import PODS

pytestmark = pytest.mark.spec("B10a")
LATER = "2026-01-02T09:00:00Z"
INIT = {"name": "setup", "image": "i"}
SIDECAR = {"name": "proxy", "image": "i", "restartPolicy": "Always"}
INITIALIZED = {"type": "Initialized", "status": "True"}


def summary(item: Object) -> PodSummary:
    return summarize_pod(msgspec.convert(item, Pod))


def starting(*statuses: Object, init: tuple[Object, ...] = (INIT,), **more: Any) -> Object:
    return pod(
        "p", phase="Pending", statuses=[waiting("app", "PodInitializing")], init=init, init_statuses=statuses, **more
    )


def terminated(name: str, code: int, reason: str | None, **more: Any) -> Object:
    state = {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **more}}
    return container_status(name, state)


def pending(*statuses: Object, **more: Any) -> Object:
    return pod("p", phase="Pending", statuses=statuses, **more)


def failed(*statuses: Object, **more: Any) -> Object:
    return pod("p", phase="Failed", statuses=statuses, **more)


def two(*statuses: Object, **more: Any) -> Object:
    return pod("p", containers=("a", "b"), statuses=statuses, **more)


DONE = terminated("a", 0, "Completed")
READY = {"type": "Ready", "status": "True"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
SUCCEEDED: dict[str, Any] = {"phase": "Succeeded", "statuses": [terminated("app", 0, "Completed")]}
TWO_INITS = (INIT, {"name": "two", "image": "i"})
CASES: list[tuple[str, Object, str, str]] = [
    ("all run", pod("p", containers=("a", "b")), "Running", "2/2"),
    ("not scheduled", pending(), "Pending", "0/1"),
    ("no phase", pod("p", phase="", statuses=[]), "Unknown", "0/1"),
    ("evicted", failed(reason="Evicted"), "Evicted", "0/1"),
    ("image", pending(waiting("app", "ImagePullBackOff")), "ImagePullBackOff", "0/1"),
    ("crash", pod("p", statuses=[waiting("app", "CrashLoopBackOff")]), "CrashLoopBackOff", "0/1"),
    ("creating", pending(waiting("app", "ContainerCreating")), "ContainerCreating", "0/1"),
    ("ended", pod("p", **SUCCEEDED), "Completed", "0/1"),
    ("failed", failed(terminated("app", 3, "Error")), "Error", "0/1"),
    ("code", failed(terminated("app", 3, None)), "ExitCode:3", "0/1"),
    ("signal", failed(terminated("app", 9, None, signal=9)), "Signal:9", "0/1"),
    ("deleted", pod("p", deleted=True), "Terminating", "1/1"),
    ("deleted at its end", pod("p", deleted=True, **SUCCEEDED), "Completed", "0/1"),
    ("node lost", pod("p", deleted=True, reason="NodeLost"), "Unknown", "1/1"),
    ("gated", pending(conditions=[GATED]), "SchedulingGated", "0/1"),
    ("first of two fails", two(terminated("a", 1, "Error"), running("b")), "Error", "1/2"),
    ("one done, one runs, ready", two(DONE, running("b"), conditions=[READY]), "Running", "1/2"),
    ("one done, one runs, not ready", two(DONE, running("b")), "NotReady", "1/2"),
    ("init waits", starting(waiting("setup", "PodInitializing")), "Init:0/1", "0/1"),
    ("init runs", starting(running("setup")), "Init:0/1", "0/1"),
    ("init fails", starting(terminated("setup", 1, "Error")), "Init:Error", "0/1"),
    ("init fails without a reason", starting(terminated("setup", 4, None)), "Init:ExitCode:4", "0/1"),
    ("init is killed", starting(terminated("setup", 9, None, signal=9)), "Init:Signal:9", "0/1"),
    ("init crashes", starting(waiting("setup", "CrashLoopBackOff")), "Init:CrashLoopBackOff", "0/1"),
    ("second init", starting(terminated("setup", 0, "Completed"), running("two"), init=TWO_INITS), "Init:1/2", "0/1"),
    ("init done", starting(terminated("setup", 0, "Completed")), "PodInitializing", "0/1"),
    ("sidecar", pod("p", init=[SIDECAR], init_statuses=[running("proxy")]), "Running", "2/2"),
    ("sidecar starts", starting(waiting("proxy", "PodInitializing"), init=(SIDECAR,)), "Init:0/1", "0/2"),
    ("initialized", starting(terminated("setup", 1, "Error"), conditions=[INITIALIZED]), "PodInitializing", "0/1"),
]


@pytest.mark.parametrize(("item", "status", "ready"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_state_of_a_pod_is_the_one_that_kubectl_shows(item: Object, status: str, ready: str) -> None:
    found = summary(item)
    assert (found.status, f"{found.ready}/{found.containers}") == (status, ready)


def test_restarts_are_counted_with_the_time_of_the_last() -> None:
    old, new = ended(1), ended(2, at=LATER)
    item = pod("p", containers=("a", "b"), statuses=[running("a", restarts=2), running("b", restarts=3)])
    item["status"]["containerStatuses"][0]["lastState"] = new
    item["status"]["containerStatuses"][1]["lastState"] = old
    found = summary(item)
    assert found.restarts == 5
    assert found.last_restart is not None and found.last_restart.hour == 9
    assert found.last_failure is not None
    assert (found.last_failure.container, found.last_failure.exit_code) == ("a", 2)


def test_restarts_of_init_containers_no_longer_count_when_the_pod_runs() -> None:
    done = terminated("setup", 0, "Completed") | {"restartCount": 4}
    assert summary(pod("p", init=[INIT], init_statuses=[done])).restarts == 0
    assert summary(starting(waiting("setup", "CrashLoopBackOff", restarts=4))).restarts == 4


def test_an_end_without_an_error_is_not_a_failure() -> None:
    item = pod("p", statuses=[running("app", restarts=1) | {"lastState": ended(0, "Completed")}])
    assert summary(item).last_failure is None


def test_the_message_says_why_a_pod_does_not_run() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    assert summary(pod("p", phase="Pending", statuses=[], conditions=[unschedulable])).message == "0/3 nodes fit"
    pulling = waiting("app", "ImagePullBackOff", 'Back-off pulling image "x"')
    assert summary(pod("p", statuses=[pulling])).message == 'container app: Back-off pulling image "x"'
    assert summary(pod("p", phase="Failed", statuses=[], message="The node was low on memory.")).message is not None


@settings(max_examples=rounds(100, 20_000))
@given(PODS)
def test_any_mixture_of_states_has_a_summary(item: Object) -> None:
    found = summary(item)
    assert found.status
    assert found.ready >= 0 and found.restarts >= 0
