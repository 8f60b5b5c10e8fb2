"""The built-in tools. They see the contract and the text room, and reach everything else through their context."""

from __future__ import annotations

from holdfast.contract.tool import Tool


def builtin_tools() -> list[Tool]:
    """Every built-in, with or without a project root."""
    from holdfast.tools import ask_user, calculator, output_read, system_info, tool_search
    from holdfast.tools.files import edit, listing, read, write
    from holdfast.tools.git import git_tools
    from holdfast.tools.processes import PROCESS_TOOLS
    from holdfast.tools.search import find, search
    from holdfast.tools.shell import exec  # noqa: A004

    return [
        calculator.CALCULATOR,
        calculator.CALCULATOR_ASYNC,
        system_info.SYSTEM_INFO,
        ask_user.ASK_USER,
        output_read.OUTPUT_READ,
        tool_search.TOOL_SEARCH_TOOL,
        read.FILE_READ,
        write.FILE_WRITE,
        edit.FILE_EDIT,
        listing.FILE_LIST,
        *git_tools(),
        find.FILE_FIND,
        search.CODE_SEARCH,
        exec.SHELL_EXEC,
        *PROCESS_TOOLS,
    ]
