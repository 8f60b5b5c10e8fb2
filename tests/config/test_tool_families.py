"""The sections of tool families: what an untrusted file may do to them."""

from __future__ import annotations

import pytest

from holdfast.config.options import USER_ONLY, Section, options
from holdfast.config.tool_families import (
    BrowserConfig,
    GoogleConfig,
    K8sConfig,
    MediaConfig,
    MemoryConfig,
    MinioConfig,
    NetworkConfig,
    WebConfig,
)

REMOTE = [
    (NetworkConfig, "private"),
    (WebConfig, "search_url"),
    (BrowserConfig, "executable"),
    (MediaConfig, "vision_model"),
    (MediaConfig, "transcription_model"),
    (MediaConfig, "whisper_model"),
    (MemoryConfig, "shared"),
    *((MinioConfig, name) for name in ("endpoint", "public_endpoint", "bucket", "region", "access_key", "secret")),
    (MinioConfig, "style"),
    (MinioConfig, "ca_file"),
    (GoogleConfig, "client_id"),
    (GoogleConfig, "account"),
    (GoogleConfig, "endpoint"),
    (K8sConfig, "kubeconfig"),
    (K8sConfig, "exec_plugins"),
    (K8sConfig, "insecure"),
]
"""Options that name what a family reaches or runs."""


@pytest.mark.parametrize(("section", "name"), REMOTE, ids=[f"{section.__name__}.{name}" for section, name in REMOTE])
def test_only_the_user_says_what_a_family_reaches_or_runs(section: type[Section], name: str) -> None:
    assert options(section)[name].trust is USER_ONLY
