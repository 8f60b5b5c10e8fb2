from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.chat.lua.host import LuaError, LuaHost, LuaLimits, Script
from tests.chat.frontmatter.frontmatter_project import (
    FrontmatterProject,
    lua_document,
    only_diagnostic,
    tools_of,
    without_diagnostics,
)

HARMLESS = 'flemma.opt.tools = {"read"}'
WORDS = (
    "flemma.opt", ".tools", ".auto_approve", "=", "{", "}", '"read"', '"raed"', ":append(", ":remove(", ")", "+", "-",
    "function()", "end", "return", "nil", "true", "x", ",", "flemma.opt.tools", "flemma.opt.thinking", "holdfast",
)  # fmt: skip
ENDLESS = {
    "a loop": "while true do end",
    "a loop inside pcall": "while true do pcall(function() while true do end end) end",
    "a pattern": "return (('a'):rep(50000)):match(('.-'):rep(30) .. 'b')",
    "a finaliser": "setmetatable({}, {__gc = function() while true do end end}) for i = 1, 1e7 do local t = {} end",
    "a comparison": "table.sort({3, 2, 1}, function() while true do end end)",
}
HUNGRY = {
    "a table": "local t = {} for i = 1, 1e9 do t[i] = i end",
    "a string": "local x = ('x'):rep(5e7) x = x .. x",
    "a table inside pcall": "local t = {} while true do if not pcall(function() t[#t + 1] = ('x'):rep(1e6) .. #t end) "
    "then error('not enough memory', 0) end end",
}


@pytest.mark.spec("D6")
@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_endless_code_is_killed_and_the_next_frontmatter_works(code: str) -> None:
    with LuaHost(LuaLimits(frontmatter=0.3)) as host:
        begun = time.monotonic()
        found = only_diagnostic(lua_document(code, host))
        assert time.monotonic() - begun < 60
        assert found.severity == "error" and found.message == (
            "The Lua frontmatter timed out after 0.3 seconds. Make it do less."
        )
        assert tools_of(without_diagnostics(lua_document(HARMLESS, host))) == ["file.read"]


@pytest.mark.spec("D6")
@pytest.mark.parametrize("code", HUNGRY.values(), ids=HUNGRY)
def test_endless_allocation_is_stopped_by_the_memory_limit(code: str) -> None:
    with LuaHost(LuaLimits(frontmatter=20)) as host:
        found = only_diagnostic(lua_document(code, host))
        assert found.message == "The Lua frontmatter exceeds its memory limit. Make it do less."
        assert tools_of(without_diagnostics(lua_document(HARMLESS, host))) == ["file.read"]


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("code", "message", "line"),
    [
        ("\n\nerror('boo')", "boo", 4),
        ("error('frontmatter:99: a lie', 0)", "a lie", 2),
        ("error()", "an error without a message", 2),
        ("error({})", "an error value of type table", 2),
        ("error(setmetatable({}, {__tostring = function() while true do end end}))", "an error value of type table", 2),
        ("error(function() end)", "an error value of type function", 2),
        ("error(12)", "12", 2),
        ("error('\\27[2J\\n' .. ('x'):rep(9999))", "x" * 100, 2),
        ("x = ('x'):rep(1e10)", "resulting string too large", 2),
        ("x =\n= 3", "unexpected symbol near '='", 3),
        ("local function f() return f() + 1 end f()", "", None),
        ("local t = {} t.t = t flemma.opt.thinking = t", "the value is nested too deeply, or contains itself", 2),
        ("local t = {} t[1] = t flemma.opt.tools = t", "contains itself", 2),
        ("flemma.opt.tools = { function() end }", "a function cannot be encoded", 2),
        ("flemma.opt.tools = { [2.5] = 'x' }", "a table must have keys that are text", 2),
        ("flemma.opt.temperature = 0/0", "cannot be encoded", 2),
        ("flemma.opt.thinking = ('x'):rep(5e6)", "the value is too large", 2),
        ("for i = 1, 1e6 do flemma.opt.thinking = 'low' end", "sets more than 5000 options", 2),
        ("flemma.opt.tools.append('x')", "with a colon", 2),
        ("local x = #flemma.opt.tools", "cannot be read in the frontmatter", 2),
        ("\27LuaS", "unexpected symbol", 2),
    ],
)
def test_failing_code_is_one_diagnostic_with_its_line(lua: LuaHost, code: str, message: str, line: int | None) -> None:
    document = lua_document(code, lua)
    found = only_diagnostic(document)
    assert document.failed and message in found.message and len(found.message) < 500 and found.message.isprintable()
    assert line is None or found.line == line


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    "name",
    [
        "io", "os.execute", "os.getenv", "os.remove", "os.rename", "os.exit", "os.tmpname", "os.setlocale", "require",
        "package", "load", "loadstring", "dofile", "loadfile", "debug", "coroutine", "string.dump", "collectgarbage",
        "python", "_G", "print", "warn", "getmetatable('')", "('').dump", "rawget(string, 'dump')",
    ],
)  # fmt: skip
def test_lua_has_no_access_to_files_programs_or_python(lua: LuaHost, name: str) -> None:
    without_diagnostics(lua_document(f"assert({name} == nil)", lua))


@pytest.mark.spec("D6")
def test_the_pure_standard_libraries_are_available(lua: LuaHost) -> None:
    code = """
        assert(_VERSION == "Lua 5.4" and ("x"):rep(2) == "xx" and utf8.len("ä") == 1 and math.floor(1.5) == 1)
        assert(os.date("%Y") and os.time() and os.clock() and os.difftime(2, 1) == 1)
        assert(select("#", table.unpack({ 1, 2 })) == 2 and tonumber("1") == 1 and pcall(error) == false)
        for _ in pairs({ 1 }) do for _ in ipairs({ 1 }) do assert(next({ 1 }) and type(1) and tostring(1)) end end
        local counted = setmetatable({}, { __index = function(_, key) return key * 2 end })
        assert(counted[4] == 8 and getmetatable(counted).__index)
    """
    without_diagnostics(lua_document(code, lua))


@pytest.mark.spec("D6")
def test_metatables_cannot_fake_the_value_of_an_option(lua: LuaHost) -> None:
    code = """
        local lie = { __index = function() return "bash" end, __len = function() return 5 end,
                      __pairs = function() error("seen") end }
        flemma.opt.tools = setmetatable({ "read" }, lie)
    """
    assert tools_of(without_diagnostics(lua_document(code, lua))) == ["file.read"]


@pytest.mark.spec("D6")
def test_a_list_is_copied_when_it_is_assigned(lua: LuaHost) -> None:
    code = 'local names = { "read" } flemma.opt.tools = names names[1] = "bash"'
    assert tools_of(without_diagnostics(lua_document(code, lua))) == ["file.read"]


@pytest.mark.spec("D6")
def test_no_lua_state_leaks_from_one_document_to_the_next(lua: LuaHost) -> None:
    without_diagnostics(lua_document("left = 1 string.upper = nil math.floor = nil", lua))
    without_diagnostics(lua_document("assert(left == nil and string.upper and math.floor and ('x').upper)", lua))


@pytest.mark.spec("D6")
def test_a_worker_that_dies_during_a_request_is_replaced() -> None:
    with LuaHost() as host:
        without_diagnostics(lua_document("x = 1", host))
        first = host.pid
        assert first is not None

        def include(question: dict[str, Any]) -> dict[str, Any]:
            os.kill(first, signal.SIGKILL)
            return {"error": "nobody hears this"}

        pieces = [{"kind": "expression", "text": "x", "code": "include('a')", "line": 1}]
        with pytest.raises(LuaError, match="exceeded a limit of its process"):
            host.expand({"pieces": pieces}, include)
        without_diagnostics(lua_document("x = 1", host))
        assert host.pid not in (None, first)


@pytest.mark.spec("D6")
def test_a_reply_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.chat.lua.host.MAX_FRAME", 200)
    with LuaHost() as host:
        found = only_diagnostic(lua_document("flemma.opt.tools = {" + '"read",' * 200 + "}", host))
        assert found.message == "The Lua frontmatter returned too much data. Make it return less."
        without_diagnostics(lua_document("x = 1", host))


@pytest.mark.spec("D6")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_worker_has_no_privileges_files_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "hunter2")
    with LuaHost() as host:
        without_diagnostics(lua_document("x = 1", host))
        proc = Path(f"/proc/{host.pid}")
        limits = proc.joinpath("limits").read_text()
        assert [line.split()[-3:-1] for line in limits.splitlines() if "open files" in line] == [["3", "3"]]
        assert [line.split()[-3] for line in limits.splitlines() if "Max file size" in line] == ["0"]
        assert proc.joinpath("environ").read_bytes() == b""
        assert sorted(entry.name for entry in proc.joinpath("fd").iterdir()) == ["0", "1", "2"]
        assert proc.joinpath("cwd").readlink() == Path("/")
        status = proc.joinpath("status").read_text()
    assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status


@pytest.mark.spec("D6")
def test_closing_the_host_kills_the_worker() -> None:
    host = LuaHost()
    without_diagnostics(lua_document("x = 1", host))
    pid = host.pid
    assert pid is not None
    host.close()
    host.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.spec("D6")
def test_the_frontmatter_reports_that_lua_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with LuaHost() as host:
        assert only_diagnostic(lua_document("x = 1", host)).message.startswith("Cannot start the Lua process")


@pytest.mark.spec("D6")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=12))
def test_any_code_yields_a_frontmatter_or_a_diagnostic(lua: LuaHost, words: list[str]) -> None:
    document = lua_document(" ".join(words), lua)
    assert all(item.message for item in document.diagnostics)


@pytest.mark.spec("A5")
def test_a_function_that_does_not_exist_is_an_error(lua: LuaHost) -> None:
    with pytest.raises(LuaError, match="there is no such function"):
        lua.call(Script("x = 1", {"values": {}, "readable": {}}), 7, "read", {}, {})


@pytest.mark.spec("D6")
def test_invalid_utf8_is_refused_in_an_option_and_preserved_elsewhere(lua: LuaHost, tmp_path: Path) -> None:
    without_diagnostics(lua_document("x = '\udcff' assert(#x == 1 and x:byte() == 255)", lua))
    found = only_diagnostic(lua_document("flemma.opt.openai.reasoning = '\\255'", lua, FrontmatterProject(tmp_path)))
    assert found.severity == "error"
