"""Tries to get past a rule about shell commands. Only `holdfast policy fuzz` uses it."""
