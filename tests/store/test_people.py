"""The people who may use the daemon: tokens, codes that work once, and sessions."""

from __future__ import annotations

import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.contract.errors import ConfigError, LedgerUnavailable
from holdfast.store.people import CODE_SECONDS, SESSION_SECONDS, TOKEN_PREFIX, People
from holdfast.store.process_identity import os_user
from tests.soak import rounds


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(tmp_path: Path, clock: Clock) -> People:
    return People(tmp_path / "state" / "people.db", clock)


pytestmark = pytest.mark.spec("E3b")


def test_a_token_names_its_person_and_is_not_stored(people: People, tmp_path: Path) -> None:
    token = people.add("ann")
    viewer = people.add("bob", "view")
    assert token.startswith(TOKEN_PREFIX)
    found = people.with_token(token)
    assert found is not None
    assert (found.name, found.identity, found.may_answer) == ("ann", "token:ann", True)
    looker = people.with_token(viewer)
    assert looker is not None and not looker.may_answer
    assert people.with_token("") is None
    assert people.with_token(f"{token} ") is None
    content = (tmp_path / "state" / "people.db").read_bytes()
    assert token.encode() not in content and token.removeprefix(TOKEN_PREFIX).encode() not in content


def test_the_file_is_private(people: People, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        people.add("ann")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state" / "people.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", ".ann", "-x", "a b", "ann\n", "a/b", "ä", "a" * 65, "a:b"])
def test_a_name_that_could_be_misread_is_refused(people: People, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name"):
        people.add(name)


def test_a_name_is_taken_until_the_person_is_removed(people: People) -> None:
    first = people.add("ann")
    with pytest.raises(ConfigError, match="already"):
        people.add("ann")
    assert people.remove("ann") is True
    assert people.remove("ann") is False
    assert people.with_token(first) is None
    assert people.with_token(people.add("ann")) is not None
    assert people.with_token(first) is None, "the old token stays dead"


def test_a_code_logs_in_once(people: People) -> None:
    code = people.create_code()
    found = people.log_in(code)
    assert found is not None
    assert found[1].identity == f"os:{os_user()}"
    assert people.log_in(code) is None
    assert people.in_session(found[0]) == found[1]
    assert people.in_session(code) is None


def test_of_many_who_use_a_code_at_once_one_gets_in(people: People) -> None:
    for _ in range(rounds(5, 100)):
        code = people.create_code()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(people.log_in, [code] * 8))
        assert sum(session is not None for session in found) == 1


def test_a_code_and_a_session_expire(people: People, clock: Clock) -> None:
    late, used = people.create_code(), people.create_code()
    session = people.log_in(used)
    assert session is not None
    clock.now += CODE_SECONDS
    assert people.log_in(late) is None
    assert people.in_session(session[0]) is not None
    clock.now += SESSION_SECONDS
    assert people.in_session(session[0]) is None


def test_a_code_for_a_person_logs_in_as_that_person(people: People) -> None:
    people.add("ann", "view")
    found = people.log_in(people.create_code("ann"))
    assert found is not None and (found[1].name, found[1].may_answer) == ("ann", False)
    with pytest.raises(ConfigError, match="There is no person 'bob'"):
        people.create_code("bob")


def test_a_removed_person_is_out_at_once(people: People) -> None:
    people.add("ann")
    session = people.log_in(people.create_code("ann"))
    unused = people.create_code("ann")
    before = people.version()
    assert session is not None
    people.remove("ann")
    assert people.version() != before
    assert people.in_session(session[0]) is None
    assert people.log_in(unused) is None
    people.add("ann")
    assert people.in_session(session[0]) is None, "a namesake does not inherit it"
    assert people.log_in(unused) is None


def test_logging_out_ends_one_session(people: People) -> None:
    first, second = people.log_in(people.create_code()), people.log_in(people.create_code())
    assert first is not None and second is not None
    people.log_out(first[0])
    assert people.in_session(first[0]) is None
    assert people.in_session(second[0]) is not None


def test_codes_that_nobody_uses_are_bounded_and_the_oldest_go_first(people: People, clock: Clock) -> None:
    codes: list[str] = []
    for _ in range(150):
        clock.now += 1
        codes.append(people.create_code())
    assert people.log_in(codes[0]) is None
    assert people.log_in(codes[-1]) is not None


def test_only_the_word_answer_allows_to_answer(people: People, tmp_path: Path) -> None:
    token = people.add("ann")
    with sqlite3.connect(tmp_path / "state" / "people.db") as database:
        database.execute("UPDATE people SET right = 'Answer '")
    database.close()
    found = people.with_token(token)
    assert found is not None and not found.may_answer


def test_a_damaged_file_lets_nobody_in(people: People, tmp_path: Path) -> None:
    token = people.add("ann")
    (tmp_path / "state" / "people.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(LedgerUnavailable, match=r"people\.db"):
        people.with_token(token)
