"""How much useful work a small local model does through holdfast: 24 tasks with checkable answers, each way.

    python bench/small_models.py --weights FOLDER            # every way, with and without guard-rails
    python bench/small_models.py --weights FOLDER --ablate   # each rule switched off in turn
    python bench/small_models.py --server http://127.0.0.1:8080 --ways constrained --rails on --only dev-edit-1

FOLDER holds llama.cpp for Python and the parts of the model's weights, as `make bench-small-models` puts them there.
The model is asked at temperature 0. Replies are stored by request in FOLDER, so a run that sends the same requests
again, such as one with a rule switched off that never stepped in, takes no time; times are those of the first run.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.events import AgentEvent, GuardrailApplied, ReplyWritten, ResultWritten
from holdfast.config.config import GuardrailsConfig, ModelConfig
from holdfast.contract.message import Message, Part
from holdfast.contract.tool import Tool
from holdfast.factory.chat import open_chat
from holdfast.models.port import Model, ModelEvent, PartEnded, ReplyEnded, Retrying, Settings, Usage
from holdfast.models.protocol import with_protocol
from holdfast.models.providers import Endpoint
from holdfast.models.remote_model import RemoteModel

sys.path.insert(0, str(Path(__file__).parent))
from small_model_tasks import TASKS, SetName, Task, build_project, snapshot

Way = Literal["native", "text", "constrained"]
WAYS: Final[tuple[Way, ...]] = ("native", "text", "constrained")
MODEL: Final = "qwen2.5-coder-1.5b-instruct"
MAX_TOKENS: Final = 512
MAX_TURNS: Final = 8
CONTEXT: Final = 8192
RULES: Final = tuple(rule for rule in GuardrailsConfig.__struct_fields__ if rule != "enabled")


class StoredReply(Struct, frozen=True):
    """A complete reply of the server."""

    parts: tuple[Part, ...]
    ended: ReplyEnded
    seconds: float


class RecordedModel:
    """Asks `inner` once for each request and stores the reply."""

    def __init__(self, inner: Model, folder: Path | None) -> None:
        self._inner = inner
        self._folder = folder
        self.requests: list[StoredReply] = []

    @property
    def provider(self) -> str:
        return self._inner.provider

    @property
    def name(self) -> str:
        return self._inner.name

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        reply = await self._reply(messages, tools, settings)
        self.requests.append(reply)
        for part in reply.parts:
            yield PartEnded(part)
        yield reply.ended

    async def _reply(self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings) -> StoredReply:
        sent = (messages, [(tool.api_name, tool.description, tool.input_schema) for tool in tools])
        asked = msgspec.json.encode((sent, settings.response_schema, settings.max_tokens, settings.temperature))
        place = None if self._folder is None else self._folder / f"{hashlib.sha256(asked).hexdigest()[:32]}.json"
        if place is not None and place.exists():
            return msgspec.json.decode(place.read_bytes(), type=StoredReply)
        begun = time.monotonic()
        parts: list[Part] = []
        ended = ReplyEnded("other", Usage())
        async for event in self._inner.stream(messages, tools, settings):
            match event:
                case Retrying():
                    parts.clear()
                case PartEnded(part):
                    parts.append(part)
                case ReplyEnded():
                    ended = event
                case _:
                    pass
        reply = StoredReply(tuple(parts), ended, round(time.monotonic() - begun, 2))
        if place is not None:
            place.write_bytes(msgspec.json.encode(reply))
        return reply


class PlayedModel(RecordedModel):
    """Gives the stored replies in order, whatever it is asked."""

    def __init__(self, replies: Sequence[StoredReply]) -> None:
        super().__init__(RemoteModel(endpoint("http://127.0.0.1:9")), None)
        self._left = list(replies)

    async def _reply(self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings) -> StoredReply:
        return self._left.pop(0)


def endpoint(address: str) -> Endpoint:
    return Endpoint(provider="llamacpp", api="openai-chat", model=MODEL, base_url=f"{address}/v1")


class Run(Struct, frozen=True, kw_only=True):
    """One task, done one way."""

    task: str
    kind: str
    wrong: str
    """Why the answer is wrong; empty if it is right."""
    outcome: str
    message: str
    answer: str
    replies: int
    calls: int
    own_calls: int
    """Calls that the runtime made itself."""
    malformed: int
    """Replies that were sent back because a call in them could not be read, and calls with invalid arguments."""
    tokens_in: int
    tokens_out: int
    seconds: float
    rules: tuple[str, ...]
    """What the guard-rails did, in order."""


async def run_task(task: Task, name: SetName, way: Way, rails: dict[str, bool], model: RecordedModel) -> Run:
    happened: list[AgentEvent] = []
    with tempfile.TemporaryDirectory() as home:
        root = Path(home) / "project"
        root.mkdir()
        build_project(root, name)
        (root / ".git/info").mkdir(exist_ok=True)
        (root / ".git/info/exclude").write_text("*.chat\n")
        before = snapshot(root)
        document = root / "ask.chat"
        document.write_text(f"@You:\n{task.prompt}\n")
        flags: dict[str, Any] = {
            "tools.profile": "minimal",
            "tools.allow": ["file.edit", "file.write"],
            "model.temperature": 0.0,
            "model.max_tokens": MAX_TOKENS,
            "model.context": CONTEXT,
            "chat.max_turns": MAX_TURNS,
            **{f"guardrails.{rule}": on for rule, on in rails.items()},
        }
        model.requests.clear()
        config = ModelConfig(name=f"llamacpp:{MODEL}", protocol=way)
        wrapped = with_protocol(model, config, edit_repair=rails.get("edit_repair", rails["enabled"]))
        async with open_chat(document, flags=flags, model=wrapped, on_event=happened.append) as chat:
            outcome = await chat.loop.advance()
            messages = chat.conversation.messages()
        document.unlink()
        answer = next((each.text for each in reversed(messages) if each.role == "assistant"), "")
        wrong = task.check(answer, root, before) if outcome.kind == "done" else f"{outcome.kind}: {outcome.message}"
    results = [event.result for event in happened if isinstance(event, ResultWritten)]
    uses = [use for event in happened if isinstance(event, ReplyWritten) for use in event.calls]
    invalid = sum(result.failure in ("bad_json", "invalid_arguments", "unknown_tool") for result in results)
    retried = sum(isinstance(event, Retrying) for event in happened)
    usage = [each.ended.usage for each in model.requests]
    return Run(
        task=task.id,
        kind=task.kind,
        wrong=wrong,
        outcome=outcome.kind,
        message=outcome.message,
        answer=answer,
        replies=len(model.requests),
        calls=len(uses),
        own_calls=sum(use.id.startswith("runtime-") for use in uses),
        malformed=invalid + retried,
        tokens_in=sum(each.input for each in usage),
        tokens_out=sum(each.output for each in usage),
        seconds=round(sum(each.seconds for each in model.requests), 1),
        rules=tuple(f"{event.rule}:{event.what}" for event in happened if isinstance(event, GuardrailApplied)),
    )


@contextmanager
def served(weights: Path) -> Generator[str]:
    """Start llama.cpp's server and yield its address."""
    environment = {**os.environ, "PYTHONPATH": str(weights / "python")}
    command = [sys.executable, str(Path(__file__).with_name("small_model_server.py")), str(weights / "model.gguf")]
    with subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        lines = (line.removeprefix("listening ").strip() for line in server.stdout if line.startswith("listening "))
        try:
            yield next(lines)
        finally:
            server.kill()


HEADER: Final = (
    "| | right | of which | replies | calls + the runtime's | malformed | tokens in + out | time |\n"
    "|---|---|---|---|---|---|---|---|"
)


def summary(runs: Sequence[Run]) -> str:
    kinds = dict.fromkeys(run.kind for run in runs)
    right = {kind: sum(not run.wrong for run in runs if run.kind == kind) for kind in kinds}
    own = sum(run.own_calls for run in runs)
    return " | ".join(
        (
            f"{sum(right.values())}/{len(runs)}",
            ", ".join(f"{kind} {count}" for kind, count in right.items()),
            f"{sum(run.replies for run in runs)}",
            f"{sum(run.calls for run in runs) - own} + {own}",
            f"{sum(run.malformed for run in runs)}",
            f"{sum(run.tokens_in for run in runs) / 1000:.1f}k + {sum(run.tokens_out for run in runs) / 1000:.1f}k",
            f"{sum(run.seconds for run in runs):.0f} s",
        )
    )


def describe(run: Run) -> str:
    steps = f"{run.replies} replies, {run.calls - run.own_calls} + {run.own_calls} calls, {run.malformed} malformed"
    head = f"  {'ok' if not run.wrong else 'NO'} {run.task}: {run.outcome}, {steps}, {run.seconds} s. {run.wrong}"
    return f"{head}\n     {' '.join(run.rules)}\n     {run.answer[:300]!r}"


def record(place: Path, replies: Sequence[StoredReply]) -> None:
    """Store replies without the server's name for the model, which may be a path."""
    named = [replace(reply, ended=replace(reply.ended, model="")) for reply in replies]
    place.write_bytes(msgspec.json.format(msgspec.json.encode(named)) + b"\n")


def variants(options: argparse.Namespace) -> dict[str, tuple[Way, dict[str, bool]]]:
    """What is run, by its name in the table: the way, and the rules."""
    found: dict[str, tuple[Way, dict[str, bool]]] = {}
    for way in cast("list[Way]", options.ways.split(",")):
        for rails in filter(None, options.rails.split(",")):
            found[f"{way}, {'with' if rails == 'on' else 'without'} guard-rails"] = way, {"enabled": rails == "on"}
        for rule in RULES if options.ablate else ():
            found[f"{way}, without `{rule}`"] = way, {"enabled": True, rule: False}
    return found


async def measure(options: argparse.Namespace, model: RecordedModel, tasks: Sequence[Task]) -> None:
    print(HEADER, flush=True)
    for variant, (way, rails) in variants(options).items():
        runs: list[Run] = []
        for task in tasks:
            run = await run_task(task, options.set, way, rails, model)
            runs.append(run)
            if options.verbose:
                print(describe(run), flush=True)
            if options.record:
                record(options.record / f"{task.id}.{way}.json", model.requests)
        print(f"| {variant} | {summary(runs)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help="the folder with llama.cpp and the weights")
    parser.add_argument("--server", help="the address of a running server instead")
    parser.add_argument("--set", default="dev", choices=tuple(TASKS), help="the set of tasks (default: dev)")
    parser.add_argument("--ways", default=",".join(WAYS), help="native, text, constrained (default: all)")
    parser.add_argument("--rails", default="on,off", help="guard-rails on, off or both (default: both)")
    parser.add_argument("--only", default="", help="ids of tasks, separated by commas")
    parser.add_argument("--ablate", action="store_true", help="also run with each rule switched off")
    parser.add_argument("--replies", type=Path, help="the folder of stored replies")
    parser.add_argument("--record", type=Path, help="write the replies of each task to this folder, for the tests")
    parser.add_argument("-v", "--verbose", action="store_true", help="show each run")
    options = parser.parse_args()
    for folder in filter(None, (options.replies, options.record)):
        folder.mkdir(parents=True, exist_ok=True)
    tasks = [task for task in TASKS[options.set] if not options.only or task.id in options.only.split(",")]
    if not (options.server or options.weights):
        parser.error("give --weights or --server")
    if unknown := {*options.ways.split(",")} - {*WAYS}:
        parser.error(f"--ways has no {', '.join(sorted(unknown))}; give some of {', '.join(WAYS)}")
    if not tasks:
        parser.error(f"--only names no task of the set {options.set}")
    with served(options.weights) if options.weights else nullcontext(options.server) as address:
        model = RecordedModel(RemoteModel(endpoint(address)), options.replies)
        asyncio.run(measure(options, model, tasks))


if __name__ == "__main__":
    main()
