"""Frontmatter of a document in TOML, JSON or Lua: options, tools, a policy and variables."""
