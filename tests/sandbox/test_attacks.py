"""The attacks work: with a defence removed, the attack against it succeeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.sandbox import escape_tests
from holdfast.sandbox.launch import Backend, Launch
from holdfast.sandbox.policy import SandboxPolicy
from tests.sandbox.weakened_backend import Weaken, Weakened


def without(*words: str) -> Weaken:
    """Remove the options with these words."""
    wanted = b"".join(os.fsencode(word) + b"\0" for word in words)

    def weaken(launch: Launch) -> Launch:
        assert wanted in launch.files[0]
        return replace(launch, files=(launch.files[0].replace(wanted, b""), *launch.files[1:]))

    return weaken


def unfiltered(launch: Launch) -> Launch:
    return replace(launch, argv=tuple(word for word in launch.argv if word not in ("--seccomp", "{fd1}")))


def unswept(launch: Launch) -> Launch:
    return replace(launch, cleanup=())


def unlimited(launch: Launch) -> Launch:
    return replace(launch, rlimits=(), cgroups=())


def with_all_variables(launch: Launch) -> Launch:
    return replace(launch, env={**os.environ, **launch.env})


def readable(policy: SandboxPolicy) -> SandboxPolicy:
    return replace(policy, read_deny=())


def wide_open(policy: SandboxPolicy) -> SandboxPolicy:
    return replace(policy, writable=(Path(str(policy.root)),))


@pytest.mark.spec("N1", "A8")
@pytest.mark.parametrize(
    ("backend", "escapes"),
    [
        (Weakened(without("--unshare-net")), {"tcp", "udp"}),
        (Weakened(without("--unshare-pid")), {"host-processes"}),
        (Weakened(without("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")), {"first-process"}),
        (Weakened(unfiltered), {"unix-socket", "system-calls", "keys", "capabilities"}),
        (Weakened(unswept), {"create-protected", "rename-parent"}),
        (Weakened(unlimited), {"resources"}),
        (Weakened(with_all_variables), {"secrets"}),
        (Weakened(policy=readable), {"read-denied"}),
        (Weakened(policy=wide_open), {"write-outside", "links"}),
    ],
    ids=["net", "pid", "first", "seccomp", "sweep", "limits", "variables", "denied", "writable"],
)
def test_each_attack_succeeds_without_its_defence(backend: Backend, escapes: set[str]) -> None:
    found = escape_tests.run_escape_tests(backend, escapes)
    assert {case.name for case in found if not case.contained} == escapes, found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's own settings need it")
@pytest.mark.spec("N1", "A8")
def test_root_could_change_kernel_settings_without_the_masks_over_proc() -> None:
    found = escape_tests.run_escape_tests(Weakened(without("--ro-bind", "/proc/sys", "/proc/sys")), ["kernel-settings"])
    assert not found[0].contained
    assert "core_pattern" in found[0].detail
