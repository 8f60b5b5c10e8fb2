"""The sections of tool families: what an untrusted file may do to them."""

from __future__ import annotations

import pytest

from holdfast.config.options import USER_ONLY, Section, options
from holdfast.config.tool_families import BrowserConfig, K8sConfig, MemoryConfig, NetworkConfig, WebConfig

REMOTE = [
    (NetworkConfig, "private"),
    (WebConfig, "search_url"),
    (BrowserConfig, "executable"),
    (MemoryConfig, "shared"),
    (K8sConfig, "kubeconfig"),
    (K8sConfig, "exec_plugins"),
    (K8sConfig, "insecure"),
]
"""Options that name what a family reaches or runs."""


@pytest.mark.parametrize(("section", "name"), REMOTE, ids=[f"{section.__name__}.{name}" for section, name in REMOTE])
def test_only_the_user_says_what_a_family_reaches_or_runs(section: type[Section], name: str) -> None:
    assert options(section)[name].trust is USER_ONLY
