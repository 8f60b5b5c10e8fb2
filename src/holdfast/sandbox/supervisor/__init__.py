"""The process that starts every command of a runtime. `client` is the runtime side; the rest runs in the supervisor."""
