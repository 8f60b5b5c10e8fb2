"""Settings of the storage tools: what the configuration makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Config
from holdfast.contract.enums import Verdict
from holdfast.contract.tool import Reach
from holdfast.factory.builtin import configured_tools, storage_settings
from holdfast.tools.storage.service import StorageSettings
from tests.runtime.support import run
from tests.tools.storage.servers import S3Server
from tests.tools.storage.storage_runtime import StorageRuntime

SERVER = {"endpoint": "https://s3.example.org", "access_key": "key"}


def tools(**minio: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in configured_tools(Config.from_dict({"minio": minio})) if tool.in_group("minio")}


@pytest.mark.spec("B9n")
def test_without_a_server_the_tools_say_what_to_set() -> None:
    found = tools()
    assert sorted(found) == ["minio.ingest", "minio.share", "minio.sync"]
    for tool in found.values():
        assert (
            tool.unavailable() == "it needs an S3 server. Set minio.endpoint and minio.access_key in your configuration"
        )
        assert tool.profiles == () and tool.presets == ()


@pytest.mark.spec("B9n")
@pytest.mark.parametrize(
    ("option", "value"), [("endpoint", "minio:9000"), ("endpoint", "ftp://x"), ("public_endpoint", "https://a/?b")]
)
def test_an_address_that_is_none_makes_the_tools_unavailable(option: str, value: str) -> None:
    told = tools(**{**SERVER, option: value})["minio.sync"].unavailable()
    assert told is not None and told.startswith(f"minio.{option}")


@pytest.mark.spec("B9n")
def test_each_tool_names_the_host_it_reaches_and_the_secret_it_needs() -> None:
    found = tools(**SERVER, bucket="stuff", secret="s3", style="virtual")
    assert found["minio.sync"].reaches({}) == Reach(("stuff.s3.example.org",))
    assert found["minio.sync"].reaches({"bucket": "other-one"}) == Reach(("other-one.s3.example.org",))
    assert found["minio.share"].reaches({}) == Reach(("stuff.s3.example.org",), sends=True)
    assert found["minio.share"].reaches({"bucket": "../x"}).sends
    assert all(tool.required_secret_scopes == ("s3",) for tool in found.values())
    assert (found["minio.share"].sinks, found["minio.share"].sources) == (("storage",), ())
    assert (found["minio.sync"].sinks, found["minio.ingest"].sources) == ((), ("storage",))


@pytest.mark.spec("B9n")
def test_every_option_reaches_the_settings() -> None:
    given: dict[str, Any] = {
        **SERVER,
        "public_endpoint": "https://files.example.org",
        "bucket": "stuff",
        "buckets": ("more",),
        "region": "eu-1",
        "secret": "s3",
        "ca_file": "/ca.pem",
        "timeout": 7.0,
        "max_upload_bytes": 1,
        "max_object_bytes": 2,
        "max_link_seconds": 3,
    }
    made = storage_settings(Config.from_dict({"minio": {**given, "style": "virtual"}, "memory": {"max_item_bytes": 9}}))
    assert made == StorageSettings(**given, virtual=True, max_item_bytes=9)


@pytest.mark.spec("B9n")
@pytest.mark.parametrize("name", ["a", "../etc", "a/b", "x" * 64, "-ab", "a b", "ab\n"])
def test_a_name_that_is_no_bucket_is_refused_before_anything_is_sent(
    minio: S3Server, tmp_path: Path, name: str
) -> None:
    made = StorageRuntime(tmp_path, minio, None)
    assert "is not the name of a bucket" in made.error("minio.sync", prefix="", bucket=name)
    assert "No bucket is named." in made.error("minio.sync", prefix="")


@pytest.mark.spec("B9n")
@pytest.mark.parametrize("tool", ["minio.share", "minio.ingest", "minio.sync"])
def test_requests_go_to_configured_buckets_only(tmp_path: Path, tool: str) -> None:
    """Names of buckets and keys are data, and the first requests are sent before anyone is asked."""
    made = StorageRuntime(tmp_path, None, "bucket-x", endpoint="http://127.0.0.1:1", buckets=("bucket-y",))
    made.write("a.txt", "x")
    args = {"minio.share": {"path": "a.txt"}, "minio.ingest": {"object_key": "a.txt"}, "minio.sync": {"prefix": ""}}
    told = made.error(tool, bucket="leaks-a-secret", **args[tool])
    assert told == (
        "The bucket leaks-a-secret is not configured. Use one that is, or ask the user to add it to minio.buckets."
    )
    assert "cannot be reached" in made.error(tool, bucket="bucket-y", **args[tool])


@pytest.mark.spec("B9n")
def test_a_bucket_that_would_name_another_host_is_refused(tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, None, "a.b", endpoint="http://127.0.0.1:1", virtual=True)
    assert made.error("minio.sync", prefix="") == 'a.b contains a ".", which minio.style = "virtual" does not allow.'


@pytest.mark.spec("B9n")
def test_a_listed_host_approves_no_call_and_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    """`network.hosts` approves requests that only read; these upload, or write to the memory."""
    made = StorageRuntime(
        tmp_path, None, "bucket-x", endpoint="http://127.0.0.1:1", config={"network": {"hosts": ["127.0.0.1:1"]}}
    )
    made.write("a.txt", "x")
    for tool, args in (
        ("minio.share", {"path": "a.txt"}),
        ("minio.ingest", {"object_key": "a.txt"}),
        ("minio.sync", {"prefix": ""}),
    ):
        decision = run(made.runtime.judge(tool, args))
        assert decision.verdict is Verdict.ASK, decision
    made.log.close()
    assert not (tmp_path / "state" / "network.log").exists()


@pytest.mark.spec("B9b")
def test_links_name_the_public_address(minio: S3Server, tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket(), public_endpoint="https://files.example.org")
    made.write("a.txt", "x")
    facts = made.facts("minio.share", path="a.txt")
    assert facts["url"].startswith(f"https://files.example.org/{made.settings.bucket}/shared/")
    assert "Link at:       https://files.example.org" in made.preview()
