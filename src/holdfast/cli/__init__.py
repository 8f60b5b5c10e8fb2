"""The command line: one small module per command, loaded when the command is used."""
