"""Policy and approval: which tools a caller sees, whether a call may run, and why. Nothing here runs a tool."""
