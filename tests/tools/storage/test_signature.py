"""The signature, against the examples of the S3 documentation."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.storage.signature import (
    EMPTY_DIGEST,
    Credentials,
    encode_path,
    encode_query,
    presigned_url,
    signed_headers,
)

pytestmark = pytest.mark.spec("B9a")

EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
HOST = "examplebucket.s3.amazonaws.com"
AT = datetime(2013, 5, 24, tzinfo=UTC)


def test_a_request_is_signed_as_the_documentation_of_s3_signs_it() -> None:
    headers = signed_headers("GET", HOST, "/test.txt", (), {"Range": "bytes=0-9"}, EMPTY_DIGEST, EXAMPLE, AT)
    expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    assert headers["authorization"].endswith(
        f"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature={expected}"
    )


def test_a_query_is_signed_as_the_documentation_of_s3_signs_it() -> None:
    query = [("prefix", "J"), ("max-keys", "2")]
    headers = signed_headers("GET", HOST, "/", query, {}, EMPTY_DIGEST, EXAMPLE, AT)
    assert headers["authorization"].endswith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")


def test_a_link_is_the_one_of_the_documentation() -> None:
    link = presigned_url("https", HOST, "/test.txt", EXAMPLE, AT, 86_400)
    assert link.endswith("X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_a_secret_key_is_not_shown_with_its_credentials() -> None:
    assert EXAMPLE.secret_key not in repr(EXAMPLE)


@given(st.text(min_size=1, max_size=100))
def test_an_encoded_path_decodes_to_itself_and_is_ascii(path: str) -> None:
    encoded = encode_path(path)
    assert encoded.isascii() and encoded.isprintable() and " " not in encoded
    assert unquote(encoded) == path


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=20)), max_size=5))
def test_the_order_of_a_query_does_not_matter(query: list[tuple[str, str]]) -> None:
    assert encode_query(query) == encode_query(list(reversed(query)))
