"""The daemon: an HTTP API with events, the approvals page, schedules and notifications."""
