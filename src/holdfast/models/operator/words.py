"""The closed word lists of the grammar."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROGRAMS: Final = _words(
    "bash bun cargo cat cmake composer curl deno df docker dotnet du echo gcc git gradle java javac jest jq kubectl ls "
    "make mkdir mvn mypy node nox npm npx perl php pip pip3 pnpm poetry pre-commit printf pwd pyright pytest python "
    "python3 rg ruby ruff rustc sh tox uname uniq uv uvx wc whoami yarn"
)
"""A command that begins with one of these needs no backticks."""
ENGLISH: Final = _words(
    "a about after again all also an and any are as at away be because before but by can carefully don't don’t "
    "every everything except first for from here how i if in instead into is it its later me my never no not now of "
    "off on once only or otherwise our over please quickly safely should so soon sure than that the them then there "
    "these they this those till time times to too twice unless until up us was what when whenever where whether while "
    "why with without would yes you your"
)
"""With one of these in it, it does."""
EXTENSIONLESS: Final = _words(
    "README LICENSE LICENCE COPYING CHANGELOG CONTRIBUTING Makefile Dockerfile Justfile Rakefile Gemfile Procfile "
    "Vagrantfile Jenkinsfile"
)
"""Files that are known as such without a dot or a slash in their name."""
NO_FOLDERS: Final = _words(
    "a all an and any background bash case commands debug detail docker everything files folders foreground full here "
    "it me my nothing of off on order out parallel processes production python quiet reverse secret series sh silence "
    "some that the them these this those time to tools turn up us verbose your"
)
"""Words that stand where a folder would, and are none."""
ARITHMETIC: Final = _words(
    "abs acos asin atan atan2 ceil cos degrees e exp factorial floor gcd hypot log log10 log2 max min pi pow radians "
    "round sin sqrt tan tau trunc"
)
"""Functions and constants of the calculator."""
