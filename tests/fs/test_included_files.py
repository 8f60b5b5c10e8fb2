"""References: files that project files include or run automatically."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.fs.included_files import find_references
from holdfast.fs.protected_paths import protected_reason
from tests.quick import quickly


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


NAMED = [
    (".git/config", '[core]\n\thooksPath = "tools/hooks"\n', "tools/hooks/pre-commit"),
    (".git/config", "[include]\n\tpath = ../team.gitconfig\n", "team.gitconfig"),
    (".git/config", '[includeIf "onbranch:x"]\n\tpath = ../x.gitconfig\n', "x.gitconfig"),
    (".git/config", '[filter "x"]\n\tclean = python3 tools/clean.py %f\n', "tools/clean.py"),
    (".git/config", "[alias]\n\tship = !./ship.sh now\n", "ship.sh"),
    (".git/config", "[core]\n\tfsmonitor = scripts/watch\n", "scripts/watch"),
    ("package.json", '{"scripts": {"postinstall": "node scripts/post.js --quiet"}}', "scripts/post.js"),
    ("package.json", '{"scripts": {"prepare": "npm run x && npx tsx ./tools/prepare.ts"}}', "tools/prepare.ts"),
    (".envrc", "export A=1\nsource_env_if_exists ops/dev.env\n", "ops/dev.env"),
    (".envrc", "dotenv config/dev.env\n", "config/dev.env"),
    (".envrc", ". ./setup\n", "setup"),
    (".envrc", "PATH_add tools/bin\n", "tools/bin/git"),
    (".pre-commit-config.yaml", "repos:\n- repo: local\n  hooks:\n  - entry: ci/check.sh -x\n", "ci/check.sh"),
    (".pre-commit-config.yaml", 'repos:\n- hooks:\n  - id: a\n    entry: "python ci/lint.py"\n', "ci/lint.py"),
    ("lefthook.yml", "pre-push:\n  commands:\n    a:\n      run: bash ci/push.sh\n", "ci/push.sh"),
    ("Makefile", "-include build/local.mk rules.mk\nall:\n", "build/local.mk"),
    (".Rprofile", 'source("renv/activate.R")\n', "renv/activate.R"),
    (".gitlab-ci.yml", "include:\n  - local: '/ci/tests.yml'\n", "ci/tests.yml"),
    (".cargo/config.toml", '[target.x]\nrunner = "tools/run.sh"\n', "tools/run.sh"),
    ("bunfig.toml", 'preload = ["./test/setup.ts"]\n', "test/setup.ts"),
    (".vscode/tasks.json", '{"tasks": [{"command": "./dev/open.sh"}]} // x', "dev/open.sh"),
    (".mcp.json", '{"mcpServers": {"a": {"command": "python", "args": ["tools/server.py"]}}}', "tools/server.py"),
    (".claude/settings.json", '{"hooks": {"Stop": [{"command": "sh tools/stop.sh"}]}}', "tools/stop.sh"),
    (".envrc", "if [ -f ops/env.sh ]; then source ops/env.sh; fi\n", "ops/env.sh"),
    (".envrc", "for one in a; do source ops/env.sh; done\n", "ops/env.sh"),
    (".envrc", "source common\n", "common"),
    (".envrc", 'source "$PWD/ops/env.sh"\n', "ops/env.sh"),
    (".envrc", "source ${PWD}/ops/env.sh\n", "ops/env.sh"),
    (".envrc", 'source "$(git rev-parse --show-toplevel)/ops/env.sh"\n', "ops/env.sh"),
    (".envrc", "PATH_add $PWD/tools/bin\n", "tools/bin/git"),
    (".envrc", 'export PATH="$PWD/tools/bin:$PATH"\n', "tools/bin/git"),
    (".envrc", 'eval "$(./ops/env)"\n', "ops/env"),
    (".envrc", "export A=`ops/get`\n", "ops/get"),
    (".envrc", "timeout 5 ops/slow.sh\n", "ops/slow.sh"),
    (".claude/settings.json", r'{"command": "\"$CLAUDE_PROJECT_DIR\"/ci/x.sh"}', "ci/x.sh"),
    (".claude/settings.local.json", '{"command": "./ci/x.sh"}', "ci/x.sh"),
    (".vscode/tasks.json", '{"tasks": [{"command": "${workspaceFolder}/dev/open.sh"}]}', "dev/open.sh"),
    (".vscode/settings.json", '{"python.defaultInterpreterPath": "./tools/py"}', "tools/py"),
    (".vscode/mcp.json", '{"servers": {"a": {"command": "node", "args": ["tools/server.js"]}}}', "tools/server.js"),
    (".codex/config.toml", '[mcp_servers.a]\ncommand = "node"\nargs = ["tools/server.js"]\n', "tools/server.js"),
    (".opencode/opencode.jsonc", '{"mcp": {"a": {"command": ["node", "tools/server.js"]}}} // x', "tools/server.js"),
    (".github/hooks/pre.json", '{"hooks": {"preToolUse": [{"bash": "./ci/check.sh"}]}}', "ci/check.sh"),
    ("opencode.json", '{"mcp": {"a": {"command": ["node", "tools/server.js"]}}}', "tools/server.js"),
    (".mcp.json", '{"a": {"args": ["tools/server.js"], "command": "node"}}', "tools/server.js"),
    (".mcp.json", '{"a": {"command": "py", "env": {"A": "b"}, "args": ["tools/server.py"]}}', "tools/server.py"),
    (".mcp.json", '{"a": {"command": "python", "args": ["-m", "tools.server"]}}', "tools/server.py"),
    (".mcp.json", '{"a": {"command": "python", "args": ["-m", "tools.server"]}}', "tools/server/__main__.py"),
    (".mcp.json", '{"a": {"command": "uv", "args": ["--directory", "tools", "run", "a.py"]}}', "tools/a.py"),
    (".mcp.json", '{"a": {"command": "node", "args": ["a.js"], "cwd": "tools"}}', "tools/a.js"),
    ("package.json", '{"scripts": {"postinstall": "node postinstall"}}', "postinstall.js"),
    ("package.json", '{"scripts": {"postinstall": "node scripts/post"}}', "scripts/post.js"),
    ("package.json", '{"scripts": {"prepare": "npm run setup", "setup": "node tools/setup.js"}}', "tools/setup.js"),
    ("package.json", '{"scripts": {"prepare": "yarn x", "prex": "node tools/setup.js"}}', "tools/setup.js"),
    ("package.json", '{"scripts": {"preinstall": "cd tools && node setup.js"}}', "tools/setup.js"),
    ("package.json", '{"scripts": {"install": "node -r ./hook.js x.js"}}', "x.js"),
    ("package.json", '{"husky": {"hooks": {"pre-push": "node tools/push.js"}}}', "tools/push.js"),
    (".git/config", "[core] hooksPath = tools/hooks\n", "tools/hooks/pre-commit"),
    (".git/config", '[core]\n\thooksPath = "tools/hooks" ; ours\n', "tools/hooks/pre-commit"),
    (".git/config", "[core]\n\thooksPath = tools/\\\nhooks\n", "tools/hooks/pre-commit"),
    ("lefthook.yaml", "a:\n  commands:\n    b:\n      run: sh ci/push.sh\n", "ci/push.sh"),
    (".lefthook.yml", "a:\n  commands:\n    b:\n      run: |\n        sh ci/push.sh\n", "ci/push.sh"),
    (".pre-commit-config.yaml", "hooks:\n- {id: a, entry: ci/check.sh, language: script}\n", "ci/check.sh"),
    (".husky/pre-commit", "#!/bin/sh\nsh ci/check.sh\n", "ci/check.sh"),
    (".git/hooks/pre-commit", "#!/bin/sh\nexec ci/check.sh\n", "ci/check.sh"),
    ("makefile", "include build/local.mk\n", "build/local.mk"),
    ("Makefile", "ifdef A\n  include build/local.mk\nendif\n", "build/local.mk"),
    ("mise.toml", '[env]\n_.path = ["./tools/bin"]\n', "tools/bin/git"),
    ("mise.toml", '[confirmation]\nenter = "./ops/enter"\n', "ops/enter"),
]


@pytest.mark.spec("N9")
@pytest.mark.parametrize(("source", "text", "path"), NAMED, ids=[f"{text} {path}" for _, text, path in NAMED])
def test_a_file_that_a_project_file_runs_or_includes_is_protected(
    root: Path, source: str, text: str, path: str
) -> None:
    assert protected_reason(Path(path), root=root) is None
    write(root, source, text)
    assert protected_reason(Path(path), root=root) == f"{source} includes or runs it"
    assert protected_reason(Path(path.upper()), root=root) is not None
    assert protected_reason(Path(path), root=root, for_commands=True) is not None
    assert protected_reason(Path("elsewhere", path), root=root) is None


@pytest.mark.spec("N9")
def test_a_change_of_the_source_takes_effect_immediately(root: Path) -> None:
    for name in ("a.js", "b.js", "c.js"):
        write(root, "package.json", f'{{"scripts": {{"install": "node {name}"}}}}')
        asked = [other for other in ("a.js", "b.js", "c.js") if protected_reason(Path(other), root=root)]
        assert asked == [name]
    (root / "package.json").unlink()
    assert find_references(root) == {}


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("package.json", '{"scripts": {"build": "node src/build.js", "prepare": "tsc -p src/lib && eslint src/"}}'),
        (".pre-commit-config.yaml", "repos:\n- repo: local\n  hooks:\n  - entry: mypy src/lib\n    files: ^src/\n"),
        (".envrc", "export PYTHONPATH=src/lib\nwatch_file src/lib/a.py\n"),
        (".git/config", '[branch "main"]\n\tmerge = refs/heads/main\n[remote "o"]\n\turl = git@x:src/lib.git\n'),
    ],
)
def test_a_mere_mention_is_not_protected(root: Path, source: str, text: str) -> None:
    write(root, source, text)
    for path in ("src/build.js", "src/lib/a.py", "src/lib"):
        assert protected_reason(Path(path), root=root) is None


@pytest.mark.spec("N9")
def test_an_existing_file_is_protected_wherever_a_command_names_it(root: Path) -> None:
    write(root, "package.json", '{"scripts": {"prepare": "rollup -c conf/roll.mjs -- src/lib", "x": "y src/a.js"}}')
    for path in ("conf/roll.mjs", "src/lib/a.js", "src/a.js"):
        assert protected_reason(Path(path), root=root) is None, path
        write(root, path, "")
    assert protected_reason(Path("conf/roll.mjs"), root=root) is not None
    assert protected_reason(Path("conf/roll.mjs"), root=root, for_commands=True) is not None
    for path in ("src/lib/a.js", "src/a.js", "src/lib"):
        assert protected_reason(Path(path), root=root) is None, path


@pytest.mark.spec("N9")
def test_a_changed_or_added_hook_takes_effect_immediately(root: Path) -> None:
    write(root, ".husky/pre-commit", "sh ci/a.sh\n")
    assert protected_reason(Path("ci/a.sh"), root=root) is not None
    write(root, ".husky/pre-commit", "sh ci/b.sh\n")
    write(root, ".husky/pre-push", "sh ci/c.sh\n")
    asked = [name for name in ("a", "b", "c") if protected_reason(Path(f"ci/{name}.sh"), root=root)]
    assert asked == ["b", "c"]


@pytest.mark.spec("N9")
def test_the_configuration_of_a_worktree_is_found(root: Path, tmp_path: Path) -> None:
    main = tmp_path / "main"
    for command in (
        ["init", "-q", "-b", "main", str(main)],
        ["-C", str(main), "-c", "user.name=A", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", str(root / "w")],
        ["-C", str(main), "config", "core.hooksPath", "hooks-of-ours"],
    ):
        subprocess.run(["git", *command], check=True, timeout=30)
    assert protected_reason(root / "w" / "hooks-of-ours/pre-commit", root=root / "w") is not None


@pytest.mark.spec("N9")
def test_a_global_hooks_path_is_protected_in_the_project(root: Path, own_home: Path) -> None:
    write(own_home, ".gitconfig", "[core]\n\thooksPath = our-hooks\n")
    assert protected_reason(root / "our-hooks/pre-commit", root=root) is not None


@pytest.mark.spec("N9")
def test_references_never_include_the_project_itself_or_paths_outside(root: Path) -> None:
    write(root, ".envrc", "PATH_add .\nPATH_add ../bin\nPATH_add /usr/bin\nPATH_add $HOME/bin\nsource_env ~/x\n")
    assert find_references(root) == {}


@pytest.mark.spec("N9")
def test_hostile_sources_are_read_quickly_without_errors(root: Path) -> None:
    texts = ("'" * 200_000, '"command": "' + "\\" * 100_000, "run: " + "a/b " * 50_000, "{" * 99_999, "\0\n")
    with quickly(30):
        for source in dict(NAMED_SOURCES):
            for text in texts:
                write(root, source, text)
                assert len(find_references(root)) <= 2000
            (root / source).unlink()


NAMED_SOURCES = [(source, path) for source, _, path in NAMED]


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=300))
def test_any_text_is_read_without_errors(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("project")
    for source, _ in NAMED_SOURCES[::4]:
        (root / source).parent.mkdir(exist_ok=True)
        (root / source).write_text(text, "utf-8", "surrogateescape")
    assert all(path.startswith("/") for path in find_references(root))
