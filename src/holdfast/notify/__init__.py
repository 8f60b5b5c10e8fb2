"""Notifications of pending calls: on the terminal, on the desktop, to a webhook and through ntfy."""
