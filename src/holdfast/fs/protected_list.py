"""The list of protected names: files that some program runs or obeys automatically, grouped by kind of program.

Names are separated by white space and matched by `paths.PathMatcher`: case-insensitive, and including local variants
(`lefthook-local.yml`, `AGENTS.override.md`), which are therefore not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GIT_REASON: Final = "git obeys or runs it"
OWN_REASON: Final = "holdfast obeys it"
DOCUMENT_SUFFIX: Final = ".chat"
DOCUMENT_PATTERN: Final = f"*{DOCUMENT_SUFFIX}"

_PROTECTED: Final = {
    GIT_REASON: ".git .gitattributes .gitmodules .gitconfig .lfsconfig ~/.config/git",
    "version control obeys or runs it": """
        .hg .hgrc .hgsub .hgsubstate .jj .sl .svn .bzr _darcs .pijul .repo .fslckout _FOSSIL_ .fossil-settings
        .p4config .arcconfig .gitreview .arclint CVS/Root CVS/Repository CVS/*.prog _MTN BitKeeper/triggers
        BitKeeper/etc
    """,
    "hooks of version control run it": """
        .githooks .git-hooks githooks .hooks .husky .huskyrc* husky.config.* lefthook.y*ml lefthook.toml lefthook.json
        .lefthook* .pre-commit-config.y*ml prek.toml .overcommit.y*ml .lintstagedrc* lint-staged.config.*
        .simple-git-hooks.* simple-git-hooks.* .commitlintrc* commitlint.config.* .gitlint .rusty-hook.toml
        captainhook.json grumphp.y*ml cog.toml
    """,
    OWN_REASON: f"holdfast.toml {DOCUMENT_PATTERN} .holdfast ~/.config/holdfast ~/.local/state/holdfast",
    "a shell runs it": """
        .bashrc .bashrc.d .bash_* .profile .zshrc .zshrc.d .zshenv .zprofile .zlogin .zlogout .zpreztorc .oh-my-zsh
        .cshrc .tcshrc .kshrc .mkshrc .shrc .shinit .xonshrc .login .logout .inputrc .xinitrc .xprofile .xsession
        .xsessionrc .pam_environment .tmux.conf .screenrc .mailcap .mailrc .vnc .forward .procmailrc .lessfilter
        .sshrc .curlrc .wgetrc .tigrc .ripgreprc ~/.config/fish ~/.config/environment.d ~/bin ~/.local/bin
    """,
    "it sets the environment of what runs here": """
        .env .env.* .envrc .envrc.* .direnv .devenv .devenv.* .devbox .flaskenv .xcode.env .direnvrc .autoenv* .mise
        .mise.toml .mise.*.toml mise.toml mise.*.toml mise/config*.toml .rtx.toml .tool-versions .asdfrc .sdkmanrc
        .rvmrc .rbenv-vars .powrc .powenv .smartcd* .shadowenv.d .prototools .hermit devbox.json devenv.nix
        devenv.yaml devshell.toml flake.nix shell.nix $root/default.nix guix.scm manifest.scm .flox pixi.toml .config
    """,
    "an editor obeys or runs it": """
        .vscode *.code-workspace .idea *.ipr *.iws .run .fleet .zed .helix .kakrc .nova .lapce .theia .vs *.suo *.user
        *.kdev4 omnisharp.json *.sublime-project *.sublime-workspace *.sublime-build .kateproject* .kateconfig
        .tm_properties *.geany .project .classpath .factorypath .settings .externalToolBuilders nbproject
        .devcontainer .devcontainer.json devfile.y*ml .devfile.y*ml .gitpod .gitpod.* .ona .codesandbox .stackblitzrc
        .replit replit.nix local.properties .idx .exrc .vimrc _vimrc .gvimrc .nvimrc .nvim.lua .nvim .lazy.lua .lvimrc
        .local.vimrc .vim .vimspector.json .neoconf.json .nlsp-settings .ycm_extra_conf.py ~/.config/nvim
        ~/.config/Code .emacs .emacs.el .emacs.d .lite_project.lua .dir-locals*.el .projectile
    """,
    "a language server or linter in an editor runs it": """
        rust-analyzer.toml .rust-analyzer rust-project.json rust-toolchain rust-toolchain.toml build.rs build.zig
        *.nims *.nimble project.clj $root/profiles.clj .lsp/config.edn rebar.config.script *.app.src.script
        $root/rebar.config Setup.hs Setup.lhs cabal.project* $root/stack.yaml analysis_options.yaml .bsp .metals
        .bloop buildServer.json .sourcekit-lsp hie.yaml .merlin .clangd .luarc.json* .luacheckrc .lintr*
        .formatter.exs .credo.exs .phpactor.* .phan .php-cs-fixer* phpstan.neon* psalm.xml* phpcs.xml* .phpcs.xml*
        ecs.php .solargraph.yml .rubocop*.yml .standard.yml .erb*lint.yml .haml-lint.yml .pylintrc* pylintrc
        pylintrc.toml .pyre_configuration doc/conf.py docs/conf.py source/conf.py .mypy.ini mypy.ini .flake8 .sqlfluff
        .tflint.hcl .golangci.* .eslintrc* eslint.config.* .eslintplugin .oxlintrc.* .tern-project .prettierrc*
        prettier.config.* .stylelintrc* stylelint.config.* tailwind.config.* svelte.config.* .graphqlrc*
        graphql.config.* .remarkrc* .textlintrc* .markdownlint*.*js .markdownlint-cli2.* cspell.config.*
        .cspell.config.* cspell.json dprint.json .dprint.json treefmt.toml .treefmt.toml .trunk .mega-linter.y*ml
        .latexmkrc latexmkrc
    """,
    "an interpreter or debugger runs it when it starts": """
        sitecustomize sitecustomize.* usercustomize usercustomize.* *.pth *._pth .pythonrc* .pythonstartup .pdbrc*
        .ipython .jupyter ipython_config.py jupyter_*config.* .Rprofile Rprofile.site .Renviron .R .julia .ghci .irbrc
        .pryrc .byebugrc .rdbgrc .octaverc startup.m .iex.exs .erlang .ocamlinit .utoprc .sbclrc .clisprc* .guile
        .tclshrc .wishrc .perldb .psysh.php .user.ini php.ini .htaccess .gnuplot .psqlrc .sqliterc .my.cnf .mongorc.js
        .mongoshrc.js .gdbinit .lldbinit .radare2rc .jdbrc .jvmopts .mill-* .sbtopts .sbtrc .simplecov .rspec
        .yardopts .mocharc* .nycrc* .proverc .busted autoexec.sas profile.do autorun.inf desktop.ini bin/activate
        bin/activate.* bin/activate_this.py bin/activate-hermit* Scripts/activate* pyvenv.cfg .venv node_modules
        site-packages dist-packages conda-meta activate.d deactivate.d
    """,
    "agents and their servers obey it": """
        .mcp.json mcp.json .mcp mcp_config.json mcp-config.json mcp.config.json claude_desktop_config.json .agents
        .agent .agents.md .agent.md AGENTS.md AGENT.md SKILL.md .rules .ruler .rulesync .claude .claude.json
        .claude-plugin CLAUDE.md .codex .cursor .cursorrules .gemini GEMINI.md .qwen QWEN.md .copilot .github/copilot*
        .github/instructions .github/prompts .github/chatmodes .github/agents .github/skills .github/hooks
        .github/extensions .github/lsp.json .github/plugin* .gitlab/duo .opencode .opencode.json* opencode.json*
        .windsurf .windsurfrules .codeium .devin .cline* .roo .roorules* .roomodes .kilocode* .kiro .continue
        .continuerc* .aider* .amazonq .augment* .junie .trae .goose* goose.yaml .crush* crush.json CRUSH.md .factory
        .warp WARP.md .openhands* .sweep* sweep.yaml .cody .sourcegraph .amp .pi .plandex* gptme.toml .coderabbit.y*ml
        .pr_agent.toml greptile.json .greptile ellipsis.y*ml .codebuddy CODEBUDDY.md .lingma .qoder .iflow IFLOW.md
        .kimi .vibe .rovodev .zencoder .antigravity .jules JULES.md .serena .taskmaster .specify .blackboxrules .bolt
        .ai .aiassistant .genaiscript replit.md .firebender* GROK.md .grok .letta .tabnine .void .droid .openclaw
        .superpowers .supermaven .mentat .pearai .qodo .codiumai.toml .bob .forge $root/forge.yaml
        $root/conductor.json
    """,
    "a package manager obeys or runs it": """
        package.json binding.gyp .npmrc .pnpmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.* pnpmfile.* .pnp.*
        pnpm-workspace.y*ml bunfig.toml .bunfig.toml $root/composer.json .bowerrc bower.json .cargo/config
        .cargo/config.toml pip.conf pip.ini uv.toml poetry.toml .pdm.toml .pydistutils.cfg .condarc .gemrc
        .bundle/config .bundle/plugin $root/Gemfile $root/gems.rb *.gemspec $root/setup.py $root/setup.cfg
        nuget.config dotnet-tools.json .swiftpm $root/Package.swift .mvn gradle-wrapper.* gradle.properties .opamrc
    """,
    "build and test tools run it": """
        Makefile GNUmakefile BSDmakefile Justfile .justfile Taskfile*.y*ml conftest.py pytest.ini .pytest.ini tox.ini
        .coveragerc $root/noxfile.py $root/Rakefile $root/Rakefile.rb $root/Gruntfile.* $root/gulpfile.*
        $root/gradlew* $root/mvnw* *.gradle *.gradle.kts buildSrc $root/build-logic *.sbt
        $root/project/build.properties $root/project/*.scala build.sc *.mill $root/mill $root/millw mix.exs
        config/*.exs *.bazelrc .bazeliskrc .bazelversion tools/bazel .buckconfig .pants.rc CMakeLists.txt
        CMakePresets.json CMakeUserPresets.json docker-compose.override.y*ml compose.override.y*ml *.??proj *.props
        *.targets Directory.Build.rsp MSBuild.rsp global.json ansible.cfg .actrc
    """,
    "it runs in continuous integration": """
        .github/workflows .github/actions .github/dependabot.y*ml .github/renovate* .github/settings.y*ml
        .github/mergify.y*ml $root/action.y*ml renovate.json* .renovaterc* .mergify.y*ml .kodiak.toml .bulldozer.y*ml
        .policy.y*ml bors.toml .gitlab-ci* .gitlab/*.y*ml .gitlab/ci .gitlab/agents .gitlab/security-policies
        .dependabot .pyup.y*ml .pullapprove.y*ml .bitbucket .vela.y*ml .agola .forgejo .gitea .circleci .buildkite
        .travis.y*ml .drone.* .woodpecker .woodpecker.y*ml azure-pipelines*.y*ml .azure-pipelines .azuredevops
        .vsts-ci.y*ml bitbucket-pipelines.y*ml Jenkinsfile* *.jenkinsfile .jenkins appveyor.y*ml .appveyor.y*ml
        .cirrus.* .semaphore codefresh.y*ml .codefresh wercker.y*ml shippable.y*ml buildspec.y*ml cloudbuild.*
        .build.yml .builds .zuul.* zuul.yaml zuul.d .tekton screwdriver.yaml .teamcity .space.kts
        .onedev-buildspec.yml .harness .taskcluster.yml .evergreen.yml .prow.yaml .ci-operator.yaml .packit.y*ml .copr
        .obs .kokoro .dagger dagger.json .sourcecraft .workflow .cnb.yml bitrise.yml codemagic.yaml .readthedocs.y*ml
        netlify.toml vercel.json render.yaml heroku.yml Procfile Procfile.* amplify.yml .platform.app.yaml .platform
        .ebextensions .codecatalyst .concourse .werft .radicle .tangled .argocd-source* .upsun .ddev .lando.yml
        .goreleaser.y*ml .releaserc* release.config.* .release-it.* CODEOWNERS
    """,
    "it holds keys or logins": """
        .ssh authorized_keys .gnupg .aws .azure .kube .docker/config.json ~/.config/gcloud ~/.config/gh .netrc _netrc
        .git-credentials .pypirc .pgpass .rhosts .shosts .k5login .password-store
    """,
    "the system runs it": """
        crontab /var/spool/cron /etc /boot /bin /sbin /lib /usr/bin /usr/sbin /usr/lib /usr/local/bin
        ~/.config/systemd ~/.local/share/systemd ~/.config/autostart ~/Library/LaunchAgents
    """,
}
PROTECTED: Final[Mapping[str, tuple[str, ...]]] = {why: tuple(names.split()) for why, names in _PROTECTED.items()}
"""The patterns by reason."""

PACKAGE_FOLDERS: Final = frozenset({"node_modules", "site-packages", "dist-packages"})
"""Folders of installed packages. All of it is executed anyway, so names inside are not protected, except in
repositories."""
MASKED_FOLDERS: Final = (".git", ".git/hooks")
MASKED_FILES: Final = (".envrc", ".vscode", ".mcp.json", ".claude")
"""Names at the top of a writable folder that programs obey immediately. If absent, they are masked while a command
runs, so that it cannot create them."""

_OPEN_TO_COMMANDS: Final = """
    .git .svn .fslckout _FOSSIL_ bin/activate bin/activate.* bin/activate_this.py Scripts/activate* pyvenv.cfg
    conda-meta activate.d deactivate.d .venv node_modules site-packages dist-packages $root/build-logic *.??proj
    $root/Gemfile $root/gems.rb $root/setup.py $root/setup.cfg mix.exs config/*.exs *.nimble $root/rebar.config
    $root/stack.yaml $root/Package.swift
"""
_ONLY_AT_TOP: Final = """
    Makefile GNUmakefile BSDmakefile package.json conftest.py build.rs doc/conf.py docs/conf.py build.zig
    CMakeLists.txt *.gemspec
"""
_ONLY_PARTS: Final = {
    ".hg": ".hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .hg/requires",
    ".jj": """
        .jj/config.toml .jj/workspace-config.toml .jj/workspace-config-id .jj/repo/config.toml .jj/repo/config-id
        .jj/repo/store/git_target
    """,
    ".sl": ".sl/config .sl/hgrc .sl/sharedpath",
    ".bzr": ".bzr/branch/branch.conf .bzr/branch/location",
    "_darcs": "_darcs/prefs",
    ".pijul": ".pijul/config .pijul/hooks",
    "_MTN": "_MTN/monotonerc _MTN/options",
    ".direnv": ".direnv/*.rc .direnv/bin .direnv/flake-* .direnv/nix-* .direnv/dump-* .direnv/cache-*",
    ".devenv": """
        .devenv/load-exports .devenv/profile .devenv/bootstrap .devenv/gc .devenv/shell-* .devenv/devenv.json
        .devenv/flake.json .devenv/imports.txt
    """,
    ".yarn": ".yarn/plugins .yarn/releases .yarn/sdks",
    "source/conf.py": "$root/docs/source/conf.py $root/doc/source/conf.py",
    "*.gradle": "$root/*.gradle init.gradle",
    "*.gradle.kts": "$root/*.gradle.kts init.gradle.kts",
    "buildSrc": "buildSrc/src buildSrc/build.gradle buildSrc/build.gradle.kts",
    "*.props": "Directory.*.props",
    "*.targets": "Directory.*.targets",
}
COMMAND_PATTERNS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_OPEN_TO_COMMANDS.split(), ()),
    **{name: (f"$root/{name}",) for name in _ONLY_AT_TOP.split()},
    **{name: tuple(parts.split()) for name, parts in _ONLY_PARTS.items()},
}
"""Patterns that apply to commands in place of the pattern in `PROTECTED`.

- Version control: only the files it obeys, so that commands can commit (`git_folder` lists the parts of `.git`).
- Files that builds generate in many folders: only those at the top of the project.
- Environments: none, because a command that may install packages controls what runs there anyway. Cached environments:
  the files that a shell evaluates at the next `cd`.
- Dependency manifests, and files that are evaluated together with them: none.
"""

_INERT: Final = """
    .gitignore .gitkeep .keep .empty .editorconfig .mailmap .git-blame-ignore-revs .nojekyll .ignore .env.example
    .env.sample .env.template .env.dist
"""
INERT: Final = frozenset(_INERT.split())
"""Names that no program runs, although they resemble protected ones. At the top of a project they need no approval, nor
do names that end in `ignore`."""

_INERT_AT_TOP: Final = """
    .cache .changeset .coverage .ds_store .hypothesis .mypy_cache .pytest_cache .ruff_cache .scratch .temp .tmp
    .well-known
"""
INERT_AT_TOP: Final = frozenset(_INERT_AT_TOP.split())
"""Dotted names at the top of a project that contain only data: notes, caches, files for a web server."""

FORGE_FOLDERS: Final[Mapping[str, str]] = {
    ".github": (
        r"(?:issue|discussion|pull_request)_template(?:/.*|\.md)?|(?:funding|stale)\.ya?ml|(?:images|assets|screenshots)/.*"
        r"|(?:code_of_conduct|contributing|governance|readme|security|support)\.(?:md|rst|txt)"
        r"|.*\.(?:png|jpe?g|gif|svg|webp)"
    ),
    ".gitlab": r"(?:issue|merge_request)_templates(?:/.*)?|.*\.(?:png|jpe?g|gif|svg|webp)",
}
"""Folders at the top of a project that a forge obeys, with the exceptions below each."""
