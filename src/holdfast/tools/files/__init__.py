"""`file.read`, `file.write`, `file.edit` and `file.list`: files beneath the project root."""
