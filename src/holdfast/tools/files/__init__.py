"""Reading, writing, editing and listing files beneath the project root."""
