"""`k8s.logs`: the last lines of a container's log."""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.net.client import RequestFailed
from holdfast.text.escape import clip_escaped
from holdfast.text.preview import with_label
from holdfast.tools.k8s.cluster import ClusterError, ClusterReader, Kubernetes, Params, quoted, suggestion
from holdfast.tools.k8s.cluster_tool import CONTEXT, NAMESPACE, cluster_tool, opened, proposal
from holdfast.tools.k8s.kubeconfig import Access
from holdfast.tools.k8s.log_tail import LogTail
from holdfast.tools.k8s.objects import ContainerStatus, Pod
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    non_blank,
    nullable,
    strict_object,
)

DEFAULT_LINES: Final = 100
MAX_LINES: Final = 10_000
_OWN_BYTES: Final = 4096
"""What the heading needs of the size that an output may have."""
_OWN_LINES: Final = 20
_MAX_STREAMED: Final = 1024 * 1024
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_DURATION: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhdw]))+", re.ASCII)
_PART: Final = re.compile(r"([\d.]+)(ms|[smhdw])", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_MAX_SECONDS: Final = 2**31 - 1


class LogsRefused(HoldfastError):
    """The arguments do not name one log; the message says what to give."""


def since_seconds(text: str) -> int:
    """Return the seconds of a duration such as `10m` or `1h30m`. Raises `LogsRefused`."""
    given = text.strip().lower()
    if _DURATION.fullmatch(given) is None:
        raise LogsRefused(f"Cannot read {quoted(text)} as a duration. Use a number with a unit, such as 30s, 10m, 1h.")
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(given))
    return max(1, min(_MAX_SECONDS, math.ceil(total)))


def _lines(args: Args) -> int:
    return max(1, min(MAX_LINES, int(cast("float | None", args.get("lines")) or DEFAULT_LINES)))


def _namespace(args: Args, access: Access) -> str:
    return cast("str | None", args.get("namespace")) or access.namespace


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    def describe(access: Access) -> str:
        if args.get("since"):
            since_seconds(str(args["since"]))
        container = f", container {clip_escaped(str(args['container']), 80)}" if args.get("container") else ""
        pod, namespace = clip_escaped(str(args["pod"]), 120), clip_escaped(_namespace(args, access), 80)
        return f"read the log of pod {pod}{container} in namespace {namespace}"

    return proposal(args, ctx, describe)


async def _apply(args: Args, ctx: Context) -> Result:
    limits = ctx.truncate
    most = min(_lines(args), max(1, limits.MAX_LINES - _OWN_LINES))
    tail = LogTail(most, max(1, limits.MAX_BYTES - _OWN_BYTES), redact=ctx.service(Kubernetes).redactor.known)
    output: Args = {
        "context": "",
        "namespace": "",
        "pod": str(args["pod"]),
        "container": args.get("container"),
        "previous": bool(args.get("previous")),
        "log": "",
        "lines": 0,
        "received_lines": 0,
        "received_bytes": 0,
        "complete": False,
        "notes": [],
    }
    try:
        async with opened(args, ctx) as cluster:
            namespace = _namespace(args, cluster.access)
            output |= {"context": cluster.access.context, "namespace": namespace}
            container = await _container(cluster, namespace, args)
            output["container"] = container
            await _read(cluster, namespace, args, container, most, tail, ctx)
    except RequestFailed as failed:
        if not tail.lines:
            return fail(str(failed))
        _fill(output, tail)  # what arrived before is worth showing
        return fail(str(failed), output=render_log(output), structured=output)
    except HoldfastError as error:
        return fail(str(error))
    output["complete"] = True
    _fill(output, tail)
    return ok(render_log(output), structured=output)


async def _read(
    cluster: ClusterReader, namespace: str, args: Args, container: str | None, most: int, tail: LogTail, ctx: Context
) -> None:
    params: Params = {"tailLines": str(most)}
    if container is not None:
        params["container"] = container
    if args.get("since"):
        params["sinceSeconds"] = str(since_seconds(str(args["since"])))
    if args.get("previous"):
        params["previous"] = "true"
    streamed, broken = 0, True
    try:
        async with cluster.log(namespace, str(args["pod"]), params) as answer:
            async for block in answer.blocks:
                streamed = _stream(ctx, tail.feed(block), streamed)
            broken = False
    except ClusterError as error:
        raise await _explained(error, cluster, namespace, args) from None
    finally:
        _stream(ctx, tail.end(broken=broken), streamed)  # the last words before a crash often lack a newline


def _stream(ctx: Context, lines: list[str], streamed: int) -> int:
    """Show lines while the log arrives; not all of a huge one."""
    text = "".join(f"{line}\n" for line in lines)
    if text and streamed <= _MAX_STREAMED:
        ctx.stream(text)
    return streamed + len(text)


async def _container(cluster: ClusterReader, namespace: str, args: Args) -> str | None:
    """Return the container to read: the one named, the only one, or the default one. None if the pod cannot be read,
    so that the server decides."""
    given, name = cast("str | None", args.get("container")), str(args["pod"])
    try:
        pod = await cluster.get(Pod, "pods", namespace, name)
    except ClusterError as error:
        if error.code == 403:
            return given
        raise await _explained(error, cluster, namespace, args) from None
    spec = pod.spec
    main = [each.name for each in spec.containers or ()]
    others = [each.name for each in (*(spec.init_containers or ()), *(spec.ephemeral_containers or ()))]
    if given:
        if given in main or given in others:
            _check_started(pod, given, args)
            return given
        raise LogsRefused(
            f"Pod {quoted(name)} has no container {quoted(given)}. {suggestion(given, [*main, *others], 'containers')}"
        )
    default = (pod.metadata.annotations or {}).get(_DEFAULT_CONTAINER)
    chosen = default if default in main else main[0] if len(main) == 1 else None
    if chosen is None:
        inits = f" Init containers: {_names(others)}." if others else ""
        raise LogsRefused(
            f"Pod {quoted(name)} has {len(main)} containers. Name one in `container`: {_names(main)}.{inits}"
        )
    _check_started(pod, chosen, args)
    return chosen


def _check_started(pod: Pod, container: str, args: Args) -> None:
    """Say why there is no log, where the state of the container tells."""
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    status = next((each for each in statuses if each.name == container), None)
    if args.get("previous"):
        if status is not None and status.restart_count == 0 and status.before is None:
            raise LogsRefused(
                f"Container {quoted(container)} has not restarted, so there is no previous log. Leave out `previous`."
            )
        return
    if status is not None and _never_ran(status):
        waiting = status.now.waiting
        reason = (waiting.reason if waiting is not None else None) or "it is waiting"
        told = f": {clip_escaped(waiting.message, 300)}" if waiting is not None and waiting.message else ""
        raise LogsRefused(
            f"Container {quoted(container)} has not started, so it has no log yet ({clip_escaped(reason, 80)}{told})."
        )


def _never_ran(status: ContainerStatus) -> bool:
    state = status.now
    ran = state.running is not None or state.terminated is not None or status.before is not None
    return not ran and status.restart_count == 0 and state.waiting is not None


async def _explained(error: ClusterError, cluster: ClusterReader, namespace: str, args: Args) -> HoldfastError:
    """Return what a failed request means for a log."""
    name = str(args["pod"])
    if error.code == 404:
        missing = await cluster.missing_namespace(namespace)
        if missing is not None:
            return LogsRefused(missing)
        names = await cluster.names("pods", namespace)
        if name not in names:
            hint = suggestion(name, names, "pods")
            return LogsRefused(f"There is no pod {quoted(name)} in the namespace {quoted(namespace)}. {hint}")
    if error.code in (400, 404) and error.said:  # 404 of a pod that exists: its node is gone
        return LogsRefused(f"There is no log to read. The server says: {error.said}")
    return error


def _names(names: list[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:30])
    return f"{shown} and {len(names) - 30} more" if len(names) > 30 else shown


def _fill(output: Args, tail: LogTail) -> None:
    notes: list[str] = []
    if tail.dropped:
        notes.append(f"{tail.dropped:,} earlier lines are left out, because an output has a limit.")
    if tail.long_lines:
        notes.append(f"{tail.long_lines:,} lines are longer than {tail.max_line:,} bytes and were cut.")
    kept = tail.kept
    output |= {"log": "\n".join(kept), "lines": len(kept), "notes": [*notes]}
    output |= {"received_lines": tail.lines, "received_bytes": tail.bytes}


def render_log(output: Args) -> str:
    """Render the output. Our own words come first: everything after the heading is the log."""
    previous = "previous log" if output["previous"] else "log"
    container = f"/{output['container']}" if output["container"] else ""
    what = f"{previous} of {output['pod']}{container} (namespace {output['namespace']}, context {output['context']})"
    what = clip_escaped(what, 500)
    notes = [f"[{note}]" for note in cast("list[Any]", output["notes"])]
    if not output["lines"]:
        return "\n".join([f"The {what} is empty.", *notes])
    count = cast(int, output["lines"])
    told = "Last line" if count == 1 else f"Last {count:,} lines"
    return "\n".join([f"{told} of the {what}:", *notes, "", str(output["log"])])


def _preview(args: Args, width: int) -> str:
    parts = [str(args.get("pod") or "")]
    shown = ("namespace", "container", "lines", "since", "context")
    parts += [f"{name}={args[name]}" for name in shown if args.get(name)]
    parts += ["previous"] if args.get("previous") else []
    return with_label(" ".join(parts), args)


K8S_LOGS: Final = cluster_tool(
    name="k8s.logs",
    description="Fetch recent logs for a Kubernetes pod.",
    input_schema=strict_object(
        pod={**non_blank("Pod name"), "maxLength": 253},
        namespace=NAMESPACE,
        container=nullable("string", "Container name (optional)", maxLength=253),
        lines=nullable("number", "Tail line count", minimum=1),
        since=nullable("string", "Lookback duration (e.g. 10m, 1h)", maxLength=40),
        previous=nullable("boolean", "Read the log of the previous instance of the container (default false)."),
        context=CONTEXT,
        label=LABEL,
    ),
    output_schema=strict_object(
        context=STRING,
        namespace=STRING,
        pod=STRING,
        container=STRING_OR_NULL,
        previous=BOOLEAN,
        log=STRING,
        lines=INTEGER,
        received_lines=INTEGER,
        received_bytes=INTEGER,
        complete=BOOLEAN,
        notes=array(STRING),
    ),
    propose=_propose,
    apply=_apply,
    keeps="tail",
    format_preview=_preview,
)
