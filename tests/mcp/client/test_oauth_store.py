"""What is kept of a login: the file, and the renewal of the token in it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.config import McpServer
from holdfast.mcp.client.oauth import LoginFailed, LoginNeeded
from holdfast.mcp.client.oauth_store import forget_login, login_file
from holdfast.runtime.runtime import Runtime
from tests.attached import attached
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.login_fixtures import Person, ask, kept_in, login_of, run, server_of

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def served() -> Iterator[Authority]:
    with authority() as made:
        yield made


@pytest.fixture
def there(served: Authority) -> Authority:
    served.reset()
    return served


def test_a_login_survives_the_process(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert there.count("authorize") == 1


def test_without_a_state_folder_a_login_lasts_as_long_as_the_runtime(there: Authority) -> None:
    person = Person()
    runtime = attached(Runtime(), elicitor=person)
    run(ask(login_of(there, person, runtime=runtime)))
    assert run(ask(login_of(there, person, runtime=runtime))) == 200
    assert len(person.asked) == 1
    with pytest.raises(LoginNeeded):
        run(ask(login_of(there, None)))


def test_what_is_kept_is_for_this_account_only_and_no_half_file_is_left(there: Authority, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run(ask(login_of(there, Person(), state)))
    (path,) = (state / "mcp" / "logins").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (state, state / "mcp", state / "mcp" / "logins"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_servers_with_one_name_do_not_share_a_login(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    other = McpServer(url="https://elsewhere.example/mcp")
    assert login_file("docs", other, tmp_path).read().tokens is None


def test_a_forgotten_login_is_gone_and_forgetting_twice_is_harmless(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    server = server_of(there)
    assert [forget_login("docs", server, tmp_path), forget_login("docs", server, tmp_path)] == [True, False]
    assert forget_login("docs", server, None) is False
    with pytest.raises(LoginNeeded):
        run(ask(login_of(there, None, tmp_path)))


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"tokens": {"access_token": 7}}', b"\xff\xfe"])
def test_a_damaged_file_is_no_login(there: Authority, tmp_path: Path, damage: bytes) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    path.write_bytes(damage)
    person = Person()
    assert run(ask(login_of(there, person, tmp_path))) == 200
    assert len(person.asked) == 1


def test_a_link_in_place_of_the_file_is_not_followed(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    elsewhere = path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(elsewhere)
    assert login_file("docs", server_of(there), tmp_path).read().tokens is None


def test_an_expired_token_is_renewed_without_asking_anybody(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.lifetime = 3600
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert there.count("refresh_token") == 1
    assert there.last("refresh_token")["resource"] == f"{there.base}/mcp"
    assert kept_in(tmp_path)["tokens"]["refresh_token"] != there.last("refresh_token")["refresh_token"]


def test_a_token_the_server_no_longer_takes_is_renewed_before_a_person_is_asked(
    there: Authority, tmp_path: Path
) -> None:
    there.lifetime = None
    run(ask(login_of(there, Person(), tmp_path)))
    there.valid.clear()
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert (there.count("refresh_token"), there.count("authorize")) == (1, 1)


def test_a_refresh_token_that_is_over_means_a_new_login(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.refreshers.clear()
    with pytest.raises(LoginNeeded, match=r"Log in with `holdfast mcp login docs`"):
        run(ask(login_of(there, None, tmp_path)))
    assert "tokens" not in {name for name, value in kept_in(tmp_path).items() if value is not None}
    person = Person()
    assert run(ask(login_of(there, person, tmp_path))) == 200
    assert len(person.asked) == 1


def test_a_login_service_in_trouble_costs_nobody_the_login(there: Authority, tmp_path: Path) -> None:
    there.lifetime, there.refresh_status = -1, 503
    run(ask(login_of(there, Person(), tmp_path)))
    person = Person()
    login = login_of(there, person, tmp_path)
    with pytest.raises(LoginFailed, match="HTTP 503"):
        run(ask(login))
    there.refresh_status, there.lifetime = 200, 3600
    assert run(ask(login)) == 200
    assert person.asked == []


def test_a_login_in_another_process_is_taken_up(there: Authority, tmp_path: Path) -> None:
    login = login_of(there, None, tmp_path)
    with pytest.raises(LoginNeeded):
        run(ask(login))
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login)) == 200


def test_a_person_who_said_no_and_logged_in_elsewhere_is_asked_when_that_is_over(
    there: Authority, tmp_path: Path
) -> None:
    person = Person("decline")
    login = login_of(there, person, tmp_path)
    with pytest.raises(LoginNeeded):
        run(ask(login))
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login)) == 200
    there.valid.clear()
    there.refreshers.clear()
    person.action = "accept"
    assert run(ask(login)) == 200
    assert len(person.asked) == 2


def test_connections_whose_token_has_expired_renew_it_once(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.lifetime = 3600
    login = login_of(there, None, tmp_path)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(ask(login) for _ in range(4)))

    assert run(all_at_once()) == [200] * 4
    assert there.count("refresh_token") == 1
