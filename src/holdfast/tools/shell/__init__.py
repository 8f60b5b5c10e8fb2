"""`shell.exec`: one command in a shell, to its end."""
