"""The process that starts every command of a runtime: `client` is the runtime's side, all else is the warden's own."""
