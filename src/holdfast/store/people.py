"""The people who may use the daemon: their tokens, one-time login codes and browser sessions.

Only hashes are stored: who reads the file cannot log in with it. Every secret is random and 256 bits long, so a plain
SHA-256 is enough.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from holdfast.contract.errors import ConfigError, LedgerUnavailable
from holdfast.fs.replace import make_private
from holdfast.store.process_identity import os_user

Right = Literal["view", "answer"]
"""`view` reads everything; `answer` may also answer, cancel, undo, grant, schedule and advance documents."""
TOKEN_PREFIX: Final = "hf_"  # noqa: S105 - makes a leaked token recognisable
CODE_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 30 * 86_400.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_BUSY_SECONDS: Final = 5.0
_MAX_CODES: Final = 100
_CHANGE_COUNTER: Final = 24
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, right TEXT NOT NULL, token BLOB NOT NULL UNIQUE, created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS codes (
    hash BLOB PRIMARY KEY, name TEXT, expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    hash BLOB PRIMARY KEY, name TEXT, created REAL NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
"""In `codes` and `sessions`, no name means the operating-system account that owns the file."""


class Person(Struct, frozen=True, kw_only=True):
    """Somebody who authenticated."""

    name: str
    identity: str
    """`os:NAME` for the operating-system account, `token:NAME` for a person who has a token."""
    right: Right
    created: float = 0.0

    @property
    def may_answer(self) -> bool:
        return self.right == "answer"


def local_person() -> Person:
    """The operating-system account that this process runs as."""
    name = os_user()
    return Person(name=name, identity=f"os:{name}", right="answer")


class People:
    """The file of people in the user's state folder. Several processes may use it at the same time."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock

    def version(self) -> bytes:
        """Changes with every transaction: the change counter in the header of the file."""
        try:
            with self._path.open("rb") as file:
                file.seek(_CHANGE_COUNTER)
                return file.read(4)
        except OSError:
            return b""

    def add(self, name: str, right: Right = "answer") -> str:
        """Add a person and return their token, which is not stored. Raises `ConfigError` for a name that is taken."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"'{name}' is no name: use up to 64 letters, digits and ._- and begin with a letter.")
        token = f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}"
        row = (name, right, _hash(token), self._clock())
        with self._transaction() as database:
            try:
                database.execute("INSERT INTO people VALUES (?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise ConfigError(f"There is a person '{name}' already. Remove them first for a new token.") from None
        return token

    def remove(self, name: str) -> bool:
        """Remove a person with their codes and sessions; False if there is none of this name."""
        with self._transaction() as database:
            for table in ("codes", "sessions"):
                database.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608
            return database.execute("DELETE FROM people WHERE name = ?", (name,)).rowcount > 0

    def list(self) -> list[Person]:
        """The people who have a token, by name."""
        with self._transaction() as database:
            rows = database.execute("SELECT name, right, created FROM people ORDER BY name").fetchall()
        return [_person(*row) for row in rows]

    def with_token(self, token: str) -> Person | None:
        sql = "SELECT name, right, created FROM people WHERE token = ?"
        with self._transaction() as database:
            row = database.execute(sql, (_hash(token),)).fetchone()
        return None if row is None else _person(*row)

    def create_code(self, name: str | None = None) -> str:
        """Return a code that logs in once within `CODE_SECONDS`: as this person, or as the operating-system account."""
        code, now = secrets.token_urlsafe(32), self._clock()
        with self._transaction() as database:
            if name is not None and not self._exists(database, name):
                raise ConfigError(f"There is no person '{name}'. `holdfast serve people` lists them.")
            database.execute("DELETE FROM codes WHERE expires <= ?", (now,))
            oldest = "SELECT hash FROM codes ORDER BY expires DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM codes WHERE hash IN ({oldest})", (_MAX_CODES,))  # noqa: S608
            database.execute("INSERT INTO codes VALUES (?, ?, ?)", (_hash(code), name, now + CODE_SECONDS))
        return code

    def log_in(self, secret: str) -> tuple[str, Person] | None:
        """Start a session with a code, which is used up, or with a token. Returns the session's secret."""
        now = self._clock()
        session = secrets.token_urlsafe(32)
        with self._transaction() as database:
            used = database.execute(
                "DELETE FROM codes WHERE hash = ? AND expires > ? RETURNING name", (_hash(secret), now)
            ).fetchone()
            if used is None:
                used = database.execute("SELECT name FROM people WHERE token = ?", (_hash(secret),)).fetchone()
            person = None if used is None else self._find(database, used[0])
            if used is None or person is None:
                return None
            database.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            row = (_hash(session), used[0], now, now + SESSION_SECONDS)
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", row)
        return session, person

    def in_session(self, secret: str) -> Person | None:
        """The person of a session; None if it has ended or expired, or the person was removed."""
        sql = "SELECT name FROM sessions WHERE hash = ? AND expires > ?"
        with self._transaction() as database:
            row = database.execute(sql, (_hash(secret), self._clock())).fetchone()
            return None if row is None else self._find(database, row[0])

    def log_out(self, secret: str) -> None:
        with self._transaction() as database:
            database.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),))

    def _find(self, database: sqlite3.Connection, name: str | None) -> Person | None:
        if name is None:
            return local_person()
        row = database.execute("SELECT name, right, created FROM people WHERE name = ?", (name,)).fetchone()
        return None if row is None else _person(*row)

    def _exists(self, database: sqlite3.Connection, name: str) -> bool:
        return database.execute("SELECT 1 FROM people WHERE name = ?", (name,)).fetchone() is not None

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """A connection per transaction: they are rare, and a connection belongs to one thread."""
        try:
            make_private(self._path)
            database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        except (OSError, sqlite3.Error) as error:
            raise LedgerUnavailable(f"The list of people {self._path} cannot be opened ({error}).") from error
        try:
            with database:
                if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                    database.executescript(_TABLES)
                yield database
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"The list of people {self._path} cannot be used ({error}).") from error
        finally:
            database.close()


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _person(name: str, right: Right, created: float) -> Person:
    # Whatever else the file says: only the one word allows to answer.
    return Person(name=name, identity=f"token:{name}", right="answer" if right == "answer" else "view", created=created)
