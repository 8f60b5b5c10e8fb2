"""Measures the share of ordinary edits that need approval, on file lists of real projects.

    python bench/protected_paths.py FOLDER [--show]

FOLDER holds one `NAME.txt` per project, with a path on each line, as `git ls-tree -r --name-only HEAD` prints them. For
each file two calls are judged like those of the file tools: an edit of it, and a new file beside it. The table below
lists the files that some program runs or obeys by itself; it is written by hand, independently of the rules under test.
All other files are ordinary.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

ACTING: Final = {
    "continuous integration and forges": (
        r"\.github/(workflows|actions)/",
        r"\.github/(dependabot|renovate)[^/]*$",
        r"CODEOWNERS$",
        r"\.(readthedocs|goreleaser|travis)\.ya?ml$",
        r"netlify\.toml$",
    ),
    "hooks and attributes of version control": (
        r"\.git(attributes|modules)$",
        r"\.pre-commit-config\.ya?ml$",
        r"\.husky/",
    ),
    "editors and development containers": (
        r"\.(vscode|idea|devcontainer)/",
        r"\.nvim\.lua$",
        r"\.dir-locals\.el$",
    ),
    "linters that editors run, whose settings load code": (
        r"\.(eslintrc|prettierrc|stylelintrc|rubocop|oxlintrc)[^/]*$",
        r"(eslint|prettier|stylelint|svelte|tailwind)\.config\.[cm]?[jt]s$",
        r"(\.flake8|\.pylintrc|mypy\.ini|\.golangci\.ya?ml)$",
        r"docs?/(source/)?conf\.py$",
    ),
    "build definitions that editors evaluate when a project is opened": (
        r"(build\.zig|project\.clj|mix\.exs|CMakeLists\.txt|[^/]*\.sbt|[^/]*\.gradle(\.kts)?|[^/]*\.gemspec)$",
        r"([^/]*\.(csproj|props|targets)|global\.json|nuget\.config|flake\.nix)$",
        r"^project/([^/]*\.scala|build\.properties)$",
        r"^(buildSrc|build-logic|gradle/wrapper)/",
        r"config/[^/]*\.exs$",
    ),
    "instructions and settings of agents": (
        r"(AGENTS|CLAUDE|GEMINI)\.md$",
        r"\.(claude|cursor)/",
        r"\.mcp\.json$",
        r"\.github/copilot-instructions\.md$",
    ),
    "package managers": (
        r"package\.json$",
        r"(\.npmrc|\.yarnrc(\.yml)?|pnpm-workspace\.yaml|\.cargo/config(\.toml)?|rust-toolchain(\.toml)?)$",
        r"^(Gemfile|setup\.py)$",
    ),
    "build and test tools": (
        r"(GNU)?[Mm]akefile$",
        r"(conftest\.py|pytest\.ini|tox\.ini|\.coveragerc|sitecustomize\.py|build\.rs|\.rspec|\.yardopts|\.mocharc[^/]*)$",
        r"^(Rakefile|Gruntfile\.js)$",
    ),
    "environment of a shell or a program": (
        r"\.env(\.[^/]*)?$",
        r"(\.envrc|\.flaskenv|\.tool-versions|mise\.toml|\.htaccess)$",
    ),
}
_ACTING: Final = re.compile(
    "|".join(pattern if pattern[0] == "^" else f"(?:^|/){pattern}" for some in ACTING.values() for pattern in some)
)


class Counts(NamedTuple):
    files: int = 0
    acting: int = 0
    edits: int = 0
    edits_ordinary: int = 0
    creates: int = 0
    creates_ordinary: int = 0

    def row(self, name: str) -> str:
        plain = max(self.files - self.acting, 1)
        parts = (
            (self.edits, self.files),
            (self.edits_ordinary, plain),
            (self.creates, self.files),
            (self.creates_ordinary, plain),
        )
        shares = " | ".join(f"{part} ({100 * part / whole:.1f} %)" for part, whole in parts)
        return f"| {name} | {self.files} | {self.acting} | {shares} |"


def is_acting(path: str, *, new: bool = False) -> bool:
    """A new name with a dot at the top of a project counts as acting: nobody can know what will obey it."""
    return _ACTING.search(path) is not None or (new and path.startswith(".") and "/" not in path)


def sibling(path: str) -> str:
    """A new file beside it: `app.py` gets `app_new.py`."""
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem}_new{pure.suffix}"))


def count(paths: list[str], shown: list[str]) -> Counts:
    from holdfast.fs.protected_paths import protected_reason

    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder), "project")
        for path in paths:  # only at the top it matters what is there
            first, _, rest = path.partition("/")
            (root / first if rest else root).mkdir(parents=True, exist_ok=True)
            if not rest:
                (root / first).touch()
        made = [name for name in map(sibling, paths) if name not in set(paths)]
        edits = {path: why for path in paths if (why := protected_reason(Path(path), root=root))}
        creates = {path: why for path in made if (why := protected_reason(Path(path), root=root))}
    edits_ordinary = [path for path in edits if not is_acting(path)]
    creates_ordinary = [path for path in creates if not is_acting(path, new=True)]
    shown += (f"edit: {path} ({edits[path]})" for path in edits_ordinary)
    shown += (f"create: {path} ({creates[path]})" for path in creates_ordinary)
    shown += (f"acting, not asked: {path}" for path in paths if is_acting(path) and path not in edits)
    acting = sum(map(is_acting, paths))
    return Counts(len(paths), acting, len(edits), len(edits_ordinary), len(creates), len(creates_ordinary))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="also print each ordinary path that is asked about")
    given = parser.parse_args()
    shown: list[str] = []
    total = Counts()
    print("| project | files | of them acting | edits asked | of ordinary | new files asked | of ordinary |")
    print("|---|---|---|---|---|---|---|")
    for listing in sorted(given.folder.glob("*.txt")):
        paths = [line for line in listing.read_text("utf-8", "surrogateescape").splitlines() if line]
        counts = count(paths, shown)
        print(counts.row(listing.stem))
        total = Counts(*map(sum, zip(total, counts, strict=True)))
    print(total.row("all"))
    if given.show:
        print(*shown, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
