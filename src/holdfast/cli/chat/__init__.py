"""The subcommands of `holdfast chat`, one module each, and what they share."""
