-- `cmsgpack`: as lua-cmsgpack of Redis 7.0 reads and writes MessagePack.

local host = ...
local concat, error, floor, pairs = table.concat, error, math.floor, pairs
local byte, char, sub = string.byte, string.char, string.sub
local rawget, select, type, unpack, pcall = rawget, select, type, unpack, pcall

local MOST_DEPTH = 16
local MOST_RETURNED = 7000

-- Writing

local function big_endian(number, bytes)
    local text = ""
    for _ = 1, bytes do
        text = char(number % 256) .. text
        number = floor(number / 256)
    end
    return text
end

local function head(length, small, most_small, marks)
    if length <= most_small then return char(small + length) end
    if marks[1] and length <= 0xFF then return marks[1] .. char(length) end
    if length <= 0xFFFF then return marks[2] .. big_endian(length, 2) end
    return marks[3] .. big_endian(length, 4)
end

local TEXT, ITEMS, FIELDS = {"\217", "\218", "\219"}, {nil, "\220", "\221"}, {nil, "\222", "\223"}

-- The number of items of an array; nil for a table that is a map.
local function length_of(value)
    local count, most = 0, 0
    for key in pairs(value) do
        if type(key) ~= "number" or key <= 0 or key ~= floor(key) then return nil end
        if key > most then most = key end
        count = count + 1
    end
    return most == count and count or nil
end

local function write(value, pieces, depth)
    local kind = type(value)
    if kind == "string" then
        pieces[#pieces + 1] = head(#value, 0xA0, 31, TEXT)
        pieces[#pieces + 1] = value
    elseif kind == "number" then
        local ok, text = host.pack_number(value)
        if not ok then error("the script was ended", 0) end
        pieces[#pieces + 1] = text
    elseif kind == "boolean" then
        pieces[#pieces + 1] = value and "\195" or "\194"
    elseif kind ~= "table" or depth == MOST_DEPTH then
        pieces[#pieces + 1] = "\192"
    else
        local length = length_of(value)
        if length then
            pieces[#pieces + 1] = head(length, 0x90, 15, ITEMS)
            for index = 1, length do write(rawget(value, index), pieces, depth + 1) end
            return
        end
        local count = 0
        for _ in pairs(value) do count = count + 1 end
        pieces[#pieces + 1] = head(count, 0x80, 15, FIELDS)
        for key, item in pairs(value) do
            write(key, pieces, depth + 1)
            write(item, pieces, depth + 1)
        end
    end
end

-- Reading

local function missing()
    error("Missing bytes in input.", 0)
end

local function number_at(text, position, bytes)
    if position + bytes - 1 > #text then missing() end
    local number = 0
    for index = position, position + bytes - 1 do number = number * 256 + byte(text, index) end
    return number, position + bytes
end

local function text_at(text, position, length)
    if position + length - 1 > #text then missing() end
    return sub(text, position, position + length - 1), position + length
end

local read

local function items_at(text, position, count)
    local items = {}
    for index = 1, count do items[index], position = read(text, position) end
    return items, position
end

local function fields_at(text, position, count)
    local fields = {}
    for _ = 1, count do
        local key, value
        key, position = read(text, position)
        value, position = read(text, position)
        if key == nil or key ~= key then error("Bad data format in input.", 0) end
        fields[key] = value
    end
    return fields, position
end

-- By mark what follows: how many bytes of a length, and what reads as much.
local SIZED = {
    [0xC4] = {1, text_at}, [0xC5] = {2, text_at}, [0xC6] = {4, text_at}, [0xD9] = {1, text_at},
    [0xDA] = {2, text_at}, [0xDB] = {4, text_at}, [0xDC] = {2, items_at}, [0xDD] = {4, items_at},
    [0xDE] = {2, fields_at}, [0xDF] = {4, fields_at},
}
local UNSIGNED = {[0xCC] = 1, [0xCD] = 2, [0xCE] = 4}
local OTHER_NUMBERS = {[0xCA] = 4, [0xCB] = 8, [0xCF] = 8, [0xD0] = 1, [0xD1] = 2, [0xD2] = 4, [0xD3] = 8}

function read(text, position)
    local mark = byte(text, position)
    if not mark then missing() end
    position = position + 1
    if mark < 0x80 then return mark, position end
    if mark < 0x90 then return fields_at(text, position, mark - 0x80) end
    if mark < 0xA0 then return items_at(text, position, mark - 0x90) end
    if mark < 0xC0 then return text_at(text, position, mark - 0xA0) end
    if mark >= 0xE0 then return mark - 256, position end
    if mark == 0xC0 then return nil, position end
    if mark == 0xC2 or mark == 0xC3 then return mark == 0xC3, position end
    local sized = SIZED[mark]
    if sized then
        local length
        length, position = number_at(text, position, sized[1])
        return sized[2](text, position, length)
    end
    if UNSIGNED[mark] then return number_at(text, position, UNSIGNED[mark]) end
    if OTHER_NUMBERS[mark] then
        local data
        data, position = text_at(text, position, OTHER_NUMBERS[mark])
        return host.unpack_number(mark, data), position
    end
    error("Bad data format in input.", 0)
end

-- The functions of scripts. An error is that of the line that called them.

local function raised(ok, ...)
    if not ok then error((...), 3) end
    return ...
end

local function check_text(name, ...)
    if type((...)) ~= "string" then
        local kind = select("#", ...) == 0 and "no value" or type((...))
        error("bad argument #1 to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
    end
end

local function pack(...)
    local pieces = {}
    for index = 1, select("#", ...) do write((select(index, ...)), pieces, 0) end
    return concat(pieces)
end

local function values_at(text, limit, position)
    local values, count = {}, 0
    while position <= #text and count < limit do
        count = count + 1
        values[count], position = read(text, position)
    end
    return values, count, position
end

local function unpack_all(text)
    local values, count = values_at(text, MOST_RETURNED, 1)
    return unpack(values, 1, count)
end

local function unpack_some(text, limit, offset)
    if offset < 0 or offset > #text then
        error("Start offset " .. offset .. " greater than input length " .. #text .. ".", 0)
    end
    local values, count, position = values_at(text, limit, offset + 1)
    return position > #text and -1 or position - 1, unpack(values, 1, count)
end

return {
    _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "Copyright (C) 2012, Redis Ltd.", _DESCRIPTION = "MessagePack C implementation for Lua",
    pack = function(...)
        if select("#", ...) == 0 then error("bad argument #0 to 'pack' (MessagePack pack needs input.)", 2) end
        return raised(pcall(pack, ...))
    end,
    unpack = function(...)
        check_text("unpack", ...)
        return raised(pcall(unpack_all, (...)))
    end,
    unpack_one = function(text, offset)
        check_text("unpack_one", text)
        return raised(pcall(unpack_some, text, 1, offset or 0))
    end,
    unpack_limit = function(text, limit, offset)
        check_text("unpack_limit", text)
        return raised(pcall(unpack_some, text, limit, offset or 0))
    end,
}
