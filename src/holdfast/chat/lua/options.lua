-- `flemma.opt`: logs the edits that a frontmatter makes to its options. The host that replays the log checks names and
-- resolves lists.

local core = ...
local MAX_LOG = 5000
local type, next, rawget, rawlen, rawset, setmetatable = type, next, rawget, rawlen, rawset, setmetatable
local error, load, concat, unpack = error, load, table.concat, table.unpack
local environment, protected, line_in = core.environment, core.protected, core.line_in
local json, field, failure, sorted_keys = core.json, core.field, core.failure, core.sorted_keys

-- `values` are the current values of the options in `readable`.
local function new_options(values, readable)
  local options = { functions = {} }
  local log, targets, lists, frozen = {}, setmetatable({}, { __mode = "k" }), 0, false
  local meta = { __metatable = false }
  local assign

  local function record(action, rest)
    if frozen then
      error("options can be set only in the frontmatter itself", 0)
    elseif #log >= MAX_LOG then
      error("the frontmatter sets more than " .. MAX_LOG .. " options", 0)
    end
    log[#log + 1] = '{"do":"' .. action .. '"' .. rest .. field("line", line_in("=frontmatter")) .. "}"
  end

  local function proxy(target)
    local made = setmetatable({}, meta)
    targets[made] = target
    return made
  end

  local function of(list)
    local target = targets[list]
    return ',"of":' .. (target.list and '{"list":' .. target.list .. "}" or '{"path":' .. json(target.path) .. "}")
  end

  local methods = {}
  for _, name in next, { "append", "prepend", "remove" } do
    methods[name] = function(self, names)
      if not targets[self] or targets[names] then
        error("call list methods with a colon, as in flemma.opt.tools:" .. name .. '("read")', 0)
      end
      record("edit", of(self) .. ',"op":"' .. name .. '","names":' .. json(names))
      return self
    end
  end

  local function operator(name, commutes)
    return function(left, right)
      local list, names = left, right
      if not targets[list] and commutes then
        list, names = right, left
      end
      if not targets[list] or targets[names] then
        error("only names can be added to or removed from a list: flemma.opt… " .. (name == "append" and "+" or "-") .. ' "name"', 0)
      end
      lists = lists + 1
      record("derive", of(list) .. ',"op":"' .. name .. '","names":' .. json(names) .. ',"list":' .. lists)
      return proxy({ list = lists })
    end
  end
  meta.__add, meta.__sub, meta.__pow = operator("append", true), operator("remove"), operator("prepend")

  local function child(path, key)
    local longer = { unpack(path) }
    longer[#longer + 1] = key
    return longer
  end

  function meta.__index(self, key)
    if methods[key] then
      return methods[key]
    end
    local path = targets[self].path
    if not path or type(key) ~= "string" then
      return nil
    end
    local here = child(path, key)
    local known = values[concat(here, ".")]
    if known ~= nil then
      return known
    end
    return proxy({ path = here })
  end

  function meta.__newindex(self, key, value)
    local path = targets[self].path
    if not path or type(key) ~= "string" then
      error("option names must be text, as in flemma.opt.thinking", 0)
    end
    assign(child(path, key), value, 1)
  end

  local function unknown()
    error("lists of options cannot be read in the frontmatter", 0)
  end
  meta.__len, meta.__pairs, meta.__call, meta.__concat, meta.__tostring = unknown, unknown, unknown, unknown, unknown

  function assign(path, value, depth)
    local kind, where = type(value), ',"path":' .. json(path)
    if depth > 8 then
      error("the value is nested too deeply, or contains itself", 0)
    elseif kind == "function" then
      options.functions[#options.functions + 1] = value
      record("function", where .. ',"id":' .. #options.functions)
    elseif kind == "nil" then
      values[concat(path, ".")] = nil
      record("clear", where)
    elseif kind ~= "table" then
      record("set", where .. ',"value":' .. json(value))
      local name = concat(path, ".")
      if readable[name] then
        values[name] = value
      end
    elseif targets[value] then
      record("copy", where .. of(value))
    else
      local keys, length = sorted_keys(value), rawlen(value)
      if length > 0 or #keys == 0 then
        local items = {}
        for index = 1, length do
          items[index] = rawget(value, index)
        end
        record("set", where .. ',"value":' .. json(items))
      end
      for _, key in next, keys do
        assign(child(path, key), rawget(value, key), depth + 1)
      end
    end
  end

  local root = proxy({ path = {} })
  options.api = setmetatable({}, {
    __metatable = false,
    __index = function(_, key)
      if key == "opt" then
        return root
      end
    end,
    __newindex = function(_, key, value)
      if key ~= "opt" or type(value) ~= "table" then
        error("only options can be set, as in flemma.opt.thinking", 0)
      end
      assign({}, value, 1)
    end,
  })
  function options.finish()
    frozen = true
    return "[" .. concat(log, ",") .. "]"
  end
  return options
end

-- Runs a frontmatter in `env`: its options, or nil with a message and a line; and the type of an invalid return value.
local function run_frontmatter(env, code, given)
  local options = new_options(given.values, given.readable)
  env.flemma, env.holdfast = options.api, options.api
  local chunk, problem = load(code, "=frontmatter", "t", env)
  if not chunk then
    return nil, problem
  end
  local good, returned, line = protected("=frontmatter", chunk)
  if not good then
    return nil, returned, line
  end
  if type(returned) == "table" then
    for key, value in next, returned do
      if type(key) == "string" then
        rawset(env, key, value)
      end
    end
    returned = nil
  end
  return options, returned ~= nil and type(returned) or nil
end

local document = { run = run_frontmatter }

function document.frontmatter(code, given)
  local options, problem, line = run_frontmatter(environment(), code, given)
  if not options then
    return failure(problem, line)
  end
  document.functions = options.functions
  return '{"ok":true,"log":' .. options.finish() .. field("returned", problem) .. "}"
end

function document.call(id, tool, args, ctx)
  local f = document.functions and document.functions[id]
  if not f then
    return failure("there is no such function")
  end
  local good, answer, line = protected("=frontmatter", f, tool, args, ctx)
  if not good then
    return failure(answer, line)
  end
  local kind = type(answer)
  if kind == "boolean" or kind == "nil" or (kind == "string" and #answer <= 100) then
    return '{"ok":true,"answer":' .. json(answer) .. "}"
  end
  return failure("the function returned a " .. kind .. " instead of true, false, \"deny\" or nil")
end

return document
