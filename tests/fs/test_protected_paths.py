from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.roots import state_dir
from holdfast.fs.own_paths import user_config_file
from holdfast.fs.protected_list import PROTECTED
from holdfast.fs.protected_paths import DOTTED_REASON, protected_reason, symlink_reason
from tests.quick import quickly
from tests.soak import rounds

EXAMPLES = [
    ".git",
    ".git/hooks/pre-commit",
    ".git/config",
    "vendor/lib/.git/hooks/post-checkout",
    ".gitattributes",
    "sub/.gitattributes",
    ".gitmodules",
    ".husky/pre-push",
    ".pre-commit-config.yaml",
    ".envrc",
    ".env",
    ".env.local",
    ".bashrc",
    ".vscode/tasks.json",
    ".mcp.json",
    ".claude/settings.json",
    "AGENTS.md",
    "package.json",
    "Makefile",
    "tests/conftest.py",
    "sitecustomize.py",
    "venv/lib/x.pth",
    ".github/workflows/ci.yml",
    "holdfast.toml",
    "notes/talk.chat",
    "/etc/crontab",
    "/var/spool/cron/crontabs/me",
]
ORDINARY = [
    "src/app.py",
    "README.md",
    "git/hooks.py",
    "gitattributes",
    "makefile.py",
    "my-package.json",
    "package.json.bak",
    "environment.py",
    "chat/talk.py",
    ".github/FUNDING.yml",
    ".github/ISSUE_TEMPLATE/bug.yml",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".github/CONTRIBUTING.md",
    ".github/images/logo.svg",
    ".gitlab/merge_request_templates/Default.md",
    ".changeset/brave-cats-run.md",
    ".well-known/security.txt",
    ".pytest_cache/v/cache/lastfailed",
    "src/conf.py",
    "src/project/plugins.py",
    "config/config.ex",
    "cvs/jane.md",
    "notes/user.md",
    "bin/tool",
    "env/settings.py",
    "env/bin/tool",
    "src/gems/rb.py",
    "main.tf~",
    "a.b~1",
    "long-name~1",
    "docs/ssh.md",
    "src/localmise.toml.py",
    "src/local.py",
    "locale/override.po",
    "docs/agents.rst",
    "bin/activate_account.py",
    "pyproject.toml",
    "Cargo.toml",
    "go.mod",
    "tsconfig.json",
    "lib/tasks.py",
    "xconftest.py",
    ".gitignore",
    ".gitkeep",
]


@pytest.mark.spec("A6", "A18")
@pytest.mark.parametrize("path", EXAMPLES)
def test_a_listed_name_is_protected_with_its_reason(root: Path, path: str) -> None:
    reason = protected_reason(Path(path), root=root)
    assert reason is not None and reason in PROTECTED
    assert protected_reason(root / path, root=root) == reason


ACTING = {
    "version control": (
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".sl/config",
        "_darcs/prefs/defaults",
        ".repo/repo/main.py",
        ".pre-commit-config.yml",
        "lefthook.yml",
        ".lefthook/pre-commit/check.sh",
        ".overcommit.yml",
        ".lintstagedrc.cjs",
        "commitlint.config.js",
        ".gitlint",
        ".lfsconfig",
        "CVS/Root",
        "_MTN/monotonerc",
        "BitKeeper/triggers/pre-commit",
    ),
    "local variants": (
        "lefthook-local.yml",
        ".lefthook-local.yml",
        "mise.local.toml",
        ".mise.local.toml",
        ".envrc.local",
        "AGENTS.override.md",
        "CLAUDE.local.md",
        "Makefile.local",
        "holdfast.local.toml",
        "packages/a/conftest_local.py",
    ),
    "editors": (
        ".helix/languages.toml",
        ".dir-locals-2.el",
        ".vs/tasks.vs.json",
        ".run/all.run.xml",
        "app.sublime-project",
        "rust-analyzer.toml",
        ".vim/coc-settings.json",
        ".nvim.lua",
        ".project",
        ".settings/org.eclipse.core.externaltools.prefs",
        ".bsp/sbt.json",
        "eslint.config.mjs",
        ".prettierrc.js",
        ".rubocop.yml",
        ".pylintrc",
        "crates/a/build.rs",
        ".luarc.json",
        ".lazy.lua",
        ".ona/automations.yaml",
        ".gitpod/automations.yaml",
        "CMakeLists.txt.user",
        "app.pro.user",
        "x.csproj.user",
        "x.kdev4",
        "build.zig",
        "config.nims",
        ".lsp/config.edn",
        "project.clj",
        "rebar.config.script",
        "x.sbt",
        "build.sc",
        "build.mill",
        ".lintr",
        "pylintrc.toml",
        ".pylintrc.toml",
        "cspell.config.cjs",
        ".markdownlint-cli2.yaml",
        "psalm.xml",
        "phpcs.xml.dist",
        "ecs.php",
        "analysis_options.yaml",
        "docs/conf.py",
        "doc/source/conf.py",
        ".pyre_configuration",
        "Setup.hs",
        "cabal.project.local",
        "CMakeLists.txt",
        "CMakePresets.json",
        "x.gemspec",
        "apps/a/mix.exs",
        "apps/a/config/config.exs",
        "x.csproj",
        "obj/x.csproj.nuget.g.targets",
        "Directory.Solution.props",
        "Directory.Packages.props",
        "app/build.gradle.kts",
        "gradle/deploy.gradle",
        "buildSrc/src/main/kotlin/A.kt",
        "gradle/wrapper/gradle-wrapper.jar",
        ".mill-jvm-opts",
    ),
    "builds and tests": (
        "Taskfile.dist.yml",
        "pytest.ini",
        "tox.ini",
        ".coveragerc",
        ".bazelversion",
        "user.bazelrc",
        ".actrc",
        ".arclint",
        "Procfile.dev",
        "MSBuild.rsp",
    ),
    "interpreters": (
        ".Rprofile",
        ".ghci",
        ".pdbrc",
        ".pdbrc.py",
        ".irbrc",
        ".pryrc",
        ".octaverc",
        ".iex.exs",
        ".gdbinit",
        ".psqlrc",
        "usercustomize.py",
        "env/lib/python3.12/site-packages/x.pth",
        "env/bin/activate",
        ".venv/bin/activate.fish",
        ".venv/Scripts/Activate.ps1",
        ".venv/pyvenv.cfg",
    ),
    "package managers": (
        "bunfig.toml",
        ".pnpmfile.cjs",
        ".pnpmfile.mjs",
        ".yarn/releases/yarn-4.cjs",
        ".yarn/plugins/x.cjs",
        ".bundle/config",
        "pnpm-workspace.yaml",
        "binding.gyp",
        "pip.conf",
        "nuget.config",
        "rust-toolchain.toml",
    ),
    "continuous integration": (
        ".forgejo/workflows/ci.yml",
        ".gitea/workflows/ci.yml",
        ".gitlab/ci/test.yml",
        ".builds/linux.yml",
        ".cirrus.star",
        ".semaphore/semaphore.yml",
        ".teamcity/settings.kts",
        ".tekton/push.yaml",
        "appveyor.yml",
        "cloudbuild.yaml",
        ".zuul.yaml",
        ".readthedocs.yaml",
        ".github/dependabot.yml",
        "Jenkinsfile.release",
        "x.jenkinsfile",
        "zuul.yaml",
        ".gitlab/duo/agent-config.yml",
        ".gitlab/security-policies/policy.yml",
        ".codecatalyst/workflows/x.yaml",
        ".ebextensions/x.config",
        ".platform/hooks/prebuild/a.sh",
        ".concourse/x.yml",
        ".werft/x.yaml",
        ".argocd-source.yaml",
        ".kodiak.toml",
        ".bulldozer.yml",
        ".policy.yml",
    ),
    "agents": (
        ".opencode/agent/x.md",
        "opencode.json",
        "opencode.jsonc",
        ".opencode.json",
        ".agents/skills/a/SKILL.md",
        ".github/hooks/pre.json",
        ".github/copilot-instructions.md",
        ".github/instructions/a.instructions.md",
        ".qwen/settings.json",
        ".copilot/mcp.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".cursor/rules/a.mdc",
        ".windsurf/rules/a.md",
        ".aider.conf.yml",
        ".aider.model.settings.yml",
        ".continue/config.yaml",
        ".kiro/hooks/a.kiro.hook",
        ".roo/rules/a.md",
        ".roorules-code",
        ".clinerules/a.md",
        ".cline_rules",
        "GEMINI.md",
        "docs/AGENTS.md",
        "skills/deploy/SKILL.md",
        ".github/extensions/a/extension.mjs",
        ".github/lsp.json",
        ".github/plugin/x.json",
        "GROK.md",
        ".grok/settings.json",
        ".letta/settings.json",
        ".tabnine/x.md",
        ".void/x",
    ),
    "environments": (
        ".mise/tasks/build",
        "flake.nix",
        "devbox.json",
        ".config/mise.toml",
        ".autoenv.zsh",
        "guix.scm",
        "manifest.scm",
        "jupyter_server_config.json",
        ".flaskenv",
        "ios/.xcode.env.local",
        ".direnv/flake-profile-a.rc",
        ".direnv/bin/nix-direnv-reload",
        ".devenv/load-exports",
        ".devbox/gen/scripts/.hooks.sh",
        ".venv/bin/pip",
        "node_modules/.bin/eslint",
        "node_modules/a/index.js",
        "env/lib/python3.12/site-packages/a/b.py",
    ),
}


@pytest.mark.spec("N9")
@pytest.mark.parametrize("path", [path for paths in ACTING.values() for path in paths])
def test_a_file_that_a_program_runs_or_obeys_is_protected(root: Path, path: str) -> None:
    _ready(root, path)
    assert protected_reason(Path(path), root=root) is not None
    assert protected_reason(Path(path.upper()), root=root) is not None
    assert protected_reason(root / "sub" / path, root=root) is not None


def _ready(root: Path, path: str) -> None:
    """Its first folder exists, so only its name can be the reason."""
    for name in {path.partition("/")[0], path.upper().partition("/")[0]}:
        (root / name).touch()


@pytest.mark.spec("N9")
def test_a_dotted_name_at_the_top_is_protected_even_if_it_does_not_exist(root: Path) -> None:
    for path in (".newtoolrc", ".newtool/config.json", ".newtool/deep/cache.rc", "\uff0enewtool", ".unknown"):
        assert protected_reason(Path(path), root=root) == DOTTED_REASON, path
        assert protected_reason(Path("sub", path), root=root) is None, path
    (root / ".newtoolrc").touch()
    (root / ".newtool").mkdir()
    assert protected_reason(Path(".newtoolrc"), root=root) == DOTTED_REASON
    assert protected_reason(Path(".newtool/config.json"), root=root) == DOTTED_REASON
    for inert in (".gitignore", ".dockerignore", ".editorconfig", ".env.example", ".github", ".mypy_cache/3.11/a.json"):
        assert protected_reason(Path(inert), root=root) is None, inert


@pytest.mark.spec("N9")
def test_below_a_forge_folder_only_known_names_are_inert(root: Path) -> None:
    (root / ".github").mkdir()
    for path in (".github/newbot.yml", ".github/labeler.yml", ".github/ISSUE_TEMPLATE.sh", ".gitlab/new/x.json"):
        assert protected_reason(Path(path), root=root) == DOTTED_REASON, path
    for path in (".github/ISSUE_TEMPLATE/x.yml", ".github/SECURITY.md", ".github/logo.png"):
        assert protected_reason(Path(path), root=root) is None, path


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    "path",
    [
        "gems.rb",
        "default.nix",
        "rakefile.rb",
        "conductor.json",
        "forge.yaml",
        "project/plugins.sbt",
        "project/build.properties",
        "project/Build.scala",
        "config/config.exs",
        "setup.cfg",
        "profiles.clj",
    ],
)
def test_names_that_act_only_at_the_top_are_protected_there(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root) is not None


@pytest.mark.spec("N9")
def test_programs_of_an_environment_of_any_name_are_protected(root: Path) -> None:
    (root / "tools/mine/bin").mkdir(parents=True)
    for path in ("tools/mine/bin/pytest", "tools/mine/Scripts/pytest.exe"):
        assert protected_reason(Path(path), root=root) is None, path
    (root / "tools/mine/pyvenv.cfg").touch()
    for path in ("tools/mine/bin/pytest", "tools/mine/BIN/new", "tools/mine/Scripts/pytest.exe"):
        assert protected_reason(Path(path), root=root) is not None, path
    assert protected_reason(Path("tools/mine/bin/pytest"), root=root, for_commands=True) is None


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    "path", ["VSCODE~1/tasks.json", "sub/HUSKY~1/pre-commit", "PACKAG~1.JSO", "envrc~1", "GI7EBA~1", "gitatt~12"]
)
def test_a_short_name_is_protected_because_it_can_stand_for_any_name(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root) is not None
    assert protected_reason(Path(path), root=root, for_commands=True) is not None


@pytest.mark.spec("N9")
def test_a_repository_of_another_name_cannot_be_created_file_by_file(root: Path) -> None:
    bare = root / "data.git"
    for path in ("config", "hooks/post-update", "objects/x", "refs/x", "info/attributes", "HEAD"):
        assert protected_reason(bare / path, root=root) is None, path
    (bare / "objects").mkdir(parents=True)
    (bare / "refs").mkdir()
    assert protected_reason(bare / "config", root=root) is None
    assert protected_reason(bare / "HEAD", root=root) is not None
    assert protected_reason(bare / "head", root=root) is not None
    (bare / "HEAD").touch()
    for path in ("config", "hooks/post-update", "info/attributes", "commondir", "HEAD"):
        assert protected_reason(bare / path, root=root) is not None, path
    assert protected_reason(bare / "notes.txt", root=root) is None
    (root / "linked").mkdir()
    (root / "linked" / "HEAD").touch()
    assert protected_reason(root / "linked" / "commondir", root=root) is not None


@pytest.mark.spec("N9")
def test_no_name_is_inert_below_a_protected_folder(root: Path) -> None:
    for path in (".claude/.gitignore", ".git/hooks/.gitkeep", ".vscode/.editorconfig"):
        assert protected_reason(Path(path), root=root) is not None, path


@pytest.mark.spec("N9")
def test_dotted_names_in_the_home_folder_are_protected_unless_the_project_is_inside(root: Path, own_home: Path) -> None:
    for path in (".somerc", ".local/share/app/plugins/a.lua", ".cache/x"):
        (own_home / path).parent.mkdir(parents=True, exist_ok=True)
        (own_home / path).touch()
        assert protected_reason(own_home / path, root=own_home) is not None, path
    inner = own_home / ".dotfiles" / "project"
    inner.mkdir(parents=True)
    assert protected_reason(inner / "a.txt", root=inner) is None
    assert protected_reason(own_home / "code/a.py", root=own_home) is None


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    "path",
    [
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".yarn/releases/y.cjs",
        ".helix/config.toml",
        ".pdbrc",
        "sub/.envrc.local",
        "eslint.config.js",
        "build.rs",
        ".direnv/flake-profile-a.rc",
        ".direnv/bin/nix-direnv-reload",
        ".devenv/load-exports",
        ".devbox/gen/scripts/.hooks.sh",
        ".hg/requires",
        ".jj/repo/config-id",
        ".jj/workspace-config-id",
        ".lsp/config.edn",
        ".grok/settings.json",
        ".github/extensions/a/extension.mjs",
        "pytest.ini",
        "x.gemspec",
        "CMakeLists.txt",
        "buildSrc/src/main/kotlin/A.kt",
        "Directory.Packages.props",
    ],
)
def test_commands_cannot_create_it_either(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root, for_commands=True) is not None


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    "path",
    [
        ".hg/store/00changelog.i",
        ".jj/repo/op_store/x",
        ".svn/wc.db",
        ".yarn/cache/a.zip",
        ".venv/bin/activate",
        ".pytest_cache/v/x",
        ".newtool",
        "target/debug/build.rs",
        ".direnv/python-3.11/bin/pip",
        ".devenv/state/venv/bin/pip",
        "node_modules/.bin/eslint",
        "node_modules/a/index.js",
        "venv/lib/python3.12/site-packages/a.py",
        "vendor/bundle/ruby/3.3.0/specifications/a.gemspec",
        "build/_deps/fmt/CMakeLists.txt",
        "buildSrc/build/classes/A.class",
        "obj/x.csproj.nuget.g.props",
        "x.csproj",
        "deps/a/mix.exs",
    ],
)
def test_commands_may_commit_build_and_cache(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root, for_commands=True) is None


@pytest.mark.spec("A6", "A18", "N9")
@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_not_protected(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root) is None


@pytest.mark.spec("A6", "A18")
@pytest.mark.parametrize(
    "path",
    [
        ".GIT/hooks/x",
        ".Git/Config",
        ".git./hooks/x",
        ".git /hooks/x",
        ".git. . ./config",
        ".gıt/config",
        ".gİt/config",
        ".g\u200cit/config",
        ".\ufeffgit/config",
        "．git/config",
        ".ｇｉｔ/config",
        "git~1/config",
        "GIT~1/config",
        ".git::$INDEX_ALLOCATION/config",
        "HOLDFAST.TOML",
        "holdfast.toml::$DATA",
        "holdfast.toml.",
        "holdfaſt.toml",
        "Conftest.PY ",
        "conftest.py\u3000",
        "Make\u00adfile",
        "MAKEFILE",
        "package.json\n",
        "sub/../.git/config",
        "talk.CHAT",
    ],
)
def test_every_spelling_of_a_protected_name_is_protected(root: Path, path: str) -> None:
    assert protected_reason(Path(path), root=root) is not None


@pytest.mark.spec("A6", "A18")
def test_accented_names_match_in_every_normalization_form(root: Path) -> None:
    assert protected_reason(Path("privé/x"), root=root, extra=("prive\u0301",)) == "the configuration protects it"
    assert protected_reason(Path("prive\u0301/x"), root=root, extra=("privé",)) == "the configuration protects it"


@pytest.mark.spec("A6", "A18")
def test_a_symlink_to_or_at_a_protected_path_is_protected(root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / "innocent").symlink_to(root / ".git/hooks")
    (root / "deep").mkdir()
    (root / "deep/up").symlink_to(root / ".git/hooks")
    assert protected_reason(root / "innocent/pre-commit", root=root) is not None
    assert protected_reason(root / "deep/up/../config", root=root) is not None
    (root / "real").mkdir()
    (root / ".vscode").symlink_to(root / "real")
    assert protected_reason(root / ".vscode/tasks.json", root=root) is not None


@pytest.mark.spec("A6", "A18")
def test_holdfasts_own_config_and_state_are_protected_wherever_they_are(
    root: Path, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protected_reason(own_home / ".config/holdfast/config.toml", root=root) == "holdfast obeys it"
    assert protected_reason(own_home / ".local/state/holdfast/projects/x/ledger.db", root=root) == "holdfast obeys it"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "Elsewhere"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "kept"))
    assert protected_reason(user_config_file(), root=root) == "holdfast obeys it"
    assert protected_reason(state_dir(root) / "grants.db", root=root) == "holdfast obeys it"
    assert protected_reason(tmp_path / "elsewhere/holdfast", root=root) == "holdfast obeys it"
    assert protected_reason(tmp_path / "Elsewhere/other", root=root) is None


@pytest.mark.spec("A6", "A18")
def test_a_user_configuration_behind_a_symlink_is_protected_at_its_target(root: Path, own_home: Path) -> None:
    target = root / "dotfiles" / "tools.toml"
    target.parent.mkdir()
    target.touch()
    (own_home / ".config/holdfast").mkdir(parents=True)
    (own_home / ".config/holdfast/config.toml").symlink_to(target)
    assert protected_reason(target, root=root) == "holdfast obeys it"


@pytest.mark.spec("A6", "A18")
def test_patterns_anchored_to_the_home_folder_do_not_match_elsewhere(root: Path, own_home: Path) -> None:
    assert protected_reason(own_home / ".config/fish/config.fish", root=root) is not None
    assert protected_reason(own_home / "bin/tool", root=root) is not None
    assert protected_reason(root / "bin/tool", root=root) is None
    assert protected_reason(own_home / ".ssh/authorized_keys", root=root) is not None


@pytest.mark.spec("A6", "A18")
def test_the_configuration_adds_patterns(root: Path) -> None:
    extra = ("infra/*.tf", "$root/deploy", "/srv/data", "secret?.txt", "~/notes")
    for path in ("a/infra/main.tf", "deploy/x/y", "/srv/data/x", "secret1.TXT", str(Path.home() / "notes/x")):
        assert protected_reason(Path(path), root=root, extra=extra) == "the configuration protects it", path
    for path in ("infra/main.py", "a/deploy/x", "x/srv/data", "secret.txt", "infra/a/main.tf"):
        assert protected_reason(Path(path), root=root, extra=extra) is None, path
    assert protected_reason(Path("x"), root=None, extra=("$root/x",)) is None


@pytest.mark.spec("A6")
def test_a_pattern_with_many_stars_is_matched_quickly(root: Path) -> None:
    with quickly():
        assert protected_reason(Path("a" * 250), root=root, extra=("*a" * 20 + "*b",)) is None


@pytest.mark.spec("A6")
@settings(max_examples=rounds(40, 200), deadline=None)
@given(
    name=st.text("ab.", min_size=1, max_size=8).filter(lambda name: name.strip(".") == name),
    pattern=st.text("ab*?", min_size=1, max_size=6),
)
def test_stars_and_question_marks_match_like_globs(name: str, pattern: str) -> None:
    from fnmatch import fnmatchcase

    expected = "the configuration protects it" if fnmatchcase(name, pattern) else None
    assert protected_reason(Path("/q-root") / name, root=Path("/q-root"), extra=(f"$root/{pattern}",)) == expected


GIT_OBEYS = (".git/hooks/pre-commit", ".git/config", ".git/modules/a/config", ".git/info/attributes")
OBEYED = (*GIT_OBEYS, ".envrc", "holdfast.toml", "sub/a.chat", ".bashrc", "Makefile", "package.json")
GIT_KEEPS = (".git/index", ".git/objects/ab/cd", ".git/refs/heads/main", ".git/HEAD")
MADE = (*GIT_KEEPS, "build/Makefile", "packages/a/package.json", "tests/unit/conftest.py")


@pytest.mark.spec("N2", "N3")
@pytest.mark.parametrize("path", OBEYED)
def test_a_command_may_not_change_files_that_a_program_obeys(root: Path, path: str) -> None:
    assert protected_reason(root / path, root=root, for_commands=True) is not None


@pytest.mark.spec("N2", "N3")
@pytest.mark.parametrize("path", MADE)
def test_a_command_may_commit_and_build(root: Path, path: str) -> None:
    assert protected_reason(root / path, root=root, for_commands=True) is None
    assert protected_reason(root / path, root=root) is not None


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("path", "leads"),
    [
        (".cargo", True),
        ("sub/.GitHub", True),
        (".git/info", True),
        (".git/modules/a/b", True),
        ("infra", True),
        (".cargo/registry", False),
        (".git/refs", False),
        ("info", False),
        ("src/cargo", False),
    ],
)
def test_a_parent_of_a_protected_path_may_not_be_a_symlink(root: Path, path: str, leads: bool) -> None:
    reason = symlink_reason(root / path, root=root, extra=("$root/infra/main.tf",), for_commands=True)
    assert (reason is not None) is leads


@pytest.mark.spec("N2")
def test_a_path_that_changes_during_resolution_is_still_checked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> str:
        raise OSError(22, "Invalid argument")

    assert protected_reason(root / "x", root=root) is None
    monkeypatch.setattr("os.path.realpath", fails)
    assert protected_reason(root / ".envrc", root=root) is not None
