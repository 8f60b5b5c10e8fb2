"""The fields of Kubernetes objects that the summaries read. Everything can be missing, and everything else is skipped.

Text in them comes from the cluster, where others write.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final, Generic, TypeVar, cast

from msgspec import Meta, Struct, field

T = TypeVar("T")
Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A number of the API: all of them have 64 bits. Python could not print one of thousands of digits."""
SHORTEST_CUT: Final = 20
"""No output cuts a text that has fewer characters."""


class Metadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: Count | None = None
    annotations: dict[str, str] | None = None


class ListMetadata(Struct, frozen=True, rename="camel"):
    continue_: str | None = field(name="continue", default=None)
    remaining_item_count: Count | None = None


class Waiting(Struct, frozen=True):
    reason: str | None = None
    message: str | None = None


class Running(Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class Terminated(Struct, frozen=True, rename="camel"):
    exit_code: Count = 0
    signal: Count | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: str | None = None


class ContainerState(Struct, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: Count = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None

    @property
    def now(self) -> ContainerState:
        return self.state or ContainerState()

    @property
    def before(self) -> Terminated | None:
        """How the previous instance ended."""
        return None if self.last_state is None else self.last_state.terminated


class Container(Struct, frozen=True, rename="camel"):
    name: str = ""
    image: str | None = None
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running beside the others."""
        return self.restart_policy == "Always"


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[Container, ...] | None = None
    node_name: str | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Template(Struct, frozen=True):
    spec: PodSpec = PodSpec()


class DeploymentSpec(Struct, frozen=True):
    replicas: Count | None = None
    paused: bool = False
    template: Template = Template()


class DeploymentStatus(Struct, frozen=True, rename="camel"):
    observed_generation: Count | None = None
    replicas: Count = 0
    updated_replicas: Count = 0
    ready_replicas: Count = 0
    available_replicas: Count = 0
    conditions: tuple[Condition, ...] | None = None


class Deployment(Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class NamedObject(Struct, frozen=True):
    """Any object, for its name."""

    metadata: Metadata = Metadata()


class ObjectList(Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: tuple[T, ...] | None = None
    metadata: ListMetadata = ListMetadata()


class Status(Struct, frozen=True):
    """The answer to a request that failed."""

    message: str | None = None


def with_texts(value: T, change: Callable[[str], str]) -> T:
    """Return an object with `change` applied to every text in it that is long enough for an output to cut it."""
    return cast(T, _with_texts(value, change))


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value) if len(value) > SHORTEST_CUT else value
    if isinstance(value, tuple):
        return tuple(_with_texts(item, change) for item in cast("tuple[object, ...]", value))
    if isinstance(value, dict):
        return {name: _with_texts(item, change) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, Struct):
        return type(value)(*(_with_texts(getattr(value, name), change) for name in value.__struct_fields__))
    return value


def parse_time(text: str | None) -> datetime | None:
    """Return a time of the cluster; None if it is missing or unreadable."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    try:
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except OverflowError:
        return None


def format_age(since: datetime | None, now: datetime) -> str:
    """Return the time since an event as kubectl writes it: two units while that matters, such as `3d4h`."""
    if since is None:
        return "?"
    seconds = max(0, int((now - since).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large}{unit}{small}{part}" if small else f"{large}{unit}"
