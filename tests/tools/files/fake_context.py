"""A fake context for file tools, so that tests can run them thousands of times or in a bare process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from holdfast import Result, Tool
from holdfast.contract.call import Proposal
from holdfast.contract.context import Context, OutputSize
from holdfast.fs import paths
from holdfast.text import truncate


class FakeContext:
    """The parts of the context that file tools use."""

    def __init__(
        self, root: Path | None, *, cwd: Path | None = None, caps: OutputSize = "standard", **deny: Path
    ) -> None:
        self.root = root
        self.cwd = cwd or root or Path.cwd()
        self.caps = caps
        self.truncate = truncate
        self.cancelled = self.dry_run = False
        self.path = self.sandbox = self.storage = self
        self.kept: list[tuple[str, Path, bytes | None, int | None]] = []
        self._deny = deny

    def resolve(self, path: str) -> Path:
        return paths.resolve(path, self.root or self.cwd)

    def confine(self, path: str, *, mutating: bool = False) -> Path:
        assert self.root is not None
        return paths.confine(path, root=self.root, base=self.root, mutating=mutating)

    def is_path_readable(self, path: Path) -> bool:
        return "read" not in self._deny or not path.is_relative_to(self._deny["read"])

    def is_path_own(self, path: Path) -> bool:
        return False

    def is_path_secret(self, path: Path) -> bool:
        return "secret" in self._deny and path == self._deny["secret"]

    def is_path_writable(self, path: Path) -> bool:
        return "write" not in self._deny or not path.is_relative_to(self._deny["write"])

    def before_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        self.kept.append(("before", path, content, mode))

    def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        self.kept.append(("after", path, content, mode))


def propose(tool: Tool, ctx: FakeContext, **args: Any) -> Proposal | Result:
    assert tool.propose is not None
    return cast(Proposal | Result, tool.propose(tool.schema.validate(args), cast(Context, ctx)))


def use(tool: Tool, ctx: FakeContext, **args: Any) -> Result:
    """Run the whole call, approving its proposal at once."""
    if tool.propose is None:
        execute = cast(Callable[..., Result], tool.execute)
        return execute(tool.schema.validate(args), cast(Context, ctx))
    proposed = propose(tool, ctx, **args)
    if isinstance(proposed, Result):
        return proposed
    assert tool.apply is not None
    return cast(Result, tool.apply(dict(proposed.payload), cast(Context, ctx)))
