"""The built-in tools. They see the contract and the text room, and reach everything else through their context."""

from __future__ import annotations

from holdfast.contract.tool import Tool


def builtin_tools() -> list[Tool]:
    """Every built-in, with or without a project root."""
    from holdfast.tools import ask_user, calculator, file_write, output_read, system_info

    return [
        calculator.CALCULATOR,
        calculator.CALCULATOR_ASYNC,
        system_info.SYSTEM_INFO,
        ask_user.ASK_USER,
        output_read.OUTPUT_READ,
        file_write.FILE_WRITE,
    ]
