"""Hypothesis strategies for pods and deployments in which anything can be missing or hostile."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.text import strategies
from tests.tools.k8s.api_server import Object

Strategy = st.SearchStrategy[Any]
ANY_TEXT = strategies.ANY_TEXT.map(lambda text: text.encode("utf-8", "replace").decode())
"""Any text that JSON can carry: the decoder refuses lone surrogates."""


def some(**fields: Strategy) -> st.SearchStrategy[Object]:
    """An object with some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


WORDS = st.sampled_from(["", "Error", "Completed", "CrashLoopBackOff", "PodInitializing", "NodeLost", "\x1b[2J\n"])
TIMES = st.sampled_from(["", "2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "yesterday"])
COUNT = st.integers(-2, 5)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["a", "b", "proxy"])
STATE = some(
    waiting=some(reason=WORDS, message=WORDS),
    running=some(startedAt=TIMES),
    terminated=some(exitCode=INT64, signal=INT64, reason=WORDS, finishedAt=TIMES, message=ANY_TEXT),
)
STATUSES = st.lists(
    some(
        name=NAMES,
        ready=st.booleans(),
        started=st.booleans() | st.none(),
        restartCount=INT64,
        state=STATE,
        lastState=STATE,
    ),
    max_size=4,
)
CONTAINERS = st.lists(some(name=NAMES, restartPolicy=st.sampled_from(["Always", "Never"]), image=ANY_TEXT), max_size=4)
CONDITIONS = st.lists(
    some(
        type=st.sampled_from(["Ready", "Initialized", "PodScheduled", "Available", "Progressing", "ReplicaFailure"]),
        status=st.sampled_from(["True", "False", ""]),
        reason=WORDS | st.just("ProgressDeadlineExceeded"),
        message=ANY_TEXT,
    ),
    max_size=3,
)
METADATA = some(name=ANY_TEXT, namespace=ANY_TEXT, creationTimestamp=TIMES, deletionTimestamp=TIMES, generation=COUNT)
PODS = some(
    metadata=METADATA,
    spec=some(containers=CONTAINERS, initContainers=CONTAINERS, nodeName=ANY_TEXT),
    status=some(
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]),
        reason=WORDS,
        message=ANY_TEXT,
        conditions=CONDITIONS,
        containerStatuses=STATUSES,
        initContainerStatuses=STATUSES,
    ),
)
DEPLOYMENTS = some(
    metadata=METADATA,
    spec=some(replicas=COUNT, paused=st.booleans(), template=some(spec=some(containers=CONTAINERS))),
    status=some(
        observedGeneration=COUNT,
        replicas=COUNT,
        updatedReplicas=COUNT,
        readyReplicas=COUNT,
        availableReplicas=COUNT,
        conditions=CONDITIONS,
    ),
)
