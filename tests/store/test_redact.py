"""Redaction of secrets: plain, encoded, split into chunks, and in the ledger."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.call import Answer
from holdfast.contract.json import Json
from holdfast.contract.result import Attachment, Result
from holdfast.store.ledger import Ledger
from holdfast.store.redact import Redactor
from tests.store.calls import APPROVED, DONE, begin, make_call, make_pending

SECRET = 'p@ss/w"rd\\ é+1'
GITHUB = "ghp_" + "a1B2" * 9


@pytest.fixture
def redactor() -> Redactor:
    made = Redactor()
    made.add("TOKEN", SECRET)
    return made


@pytest.mark.spec("P7")
@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        re.sub("%..", lambda match: match.group().lower(), quote(SECRET, safe="")),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_a_value_is_redacted_in_every_common_encoding(redactor: Redactor, form: str) -> None:
    assert redactor(f"before {form} after {form}!") == "before [secret TOKEN] after [secret TOKEN]!"


@pytest.mark.spec("P7")
@settings(deadline=None)
@given(before=st.binary(max_size=5), after=st.binary(max_size=5), urlsafe=st.booleans())
def test_a_value_inside_base64_is_redacted_at_every_alignment(before: bytes, after: bytes, urlsafe: bool) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", SECRET)
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    encoded = encode(before + SECRET.encode() + after).decode()
    clean = redactor(encoded)
    assert "[secret TOKEN]" in clean
    left = clean.replace("[secret TOKEN]", "")
    assert len(left) <= len(encode(before + after)) + 8


@pytest.mark.spec("P7")
@settings(deadline=None)
@given(text=st.text(), values=st.lists(st.text(min_size=6, max_size=30), max_size=4))
def test_no_known_value_remains_in_any_text(text: str, values: list[str]) -> None:
    redactor = Redactor()
    for value in values:
        redactor.add("X", value)
    clean = redactor(text.join(["", *values, ""]))
    for value in values:
        if len(value.strip()) >= 6 and value.strip() not in "[secret X][secret X]":
            assert value.strip() not in clean.replace("[secret X]", "\0")


@pytest.mark.spec("P7")
def test_short_values_and_other_texts_are_not_redacted(redactor: Redactor) -> None:
    redactor.add("SHORT", "abc12")
    text = "abc12 task-with-a-long-hyphenated-name-in-it risk-assessment-of-the-third-kind \ud800 é"
    assert redactor(text) == text
    assert redactor("") == ""


@pytest.mark.spec("P7")
def test_the_longest_value_is_redacted_first_and_lines_of_a_key_on_their_own() -> None:
    redactor = Redactor()
    redactor.add("A", "abcdef")
    redactor.add("B", "abcdefghij")
    redactor.add("KEY", "-----BEGIN X-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\nBAQEFAASCBKcwggSjAgEA\n-----END X-----\n")
    assert redactor("abcdefghij abcdef") == "[secret B] [secret A]"
    assert redactor("line: BAQEFAASCBKcwggSjAgEA short") == "line: [secret KEY] short"


@pytest.mark.spec("P7")
@pytest.mark.parametrize(
    ("token", "name"),
    [
        (GITHUB, "github_token"),
        ("github_pat_" + "a1_" * 15, "github_pat"),
        ("AKIAIOSFODNN7EXAMPLE", "aws_key"),
        ("sk-proj-" + "a1b2-" * 6, "api_key"),
        ("xoxb-123456789012-abc", "slack_token"),
        ("glpat-" + "x1y2z" * 4, "gitlab_token"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcdefghijk", "jwt"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "private_key"),
    ],
)
def test_token_patterns_are_redacted_without_a_known_value(token: str, name: str) -> None:
    assert Redactor()(f'{{"key": "{token}"}}') == f'{{"key": "[secret {name}]"}}'
    assert Redactor()(f"x\\n{token}") == f"x\\n[secret {name}]"


@pytest.mark.spec("P7")
@settings(deadline=None)
@given(data=st.data())
def test_a_stream_gives_the_same_text_however_it_is_split(data: st.DataObject) -> None:
    redactor = Redactor()
    redactor.add("A", "aabaab")
    redactor.add("B", "aabaabbbcc")
    redactor.add("TOKEN", SECRET)
    block = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----"
    known = ["a", "b", "aab", "aabaab", "aabaabbbcc", SECRET, SECRET[:5], SECRET[5:]]
    shapes = [GITHUB, "ghp_", "sk-", "ta", "1", "-----BEGIN ", "PRIVATE KEY-----", block, "\\n"]
    parts = st.sampled_from([*known, *shapes, "\n", " ", ".", "é"])
    text = "".join(data.draw(st.lists(parts, max_size=12)))
    stream = redactor.stream()
    shown = ""
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += stream.feed(rest[:size])
        rest = rest[size:]
    shown += stream.flush()
    assert shown == redactor(text)


@pytest.mark.spec("P7")
def test_a_private_key_in_chunks_is_redacted_as_a_whole() -> None:
    lines = "b3BlbnNzaC1rZXktdjE\nAAAABG5vbmUAAAAE"
    block = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----"
    stream = Redactor().stream()
    shown = "".join(stream.feed(char) for char in f"key:\n{block}\ndone\n") + stream.flush()
    assert shown == "key:\n[secret private_key]\ndone\n"


@pytest.mark.spec("P7")
def test_a_stream_does_not_buffer_ordinary_words(redactor: Redactor) -> None:
    stream = redactor.stream()
    assert stream.feed("compiling main.c ... done.\n") == "compiling main.c ... done.\n"
    assert stream.feed(".....") == "....."


@pytest.mark.spec("P7")
def test_a_result_loses_known_values_everywhere_and_keeps_token_lookalikes() -> None:
    redactor = Redactor()
    redactor.add("PIN", "123456789")
    nested: Json = {"123456789": ["x123456789", 123456789, 5, True, None]}
    image = Attachment(kind="image", mime_type="image/png", data=b"\x89PNG\xff")
    text = Attachment(kind="file", mime_type="text/plain", data=b"pin 123456789", name="123456789.txt")
    result = Result(False, f"123456789 {GITHUB}", "no: 123456789", nested, {"a": nested}, (image, text))
    clean = redactor.result(result)
    label = "[secret PIN]"
    assert clean.output == f"{label} {GITHUB}"
    assert clean.error == f"no: {label}"
    assert clean.structured == {label: [f"x{label}", label, 5, True, None]}
    assert clean.metadata == {"a": clean.structured}
    assert clean.attachments[0] == image
    assert (clean.attachments[1].data, clean.attachments[1].name) == (f"pin {label}".encode(), f"{label}.txt")


@pytest.mark.spec("P7", "T10e")
def test_bytes_that_are_not_utf8_do_not_switch_off_the_redaction_of_an_attachment() -> None:
    redactor = Redactor()
    redactor.add("TOKEN", "hunter2hunter2")
    data = b"caf\xe9 token=hunter2hunter2 \xff\n"
    text = Attachment(kind="file", mime_type="text/plain", data=data)
    image = Attachment(kind="image", mime_type="image/jpeg", data=b"\xff\xd8\xff\xfe" + data)
    other = Attachment(kind="image", mime_type="image/jpeg", data=b"\xff\xd8\xff\xfe hunter")
    clean = redactor.result(Result(True, attachments=(text, image, other))).attachments
    assert clean[0].data == b"caf\xe9 token=[secret TOKEN] \xff\n"
    assert clean[1].data == b"[attachment removed: it contained a secret]" and clean[1].kind == "image"
    assert clean[2] == other


def _bytes_on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.spec("P7", "X10")
@pytest.mark.parametrize("secret", [SECRET, "123456789", "done done", "\x00\x01binary\x02"])
def test_a_secret_never_reaches_the_files_of_the_ledger(tmp_path: Path, secret: str) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", secret)
    carrier: dict[str, Json] = {"a": secret, secret: [f"x{secret}y"], "j": json.dumps({"k": secret})}
    if secret.isdigit():
        carrier["n"] = int(secret)
    attachment = Attachment(kind="file", mime_type="text/plain", data=f"1{secret}".encode(), name=secret)
    call, pending_call = make_call(args=carrier), make_pending(args=carrier)
    result = Result(False, secret, f"error {secret}", carrier, carrier, (attachment,))
    answer = Answer(kind="edit", by=f"ada {secret}", message=secret, args=carrier)
    with Ledger.open(tmp_path / "l.db", redact=redactor) as ledger:

        async def scenario() -> None:
            await ledger.record_call(call, APPROVED, result, original_args=carrier)
            await ledger.record_call(make_call(tool=f"tool{secret}"), APPROVED, DONE, original_args=secret)
            await ledger.add_pending(pending_call)
            ledger.answer(pending_call.call.id, answer, digest=pending_call.digest)
            ledger.answer(pending_call.call.id, Answer(kind="approve", by=f"ada {secret}"), digest=pending_call.digest)
            await begin(ledger, pending_call.call, digest=pending_call.digest)
            await ledger.end(pending_call.call.id, result)
            ledger.grants.add(tool="t", pattern=carrier, scope="project", by=secret)

        asyncio.run(scenario())
        raw = _bytes_on_disk(tmp_path)
        found = ledger.verify()
        assert found.ok, found.problem
        record = ledger.call(pending_call.call.id)
        assert record.result is not None and "[secret TOKEN]" in record.result.text
        assert ledger.call(call.id).call.args["a"] == "[secret TOKEN]"
    for form in (secret, json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]):
        assert form.encode() not in raw


@pytest.mark.spec("P7", "X10")
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_inside_json_in_an_output_is_redacted(tmp_path: Path, ascii_only: bool) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", SECRET)
    call = make_call()
    with Ledger.open(tmp_path / "l.db", redact=redactor) as ledger:
        output = json.dumps({"k": SECRET}, ensure_ascii=ascii_only)
        ledger.record_call_now(call, APPROVED, Result(True, output))
        result = ledger.result(call.id)
    assert result is not None and result.output == '{"k": "[secret TOKEN]"}'


@pytest.mark.spec("P7", "X10")
@pytest.mark.parametrize("word", ["approve", "success", "pending", "running", "file.write", "original_args"])
def test_a_secret_that_equals_a_field_name_does_not_break_the_ledger(tmp_path: Path, word: str) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", word)
    pending_call = make_pending(args={"a": word})
    with Ledger.open(tmp_path / "l.db", redact=redactor) as ledger:

        async def scenario() -> None:
            await ledger.add_pending(pending_call)
            ledger.answer(pending_call.call.id, Answer(kind="approve", by="ada"), digest=pending_call.digest)
            await begin(ledger, pending_call.call, digest=pending_call.digest)
            await ledger.end(pending_call.call.id, Result(True, f"say {word}"))

        asyncio.run(scenario())
        record = ledger.call(pending_call.call.id)
        assert record.call.args == {"a": "[secret TOKEN]"}
        assert record.result is not None and record.result.output == "say [secret TOKEN]"
        assert ledger.verify().ok


@pytest.mark.spec("P7", "A12")
def test_the_process_with_the_pending_call_can_still_run_it_unredacted(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", SECRET)
    pending_call = make_pending(args={"header": SECRET})
    with Ledger.open(tmp_path / "l.db", redact=redactor) as ledger:
        asyncio.run(ledger.add_pending(pending_call))
        assert ledger.pending() == [pending_call]
        approved = ledger.answer(pending_call.call.id, Answer(kind="approve", by="ada"), digest=pending_call.digest)
        assert approved.call == pending_call.call
    with Ledger.open(tmp_path / "l.db") as later:
        again = later.find_pending(pending_call.call.id)
        assert again is not None
        assert (again.call.args, again.digest) == ({"header": "[secret TOKEN]"}, pending_call.digest)


@pytest.mark.spec("P7")
@given(st.integers(0, len(SECRET)), st.sampled_from(["", "x", f"{SECRET} and "]))
def test_a_text_that_is_cut_within_a_value_loses_the_beginning_of_it(kept: int, before: str) -> None:
    redactor = Redactor()
    redactor.add("TOKEN", SECRET)
    shown = redactor.known(f"{before}{SECRET[:kept]}", cut=True)
    assert shown == before.replace(SECRET, "[secret TOKEN]") + ("[secret TOKEN]" if kept >= 6 else SECRET[:kept])


@pytest.mark.spec("P7")
def test_known_values_are_redacted_without_token_patterns(redactor: Redactor) -> None:
    assert redactor.known(f"{GITHUB} {SECRET}") == f"{GITHUB} [secret TOKEN]"
    assert Redactor().known(GITHUB, cut=True) == GITHUB


@pytest.mark.spec("P7")
def test_long_values_that_begin_alike_are_told_apart() -> None:
    """The fast search looks for the beginning only."""
    redactor = Redactor()
    redactor.add("TOKEN", "a1" * 40)
    other = "a1" * 39 + "b2"
    assert redactor.finds(other) and redactor.known(f"{other} {'a1' * 40}") == f"{other} [secret TOKEN]"
