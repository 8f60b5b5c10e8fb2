"""The supervisor: a process that starts and stops every command of a runtime.

`client` is the runtime's side; `server` and `process` run in the supervisor and import almost nothing.
"""
