-- `cjson`: as lua-cjson 2.1 of Redis 7.0 reads and writes JSON.

local null = ...
local concat, error, floor, huge, pairs = table.concat, error, math.floor, math.huge, pairs
local byte, char, find, format, gsub, sub = string.byte, string.char, string.find, string.format, string.gsub, string.sub
local pcall, rawget, select = pcall, rawget, select
local match, tonumber, tostring, type = string.match, tonumber, tostring, type

local MOST_DEPTH = 16000

local function settings()
    return {
        convert_sparse = false, sparse_ratio = 2, sparse_safe = 10, encode_depth = 1000,
        decode_depth = 1000, precision = 14, encode_invalid = false, decode_invalid = true,
        keep_buffer = true,
    }
end

-- Writing

local ESCAPES = {
    ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
    ["\r"] = "\\r", ["\t"] = "\\t", ["\127"] = "\\u007f",
}

local function escape(character)
    return ESCAPES[character] or format("\\u%04x", byte(character))
end

local function quoted(text)
    return '"' .. gsub(text, '[%z\1-\31"\\/\127]', escape) .. '"'
end

-- The length of an array; nil for a table that is an object.
local function length_of(value, options)
    local most, items = 0, 0
    for key in pairs(value) do
        if type(key) ~= "number" or key < 1 or key ~= floor(key) then return nil end
        if key > most then most = key end
        items = items + 1
    end
    local ratio = options.sparse_ratio
    if ratio > 0 and most > items * ratio and most > options.sparse_safe then
        if not options.convert_sparse then
            return error("Cannot serialise table: excessively sparse array", 0)
        end
        return nil
    end
    return most
end

local write

local function number_text(number, options)
    local is_nan = number ~= number
    if is_nan or number == huge or number == -huge then
        if options.encode_invalid == "null" then return "null" end
        if not options.encode_invalid then
            error("Cannot serialise number: must not be NaN or Inf", 0)
        end
        if is_nan then return "nan" end
    end
    return format("%." .. options.precision .. "g", number)
end

local function write_table(value, pieces, depth, options)
    depth = depth + 1
    if depth > options.encode_depth then
        error("Cannot serialise, excessive depth (" .. depth .. ")", 0)
    end
    local length = length_of(value, options)
    if length and length > 0 then
        pieces[#pieces + 1] = "["
        for index = 1, length do
            if index > 1 then pieces[#pieces + 1] = "," end
            write(rawget(value, index), pieces, depth, options)
        end
        pieces[#pieces + 1] = "]"
        return
    end
    local separator = "{"
    for key, item in pairs(value) do
        local kind = type(key)
        if kind == "number" then
            pieces[#pieces + 1] = separator .. '"' .. number_text(key, options) .. '":'
        elseif kind == "string" then
            pieces[#pieces + 1] = separator .. quoted(key) .. ":"
        else
            error("Cannot serialise " .. kind .. ": table key must be a number or string", 0)
        end
        separator = ","
        write(item, pieces, depth, options)
    end
    pieces[#pieces + 1] = separator == "{" and "{}" or "}"
end

function write(value, pieces, depth, options)
    local kind = type(value)
    if kind == "string" then
        pieces[#pieces + 1] = quoted(value)
    elseif kind == "number" then
        pieces[#pieces + 1] = number_text(value, options)
    elseif kind == "boolean" then
        pieces[#pieces + 1] = tostring(value)
    elseif kind == "table" then
        write_table(value, pieces, depth, options)
    elseif value == nil or value == null then
        pieces[#pieces + 1] = "null"
    else
        error("Cannot serialise " .. kind .. ": type not supported", 0)
    end
end

-- Reading

local UNESCAPED = {
    ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}

local function utf8(code)
    if code < 0x80 then return char(code) end
    if code < 0x800 then return char(0xC0 + floor(code / 0x40), 0x80 + code % 0x40) end
    local last, middle = 0x80 + code % 0x40, 0x80 + floor(code / 0x40) % 0x40
    if code < 0x10000 then return char(0xE0 + floor(code / 0x1000), middle, last) end
    return char(0xF0 + floor(code / 0x40000), 0x80 + floor(code / 0x1000) % 0x40, middle, last)
end

local function fail(expected, found, position)
    error("Expected " .. expected .. " but found " .. found .. " at character " .. position, 0)
end

local function unicode_at(text, position)
    local code = tonumber(text:match("^\\u(%x%x%x%x)", position) or "", 16)
    if not code or (code >= 0xDC00 and code < 0xE000) then return nil end
    if code < 0xD800 or code >= 0xE000 then return utf8(code), position + 6 end
    local low = tonumber(text:match("^\\u(%x%x%x%x)", position + 6) or "", 16)
    if not low or low < 0xDC00 or low >= 0xE000 then return nil end
    return utf8(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), position + 12
end

local function read_string(text, position)
    local pieces, start = {}, position + 1
    while true do
        local stop = find(text, '[%z"\\]', start)
        if not stop then fail("value", "unexpected end of string", #text + 1) end
        pieces[#pieces + 1] = sub(text, start, stop - 1)
        local mark = sub(text, stop, stop)
        if mark == '"' then return concat(pieces), stop + 1 end
        if mark == "\0" then fail("value", "unexpected end of string", stop) end
        local letter = sub(text, stop + 1, stop + 1)
        if letter == "u" then
            local piece, after = unicode_at(text, stop)
            if not piece then fail("value", "invalid unicode escape code", stop) end
            pieces[#pieces + 1], start = piece, after
        elseif UNESCAPED[letter] then
            pieces[#pieces + 1], start = UNESCAPED[letter], stop + 2
        else
            fail("value", "invalid escape code", stop)
        end
    end
end

local WORDS = {t = "true", f = "false", n = "null"}
local VALUES = {["true"] = true, ["false"] = false, null = null}
local TOKENS = {
    ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END",
    [":"] = "T_COLON", [","] = "T_COMMA", [""] = "T_END", ['"'] = "T_STRING",
}

local function found_at(text, position)
    local mark = sub(text, position, position)
    if TOKENS[mark] then return TOKENS[mark] end
    for _, word in pairs(WORDS) do
        if sub(text, position, position + #word - 1) == word then
            return word == "null" and "T_NULL" or "T_BOOLEAN"
        end
    end
    if find(text, "^-?%d", position) then return "T_NUMBER" end
    return "invalid token"
end

local function skip(text, position)
    return find(text, "[^ \t\n\r]", position) or #text + 1
end

local function read_number(text, position, options)
    local word = text:match("^[-+]?[%w.]+[-+]?%w*", position)
    local number_word = word and text:match("^-?%d+%.?%d*[eE][-+]?%d+", position)
        or text:match("^-?%d+%.?%d*", position) or text:match("^-?%.%d+", position)
    if options.decode_invalid and word then
        local special = word:lower():match("^[-+]?0x%x+") or word:lower():match("^[-+]?inf[inity]*")
            or word:lower():match("^[-+]?nan")
        if special then
            number_word = sub(word, 1, #special)
            if find(special, "inf", 1, true) then
                return sub(special, 1, 1) == "-" and -huge or huge, position + #special
            end
            if find(special, "nan", 1, true) then return 0 / 0, position + #special end
        end
    elseif number_word and find(number_word, "^-?0%d") then
        fail("value", "invalid number", position)
    end
    local number = number_word and tonumber(number_word)
    if not number then fail("value", "invalid token", position) end
    return number, position + #number_word
end

local read

local function read_items(text, position, depth, options)
    local items, count = {}, 0
    position = skip(text, position + 1)
    if sub(text, position, position) == "]" then return items, position + 1 end
    while true do
        count = count + 1
        items[count], position = read(text, position, depth, options)
        position = skip(text, position)
        local mark = sub(text, position, position)
        if mark == "]" then return items, position + 1 end
        if mark ~= "," then fail("comma or array end", found_at(text, position), position) end
        position = position + 1
    end
end

local function read_fields(text, position, depth, options)
    local fields = {}
    position = skip(text, position + 1)
    if sub(text, position, position) == "}" then return fields, position + 1 end
    while true do
        if sub(text, position, position) ~= '"' then
            fail("object key string", found_at(text, position), position)
        end
        local key
        key, position = read_string(text, position)
        position = skip(text, position)
        if sub(text, position, position) ~= ":" then
            fail("colon", found_at(text, position), position)
        end
        fields[key], position = read(text, position + 1, depth, options)
        position = skip(text, position)
        local mark = sub(text, position, position)
        if mark == "}" then return fields, position + 1 end
        if mark ~= "," then fail("comma or object end", found_at(text, position), position) end
        position = skip(text, position + 1)
    end
end

function read(text, position, depth, options)
    position = skip(text, position)
    local mark = sub(text, position, position)
    if mark == '"' then return read_string(text, position) end
    if mark == "{" or mark == "[" then
        depth = depth + 1
        if depth > options.decode_depth then
            error("Found too many nested data structures (" .. depth .. ") at character " .. position, 0)
        end
        return (mark == "{" and read_fields or read_items)(text, position, depth, options)
    end
    local word = WORDS[mark]
    if word and sub(text, position, position + #word - 1) == word then
        return VALUES[word], position + #word
    end
    if find(mark, "[-+.%diInN]") then return read_number(text, position, options) end
    fail("value", found_at(text, position), position)
end

-- The functions of scripts. An error is that of the line that called them.

local function raised(ok, ...)
    if not ok then error((...), 3) end
    return ...
end

local function check_count(count, name)
    if count ~= 1 then error("bad argument #1 to '" .. name .. "' (expected 1 argument)", 3) end
end

local function setting(options, name, least, most)
    return function(value)
        if value ~= nil then
            value = tonumber(value)
            if not value or value < least or value > most then
                error("bad argument #1 (expected integer between " .. least .. " and " .. most .. ")", 2)
            end
            options[name] = value
        end
        return options[name]
    end
end

local function choice(options, name)
    return function(value)
        if value ~= nil then
            if value == "on" then value = true elseif value == "off" then value = false end
            options[name] = value
        end
        return options[name]
    end
end

local function library()
    local options = settings()
    local cjson = {
        null = null, _NAME = "cjson", _VERSION = "2.1.0",
        encode_max_depth = setting(options, "encode_depth", 1, MOST_DEPTH),
        decode_max_depth = setting(options, "decode_depth", 1, MOST_DEPTH),
        encode_number_precision = setting(options, "precision", 1, 14),
        encode_invalid_numbers = choice(options, "encode_invalid"),
        decode_invalid_numbers = choice(options, "decode_invalid"),
        encode_keep_buffer = choice(options, "keep_buffer"),
        new = library,
    }

    function cjson.encode_sparse_array(convert, ratio, safe)
        if convert ~= nil then options.convert_sparse = convert and true or false end
        if ratio ~= nil then options.sparse_ratio = tonumber(ratio) or 2 end
        if safe ~= nil then options.sparse_safe = tonumber(safe) or 10 end
        return options.convert_sparse, options.sparse_ratio, options.sparse_safe
    end

    local function encode(value)
        local pieces = {}
        write(value, pieces, 0, options)
        return concat(pieces)
    end

    local function decode(text)
        local value, position = read(text, 1, 0, options)
        position = skip(text, position)
        if position <= #text then fail("the end", found_at(text, position), position) end
        return value
    end

    function cjson.encode(...)
        check_count(select("#", ...), "encode")
        return raised(pcall(encode, (...)))
    end

    function cjson.decode(...)
        check_count(select("#", ...), "decode")
        local text = ...
        if type(text) == "number" then text = tostring(text) end
        if type(text) ~= "string" then
            error("bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")", 2)
        end
        return raised(pcall(decode, text))
    end

    return cjson
end

return library()
