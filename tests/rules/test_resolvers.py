"""The built-in resolvers, separately and together."""

from __future__ import annotations

import pytest

from holdfast.config.config import ApprovalConfig, Preset
from holdfast.contract.call import Decision
from holdfast.contract.enums import Effect, Verdict
from holdfast.contract.function_tool import tool as function_tool
from holdfast.contract.json import Args
from holdfast.rules.chain import ApprovalRequest, Resolve, ResolveContext
from holdfast.rules.from_config import DocumentPolicy, standard_chain
from holdfast.rules.resolvers import CATCH_ALL, CONFIG, FRONTMATTER, GRANTS, HOSTS, PURE, SANDBOX
from holdfast.store.ledger import Grant

from .approval_requests import (
    CALCULATOR,
    EDIT,
    FETCH,
    HOST_EFFECTS,
    READ,
    REQUEST,
    SHELL,
    UNKNOWN,
    WRITE,
    approval_request,
    reaches_host,
)
from .chains import decided, listed

APPROVE, ASK, DENY = Verdict.APPROVE, Verdict.ASK, Verdict.DENY
SANDBOXED = ApprovalConfig(auto_approve_sandboxed=True)


class Book:
    """A grant lookup with one grant for every call, or with none."""

    def __init__(self, *, full: bool) -> None:
        self._full = full

    def find(self, request: ApprovalRequest) -> Grant | None:
        if not self._full:
            return None
        return Grant(id="g1", tool=request.tool.name, pattern={}, scope="user", by="ann", created=0.0)


def says(answer: object) -> Resolve:
    def resolve(name: str, args: Args, ctx: ResolveContext) -> object:
        return answer

    return resolve


def fails(name: str, args: Args, ctx: ResolveContext) -> object:
    raise KeyError("oops")


@pytest.mark.spec("A2")
def test_the_built_in_chain_has_the_documented_names_and_priorities() -> None:
    approval = ApprovalConfig(
        auto_approve=("$default", "my_pkg.policy"), importable=("my_pkg.policy",), require_approval=False
    )
    chain = standard_chain(
        approval, document=DocumentPolicy(approval), grants=Book(full=False), sandbox_verified=lambda: False
    )
    assert [(entry.name, entry.priority) for entry in chain.get_all()] == [
        ("my_pkg.policy", 100),
        (CONFIG, 100),
        (FRONTMATTER, 90),
        (GRANTS, 80),
        (SANDBOX, 25),
        (PURE, 20),
        (CATCH_ALL, 0),
    ]
    assert CONFIG == "urn:holdfast:approval:config"
    assert chain.get("urn:flemma:approval:catch-all") is not None


@pytest.mark.spec("A6", "A8")
def test_by_default_file_tools_are_approved_and_the_shell_needs_approval() -> None:
    chain = standard_chain(ApprovalConfig(), sandbox_verified=lambda: True)
    assert [decided(chain, about)[1] for about in (READ, WRITE, EDIT)] == [APPROVE] * 3
    assert decided(chain, SHELL) == ("default", ASK)
    assert decided(chain, UNKNOWN) == ("default", ASK)


@pytest.mark.spec("A2")
def test_the_catch_all_exists_only_when_approval_is_off() -> None:
    assert not standard_chain(ApprovalConfig()).has(CATCH_ALL)
    off = standard_chain(ApprovalConfig(require_approval=False))
    assert decided(off, UNKNOWN) == (CATCH_ALL, APPROVE)


@pytest.mark.spec("A17")
def test_a_pure_tool_is_approved_and_one_with_undeclared_effects_is_not() -> None:
    chain = standard_chain(ApprovalConfig())
    assert decided(chain, CALCULATOR) == (PURE, APPROVE)
    assert decided(chain, UNKNOWN) == ("default", ASK)


@pytest.mark.spec("A17", "A7")
def test_a_removed_tool_is_not_approved_for_being_pure() -> None:
    assert decided(standard_chain(ApprovalConfig(excluded=("calculator",))), CALCULATOR) == ("default", ASK)


@pytest.mark.spec("A12")
def test_grants_come_after_the_configuration_and_before_third_parties() -> None:
    chain = standard_chain(ApprovalConfig(), grants=Book(full=True))
    chain.register("third", says("deny"))
    source, verdict = decided(chain, SHELL)
    assert (source, verdict) == (GRANTS, APPROVE)
    denying = standard_chain(listed("$no", presets={"$no": Preset(deny=("bash",))}), grants=Book(full=True))
    assert decided(denying, SHELL) == (CONFIG, DENY)


@pytest.mark.spec("A10", "A12")
def test_the_reason_of_a_grant_names_who_gave_it() -> None:
    chain = standard_chain(ApprovalConfig(), grants=Book(full=True))
    assert chain.judge(approval_request(SHELL)).decision.reason == "Allowed earlier by ann (grant g1, scope user)."


@pytest.mark.spec("A8")
def test_the_sandbox_approves_if_all_conditions_are_met() -> None:
    chain = standard_chain(SANDBOXED, sandbox_verified=lambda: True)
    assert decided(chain, SHELL) == (SANDBOX, APPROVE)
    assert decided(chain, UNKNOWN) == ("default", ASK)


@pytest.mark.spec("A8", "A20")
@pytest.mark.parametrize(
    "approval",
    [
        ApprovalConfig(),
        listed("$default"),
        listed(),
        listed("$default", auto_approve_sandboxed=True, excluded=("bash",)),
        listed("$default", auto_approve_sandboxed=True, excluded=("shell.exec",)),
        listed("$default", auto_approve_sandboxed=True, removed=("shell.exec",)),
        listed("$default", auto_approve_sandboxed=True, narrow=(("$default",),)),
    ],
    ids=["default", "a list", "an empty list", "by alias", "removed", "removed earlier", "not in an untrusted list"],
)
def test_the_sandbox_does_not_approve_if_a_condition_is_missing(approval: ApprovalConfig) -> None:
    assert decided(standard_chain(approval, sandbox_verified=lambda: True), SHELL)[1] is ASK


@pytest.mark.spec("A8")
@pytest.mark.parametrize("held", [False, None, "yes", 1])
def test_the_sandbox_approves_only_if_it_is_verified(held: object) -> None:
    chain = standard_chain(SANDBOXED, sandbox_verified=lambda: held)  # pyright: ignore[reportArgumentType]
    assert decided(chain, SHELL) == ("default", ASK)


@pytest.mark.spec("A8")
def test_the_sandbox_is_verified_at_every_call_and_only_for_tools_that_support_it() -> None:
    asked: list[bool] = []

    def held() -> bool:
        asked.append(True)
        if len(asked) == 3:
            raise OSError("no backend")
        return len(asked) == 1

    chain = standard_chain(SANDBOXED, sandbox_verified=held)
    assert [decided(chain, SHELL)[1] for _ in range(3)] == [APPROVE, ASK, ASK]
    decided(chain, UNKNOWN)
    assert len(asked) == 3


@pytest.mark.spec("A8")
def test_third_party_and_configured_denials_override_the_sandbox() -> None:
    denying = listed("$no", auto_approve_sandboxed=True, presets={"$no": Preset(deny=("bash",))})
    chain = standard_chain(denying, sandbox_verified=lambda: True)
    assert decided(chain, SHELL) == (CONFIG, DENY)
    chain = standard_chain(SANDBOXED, sandbox_verified=lambda: True)
    chain.register("third", says("deny"))
    assert decided(chain, SHELL) == ("third", DENY)


@pytest.mark.spec("A5a")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, (CONFIG, APPROVE)),
        (False, (CONFIG, ASK)),
        ("deny", (CONFIG, DENY)),
        ("require_approval", (CONFIG, ASK)),
        (Decision(DENY, "x", "y"), (CONFIG, DENY)),
        (None, ("default", ASK)),
    ],
)
def test_a_policy_function_may_return_true_false_deny_or_none(answer: object, expected: object) -> None:
    assert decided(standard_chain(ApprovalConfig(), function=says(answer)), WRITE) == expected


@pytest.mark.spec("A5a")
def test_a_policy_function_sees_the_canonical_name_all_names_and_the_call_id() -> None:
    def policy(name: str, args: Args, ctx: ResolveContext) -> object:
        if name == "shell.exec" and "bash" in ctx.names and ctx.call_id == "call-1" and args == {"command": "rm -rf x"}:
            return "deny"
        return None

    assert decided(standard_chain(ApprovalConfig(), function=policy), SHELL, {"command": "rm -rf x"}) == (CONFIG, DENY)


@pytest.mark.spec("A3")
@pytest.mark.parametrize("function", [fails, says(1), says("yes")])
def test_if_the_users_policy_function_fails_the_call_needs_approval(function: Resolve) -> None:
    chain = standard_chain(ApprovalConfig(require_approval=False), function=function)
    assert decided(chain, CALCULATOR) == (CONFIG, ASK)


@pytest.mark.spec("A2", "A5a")
def test_the_list_of_a_trusted_document_replaces_the_configured_one() -> None:
    outer = listed("$default", "$no", presets={"$no": Preset(deny=("bash",))})
    inner = listed("calculator", "bash", presets=outer.presets)
    chain = standard_chain(inner, document=DocumentPolicy(outer))
    assert decided(chain, SHELL) == (CONFIG, DENY)
    assert decided(chain, WRITE) == ("default", ASK)
    assert decided(chain, CALCULATOR) == (FRONTMATTER, APPROVE)


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(True, (FRONTMATTER, APPROVE)), (False, (FRONTMATTER, APPROVE)), ("deny", (CONFIG, DENY))],
)
def test_under_a_trusted_document_only_denials_of_a_configured_function_count(answer: object, expected: object) -> None:
    chain = standard_chain(listed("file.write"), function=says(answer), document=DocumentPolicy(ApprovalConfig()))
    assert decided(chain, WRITE) == expected


@pytest.mark.spec("A2", "A3")
def test_under_a_trusted_document_a_failing_configured_function_still_asks() -> None:
    chain = standard_chain(listed("file.write"), function=fails, document=DocumentPolicy(ApprovalConfig()))
    assert decided(chain, WRITE) == (CONFIG, ASK)


@pytest.mark.spec("A3", "A5a")
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (says(True), (FRONTMATTER, APPROVE)),
        (says(False), (FRONTMATTER, ASK)),
        (says("deny"), (FRONTMATTER, DENY)),
        (says(None), ("default", ASK)),
        (fails, ("default", ASK)),
        (says(7), ("default", ASK)),
    ],
)
def test_the_function_of_a_document_passes_when_it_fails(function: Resolve, expected: object) -> None:
    chain = standard_chain(ApprovalConfig(), document=DocumentPolicy(ApprovalConfig(), function))
    assert decided(chain, WRITE) == expected


@pytest.mark.spec("A2")
def test_an_untrusted_list_can_only_restrict() -> None:
    chain = standard_chain(listed("$default", narrow=(("$readonly", "bash"),)))
    assert decided(chain, READ) == (CONFIG, APPROVE)
    assert decided(chain, WRITE) == (CONFIG, ASK)
    assert decided(chain, SHELL) == ("default", ASK)


@pytest.mark.spec("A2")
def test_an_untrusted_list_also_restricts_functions_and_trusted_documents() -> None:
    narrowed = ApprovalConfig(narrow=(("$readonly",),))
    assert decided(standard_chain(narrowed, function=says(True)), WRITE) == (CONFIG, ASK)
    document = listed("$default", narrow=(("$readonly",),))
    assert decided(standard_chain(document, document=DocumentPolicy(ApprovalConfig())), WRITE) == (FRONTMATTER, ASK)
    by_function = standard_chain(document, document=DocumentPolicy(ApprovalConfig(), says(True)))
    assert decided(by_function, WRITE) == (FRONTMATTER, ASK)


@pytest.mark.spec("A2", "A3")
@pytest.mark.parametrize("word", ["approve", "nonsense", None])
def test_an_approval_given_as_a_plain_word_is_restricted_like_any_other(word: object) -> None:
    spelled = says(Decision(word, "", ""))  # pyright: ignore[reportArgumentType]
    narrowed = ApprovalConfig(narrow=(("$readonly",),), require_approval=False)
    assert decided(standard_chain(narrowed, function=spelled), WRITE) == (CONFIG, ASK)


@pytest.mark.spec("A1")
def test_lists_pure_tools_and_the_catch_all_have_static_decisions() -> None:
    chain = standard_chain(ApprovalConfig(require_approval=False))
    for about in (READ, WRITE, SHELL, CALCULATOR, UNKNOWN):
        static = chain.static_decision(about)
        assert static == chain.judge(approval_request(about, {"path": "x"})).decision
    gated = standard_chain(SANDBOXED, grants=Book(full=False), sandbox_verified=lambda: True)
    assert gated.static_decision(READ) is not None
    assert gated.static_decision(CALCULATOR) is not None
    assert gated.static_decision(SHELL) is None


@pytest.mark.spec("A12", "A17")
def test_grants_apply_to_a_pure_tool_only_if_it_was_removed() -> None:
    assert decided(standard_chain(ApprovalConfig(), grants=Book(full=True)), CALCULATOR) == (PURE, APPROVE)
    removed = standard_chain(ApprovalConfig(excluded=("calculator",)), grants=Book(full=True))
    assert decided(removed, CALCULATOR) == (GRANTS, APPROVE)


@pytest.mark.spec("B6a", "A2")
@pytest.mark.parametrize(
    ("args", "approved"),
    [
        ({"host": "docs.example"}, True),
        ({"host": "a.cdn.example"}, True),
        ({"host": "cdn.example"}, False),
        ({"host": "docs.example:8443"}, False),
        ({"host": "api.example:8443"}, True),
        ({"host": "docs.example.evil"}, False),
        ({"host": "docs.example", "method": "POST"}, False),
        ({"host": ""}, False),
    ],
)
def test_requests_that_read_from_listed_hosts_are_approved(args: Args, approved: bool) -> None:
    chain = standard_chain(ApprovalConfig(), hosts=("docs.example", "*.cdn.example", "api.example:8443"))
    decision = chain.judge(approval_request(REQUEST, args)).decision
    assert (decision.verdict is Verdict.APPROVE) is approved
    assert (decision.source == HOSTS) is approved


@pytest.mark.spec("B6a", "A20")
def test_listed_hosts_approve_no_tool_that_was_removed_and_none_that_names_no_hosts() -> None:
    removed = standard_chain(ApprovalConfig(removed=("net.request",)), hosts=("docs.example",))
    assert removed.judge(approval_request(REQUEST, {"host": "docs.example"})).decision.verdict is Verdict.ASK
    narrowed = standard_chain(ApprovalConfig(narrow=((),)), hosts=("docs.example",))
    assert narrowed.judge(approval_request(REQUEST, {"host": "docs.example"})).decision.verdict is Verdict.ASK
    chain = standard_chain(ApprovalConfig(), hosts=("docs.example",))
    assert chain.judge(approval_request(FETCH, {"host": "docs.example"})).decision.verdict is Verdict.ASK


@pytest.mark.spec("B6a", "B9n")
@pytest.mark.parametrize(("effects", "approved"), HOST_EFFECTS)
def test_a_listed_host_approves_only_tools_that_are_known_to_change_nothing_here(
    effects: tuple[Effect, ...] | None, approved: bool
) -> None:
    @function_tool(effects=effects)
    def look(host: str) -> str:
        return host

    chain = standard_chain(ApprovalConfig(), hosts=("docs.example",))
    asked = approval_request(look.with_(reaches=reaches_host), {"host": "docs.example"})
    assert (chain.judge(asked).decision.source == HOSTS) is approved
