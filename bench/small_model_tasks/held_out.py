"""Tasks about velodock, the project for the final measurement: nothing is tuned on it."""

from __future__ import annotations

from typing import Final

from .checks import Behaviour, Case, Constant, Definition, Files, Replacement, Site, Task, Unused, Usages, Value, Words

TASKS: Final = (
    Task(
        id="held-out-definition-1",
        kind="definition",
        prompt="In which file is great_circle_km implemented?",
        expected=Definition("velodock/fleet/stations.py", "def great_circle_km"),
    ),
    Task(
        id="held-out-definition-2",
        kind="definition",
        prompt="where can i find the RentalDesk class?",
        expected=Definition("velodock/rentals/desk.py", "class RentalDesk"),
    ),
    Task(
        id="held-out-definition-3",
        kind="definition",
        prompt="The overview talks about GRACE_SECONDS. What file does that constant come from?",
        expected=Definition("velodock/rentals/desk.py", "GRACE_SECONDS ="),
    ),
    Task(
        id="held-out-definition-4",
        kind="definition",
        prompt="locate decodeFrame for me",
        expected=Definition("gateway/frame.go", "func decodeFrame"),
    ),
    Task(
        id="held-out-definition-5",
        kind="definition",
        prompt="Which source file takes care of hashing the riders' passwords?",
        expected=Definition("velodock/accounts/sealing.py", "def seal"),
    ),
    Task(
        id="held-out-definition-6",
        kind="definition",
        prompt="Looking for the code that decides how bikes get moved between full and empty stations. Where is it?",
        expected=Definition("velodock/fleet/rebalance.py", "def plan_moves"),
    ),
    Task(
        id="held-out-definition-7",
        kind="definition",
        prompt="validate exists twice in this repo; give me the path of the one for refunds",
        expected=Definition("velodock/payments/refunds.py", "def validate"),
    ),
    Task(
        id="held-out-definition-8",
        kind="definition",
        prompt="whre does PaymentDeclined get defined?",
        expected=Definition("velodock/payments/capture.py", "class PaymentDeclined"),
    ),
    Task(
        id="held-out-usage-1",
        kind="usage",
        prompt="Which functions call fare_for, not counting tests?",
        expected=Usages(
            "fare_for",
            sites=(Site("velodock/rentals/desk.py", ("finish",)),),
            defined="velodock/rentals/fares.py",
            also=("tests/test_fares.py", "docs/overview.md"),
            wrong_callers=("fare_preview", "student_fare", "employer_fare", "start_rental"),
        ),
    ),
    Task(
        id="held-out-usage-2",
        kind="usage",
        prompt="Give me all the files where great_circle_km is used.",
        expected=Usages(
            "great_circle_km",
            sites=(Site("velodock/fleet/rebalance.py"),),
            defined="velodock/fleet/stations.py",
        ),
    ),
    Task(
        id="held-out-usage-3",
        kind="usage",
        prompt="does anything besides the tests call retry_capture?",
        expected=Unused("retry_capture", ("velodock/payments/capture.py", "tests/test_payments.py", "docs/runbook.md")),
    ),
    Task(
        id="held-out-usage-4",
        kind="usage",
        prompt="what files import post_entry",
        expected=Usages(
            "post_entry",
            sites=(
                Site("velodock/payments/capture.py"),
                Site("velodock/payments/refunds.py"),
                Site("tests/test_payments.py"),
            ),
            defined="velodock/payments/ledger.py",
        ),
    ),
    Task(
        id="held-out-usage-5",
        kind="usage",
        prompt="From where does the gateway call decodeFrame?",
        expected=Usages("decodeFrame", sites=(Site("gateway/dock.go", ("serveDock",)),), defined="gateway/frame.go"),
    ),
    Task(
        id="held-out-usage-6",
        kind="usage",
        prompt="Before I touch StationIndex: which Python files would be affected because they use it?",
        expected=Usages(
            "StationIndex",
            sites=(
                Site("velodock/app.py"),
                Site("velodock/fleet/rebalance.py"),
                Site("velodock/rentals/desk.py"),
                Site("tests/test_fleet.py"),
            ),
            defined="velodock/fleet/stations.py",
        ),
    ),
    Task(
        id="held-out-configuration-1",
        kind="configuration",
        prompt="How long can capturing a payment take by default before it times out?",
        expected=Value("conf/base.toml", "capture_timeout_seconds = 18", ("18", "18s", "eighteen"), ("3", "3s")),
    ),
    Task(
        id="held-out-configuration-2",
        kind="configuration",
        prompt="what port is the API on when i run it locally",
        expected=Value("conf/local.yml", "port: 7345", ("7345",), ("7300", "9460")),
    ),
    Task(
        id="held-out-configuration-3",
        kind="configuration",
        prompt="Please look up the gateway's heartbeat interval.",
        expected=Value("ops/gateway.conf", "GATEWAY_HEARTBEAT_SECONDS=35", ("35", "35s"), ("500", "9460")),
    ),
    Task(
        id="held-out-configuration-4",
        kind="configuration",
        prompt="At what battery percentage do we alert the workshop?",
        expected=Value("conf/alerts.ini", "percent = 17", ("17", "17%"), ("26", "30", "50")),
    ),
    Task(
        id="held-out-edit-1",
        kind="edit",
        prompt="Set the daily cap in velodock/rentals/fares.py to 1800, it's 1500 right now",
        expected=Replacement("velodock/rentals/fares.py", "DAILY_CAP = 1500", "DAILY_CAP = 1800"),
    ),
    Task(
        id="held-out-edit-2",
        kind="edit",
        prompt="Add a constant SENIOR_PERCENT with the value 20 to velodock/rentals/discounts.py",
        expected=Constant("velodock/rentals/discounts.py", "SENIOR_PERCENT", 20),
    ),
    Task(
        id="held-out-edit-3",
        kind="edit",
        prompt='display_name in velodock/accounts/riders.py should give back "Guest" if the email is an empty string. '
        "Can you change that?",
        expected=Behaviour(
            "velodock/accounts/riders.py",
            "display_name",
            (Case(("",), "Guest"), Case(("ada@velodock.example",), "Ada"), Case(("bo.li@x.example",), "Bo.Li")),
        ),
    ),
    Task(
        id="held-out-git-1",
        kind="git",
        prompt="summarize the most recent commit for me",
        expected=Words((("ferry",),), ("frames", "refunds")),
    ),
    Task(
        id="held-out-git-2",
        kind="git",
        prompt="What's the name of the author of the latest commit?",
        expected=Words((("Aisha Bello", "Aisha"),), ("Marek", "Jonas")),
    ),
    Task(
        id="held-out-git-3",
        kind="git",
        prompt="what have I changed or added that is not comitted yet?",
        expected=Files(("velodock/payments/ledger.py", "ops/backup.sh")),
    ),
)
