-- The globals of scripts: those of Redis 7.0, and nothing that reaches the machine or other scripts.
--
-- Returns what the server calls: `compile`, and `run`.
-- `host` has functions of the server, which never raise errors. They are called from functions here
-- alone: scripts get no value that is not of Lua. No function here reads a global when it runs.

local host, sources, steps = ...
local assert, error, ipairs, next, pairs, rawget, rawset = assert, error, ipairs, next, pairs, rawget, rawset
local select, setmetatable, tonumber, tostring, type, unpack = select, setmetatable, tonumber, tostring, type, unpack
local loadstring, newproxy, pcall, xpcall = loadstring, newproxy, pcall, xpcall
local coroutine, string, table = coroutine, string, table
local getinfo, sethook = debug.getinfo, debug.sethook
local collectgarbage, setfenv = collectgarbage, setfenv
local floor = math.floor

local SCRIPT = "@user_script"
local READONLY = "Attempt to modify a readonly table"

-- Time: a hook looks at the clock after every `steps` instructions. Once the time is over, it raises
-- an error at each instruction, so that no `pcall` can hold it.

local function watch()
    if host.is_ended() then
        sethook(watch, "", 1)
        error("the script was ended", 0)
    end
end

local function check_end()
    if host.is_ended() then watch() end
end

local function checked(...)
    check_end()
    return ...
end

-- Tables that cannot be changed

local contents = setmetatable({}, {__mode = "k"})

local function refuse()
    error(READONLY, 2)
end

local METATABLE = setmetatable({}, {__newindex = refuse, __metatable = false})

local function protect(content, index)
    local protected = {}
    contents[protected] = content
    return setmetatable(protected, {
        __index = index or content, __newindex = refuse, __metatable = METATABLE,
    })
end

local function check_writable(value)
    if contents[value] then error(READONLY, 0) end
end

local function iterate(content)
    local key
    return function()
        local value
        key, value = next(content, key)
        return key, value
    end
end

-- Errors: tables with the message in `err`, as the replies of commands are.

local function handle_error(message)
    local where
    for level = 2, 30 do
        local info = getinfo(level, "Sl")
        if not info then break end
        if info.what ~= "C" and info.what ~= "tail" and info.source ~= "=redis" then
            where = info
            break
        end
    end
    if type(message) ~= "table" then message = {err = "ERR " .. tostring(message)} end
    if where then message.source, message.line = where.source, where.currentline end
    return message
end

local function shown(ok, message, ...)
    check_end()
    if not ok and type(message) == "table" and type(rawget(message, "err")) == "string" then
        message = message.err
    end
    return ok, message, ...
end

local builtins = {}

function builtins.pcall(...)
    return shown(pcall(...))
end

function builtins.xpcall(f, handler)
    return checked(xpcall(f, handler))
end

-- Values and code

function builtins.pairs(value, ...)
    local content = contents[value]
    if content then return iterate(content) end
    return pairs(value, ...)
end

function builtins.next(value, key)
    return next(contents[value] or value, key)
end

function builtins.rawset(value, key, item)
    check_writable(value)
    return rawset(value, key, item)
end

function builtins.setmetatable(value, metatable)
    check_writable(value)
    return setmetatable(value, metatable)
end

local globals

local function compile(source, name)
    if string.find(source, "^\27") then return nil, "compiled code is not allowed" end
    local chunk, message = loadstring(source, name)
    if chunk then setfenv(chunk, globals) end
    return chunk, message
end

function builtins.loadstring(source, name)
    source = tostring(source)
    return compile(source, tostring(name or source))
end

function builtins.load(read, name)
    local pieces = {}
    for piece in read do
        if piece == "" then break end
        pieces[#pieces + 1] = piece
    end
    return compile(table.concat(pieces), tostring(name or "=(load)"))
end

function builtins.collectgarbage(option, argument)
    if option == "stop" or option == "setpause" or option == "setstepmul" then return 0 end
    return collectgarbage(option or "collect", argument or 0)
end

for _, name in ipairs {
    "_VERSION", "assert", "error", "gcinfo", "getmetatable", "ipairs", "rawequal", "rawget", "select",
    "tonumber", "tostring", "type", "unpack",
} do
    builtins[name] = _G[name]
end

-- Libraries

local function copied(library)
    local copy = {}
    for name, value in pairs(library) do copy[name] = value end
    return copy
end

local strings, tables, maths, coroutines = copied(string), copied(table), copied(math), copied(coroutine)
strings.dump = nil

function tables.insert(value, ...)
    check_writable(value)
    return table.insert(value, ...)
end

function maths.random(low, high)
    local number = host.random()
    if low == nil then return number end
    local argument = high == nil and 1 or 2
    if high == nil then low, high = 1, low end
    low, high = tonumber(low), tonumber(high)
    if low > high then
        error("bad argument #" .. argument .. " to 'random' (interval is empty)", 2)
    end
    return floor(number * (high - low + 1)) + low
end

function maths.randomseed(seed)
    host.seed(tonumber(seed) or 0)
end

function coroutines.create(f)
    local thread = coroutine.create(f)
    sethook(thread, watch, "", steps)
    return thread
end

function coroutines.resume(...)
    return checked(coroutine.resume(...))
end

local function unwrapped(ok, ...)
    if not ok then error((...), type((...)) == "string" and 3 or 0) end
    return ...
end

function coroutines.wrap(f)
    local thread = coroutines.create(f)
    return function(...)
        return unwrapped(checked(coroutine.resume(thread, ...)))
    end
end

-- Functions of the server return whether they succeeded, and a value, several, or an error.

local function values(ok, ...)
    if not ok then
        check_end()
        error((...), 3)
    end
    return ...
end

-- The number of the first argument that is not a number, a string, a boolean or nil.
local function unfit(...)
    for index = 1, select("#", ...) do
        local kind = type((select(index, ...)))
        if kind ~= "string" and kind ~= "number" and kind ~= "boolean" and kind ~= "nil" then
            return index, kind
        end
    end
end

local function library(names, prefix)
    local functions = {}
    for _, name in ipairs(names) do
        local run = host[prefix .. name]
        functions[name] = function(...)
            local index, kind = unfit(...)
            if index then
                error("bad argument #" .. index .. " to '" .. name .. "' (number expected, got " .. kind .. ")", 2)
            end
            return values(run(...))
        end
    end
    return functions
end

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_SLAVE = 1, REPL_REPLICA = 1, REPL_AOF = 2, REPL_ALL = 3,
    REDIS_VERSION = host.version, REDIS_VERSION_NUM = host.version_number,
}

local function reply_of(ok, reply)
    if ok then return reply end
    check_end()
    error({err = reply}, 0)
end

local function call(...)
    for index = 1, select("#", ...) do
        local kind = type((select(index, ...)))
        if kind ~= "string" and kind ~= "number" then
            return false, "ERR Lua redis lib command arguments must be strings or integers"
        end
    end
    return host.call(...)
end

function redis.call(...)
    return reply_of(call(...))
end

function redis.pcall(...)
    local ok, reply = call(...)
    if ok then return reply end
    check_end()
    return {err = reply}
end

local function single_field(name, ...)
    if select("#", ...) ~= 1 or type((...)) ~= "string" then
        return {err = "ERR wrong number or type of arguments"}
    end
    return {[name] = (...)}
end

function redis.error_reply(...)
    local reply = single_field("err", ...)
    if string.sub(reply.err, 1, 1) == "-" then reply.err = string.sub(reply.err, 2) end
    return reply
end

function redis.status_reply(...)
    return single_field("ok", ...)
end

function redis.sha1hex(...)
    if select("#", ...) ~= 1 then error({err = "ERR wrong number of arguments"}, 0) end
    return (select(2, host.sha1hex(tostring((...)))))
end

function redis.setresp(...)
    if select("#", ...) ~= 1 then error({err = "ERR redis.setresp() requires one argument."}, 0) end
    local version = ...
    if version ~= 2 and version ~= 3 then error({err = "ERR RESP version must be 2 or 3."}, 0) end
    host.set_version(version)
end

function redis.log(level, ...)
    if select("#", ...) == 0 then
        error({err = "ERR redis.log() requires two arguments or more."}, 0)
    end
    if type(level) ~= "number" then
        error({err = "ERR First argument must be a number (log level)."}, 0)
    end
    if level < 0 or level > 3 then error({err = "ERR Invalid debug level."}, 0) end
    local words = {}
    for index = 1, select("#", ...) do words[index] = tostring((select(index, ...))) end
    host.log(level, table.concat(words, " "))
end

function redis.acl_check_cmd(...)
    if unfit(...) then error({err = "ERR redis.acl_check_cmd() arguments must be strings"}, 0) end
    return reply_of(host.acl_check_cmd(...))
end

function redis.replicate_commands()
    return true
end

function redis.set_repl() end

function redis.breakpoint()
    return false
end

function redis.debug() end

-- The null of JSON is a value of a type that scripts cannot make.
local null = newproxy(true)
local metatable = getmetatable(null)
metatable.__metatable, metatable.__tostring = false, function() return "userdata: (nil)" end

for name, library_table in pairs {
    string = strings, table = tables, math = maths, coroutine = coroutines, redis = redis,
    bit = library({
        "tobit", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "bswap",
        "tohex",
    }, "bit_"),
    struct = library({"pack", "unpack", "size"}, "struct_"),
    cjson = assert(loadstring(sources.json, "=redis"))(null),
    cmsgpack = assert(loadstring(sources.msgpack, "=redis"))(host),
} do
    builtins[name] = protect(library_table)
end

metatable = getmetatable("")
metatable.__index, metatable.__metatable = strings, protect({__index = builtins.string})

local function missing(_, name)
    local value = builtins[name]
    if value == nil then
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end
    return value
end

globals = protect(builtins, missing)
builtins._G = globals
-- Nothing reads them from now on, but lupa, which looks for `debug`.
local original = _G
for name in pairs(copied(original)) do original[name] = nil end

local function finish(...)
    sethook()
    builtins.KEYS, builtins.ARGV = nil, nil
    return ...
end

-- One call from Python runs a script: each costs as much as many instructions of Lua.
local function run(script, keys, arguments)
    builtins.KEYS, builtins.ARGV = keys, arguments
    sethook(watch, "", steps)
    return finish(xpcall(script, handle_error))
end

return compile, run
