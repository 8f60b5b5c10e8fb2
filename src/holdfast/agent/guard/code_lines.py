"""What a line of code does with a name it holds: define it, bring it in from elsewhere, or use it."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from holdfast.tools.search.ranking import defined_name

_MODIFIERS: Final = re.compile(
    r"\s*(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|open|override"
    r"|virtual|inline|data|async|unsafe|pub\([a-z :]{1,60}\)|pub(?=\s+(?:async|unsafe|extern)\b))\s+)++"
)
_IMPORT: Final = re.compile(
    r"""\s*(?:
        from\s+\S+\s+import\b
      | (?:@|\#\s*)?import\b(?!\s*[(:=.])
      | export\s+(?:type\s+)?(?:\*|\{)[^'"]{0,300}\bfrom\s*['"]
      | \#\s*include\b
      | (?:pub(?:\([a-z\s:]{1,60}\))?\s+)?use\s+[\w:\\{@]
      | @(?:use|forward)\s+['"]
      | extern\s+crate\b
      | (?:global\s+)?using\s+(?:static\s+|namespace\s+)?[\w.:]+\s*;
      | (?:(?:const|let|var|local)\s+[^=]{1,200}=\s*)?require(?:_once|_relative)?\s*(?:\(\s*)?['"]
      | include(?:_once)?\s*(?:\(\s*)?['"]
      | source\s+\S
    )""",
    re.VERBOSE,
)
_GIVES_VALUE: Final = re.compile(r"(?:const|static|type)\b[^=]{1,200}=(?!=)")
_LONGEST: Final = 600


class Does(Enum):
    DEFINE = "define"
    IMPORT = "import"
    USE = "use"


def name_defined(line: str) -> str | None:
    """The name a line defines, whatever modifiers stand before; None if it does not read like a definition."""
    return defined_name(_bare(line))


def what_it_does(line: str, *, exact: bool) -> Does:
    """`exact`: some line of the file defines exactly what was searched for.

    Where none does, the name on the right of `const x = name()` is used there, although the line defines something.
    """
    if _IMPORT.match(line[:_LONGEST]):
        return Does.IMPORT
    bare = _bare(line)
    if defined_name(bare) is None:
        return Does.USE
    return Does.USE if not exact and _GIVES_VALUE.search(bare[:_LONGEST]) else Does.DEFINE


def _bare(line: str) -> str:
    modifiers = _MODIFIERS.match(line[:_LONGEST])
    return line[modifiers.end() :] if modifiers else line
