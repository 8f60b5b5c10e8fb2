"""A pending call as HTML: the whole proposal, who asks, what it touches, and why it needs an answer.

Nothing is cut. Long parts can be folded; they are open until the script of the page closes them. A page masks a call
once (`masked_call`) and passes it to all functions here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from markupsafe import Markup

from holdfast.contract.call import Decision, PendingCall
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args, Json
from holdfast.contract.tool import Tool
from holdfast.rules.chain import PASSED, reason_with_source, source_name
from holdfast.rules.decider import NOT_ASKED, DecisionExplanation, ExplainedStep
from holdfast.runtime.call_description import (
    arguments_beside_preview,
    bound_facts,
    caller_facts,
    intentions,
    is_definition,
    preview_label,
    preview_text,
    run_conditions,
    touches,
    widening_of,
)
from holdfast.serve.diff_view import diff_html
from holdfast.serve.text_view import block_html, facts_html, fold_html, inline_html, is_long, size_words
from holdfast.store.redact import Redactor, redact_struct
from holdfast.text.diff_lines import FileChange
from holdfast.text.escape import clip_escaped, escape_once
from holdfast.text.pretty_json import pretty_json

_TOKENS: Final = Redactor()
"""Knows no value, and masks what looks like a token."""
_SHORT: Final = 200
"""Characters of a value from which its size is said."""
_MAX_TOUCHED: Final = 8
"""Files, programs or hosts that are listed by name in one line; the proposal shows all."""
_MAX_NAME: Final = 60
_TITLES: Final = {"diff": "Diff", "runs": "Command", "preview": "Preview"}
_CALLER_WORDS: Final = {"provider": "model"}
_RISKS: Final = {Risk.LOW: "Low risk", Risk.MEDIUM: "Medium risk", Risk.HIGH: "High risk"}
_STAGES: Final = {"policy": "Tool policy", "chain": "Rule", "cap": "Limit"}


def masked_call(pending: PendingCall, redactor: Redactor) -> PendingCall:
    """Return the call with secrets as `[secret NAME]`, to be shown. Its digest is that of the call itself."""
    return redact_struct(pending, redactor, bytes)


def proposal_html(pending: PendingCall, *, redactor: Redactor | None = None) -> Markup:
    """Return everything that a person decides on: what would run or change, how, and what an approval is bound to."""
    shown = masked_call(pending, redactor or _TOKENS)
    parts = [
        *_warnings(shown),
        facts_html((label.capitalize(), inline_html(text)) for label, text in intentions(shown)),
        facts_html(_conditions(shown)),
        *_content(shown),
        _bound_to(shown),
    ]
    return Markup('<div class="proposal">{}</div>').format(Markup("").join(parts))


def _warnings(pending: PendingCall) -> Iterator[Markup]:
    if is_definition(pending):
        yield _warning("The definition of this tool is new or changed. Approving the call accepts the definition.")
    if pending.secrets:
        files = Markup(", ").join(inline_html(path) for path in pending.secrets)
        yield _warning(Markup("Approving lets the call read files that may hold secrets: {}").format(files))
    if widening := widening_of(pending):
        yield _warning(Markup("Beyond the sandbox: {}").format(inline_html(widening.description)))


def _warning(text: str) -> Markup:
    return Markup('<p class="warning">{}</p>').format(text)


def _conditions(pending: PendingCall) -> Iterator[tuple[str, Markup]]:
    for label, words in run_conditions(pending):
        yield label.capitalize(), inline_html(words)


def _content(pending: PendingCall) -> Iterator[Markup]:
    """The preview and the arguments that it does not show; all arguments if it is cut or describes a definition."""
    preview, args = preview_text(pending), pending.call.args
    if not preview:
        yield _arguments_part(args)
        return
    cut = pending.proposal is not None and pending.proposal.preview_cut
    label = preview_label(pending)
    title = "Definition" if is_definition(pending) else _TITLES[label]
    if cut:
        yield _warning(f"The {title.lower()} is too long to be shown whole. The arguments below it are complete.")
    if label == "diff":
        body = diff_html(preview, show=escape_once if is_definition(pending) else None)
    else:
        body = block_html(preview, name="command" if label == "runs" else "block")
    yield fold_html(title, preview, body)
    whole = cut or is_definition(pending)
    left = args if whole else arguments_beside_preview(pending)
    if left or whole:
        yield _arguments_part(left)


def _arguments_part(args: Args) -> Markup:
    return Markup('<section class="part"><h4>Arguments</h4>{}</section>').format(_arguments_table(args))


def _bound_to(pending: PendingCall) -> Markup:
    """What an approval is bound to."""
    call = pending.call
    tool = call.tool if call.name_used in (call.tool, "") else f"{call.tool}, called as {call.name_used}"
    facts = [
        ("Call", call.id),
        ("Tool", tool),
        ("Definition", pending.definition_digest),
        ("Folder", call.cwd),
        ("Digest", pending.digest),
        *((label.capitalize(), text) for label, text in bound_facts(pending)),
    ]
    listed = facts_html((label, inline_html(text)) for label, text in facts)
    return Markup('<section class="part bound"><h4>The approval is bound to</h4>{}</section>').format(listed)


def arguments_html(args: Args, *, redactor: Redactor) -> Markup:
    """Return arguments as a table, whole, with secrets as `[secret NAME]`."""
    masked = redactor.value(args)
    assert isinstance(masked, dict)
    return _arguments_table(masked)


def _arguments_table(args: Args) -> Markup:
    if not args:
        return Markup('<p class="muted">No arguments.</p>')
    rows = Markup("").join(
        Markup('<tr><th scope="row">{}</th><td>{}</td></tr>').format(inline_html(name), _value(name, value))
        for name, value in args.items()
    )
    return Markup('<table class="arguments"><tbody>{}</tbody></table>').format(rows)


def value_html(name: str, value: Json, *, redactor: Redactor) -> Markup:
    """Return one argument, whole, with secrets as `[secret NAME]`."""
    return _value(name, redactor.value(value))


def _value(name: str, value: object) -> Markup:
    """A string stands for itself; anything else is JSON with its type, so that `5` and `"5"` differ."""
    if isinstance(value, str):
        return _text_value(name, value)
    if value is None:
        return _tag("no value")
    kind = _kind(value)
    text = pretty_json(value)
    if is_long(text):
        return fold_html(f"{kind.capitalize()} {clip_escaped(name, _MAX_NAME)}", text, block_html(text))
    body = block_html(text) if "\n" in text else Markup("<code>{}</code>").format(inline_html(text))
    return Markup("{} {}").format(body, _tag(kind))


def _text_value(name: str, text: str) -> Markup:
    if is_long(text):
        return fold_html(f"Text {clip_escaped(name, _MAX_NAME)}", text, block_html(text))
    if not text:
        return _tag("empty text")
    body = block_html(text) if "\n" in text else Markup("<code>{}</code>").format(inline_html(text))
    if len(text) > _SHORT or text.isspace() or "\n" in text:
        said = f"{size_words(text)}{'' if text.strip() else ' of white space'}"
        return Markup("{} {}").format(body, _tag(said))
    return body


def _tag(words: str) -> Markup:
    return Markup('<span class="tag">{}</span>').format(words)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case _:
            return "list"


def touches_html(pending: PendingCall, tool: Tool | None = None) -> Markup:
    """Return what the call touches in a few words: files with the number of changed lines, programs and hosts."""
    touched = touches(pending, tool)
    items = [_change(change) for change in touched.changes[:_MAX_TOUCHED]]
    if (more := len(touched.changes) - _MAX_TOUCHED) > 0:
        items.append(Markup("and {} more files").format(f"{more:,}"))
    if touched.paths:
        items.append(Markup("uses {}").format(_listed(touched.paths)))
    if touched.programs or touched.other_programs:
        names = _listed(touched.programs)
        others = "programs that it does not name" if touched.other_programs else ""
        items.append(Markup("runs {}{}{}").format(names, " and " if names and others else "", others))
    if touched.hosts or touched.sends:
        hosts = _listed(touched.hosts) or "hosts that it does not name"
        items.append(Markup("{} {}").format("sends to" if touched.sends else "reaches", hosts))
    if widening_of(pending).network:
        items.append(Markup("reaches every host"))
    if not items:
        return Markup("")
    return Markup('<ul class="touches">{}</ul>').format(Markup("").join(Markup("<li>{}</li>").format(i) for i in items))


def _change(change: FileChange) -> Markup:
    word = "" if change.kind == "changed" else f"{change.kind} "
    return Markup('{}<code>{}</code> <span class="added">+{}</span> <span class="removed">−{}</span>').format(
        word, inline_html(change.path), f"{change.added:,}", f"{change.removed:,}"
    )


def _listed(names: Sequence[str]) -> Markup:
    shown = Markup(", ").join(Markup("<code>{}</code>").format(inline_html(name)) for name in names[:_MAX_TOUCHED])
    more = len(names) - _MAX_TOUCHED
    return Markup("{} and {} more").format(shown, f"{more:,}") if more > 0 else shown


def caller_html(pending: PendingCall) -> Markup:
    """Return who asks, from the interface to the document."""
    parts = [
        Markup('<span class="{}">{}{}</span>').format(
            kind, "" if kind == "interface" else f"{_CALLER_WORDS.get(kind, kind)} ", inline_html(name)
        )
        for kind, name in caller_facts(pending.call.caller, pending.call.cwd)
    ]
    return Markup('<span class="caller">{}</span>').format(Markup(" ▸ ").join(parts))


def risk_html(risk: Risk | None) -> Markup:
    if risk is None:
        return Markup('<span class="risk">Risk unknown</span>')
    return Markup('<span class="risk risk-{}">{}</span>').format(risk.value, _RISKS[risk])


def decision_html(decision: Decision, explanation: DecisionExplanation | None = None) -> Markup:
    """Return why the call needs an answer, and with an explanation every rule that took part, in order."""
    why = Markup('<p class="why">{}</p>').format(inline_html(reason_with_source(decision)))
    if explanation is None:
        return why
    spoke = [step for step in explanation.steps if step.answer not in (PASSED, NOT_ASKED)]
    silent = [step for step in explanation.steps if step.answer in (PASSED, NOT_ASKED)]
    items = [_step(step) for step in spoke]
    if silent:
        items.append(Markup('<li class="muted">Without an opinion: {}</li>').format(_sources(silent)))
    depends = "The tool was judged without arguments, which may change the decision." if explanation.depends else ""
    note = Markup('<p class="muted">{}</p>').format(depends) if depends else ""
    chain = Markup('<ol class="chain">{}</ol>').format(Markup("").join(items))
    return Markup("{}{}{}{}").format(why, note, chain, _parts(explanation))


def _step(step: ExplainedStep) -> Markup:
    stage = inline_html(_STAGES.get(step.stage, step.stage.capitalize()))
    reason = Markup(": {}").format(inline_html(step.reason)) if step.reason else ""
    decided = Markup(' <span class="tag">decides</span>') if step.decided else ""
    return Markup('<li{}>{} <em>{}</em> says <strong>{}</strong>{}{}</li>').format(
        Markup(' class="decided"') if step.decided else "",
        stage, inline_html(source_name(step.source)), inline_html(step.answer), reason, decided,
    )  # fmt: skip


def _sources(steps: Iterable[ExplainedStep]) -> Markup:
    return Markup(", ").join(inline_html(source_name(step.source)) for step in steps)


def _parts(explanation: DecisionExplanation) -> Markup:
    if not explanation.parts:
        return Markup("")
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td><code>{}</code>{}</td><td>{}</td><td>{}</td></tr>").format(
            part.kind,
            inline_html(part.text),
            Markup(" in <code>{}</code>").format(inline_html(part.inside)) if part.inside else "",
            str(part.verdict or PASSED),
            inline_html(part.reason),
        )
        for part in explanation.parts
    )
    head = Markup(
        '<tr><th scope="col">Part</th><th scope="col">Text</th><th scope="col">Answer</th><th scope="col">Why</th></tr>'
    )
    return Markup('<table class="parts"><thead>{}</thead><tbody>{}</tbody></table>').format(head, rows)
