"""Tasks about parcelhub, the project that prompts and rules are tuned on."""

from __future__ import annotations

from typing import Final

from .checks import Behaviour, Case, Definition, Files, Replacement, Site, Task, Unused, Usages, Value, Words

_PACKAGE: Final = "src/parcelhub"

TASKS: Final = (
    Task(
        id="dev-definition-1",
        kind="definition",
        prompt="Where is billable_weight defined?",
        expected=Definition(f"{_PACKAGE}/pricing/rates.py", "def billable_weight"),
    ),
    Task(
        id="dev-definition-2",
        kind="definition",
        prompt="which file has the class TimelineBuilder",
        expected=Definition(f"{_PACKAGE}/tracking/timeline.py", "class TimelineBuilder"),
    ),
    Task(
        id="dev-definition-3",
        kind="definition",
        prompt="I see MAX_RETRIES mentioned in the docs. Where is it actually set?",
        expected=Definition(f"{_PACKAGE}/net/client.py", "MAX_RETRIES ="),
    ),
    Task(
        id="dev-definition-4",
        kind="definition",
        prompt="Could you tell me where the function `formatEta` lives, please?",
        expected=Definition("web/src/formatters.ts", "function formatEta"),
    ),
    Task(
        id="dev-definition-5",
        kind="definition",
        prompt="Which file implements the retry back-off?",
        expected=Definition(f"{_PACKAGE}/net/pacing.py", "def delay_before"),
    ),
    Task(
        id="dev-definition-6",
        kind="definition",
        prompt="find the code that works out the delivery zone from a postal code and tell me the file",
        expected=Definition(f"{_PACKAGE}/pricing/zones.py", "def zone_for"),
    ),
    Task(
        id="dev-definition-7",
        kind="definition",
        prompt="There are two parse_event functions. Which file is the Swiftline one in?",
        expected=Definition(f"{_PACKAGE}/carriers/swiftline.py", "def parse_event"),
    ),
    Task(
        id="dev-definition-8",
        kind="definition",
        prompt="where is the excpetion CarrierUnavailable declared",
        expected=Definition(f"{_PACKAGE}/carriers/base.py", "class CarrierUnavailable"),
    ),
    Task(
        id="dev-usage-1",
        kind="usage",
        prompt="Who calls zone_for?",
        expected=Usages(
            "zone_for",
            sites=(Site(f"{_PACKAGE}/pricing/rates.py", ("quote", "quote_return")),),
            defined=f"{_PACKAGE}/pricing/zones.py",
            also=("tests/test_rates.py",),
            wrong_callers=("build_parser", "load_settings"),
        ),
    ),
    Task(
        id="dev-usage-2",
        kind="usage",
        prompt="Which Python files use EventLog?",
        expected=Usages(
            "EventLog",
            sites=(Site(f"{_PACKAGE}/storage/repository.py"), Site("tests/test_timeline.py")),
            defined=f"{_PACKAGE}/tracking/events.py",
            also=("docs/architecture.md",),
        ),
    ),
    Task(
        id="dev-usage-3",
        kind="usage",
        prompt="Is purge_expired used anywhere outside the tests?",
        expected=Unused("purge_expired", (f"{_PACKAGE}/storage/cache.py", "tests/test_cache.py")),
    ),
    Task(
        id="dev-usage-4",
        kind="usage",
        prompt="list every file that imports delay_before",
        expected=Usages(
            "delay_before",
            sites=(
                Site(f"{_PACKAGE}/net/client.py"),
                Site(f"{_PACKAGE}/tracking/poller.py"),
                Site("tests/test_client.py"),
            ),
            defined=f"{_PACKAGE}/net/pacing.py",
        ),
    ),
    Task(
        id="dev-usage-5",
        kind="usage",
        prompt="what calls fetchTimeline in the web code?",
        expected=Usages(
            "fetchTimeline",
            sites=(Site("web/src/trackingView.ts", ("renderTracking",)),),
            defined="web/src/api.ts",
        ),
    ),
    Task(
        id="dev-usage-6",
        kind="usage",
        prompt="I want to change CarrierUnavailable. Please show me which files raise or catch it.",
        expected=Usages(
            "CarrierUnavailable",
            sites=(
                Site(f"{_PACKAGE}/carriers/northpost.py"),
                Site(f"{_PACKAGE}/carriers/swiftline.py"),
                Site(f"{_PACKAGE}/tracking/poller.py"),
            ),
            defined=f"{_PACKAGE}/carriers/base.py",
            also=("docs/operations.md",),
        ),
    ),
    Task(
        id="dev-configuration-1",
        kind="configuration",
        prompt="What is the default timeout for the HTTP client?",
        expected=Value("config/default.toml", "timeout_seconds = 12", ("12", "12s", "twelve"), ("45", "45s")),
    ),
    Task(
        id="dev-configuration-2",
        kind="configuration",
        prompt="Which port does the dev server listen on?",
        expected=Value("config/development.yaml", "port: 8417", ("8417",), ("8400", "5199")),
    ),
    Task(
        id="dev-configuration-3",
        kind="configuration",
        prompt="how much memory does a deployed worker get?",
        expected=Value("deploy/worker.conf", "WORKER_MEMORY_MB=384", ("384", "384MB")),
    ),
    Task(
        id="dev-configuration-4",
        kind="configuration",
        prompt="whats the log level of the parcelhub.net logger",
        expected=Value("config/logging.ini", "level = ERROR", ("ERROR",), ("INFO", "DEBUG", "WARNING")),
    ),
    Task(
        id="dev-edit-1",
        kind="edit",
        prompt="Change the max retries in src/parcelhub/net/client.py from 3 to 5.",
        expected=Replacement(f"{_PACKAGE}/net/client.py", "MAX_RETRIES = 3", "MAX_RETRIES = 5"),
    ),
    Task(
        id="dev-edit-2",
        kind="edit",
        prompt="please rename the function _pick to _choose_tier in src/parcelhub/pricing/rates.py",
        expected=Replacement(f"{_PACKAGE}/pricing/rates.py", "_pick", "_choose_tier"),
    ),
    Task(
        id="dev-edit-3",
        kind="edit",
        prompt="Make eta_hours in src/parcelhub/tracking/timeline.py return 0 right away when delivered is true.",
        expected=Behaviour(
            f"{_PACKAGE}/tracking/timeline.py",
            "eta_hours",
            (Case((400.0, True), 0), Case((400.0, False), 12.0), Case((0.0, False), 2.0)),
        ),
    ),
    Task(
        id="dev-git-1",
        kind="git",
        prompt="What was the last commit about?",
        expected=Words(
            (("swiftline",), ("less often", "less frequently", "poll_minutes", "poll", "polling", "polls", "polled")),
            ("timeline", "cache"),
        ),
    ),
    Task(
        id="dev-git-2",
        kind="git",
        prompt="who wrote the last git commit?",
        expected=Words((("Priya Nair", "priya@parcelhub.example", "Priya"),), ("Lena", "Tomas")),
    ),
    Task(
        id="dev-git-3",
        kind="git",
        prompt="Which files have uncommitted changes?",
        expected=Files(("docs/architecture.md",), also=("docs/carrier-notes.md",)),
    ),
)
