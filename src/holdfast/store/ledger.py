"""The append-only ledger of a project: every call, decision, answer, before-image, result and grant, in order."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall, ProcessIdentity
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import GrantRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.store import operations
from holdfast.store.blobs import Blobs
from holdfast.store.changes import AfterImage, content_state, encode_path
from holdfast.store.database import GENESIS, IN_MEMORY, Database, Durability, Op, Transaction
from holdfast.store.entries import (
    BeforeImage,
    BodyEncoder,
    BodyReader,
    Grant,
    GrantAdded,
    GrantRevoked,
    GrantUsed,
    Scope,
    VerifyReport,
)
from holdfast.store.process_identity import is_alive, os_user, own_identity, this_process
from holdfast.store.projections import encode_row
from holdfast.store.queries import Queries
from holdfast.store.redact import Redactor
from holdfast.store.verify import verify

if TYPE_CHECKING:
    from holdfast.store.group_commit import GroupCommitWriter

T = TypeVar("T")


class Ledger(Queries):
    """One per project, shared by all processes that work on it. Methods ending in `_now` need no event loop."""

    def __init__(self, database: Database, blobs: Blobs, redactor: Redactor) -> None:
        super().__init__(database, BodyReader(blobs))
        self.path = database.path
        self.blobs = blobs
        self.redactor = redactor
        self.encode_body = BodyEncoder(redactor, blobs)
        self.grant_changes = 0
        """Counts the changes that this process made to the grants; invalidates their cache."""

    @classmethod
    def open(
        cls, path: Path, *, durability: Durability = "process", redact: Redactor | None = None, read_only: bool = False
    ) -> Self:
        """With durability `process` a commit survives a crash of the process, with `power` also a power failure."""
        redactor = redact or Redactor()
        database = Database.open(path, durability=durability, read_only=read_only)
        return cls(database, Blobs(path.parent / "blobs", redactor, sync=durability == "power"), redactor)

    @classmethod
    def in_memory(cls, *, redact: Redactor | None = None) -> Self:
        """Return a ledger that is lost when the process ends."""
        redactor = redact or Redactor()
        return cls(Database.in_memory(), Blobs(None, redactor), redactor)

    @property
    def volatile(self) -> bool:
        """Whether the ledger is lost when the process ends."""
        return self.path == IN_MEMORY

    def close(self) -> None:
        if "_writer" in self.__dict__:
            self._writer.drain()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, op: Op[T]) -> T:
        """Run and commit the operation now. Blocks while another process writes."""
        return self._database.run(op)

    async def commit(self, op: Op[T]) -> T:
        """Commit the operation, together with other writes of this event loop iteration."""
        return await self._writer.commit(op)

    async def record_call(
        self, call: Call, decision: Decision, result: Result, *, original_args: object = None
    ) -> None:
        """Record a call with its result in one entry: a pure call, or one that was denied or invalid."""
        await self._writer.commit(operations.record_call(self.encode_body, call, decision, result, original_args))

    def record_call_now(self, call: Call, decision: Decision, result: Result, *, original_args: object = None) -> None:
        self.run(operations.record_call(self.encode_body, call, decision, result, original_args))

    async def add_pending(self, pending: PendingCall) -> None:
        """Store a new pending call; it survives a restart. If the caller is cancelled meanwhile, the call is ended."""
        op = operations.add_pending(self.encode_body, pending)
        await self._writer.commit(op, droppable=True, if_lost=lambda: self._never_began(pending.call.id))
        self.cache_pending(pending)

    async def replace_pending(self, pending: PendingCall, reason: str, *, only_pending: bool = False) -> None:
        """Replace a pending or approved call by a new version, which needs a new answer."""
        await self._writer.commit(
            operations.replace_pending(self.encode_body, self.read_body, pending, reason, only_pending=only_pending)
        )
        self.cache_pending(pending)

    def answer(
        self,
        call_id: str,
        answer: Answer,
        *,
        digest: str,
        result: Result | None = None,
        becomes: PendingCall | None = None,
    ) -> PendingCall:
        """Store an answer to the call with this digest. An approved call may run; an edited call stays pending, and so
        does one that another person must approve, too.

        `result` is the full result if the answer gives one. `becomes` is the widened call that an approval produces;
        it is stored in the same transaction, so it is never pending itself.
        """
        signed = replace(answer, user=os_user(), identity=answer.identity or own_identity())
        answered = self.run(
            operations.answer(self.encode_body, self.read_body, call_id, signed, digest, result, becomes)
        )
        if becomes is not None:
            self.cache_pending(becomes)
        return self.unredacted(answered)

    async def begin(
        self, call: Call, *, digest: str | None, definition_digest: str, mutates: bool, decision: Decision
    ) -> None:
        """Write the intent before the tool runs. With a digest, it consumes the approval of exactly that version."""
        op = operations.begin(self.encode_body, this_process(), call, digest, definition_digest, mutates, decision)
        await self._writer.commit(op, droppable=True, if_lost=lambda: self._never_began(call.id))

    def begin_now(self, call: Call, *, definition_digest: str, mutates: bool, decision: Decision) -> None:
        self.run(operations.begin(self.encode_body, this_process(), call, None, definition_digest, mutates, decision))

    async def end(self, call_id: str, result: Result) -> bool:
        """Store the call's only result. Returns False and writes nothing if the call is not open."""
        ended = await self._writer.commit(operations.end(self.encode_body, call_id, result))
        self.uncache_pending(call_id)
        return ended

    def end_now(self, call_id: str, result: Result, *, unless_running: bool = False) -> bool:
        ended = self.run(operations.end(self.encode_body, call_id, result, unless_running=unless_running))
        self.uncache_pending(call_id)
        return ended

    def expire(self, pending: PendingCall, result: Result) -> bool:
        """End a pending call whose time is up. Returns False if it was answered or changed in the meantime."""
        ended = self.run(operations.expire(self.encode_body, pending, result))
        self.uncache_pending(pending.call.id)
        return ended

    def recover(self) -> list[str]:
        """End the running calls of dead processes; pending calls stay pending. Idempotent, from any process."""
        rows = self.rows("SELECT call, pid, pid_start, mutates FROM open_calls WHERE state = 'running'")
        gone = {owner for owner in {row[1:3] for row in rows} if not is_alive(ProcessIdentity(*owner))}
        dead = [(call, pid, started, bool(mutates)) for call, pid, started, mutates in rows if (pid, started) in gone]
        return self.run(operations.interrupt(self.encode_body, dead)) if dead else []

    def before_image(self, call_id: str, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Store the content of a path before the call changes it; None if the path does not exist."""
        blob = None if content is None else self.blobs.put(content)
        body = self.encode_body(BeforeImage(encode_path(str(path)), blob, mode, len(content or b"")))
        self.run(lambda tx: tx.append(call_id, "before", body))

    def after_image(self, call_id: str, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Record the state of a path after the call changed it. Only the digest of the content is stored."""
        body = self.encode_body(AfterImage(encode_path(str(path)), content_state(content, mode)))
        self.run(lambda tx: tx.append(call_id, "after", body))

    def verify(self, anchor: str | None = None) -> VerifyReport:
        return verify(self._database, self.read_body, anchor)

    def head(self) -> str:
        """Return the last hash of the chain."""
        rows = self.rows("SELECT hash FROM entries ORDER BY id DESC LIMIT 1")
        return (rows[0][0] if rows else GENESIS).hex()

    def shrink(self) -> bool:
        """Return the space of pruned entries to the file system; False if another process uses the file."""
        return self._database.shrink()

    @cached_property
    def _writer(self) -> GroupCommitWriter:
        # Imported late because it imports asyncio, which synchronous commands do not need.
        from holdfast.store.group_commit import GroupCommitWriter

        return GroupCommitWriter(self._database)

    @cached_property
    def grants(self) -> Grants:
        """The grants of this project, without those of the user."""
        return Grants(self)

    def version(self) -> tuple[int, int]:
        """Return a cheap value that changes after every commit of any process."""
        return self._database.version()

    def _never_began(self, call_id: str) -> None:
        text = f"Call {call_id} was cancelled before it began. Nothing was done."
        result = Result(False, error=text, state=State.CANCELLED, failure=Failure.CANCELLED, call_id=call_id)
        self.end_now(call_id, result)


__all__ = ["Grant", "Grants", "Scope"]

_decoder: Final = msgspec.json.Decoder(Grant)
_Version = tuple[int, int]


class Grants:
    """The grants of a project and, with `with_user`, of the user. User grants are stored in the user's own ledger."""

    def __init__(self, ledger: Ledger, user_path: Path | None = None) -> None:
        self._ledger = ledger
        self._user_path = user_path
        self._user: Ledger | None = None
        self._known: dict[Ledger, tuple[_Version, list[Grant]]] = {}

    def with_user(self, path: Path) -> Grants:
        """Return these grants together with those in the user's ledger at `path`."""
        return Grants(self._ledger, path)

    @property
    def has_user(self) -> bool:
        return self._user_path is not None

    def close(self) -> None:
        if self._user is not None:
            self._user.close()

    def add(
        self,
        *,
        tool: str,
        pattern: Args,
        scope: Scope,
        by: str,
        session: str | None = None,
        expires: float | None = None,
    ) -> Grant:
        """Add a grant for calls whose arguments match `pattern`. `expires` is a Unix time."""
        if scope == "session" and session is None:
            raise GrantRefused("A session grant needs a session. Name one, or choose another scope.")
        grant = Grant(
            id=f"g{os.urandom(5).hex()}",
            tool=tool,
            pattern=pattern,
            scope=scope,
            by=by,
            created=time.time(),
            session=session,
            expires=expires,
            uses=1 if scope == "once" else None,
        )
        _write(self._home_of(scope), grant)
        return grant

    def list(self, *, tool: str | None = None, session: str | None = None, every: bool = False) -> list[Grant]:
        """Return the grants in force, for one tool and session. `every` includes other sessions and expired ones."""
        now = time.time()
        return [
            grant
            for ledger in self._ledgers()
            for grant in self._grants_in(ledger)
            if (tool is None or grant.tool == tool)
            and (every or (grant.session in (None, session) and not (grant.expires and grant.expires <= now)))
        ]

    def revoke(self, grant_id: str, *, by: str) -> bool:
        """Revoke a grant; False if it does not exist."""
        return any(_revoke(ledger, grant_id, by) for ledger in self._ledgers())

    def consume(self, grant_id: str, call_id: str) -> bool:
        """Use a grant for a call. If several processes compete for the last use, exactly one gets True."""
        now = time.time()
        for ledger in self._ledgers():
            for grant in self._grants_in(ledger):
                if grant.id == grant_id and not (grant.expires and grant.expires <= now):
                    return grant.uses is None or _consume(ledger, grant_id, call_id)
        return False

    def _ledgers(self) -> tuple[Ledger, ...]:
        if self._user is None and self._user_path is not None and self._user_path.exists():
            self._user = Ledger.open(self._user_path, redact=self._ledger.redactor)
        return (self._ledger,) if self._user is None else (self._ledger, self._user)

    def _home_of(self, scope: Scope) -> Ledger:
        if scope != "user":
            return self._ledger
        if self._user is None and self._user_path is not None:
            self._user = Ledger.open(self._user_path, redact=self._ledger.redactor)
        if self._user is None:
            raise GrantRefused("User grants cannot be stored here. Choose the scope project.")
        return self._user

    def _grants_in(self, ledger: Ledger) -> list[Grant]:
        version = (ledger.version()[0], ledger.grant_changes)
        known = self._known.get(ledger)
        if known is None or known[0] != version:
            rows = ledger.rows("SELECT uses, body FROM grants ORDER BY id")
            known = (version, [grant for row in rows if (grant := _read(*row)) is not None])
            self._known[ledger] = known
        return known[1]


def _read(uses: object, body: object) -> Grant | None:
    """Decode a row. An unreadable grant allows nothing; `verify` reports it."""
    if not isinstance(body, str) or not (uses is None or isinstance(uses, int)):
        return None
    try:
        return replace(_decoder.decode(body), uses=uses)
    except ValueError:
        return None


def _write(ledger: Ledger, grant: Grant) -> None:
    body = ledger.encode_body(GrantAdded(grant))
    row = encode_row(ledger.read_body(body, GrantAdded).grant)

    def op(tx: Transaction) -> None:
        tx.append("", "granted", body)
        tx.execute("INSERT INTO grants (id, uses, body) VALUES (?, ?, ?)", (grant.id, grant.uses, row))

    ledger.run(op)
    ledger.grant_changes += 1


def _revoke(ledger: Ledger, grant_id: str, by: str) -> bool:
    body = ledger.encode_body(GrantRevoked(grant_id, by))

    def op(tx: Transaction) -> bool:
        if tx.execute("DELETE FROM grants WHERE id = ?", (grant_id,)).rowcount == 0:
            return False
        tx.append("", "revoked", body)
        return True

    done = ledger.run(op)
    ledger.grant_changes += 1
    return done


def _consume(ledger: Ledger, grant_id: str, call_id: str) -> bool:
    body = ledger.encode_body(GrantUsed(grant_id, call_id))

    def op(tx: Transaction) -> bool:
        row = tx.execute("SELECT uses FROM grants WHERE id = ?", (grant_id,)).fetchone()
        if row is None:
            return False
        tx.append("", "consumed", body)
        if row[0] > 1:
            tx.execute("UPDATE grants SET uses = uses - 1 WHERE id = ?", (grant_id,))
        else:
            tx.execute("DELETE FROM grants WHERE id = ?", (grant_id,))
        return True

    done = ledger.run(op)
    ledger.grant_changes += 1
    return done
