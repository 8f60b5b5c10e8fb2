"""Reading shell commands: what they are made of, and what rules say about every part. Nothing here runs anything."""
