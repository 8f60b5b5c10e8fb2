"""Frontmatter from Flemma's documentation, verbatim."""

APPROVAL = """\
-- Preset form: read-only access for this buffer
flemma.opt.tools.auto_approve = { "$readonly" }
-- List form: auto-approve these tools in this buffer
flemma.opt.tools.auto_approve = { "calculator", "read" }
-- Mix presets and tool names
flemma.opt.tools.auto_approve = { "$default", "bash" }
-- Function form: full control per-buffer
flemma.opt.tools.auto_approve = function(tool_name, input, ctx)
if tool_name == "calculator" then return true end
return nil -- pass to next resolver
end
"""
LIST_OPERATIONS = """\
-- Start from default, but remove write access
flemma.opt.tools.auto_approve = { "$default" }
flemma.opt.tools.auto_approve:remove("write")
-- Add bash to the default set
flemma.opt.tools.auto_approve = { "$default" }
flemma.opt.tools.auto_approve:append("bash")
-- Operator shorthand: + (append), - (remove)
flemma.opt.tools.auto_approve = flemma.opt.tools.auto_approve + "bash" - "write"
"""
TOOLS = """\
flemma.opt.tools = {"bash", "read"} -- only these tools
flemma.opt.tools:remove("calculator") -- remove from defaults
flemma.opt.tools:append("calculator_async") -- add a tool
flemma.opt.tools = flemma.opt.tools + "read" -- operator overloads work too
"""
PARAMETERS = """\
-- General parameters (work across all providers)
flemma.opt.thinking = "medium" -- override the unified thinking level
flemma.opt.cache_retention = "long" -- override prompt caching strategy
flemma.opt.max_tokens = 8000 -- override max output tokens
flemma.opt.temperature = 0.3 -- override sampling temperature
-- Provider-specific overrides (take priority over general)
flemma.opt.anthropic.thinking_budget = 20000
flemma.opt.openai.reasoning = "high"
flemma.opt.vertex.thinking_budget = 4096
"""
POLICY = """\
flemma.opt.tools = {
-- Preset references and tool names can be mixed freely
auto_approve = { "$readonly", "calculator" },
-- Function form for full control
auto_approve = function(tool_name, input, ctx)
if tool_name == "calculator" then return true end
if tool_name == "bash" and input.command:match("rm %-rf") then return "deny" end
return false -- require approval
end,
}
"""
PRESETS = """\
flemma.opt.tools = {
presets = {
["$yolo"] = { approve = { "bash", "read", "write", "edit" } },
["$no-bash"] = { deny = { "bash" } },
},
auto_approve = { "$yolo", "$no-bash" },
}
"""
