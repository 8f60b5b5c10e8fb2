"""Plain requests with the exact calls they must lead to, step by step."""

from __future__ import annotations

from typing import Any

Calls = list[tuple[str, dict[str, Any]]]


def one(tool: str, **args: Any) -> list[Calls]:
    """One step of one call."""
    return [[(tool, args)]]


def read(*paths: str) -> Calls:
    return [("file.read", {"path": path}) for path in paths]


def run(command: str, **args: Any) -> Calls:
    return [("shell.exec", {"command": command, **args})]


def listed(*paths: str) -> Calls:
    return [("file.list", {"path": path}) for path in paths]


UNDERSTOOD: list[tuple[str, list[Calls]]] = [
    # reading
    ("read a.py", [read("a.py")]),
    ("Read a.py.", [read("a.py")]),
    ("please read src/holdfast/__init__.py", [read("src/holdfast/__init__.py")]),
    ("Hi! Could you please read README.md? Thanks!", [read("README.md")]),
    ("I'd like you to show me the contents of a.py", [read("a.py")]),
    ("open README", [read("README")]),
    ("cat Makefile", [read("Makefile")]),
    ("show me the file notes", [read("notes")]),
    ('read "my file.txt"', [read("my file.txt")]),
    ("read `a b.py` and 'c d.py'", [read("a b.py", "c d.py")]),
    ("read a.py and b.py", [read("a.py", "b.py")]),
    ("read a.py, b.py, and c.py", [read("a.py", "b.py", "c.py")]),
    ("what's in a.py?", [read("a.py")]),
    ("read ../x/.env.example", [read("../x/.env.example")]),
    ("read lines 3-9 of a.py", one("file.read", path="a.py", offset=3, limit=7)),
    ("show a.py lines 3 to 3", one("file.read", path="a.py", offset=3, limit=1)),
    ("show me line 12 of a.py", one("file.read", path="a.py", offset=12, limit=1)),
    ("read the first 20 lines of a.py", one("file.read", path="a.py", limit=20)),
    ("read a.py from line 40", one("file.read", path="a.py", offset=40)),
    # memory
    ('remember "we use it" in project/notes', one("memory.write", namespace="project/notes", content="we use it")),
    ("please remember that 'a b' under the namespace `user/profile`",
     one("memory.write", namespace="user/profile", content="a b")),
    ("remember that we use PostgreSQL 16 in the namespace project/notes",
     one("memory.write", namespace="project/notes", content="we use PostgreSQL 16")),
    ('search your memory for "release date"', one("memory.search", query="release date")),
    ("search the memory for postgres in project/notes",
     one("memory.search", query="postgres", namespace="project/notes")),
    ("What do you remember about PostgreSQL?", one("memory.search", query="PostgreSQL")),
    ("read the namespace project/notes", one("memory.read", namespace="project/notes")),
    ("what do you remember?", one("memory.list")),
    ("list your memories", one("memory.list")),
    ("forget the memory item k4q7c2mzn3xa", one("memory.forget", id="k4q7c2mzn3xa")),
    # listing
    ("ls", one("file.list")),
    ("list files", one("file.list")),
    ("show me all the files", one("file.list")),
    ("ls src", [listed("src")]),
    ("list src and tests", [listed("src", "tests")]),
    ("list the folder my-dir", [listed("my-dir")]),
    ("list .", [listed(".")]),
    ("show me the files in src/holdfast", [listed("src/holdfast")]),
    ("what is in the folder docs?", [listed("docs")]),
    ("list src recursively", one("file.list", path="src", recursive=True)),
    ("list everything recursively", one("file.list", recursive=True)),
    # the web
    ("open https://example.com in the browser", one("browser.navigate", url="https://example.com")),
    ("take a screenshot", one("browser.screenshot")),
    ('click the button "Pay"', one("browser.click", role="button", name="Pay")),
    ("click the button Pay", one("browser.click", role="button", name="Pay")),
    ("click on Pay", one("browser.click", name="Pay")),
    ('type "Ann" into Name', one("browser.type", name="Name", text="Ann")),
    ("fetch https://example.com", one("web.fetch", url="https://example.com")),
    ("Please read the page https://example.com/a?b=c.", one("web.fetch", url="https://example.com/a?b=c")),
    ("read https://example.com/a.txt", one("web.fetch", url="https://example.com/a.txt")),
    ("show me the website https://example.com/", one("web.fetch", url="https://example.com/")),
    ("list the links on https://example.com", one("web.fetch", url="https://example.com", mode="links")),
    ("find licence on https://example.com", one("web.fetch", url="https://example.com", find="licence")),
    ('search for "open source" on the page https://example.com',
     one("web.fetch", url="https://example.com", find="open source")),
    ("search the web for python tutorials", one("web.search", query="python tutorials")),
    ('search the internet for "a, b and c"', one("web.search", query="a, b and c")),
    ("look up sqlite fts5 on the web", one("web.search", query="sqlite fts5")),
    # finding and searching
    ("find *.py", one("file.find", pattern="*.py")),
    ("find all *.toml files in src", one("file.find", pattern="*.toml", path="src")),
    ("find files named conftest.py", one("file.find", pattern="conftest.py")),
    ("find files called `.gitignore`", one("file.find", pattern=".gitignore")),
    ("find files matching src/**/test_*.py", one("file.find", pattern="src/**/test_*.py")),
    ("which files match *.{md,rst}?", one("file.find", pattern="*.{md,rst}")),
    ("where is conftest.py?", one("file.find", pattern="conftest.py")),
    ("search for TODO", one("code.search", query="TODO")),
    ("grep TODO in src", one("code.search", query="TODO", path="src")),
    ('look for "two words" in *.py', one("code.search", query="two words", glob="*.py")),
    ("search for 'don't'", one("code.search", query="don't")),
    ("search src for parse_config", one("code.search", query="parse_config", path="src")),
    ("search everything for TODO", one("code.search", query="TODO")),
    ("search for the regex `def \\w+\\(` in src", one("code.search", query="def \\w+\\(", regex=True, path="src")),
    ("grep error ignoring case", one("code.search", query="error", case="insensitive")),
    ("find all uses of mask in src", one("code.search", query="mask", path="src")),
    ("where is mask defined?", one("code.search", query="mask")),
    # commands
    ("run `ls -la`", [run("ls -la")]),
    ("Run `rm -rf build`.", [run("rm -rf build")]),
    ('execute "make test"', [run("make test")]),
    ("run pytest -q tests/models", [run("pytest -q tests/models")]),
    ("run the command `make`", [run("make")]),
    ("execute: python3 -m pytest -q", [run("python3 -m pytest -q")]),
    ("run ./build.sh --fast", [run("./build.sh --fast")]),
    ('run git commit -m "then don\'t; stop"', [run('git commit -m "then don\'t; stop"')]),
    ("run `` echo `date` ``", [run("echo `date`")]),
    ("run `make` in sub/dir", [run("make", cwd="sub/dir")]),
    ("run `make` with a timeout of 90 seconds", [run("make", timeout=90_000)]),
    ("run `make` in the folder x with a timeout of 2 minutes", [run("make", cwd="x", timeout=120_000)]),
    ("run this command:\n```sh\nmake &&\n  ls; rm x\n```", [run("make &&\n  ls; rm x")]),
    ("$ make test", [run("make test")]),
    ("run npm run build", [run("npm run build")]),
    ("run git push origin main", [run("git push origin main")]),
    ("run make -j 4 CC=gcc test", [run("make -j 4 CC=gcc test")]),
    ("run pytest tests/test_a.py::test_b --maxfail=1", [run("pytest tests/test_a.py::test_b --maxfail=1")]),
    ("run .venv/bin/python -m pip freeze", [run(".venv/bin/python -m pip freeze")]),
    ("run scripts/check", [run("scripts/check")]),
    ("run ruff check .", [run("ruff check .")]),
    ("run `make` in the folder jokes", [run("make", cwd="jokes")]),
    ("run `make` then run it again", [run("make"), run("make")]),
    ("start `make serve` in the background", one("process.start", command="make serve")),
    ("run `make serve` in the background in web", one("process.start", command="make serve", cwd="web")),
    ("list the processes", one("process.list")),
    ("is process 42 still running?", one("process.status", pid=42)),
    ("show the output of process ab12-3", one("process.output", pid="ab12-3")),
    ("kill process 42", one("process.kill", pid=42)),
    ("stop process `abc`", one("process.kill", pid="abc")),
    # changing files
    ('edit a.py: replace "x" with "y"', one("file.edit", path="a.py", search="x", replace="y")),
    ("in a.py, change 'don't' to “do not”", one("file.edit", path="a.py", search="don't", replace="do not")),
    ("replace `a` with `b` in c.py", one("file.edit", path="c.py", search="a", replace="b")),
    ('replace "a" with nothing in c.py', one("file.edit", path="c.py", search="a", replace="")),
    ('remove "a and then b" from c.py', one("file.edit", path="c.py", search="a and then b", replace="")),
    ('replace every "a" with "b" in c.py', one("file.edit", path="c.py", search="a", replace="b", mode="all")),
    (
        'edit c.py: replace the first «a» by "" ',
        one("file.edit", path="c.py", search="a", replace="", mode="first"),
    ),
    (
        'edit c.py: replace "a" with "b" everywhere',
        one("file.edit", path="c.py", search="a", replace="b", mode="all"),
    ),
    (
        "edit c.py: replace\n```py\nif x:\n    run `ls`\n```\nwith\n~~~\nrun it; then delete\n~~~",
        one("file.edit", path="c.py", search="if x:\n    run `ls`", replace="run it; then delete"),
    ),
    (
        "replace\n```\na\n```\nwith\n```\nb\n```\nin c.py",
        one("file.edit", path="c.py", search="a", replace="b"),
    ),
    ('write a.txt with "hello"', one("file.write", path="a.txt", content="hello")),
    ('create a file notes with the content "x"', one("file.write", path="notes", content="x")),
    ("write 'run `ls`' to a.txt", one("file.write", path="a.txt", content="run `ls`")),
    ("create a.py:\n````\n```\nx\n```\n````", one("file.write", path="a.py", content="```\nx\n```\n")),
    ("save this as a.txt:\n```\nhello\n\n```", one("file.write", path="a.txt", content="hello\n\n")),
    ("create an empty file notes.txt", one("file.write", path="notes.txt", content="")),
    # arithmetic
    ("what is 2+2?", one("calculator", expression="2+2")),
    ("What's 6 times 7?", one("calculator", expression="6 * 7")),
    ("calculate sqrt(16) / -(2 ^ 3)", one("calculator", expression="sqrt(16) / -(2 ^ 3)")),
    ("compute max(1, 2.5, pi)", one("calculator", expression="max(1, 2.5, pi)")),
    ("12 * 12 =", one("calculator", expression="12 * 12")),
    # git, the machine, the person
    ("git status", one("git.status")),
    ("what changed?", one("git.status")),
    ("what has changed", one("git.status")),
    ("show me the diff", one("git.diff")),
    ("git diff", one("git.diff")),
    ("git log", one("git.log")),
    ("show the last commits", one("git.log")),
    ("system info", one("system.info")),
    ('ask me "Which?"', one("ask.user", questions=[{"question": "Which?", "options": None}])),
    (
        'ask "Which?" with the options "red", "blue"',
        one("ask.user", questions=[{"question": "Which?", "options": ["red", "blue"]}]),
    ),
    ("load the skill release-notes", one("skill.load", name="release-notes")),
    ("please use the pdf skill", one("skill.load", name="pdf")),
    ("load skill `sums`", one("skill.load", name="sums")),
    ("list my skills", one("skill.load")),
    ("which skills are there?", one("skill.load")),
    ("list my sessions", one("sessions.list")),
    ("show me the recent conversations", one("sessions.list")),
    ("delete session ab12cd34", one("sessions.delete", session="ab12cd34")),
    ("remove the session chat-0a1b2c3d4e5f", one("sessions.delete", session="chat-0a1b2c3d4e5f")),
    ("read the output of call abc-12 from line 9", one("output.read", call="abc-12", offset=9)),
    # several things
    ("read a.py and list src", [[*read("a.py"), *listed("src")]]),
    ("git status and git diff and git log", [[("git.status", {}), ("git.diff", {}), ("git.log", {})]]),
    ("read a.py then run `make`", [read("a.py"), run("make")]),
    ("could you read a.py and then run `make test`, please?", [read("a.py"), run("make test")]),
    ("read a.py; list src", [read("a.py"), listed("src")]),
    ("First, list src. Then run `pytest -q`. Finally, show me the diff.",
     [listed("src"), run("pytest -q"), [("git.diff", {})]]),
    ("1. read a.py\n2) run `make`\n- list src", [read("a.py"), run("make"), listed("src")]),
    ("read a.py\nrun `make`", [read("a.py"), run("make")]),
    ('write a.txt with "x" and run `cat a.txt`',
     [[("file.write", {"path": "a.txt", "content": "x"})], run("cat a.txt")]),
    ('write a.txt with "x" then read it', [[("file.write", {"path": "a.txt", "content": "x"})], read("a.txt")]),
    ('edit a.py: replace "x" with "y" and then read that file',
     [[("file.edit", {"path": "a.py", "search": "x", "replace": "y"})], read("a.py")]),
]  # fmt: skip
