"""What a document says about itself: options, tools, a policy, variables; in TOML, JSON or Lua."""
