"""Resolvers that user-level configuration names by import path."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Verdict
from holdfast.rules.chain import Chain
from holdfast.rules.from_config import standard_chain
from holdfast.rules.resolvers import CONFIG, PURE

from .approval_requests import READ, SHELL
from .chains import decided, listed

APPROVE, ASK, DENY = Verdict.APPROVE, Verdict.ASK, Verdict.DENY


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    modules = {
        "__init__": "",
        "strict": "def resolve(tool, args, ctx):\n    return 'deny' if tool == 'file.read' else None\n",
        "loose": "def approve(tool, args, ctx):\n    return tool == 'shell.exec' or None\n",
        "broken": "raise RuntimeError('at import')\n",
        "leaving": "raise SystemExit\n",
        "needy": "import there_is_no_such_module_anywhere\n",
    }
    for name, text in modules.items():
        file = tmp_path / "policies_under_test" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    for name in [name for name in sys.modules if name.startswith("policies_under_test")]:
        del sys.modules[name]


def importing(*paths: str, **fields: object) -> Chain:
    return standard_chain(listed(*paths, importable=paths, **fields))


@pytest.mark.spec("A2", "A5a")
@pytest.mark.usefixtures("package")
def test_a_module_path_in_the_list_is_a_separate_resolver() -> None:
    module, dotted, colon = (f"policies_under_test.{name}" for name in ("strict", "loose.approve", "loose:approve"))
    chain = importing(module, dotted, colon)
    assert decided(chain, READ) == (module, DENY)
    assert decided(chain, SHELL) == (dotted, APPROVE)
    chain.unregister(dotted)
    assert decided(chain, SHELL) == (colon, APPROVE)


@pytest.mark.spec("A2")
@pytest.mark.usefixtures("package")
def test_a_module_is_imported_on_first_use() -> None:
    chain = importing("policies_under_test.strict")
    assert "policies_under_test.strict" not in sys.modules
    decided(chain)
    assert "policies_under_test.strict" in sys.modules


@pytest.mark.spec("A2")
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "path", ["no_such_package_at_all.policy", "policies_under_test.strict:nothing", "policies_under_test.gone"]
)
def test_a_missing_module_causes_one_warning_and_passes(path: str, caplog: pytest.LogCaptureFixture) -> None:
    chain = importing(path, "$default")
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert [decided(chain) for _ in range(3)] == [(CONFIG, APPROVE)] * 3
    assert len([record for record in caplog.records if path in record.getMessage()]) == 1


@pytest.mark.spec("A3")
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("path", [f"policies_under_test.{name}" for name in ("broken", "needy", "leaving")])
def test_a_module_that_fails_to_import_is_a_failed_resolver(path: str) -> None:
    assert decided(importing(path, "$default")) == (CONFIG, APPROVE)
    assert decided(importing(path, "$default", on_error="ask")) == (path, ASK)


@pytest.mark.spec("A5a")
@pytest.mark.usefixtures("package")
def test_only_paths_from_user_level_configuration_are_imported() -> None:
    chain = standard_chain(listed("policies_under_test.loose:approve"))
    assert decided(chain, SHELL) == ("default", ASK)
    function = ApprovalConfig(auto_approve="policies_under_test.loose:approve", require_approval=False)
    assert decided(standard_chain(function), SHELL) == (CONFIG, ASK)
    assert "policies_under_test.loose" not in sys.modules


@pytest.mark.spec("A5a")
@pytest.mark.usefixtures("package")
def test_auto_approve_may_be_one_imported_function() -> None:
    path = "policies_under_test.loose:approve"
    chain = standard_chain(ApprovalConfig(auto_approve=path, importable=(path,)))
    assert decided(chain, SHELL) == (CONFIG, APPROVE)
    assert decided(chain, READ) == ("default", ASK)


@pytest.mark.spec("A3")
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("path", ["policies_under_test.broken:approve", "policies_under_test.gone:approve"])
def test_if_the_policy_function_cannot_be_loaded_calls_need_approval(path: str) -> None:
    chain = standard_chain(ApprovalConfig(auto_approve=path, importable=(path,), require_approval=False))
    assert decided(chain, READ) == (CONFIG, ASK)


@pytest.mark.spec("A5a")
def test_a_dotted_tool_name_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("file", "acme_tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = ("file.write", "acme_tools.search", "group:fs")
    chain = standard_chain(listed(*names, importable=names), is_tool=lambda name: name in names[:2])
    assert [entry.name for entry in chain.get_all()] == [CONFIG, PURE]
    late: set[str] = set()
    chain = standard_chain(listed(*names, importable=names), is_tool=late.__contains__)
    late.add("acme_tools.search")
    assert decided(chain, SHELL) == ("default", ASK)


@pytest.mark.spec("A2")
@pytest.mark.usefixtures("package")
def test_an_untrusted_list_restricts_a_module_unless_it_names_it() -> None:
    path = "policies_under_test.loose:approve"
    assert decided(importing(path, narrow=(("$default",),)), SHELL) == (path, ASK)
    assert decided(importing(path, narrow=((path, "$default"),)), SHELL) == (path, APPROVE)
