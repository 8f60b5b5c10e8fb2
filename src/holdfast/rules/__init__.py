"""Judgement: which tools exist for a caller, whether a call may run, and why. Nothing here runs a tool."""
