-- Templates: the pieces of a text, run as one chunk. The host reads files on request.

local core, document, ask = ...
local MAX_OUTPUT = 4 << 20
local type, next, rawget, rawlen, rawset, select = type, next, rawget, rawlen, rawset, select
local error, load, tostring, setmetatable = error, load, tostring, setmetatable
local gmatch, gsub, match, sub = string.gmatch, string.gsub, string.match, string.sub
local concat, tointeger = table.concat, math.tointeger
local environment, protected, text_of = core.environment, core.protected, core.text_of
local json, quoted, field, failure = core.json, core.quoted, core.field, core.failure

local BINARY, MIME = "\0binary", "\0mime"

local function values_of(list)
  local index = 0
  return function()
    index = index + 1
    return rawget(list, index)
  end
end

local function each(list)
  local index, length = 0, rawlen(list)
  return function()
    index = index + 1
    if index <= length then
      local loop = { index = index, index0 = index - 1, first = index == 1, last = index == length, length = length }
      return rawget(list, index), loop
    end
  end
end

-- The pieces of a template as one chunk, with the template's line for each line of the chunk.
local function chunk_of(pieces)
  local out, lines = {}, {}
  local function add(code, line)
    out[#out + 1] = code
    lines[#lines + 1] = line
    for _ in gmatch(code, "\n") do
      line = line + 1
      lines[#lines + 1] = line
    end
  end
  add("local __emit, __show, __file = ...;", 1)
  for index = 1, rawlen(pieces) do
    local piece = pieces[index]
    if piece.kind == "text" then
      add(";__emit(" .. index .. ");", piece.line)
    elseif piece.kind == "file" then
      add(";__file(" .. index .. ");", piece.line)
    elseif piece.kind == "code" then
      add(";" .. piece.code, piece.line)
      add(";", piece.line)
    elseif load("return\n" .. piece.code, "=expression", "t") then
      add(";__show(" .. index .. ", function() return", piece.line)
      add(piece.code, piece.line)
      add("end);", piece.line)
    else
      piece.bad = select(2, load("return " .. piece.code, "=template", "t"))
      add(";__emit(" .. index .. ");", piece.line)
    end
  end
  return concat(out, "\n"), lines
end

local function plain(problem)
  return (gsub(problem, "^template:%d+: ", ""))
end

-- Returns a function that renders pieces to parts: texts, and tables that represent files.
local function rendering(warnings, fatal)
  local size, contents = 0, setmetatable({}, { __mode = "k" })
  local render

  local function blame(text, line, file)
    fatal.message = fatal.message or text
    if line and not fatal.line then
      fatal.line, fatal.file = line, file
    end
  end

  local function grow(parts, text)
    size = size + #text
    if size > MAX_OUTPUT then
      blame("the text exceeds 4 MB")
      error("the text exceeds 4 MB", 0)
    end
    parts[#parts + 1] = text
  end

  local function put(parts, value)
    local kind = type(value)
    if kind == "string" then
      grow(parts, value)
    elseif kind == "number" or kind == "boolean" then
      grow(parts, tostring(value))
    elseif kind == "table" and contents[value] then
      for _, part in next, contents[value] do
        parts[#parts + 1] = part
      end
    elseif kind == "table" then
      grow(parts, json(value, true))
    elseif kind ~= "nil" then
      error("a " .. kind .. " cannot be converted to text", 0)
    end
  end

  local function holding(parts)
    local handle = setmetatable({}, { __metatable = false })
    contents[handle] = parts
    return handle
  end

  local function includer(from)
    return function(path, vars)
      local env, binary, mime = environment(), false, nil
      if type(vars) == "table" then
        binary, mime = rawget(vars, BINARY) == true, rawget(vars, MIME)
        for key, value in next, vars do
          if type(key) == "string" and key ~= BINARY and key ~= MIME then
            rawset(env, key, value)
          end
        end
      end
      local answer = ask(json({ path = path, from = from, binary = binary, mime = mime }))
      if answer.error then
        blame(answer.error)
        error(answer.error, 0)
      elseif answer.file then
        return holding({ { file = answer.file } })
      end
      env.__filename, env.__dirname = answer.name, answer.folder
      local parts = render(answer.pieces, env, answer.id, answer.name)
      for _, part in next, parts do
        if type(part) ~= "string" then
          return holding(parts)
        end
      end
      return concat(parts)
    end
  end

  local function prepare(env, parts, id)
    env.include, env.symbols = includer(id), { BINARY = BINARY, MIME = MIME }
    env.values, env.each = values_of, each
    env.print = function(...)
      for index = 1, select("#", ...) do
        put(parts, (select(index, ...)))
      end
    end
    setmetatable(env, {
      __metatable = false,
      __index = function(_, key)
        error("the variable '" .. text_of(key) .. "' is not defined", 2)
      end,
    })
  end

  function render(pieces, env, id, file)
    local parts = {}
    local code, lines = chunk_of(pieces)
    local function warn(text, line)
      if #warnings < 100 and not fatal.message then
        warnings[#warnings + 1] = { message = sub(plain(text), 1, 500), line = line, file = file }
      end
    end
    prepare(env, parts, id)
    local chunk, problem = load(code, "=template", "t", env)
    if not chunk then
      blame(plain(problem), lines[tointeger(match(problem, "^template:(%d+):"))], file)
      error(fatal.message, 0)
    end
    local function emit(index)
      local piece = pieces[index]
      if piece.bad then
        warn(piece.bad, piece.line)
      end
      grow(parts, piece.text)
    end
    local function show(index, f)
      local piece = pieces[index]
      local good, found, line = protected("=template", function()
        local shown = {}
        put(shown, (f()))
        return shown
      end)
      if good then
        for _, part in next, found do
          parts[#parts + 1] = part
        end
        return
      end
      warn(found, lines[line] or piece.line)
      if fatal.message then
        blame(found, lines[line] or piece.line, file)
      end
      grow(parts, piece.text)
    end
    local function place(index)
      parts[#parts + 1] = { file = pieces[index].file }
    end
    local good, text, line = protected("=template", chunk, emit, show, place)
    if not good then
      blame(plain(text), lines[line], file)
      error(fatal.message, 0)
    end
    return parts
  end
  return render
end

function document.expand(given)
  local env = environment()
  if given.frontmatter then
    local options, problem, line = document.run(env, given.frontmatter, given)
    if not options then
      return failure("the frontmatter failed: " .. problem, line)
    end
    options.finish()
  end
  for key, value in next, given.variables do
    rawset(env, key, value)
  end
  env.__filename, env.__dirname = given.name, given.folder
  local warnings, fatal = {}, {}
  local good, parts = protected("=template", rendering(warnings, fatal), given.pieces, env, 0, nil)
  if fatal.message or not good then
    local text = json(sub(plain(fatal.message or parts), 1, 2000))
    return '{"ok":false,"error":' .. text .. field("line", fatal.line) .. field("file", fatal.file) .. "}"
  end
  local out = {}
  for index, part in next, parts do
    out[index] = type(part) == "string" and quoted(part) or '{"file":' .. part.file .. "}"
  end
  return '{"ok":true,"parts":[' .. concat(out, ",") .. '],"warnings":' .. json(warnings) .. "}"
end
