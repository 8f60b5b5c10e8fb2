"""The network log: private, bounded, append-only, shared by processes."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.net.network_log import (
    BURST_SECONDS,
    NETWORK_LOG,
    NetworkEntry,
    NetworkLog,
    Outcome,
    older_log,
    read_log,
)

pytestmark = pytest.mark.spec("N2c")


def entry(host: str = "a.example", at: float = 1000.0, outcome: Outcome = "allowed", **fields: str) -> NetworkEntry:
    return NetworkEntry(at=at, by=fields.pop("by", "test"), host=host, port=443, outcome=outcome, **fields)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> NetworkLog:
    return NetworkLog(tmp_path / NETWORK_LOG)


def test_an_entry_can_be_read_back_at_once(log: NetworkLog) -> None:
    log.record(entry())
    log.record(entry("b.example", outcome="refused", reason="It is private."))
    assert list(read_log(log.path)) == [entry(), entry("b.example", outcome="refused", reason="It is private.")]


def test_only_the_user_can_read_the_log(log: NetworkLog) -> None:
    before = os.umask(0)
    try:
        log.record(entry())
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_a_burst_is_two_lines_with_a_count(log: NetworkLog) -> None:
    for number in range(1000):
        log.record(entry(at=1000.0 + number / 1000))
    log.record(entry("other.example", at=1001.0))
    log.close()
    assert [(each.host, each.count) for each in read_log(log.path) if each is not None] == [
        ("a.example", 1),
        ("other.example", 1),
        ("a.example", 999),
    ]


def test_repetitions_are_written_when_the_burst_is_over(log: NetworkLog) -> None:
    for at in (1000.0, 1001.0, 1000.0 + BURST_SECONDS, 1001.0 + BURST_SECONDS):
        log.record(entry(at=at))
    assert [(each.at, each.count) for each in read_log(log.path) if each is not None] == [
        (1000.0, 1),
        (1001.0, 1),
        (1000.0 + BURST_SECONDS, 1),
    ]


def test_an_entry_is_written_again_after_the_clock_was_set_back(log: NetworkLog) -> None:
    for host, at in (("b.example", 10.0), ("a.example", 1000.0), ("a.example", 12.0)):
        log.record(entry(host, at=at))
    assert [each.at for each in read_log(log.path) if each is not None] == [10.0, 1000.0, 12.0]


def test_many_hosts_in_a_burst_are_all_written(log: NetworkLog) -> None:
    for number in range(3000):
        log.record(entry(f"host-{number}.example"))
    assert len({each.host for each in read_log(log.path) if each is not None}) == 3000


def test_a_log_is_rotated_and_stays_bounded(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / NETWORK_LOG, max_bytes=10_000)
    for number in range(1000):
        log.record(entry(f"host-{number}.example"))
    sizes = [log.path.stat().st_size, older_log(log.path).stat().st_size]
    assert max(sizes) <= 10_000
    kept = [each.host for each in read_log(log.path) if each is not None]
    assert kept == [f"host-{number}.example" for number in range(1000 - len(kept), 1000)]
    assert len(kept) > 60


_WRITER = """
import sys
from pathlib import Path
from holdfast.net.network_log import NetworkEntry, NetworkLog
log = NetworkLog(Path(sys.argv[1]), max_bytes=int(sys.argv[3]))
for number in range(200):
    log.record(NetworkEntry(at=1.0, by=sys.argv[2], host=f"host-{number}.example", port=443, outcome="allowed"))
"""


def write_at_once(path: Path, max_bytes: int) -> list[NetworkEntry]:
    """Let four processes write 200 entries each, and return what can be read afterwards."""
    words = [sys.executable, "-c", _WRITER, str(path)]
    writers = [subprocess.Popen([*words, str(number), str(max_bytes)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    entries = list(read_log(path))
    assert None not in entries
    return [entry for entry in entries if entry is not None]


def test_processes_that_write_at_once_lose_and_mix_no_lines(tmp_path: Path) -> None:
    path = tmp_path / NETWORK_LOG
    entries = write_at_once(path, max_bytes=1_000_000)
    written = {(each.by, each.host) for each in entries}
    assert written == {(str(by), f"host-{number}.example") for by in range(4) for number in range(200)}


def test_processes_that_rotate_at_once_write_whole_lines_and_keep_two_files(tmp_path: Path) -> None:
    entries = write_at_once(tmp_path / NETWORK_LOG, max_bytes=10_000)
    assert {each.by for each in entries} <= set("0123")
    assert {path.name for path in tmp_path.iterdir()} == {NETWORK_LOG, "network.1.jsonl", "network.lock"}


def test_a_log_that_another_process_keeps_from_being_rotated_stops_growing(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / NETWORK_LOG, max_bytes=1_000)
    with (tmp_path / "network.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hosts = (f"host-{number}.example" for number in range(1000))
        with pytest.raises(OSError, match="another process prevents its rotation"):
            deque(log.record(entry(host)) for host in hosts)
        assert log.path.stat().st_size < 10_000
    log.record(entry())
    assert log.path.stat().st_size < 1_000


def test_a_log_that_is_a_link_or_has_no_folder_cannot_be_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    (tmp_path / NETWORK_LOG).symlink_to(target)
    for path in (tmp_path / NETWORK_LOG, tmp_path / "missing" / NETWORK_LOG):
        with pytest.raises(OSError, match=NETWORK_LOG):
            NetworkLog(path).record(entry())
    assert target.read_bytes() == b""


def test_an_entry_that_could_not_be_written_is_written_when_it_is_repeated(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "later" / NETWORK_LOG)
    with pytest.raises(OSError, match=NETWORK_LOG):
        log.record(entry())
    log.path.parent.mkdir()
    log.record(entry())
    assert list(read_log(log.path)) == [entry()]


def test_damaged_lines_are_reported_and_do_not_hide_others(log: NetworkLog) -> None:
    log.record(entry())
    with log.path.open("ab") as file:
        file.write(b'{"at":1,"by"\n\xff\n[]\n\n')
    log.record(entry("b.example"))
    assert list(read_log(log.path)) == [entry(), None, None, None, entry("b.example")]


@given(by=st.text(), host=st.text(), reason=st.text(st.characters()), addresses=st.lists(st.text(), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_logged_is_one_bounded_line(
    tmp_path: Path, by: str, host: str, reason: str, addresses: list[str]
) -> None:
    path = tmp_path / NETWORK_LOG
    path.unlink(missing_ok=True)
    made = NetworkEntry(at=1.0, by=by, host=host, port=1, outcome="refused", addresses=tuple(addresses), reason=reason)
    NetworkLog(path).record(made)
    NetworkLog(path).record(entry())
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    assert len(lines[0]) < 32_768
    assert None not in read_log(path)
