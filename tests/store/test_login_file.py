"""A stored login: private, whole or absent, and locked against other processes."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from msgspec import Struct

from holdfast.store.login_file import LoginFile

pytestmark = pytest.mark.spec("B14i")


class Login(Struct, frozen=True):
    token: str = ""


NOTHING = Login()


def test_a_login_is_private_and_read_by_another_file_object(tmp_path: Path) -> None:
    path = tmp_path / "state" / "a.json"
    LoginFile(path, NOTHING).write(Login("secret"))
    assert LoginFile(path, NOTHING).read() == Login("secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"token": 7}', b"\xff"])
def test_a_damaged_file_is_no_login(tmp_path: Path, damage: bytes) -> None:
    file = LoginFile(tmp_path / "a.json", NOTHING)
    file.write(Login("secret"))
    (tmp_path / "a.json").write_bytes(damage)
    assert file.read() == NOTHING


def test_a_file_that_others_can_read_is_no_login(tmp_path: Path) -> None:
    file = LoginFile(tmp_path / "a.json", NOTHING)
    file.write(Login("secret"))
    (tmp_path / "a.json").chmod(0o644)
    assert file.read() == NOTHING


def test_forgetting_says_whether_there_was_a_login(tmp_path: Path) -> None:
    for file in (LoginFile(tmp_path / "a.json", NOTHING), LoginFile(None, NOTHING)):
        assert not file.forget()
        file.write(Login("secret"))
        assert file.read() == Login("secret") and file.forget() and file.read() == NOTHING


def test_the_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    async def hold(name: str) -> None:
        async with LoginFile(tmp_path / "a.json", NOTHING).locked(60):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    async def both() -> None:
        await asyncio.gather(*(hold(str(number)) for number in range(5)))

    asyncio.run(both())
    assert all(before.split()[0] == after.split()[0] for before, after in zip(order[::2], order[1::2], strict=True))


def test_a_lock_that_is_not_released_ends_the_wait(tmp_path: Path) -> None:
    async def wait() -> None:
        file = LoginFile(tmp_path / "a.json", NOTHING)
        async with file.locked(60):
            with pytest.raises(TimeoutError):
                async with file.locked(0.01):
                    pass

    asyncio.run(wait())
