-- The environment of a document's Lua, and the encoding of errors and data. Runs in a fresh state before any code of a
-- document. A document cannot change it: it keeps local references to what it uses, and reads tables raw, so that
-- metatables cannot deceive it.

local MAX_ITEMS, MAX_BYTES, MAX_DEPTH = 20000, 1 << 20, 32
local type, next, rawget, rawlen, error, tostring, xpcall = type, next, rawget, rawlen, error, tostring, xpcall
local getinfo, getmetatable = debug.getinfo, getmetatable
local byte, format, gmatch, gsub, sub = string.byte, string.format, string.gmatch, string.gsub, string.sub
local concat, sort, pack, unpack = table.concat, table.sort, table.pack, table.unpack
local mathtype, huge = math.type, math.huge

local string_meta = getmetatable("")
string.dump = nil
string_meta.__metatable = false

local function library(source, names)
  local copy = {}
  for name in gmatch(names, "%S+") do
    copy[name] = source[name]
  end
  return copy
end

local LIBRARIES = {
  string = "byte char find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper",
  table = "concat insert move pack remove sort unpack",
  math = "abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min mininteger modf pi rad random "
    .. "randomseed sin sqrt tan tointeger type ult",
  utf8 = "char charpattern codepoint codes len offset",
  os = "clock date difftime time",
}
local FUNCTIONS = "assert error ipairs next pairs pcall rawequal rawget rawlen rawset select setmetatable tonumber "
  .. "tostring type xpcall"
local globals = _G

local function environment()
  local env = library(globals, FUNCTIONS)
  for name, members in next, LIBRARIES do
    env[name] = library(globals[name], members)
  end
  env.unpack = unpack
  env.getmetatable = function(value)
    if type(value) == "table" then
      return getmetatable(value)
    end
  end
  env._VERSION = _VERSION
  return env
end

-- Errors ------------------------------------------------------------------------------------------------------------

local function line_in(source)
  for level = 2, 250 do
    local info = getinfo(level, "Sl")
    if not info then
      return nil
    end
    if info.source == source and info.currentline > 0 then
      return info.currentline
    end
  end
end

local function text_of(problem)
  local kind = type(problem)
  if kind == "string" then
    return problem
  elseif kind == "number" or kind == "boolean" then
    return tostring(problem)
  elseif kind == "nil" then
    return "an error without a message"
  end
  return "an error value of type " .. kind
end

-- Calls a function: true and its results, or false, a message and the line of `source`.
local function protected(source, f, ...)
  local line
  local function handler(problem)
    line = line_in(source)
    return text_of(problem)
  end
  local results = pack(xpcall(f, handler, ...))
  if results[1] then
    return unpack(results, 1, results.n)
  end
  return false, text_of(results[2]), line
end

-- Encoding ----------------------------------------------------------------------------------------------------------

local function escaped(letter)
  return format("\\u%04x", byte(letter))
end

local function quoted(text, raw)
  return '"' .. gsub(text, raw and '[%c"\\]' or '[%c"\\\127-\255]', escaped) .. '"'
end

local function sorted_keys(value)
  local keys = {}
  for key in next, value do
    if type(key) == "string" then
      keys[#keys + 1] = key
    elseif mathtype(key) ~= "integer" or key < 1 or key > rawlen(value) then
      error("a table must have keys that are text or 1, 2, 3 …", 0)
    end
  end
  sort(keys)
  return keys
end

local function encode(value, out, state, depth)
  state.items = state.items + 1
  if state.items > MAX_ITEMS or depth > MAX_DEPTH or state.bytes > MAX_BYTES then
    error("the value is too large, or nested too deeply", 0)
  end
  local kind = type(value)
  if kind == "table" then
    if state.seen[value] then
      error("the value contains itself", 0)
    end
    state.seen[value] = true
    local keys, length = sorted_keys(value), rawlen(value)
    if #keys > 0 and length > 0 then
      error("a table is either a list or has names, not both", 0)
    end
    out[#out + 1] = #keys > 0 and "{" or "["
    for index = 1, length do
      out[#out + 1] = index > 1 and "," or ""
      encode(rawget(value, index), out, state, depth + 1)
    end
    for index, key in next, keys do
      out[#out + 1] = (index > 1 and "," or "") .. quoted(key, state.raw) .. ":"
      encode(rawget(value, key), out, state, depth + 1)
    end
    out[#out + 1] = #keys > 0 and "}" or "]"
    state.seen[value] = nil
  elseif kind == "string" then
    state.bytes = state.bytes + #value
    if state.bytes > MAX_BYTES then
      error("the value is too large, or nested too deeply", 0)
    end
    out[#out + 1] = quoted(value, state.raw)
  elseif kind == "number" then
    if value ~= value or value == huge or value == -huge then
      error("the number " .. tostring(value) .. " cannot be encoded", 0)
    end
    out[#out + 1] = mathtype(value) == "integer" and format("%d", value) or format("%.17g", value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind == "nil" then
    out[#out + 1] = "null"
  else
    error("a " .. kind .. " cannot be encoded", 0)
  end
end

-- JSON of plain data. Bytes beyond ASCII are escaped one by one, or unchanged with `raw`.
local function json(value, raw)
  local out = {}
  encode(value, out, { items = 0, bytes = 0, seen = {}, raw = raw }, 1)
  return concat(out)
end

local function field(name, value)
  return value == nil and "" or ',"' .. name .. '":' .. json(value)
end

local function failure(text, line)
  return '{"ok":false,"error":' .. json(sub(text, 1, 2000)) .. field("line", line) .. "}"
end

return {
  environment = environment,
  line_in = line_in,
  text_of = text_of,
  protected = protected,
  quoted = quoted,
  sorted_keys = sorted_keys,
  json = json,
  field = field,
  failure = failure,
}
