-- replies
return 1
return 3.99
return -3.99
return 'text'
return true
return false
return nil
return {1,2,nil,3}
return {1,{2,{3,'a'}}}
return {}
return {ok='fine'}
return {err='bad'}
return {err='-bad'}
return {ok=1}
return {err=1}
return {double=1.5}
return {map={a=1}}
return {set={a=true}}
return {big_number='12'}
return {verbatim_string={format='txt',string='a'}}
return {1/0, -1/0, 0/0, 2^63, 2^53}
return function() end
return cjson.null
return ''
return
return redis.error_reply('My error')
return redis.error_reply('-My error')
return redis.status_reply('fine')
return redis.status_reply(1)
return redis.error_reply()
redis.setresp(3) return true
redis.setresp(3) return {double=1.5}
return redis.setresp(4)
-- calls
return redis.call('set', KEYS[1], ARGV[1])
return redis.call('get', KEYS[1])
return redis.call('get', 'none')
return tostring(redis.call('get', 'none'))
return #redis.call('get', 'none')
return redis.call('lpush', 'list', 1, 2.5, 1e20, 2^53)
return redis.call('lrange', 'list', 0, -1)
return redis.call('hset', 'hash', 'a', 1, 'b', 'x')
return redis.call('hgetall', 'hash')
return redis.call('zadd', 'zset', 1.5, 'a', 'inf', 'b')
return redis.call('zscore', 'zset', 'a')
return redis.call('zrange', 'zset', 0, -1, 'withscores')
return redis.call('type', 'zset')
return redis.call('type', 'zset').ok
return redis.call('PING')
redis.setresp(3) return redis.call('hgetall', 'hash').map.b
redis.setresp(3) return
redis.setresp(3) return redis.call('zscore', 'zset', 'a').double
redis.setresp(3) return redis.call('zrange', 'zset', 0, -1, 'withscores')
redis.setresp(3) return tostring(redis.call('get', 'none'))
redis.setresp(3) redis.call('sadd', 'set', 'a') return redis.call('smembers', 'set').set.a
return redis.call('incr', 'none', 'x')
return redis.call('nope')
return redis.call()
return redis.call({})
return redis.call('get', true)
return redis.call('incr', 'list')
return redis.pcall('incr', 'list')
return redis.pcall('incr', 'list').err
return redis.pcall()
return redis.call('blpop', 'none', 0)
return redis.call('subscribe', 'x')
return redis.call('eval', 'return 1', 0)
return redis.call('blmpop', 0, 1, 'none', 'LEFT')
return redis.call('multi')
return redis.call(12)
return redis.call('select', 3)
return redis.call('dbsize')
return redis.call('publish', 'a', 'b')
redis.call('set', 'x', 'abc') return redis.call('incr', 'x')
return redis.call('get', 'x')
redis.call('set', 'y', 'abc') error('boom')
return redis.call('get', 'y')
return redis.call('role')
return redis.acl_check_cmd('nope')
return redis.acl_check_cmd('get', 'x')
return redis.call('info', 'nope')
return redis.replicate_commands()
return redis.set_repl(redis.REPL_ALL)
return redis.breakpoint()
return redis.sha1hex('')
return redis.sha1hex()
return redis.log(1)
return redis.log('a', 'b')
return redis.log(9, 'x')
redis.log(redis.LOG_NOTICE, 'a', 1) return 2
return redis.call('time')[3]
return redis.REDIS_VERSION_NUM >= 0x070000
return redis.call('config', 'get', 'x')
return redis.call('set', 'a', 1/0)
return redis.call('get', 'a')
return redis.call('flushall')
-- language
return x
x = 1
error('boom')
error('boom', 0)
error({err='My error'})
error({err='-My error'})
error()
rawset(_G, 'x', 1)
string.rep = 1
redis.call = nil
KEYS = nil
getmetatable('').__index = 1
return getmetatable(_G)
setmetatable(_G, {})
return nil .. 'x'
local x; return x.y
return {} + 1
return pcall(error, 'x')
return {pcall(error, {err='x'})}
return {pcall(redis.call, 'nope')}
local function f() error('deep') end; f()
return xpcall(error, function() return 'handled' end)
return type(os)
return type(io)
return type(debug)
return type(require)
return type(loadfile)
return type(dofile)
return type(print)
return type(package)
return type(getfenv)
return type(module)
return type(setfenv)
return type(newproxy)
return type(python)
return loadstring('return 1 + 1')()
return loadstring('return nope')()
return (loadstring('x ='))
return load(function() return nil end)
return {
if
return 1 2
coroutine.wrap(function() error('x') end)()
return type(_G)
return coroutine.wrap(function() coroutine.yield(redis.call('ping').ok) end)()
local c = coroutine.create(function() error('x') end); return {coroutine.resume(c)}
local t = {} for k in pairs(redis) do t[#t+1] = k end table.sort(t) return t
local t = {} for k in pairs(string) do t[#t+1] = k end table.sort(t) return #t > 10
return next(redis) ~= nil
return table.concat({1, 2}, ',')
return tostring(1e15) .. tostring(0.1)
return string.format('%5.1f|%s|%q', 3.14159, 'x', 'y')
return ('x'):rep(3)
return #string.rep('x', 1000)
return select('#', 1, 2)
return {unpack({1, 2, 3})}
return tonumber('0x10')
return math.floor(3.7)
math.randomseed(42) return {tostring(math.random()), math.random(1000), math.random(5, 9)}
return math.random(5, 1)
return tostring(cjson.null)
return rawequal(redis, redis)
return _VERSION
local t = setmetatable({}, {__index = function(_, k) return k end}) return t.x
return rawget({a = 1}, 'a')
-- numbers
return bit.band(255, 15, 7)
return bit.bor(1, 2, 4)
return bit.bxor(1, 3)
return bit.bnot(0)
return bit.tobit(2^31)
return bit.lshift(1, 33)
return bit.rshift(-1, 4)
return bit.arshift(-8, 1)
return bit.rol(0x12345678, 12)
return bit.ror(0x12345678, 12)
return bit.bswap(0x12345678)
return bit.tohex(255)
return bit.tohex(255, -4)
return bit.tohex(-1, 2)
return bit.band(1, 2^40 + 3)
return bit.band('x')
return bit.band()
return bit.band('7', 3)
return bit.tobit(0xFFFFFFFF)
return {struct.pack('>I2i4', 1, 2), struct.size('!4bi')}
return struct.pack('<d>f', 1.5, 2.5)
return struct.pack('>!4bi', 1, 2)
return {struct.unpack('>Ihb', 'abcdefghijk')}
return struct.pack('i')
return struct.unpack('>i', 'abc')
return {struct.unpack('bc0', '\3abc')}
return struct.pack('z', 'x')
return {struct.unpack('c0', 'abc')}
return struct.pack('s', 'x')
return {struct.unpack('s', 'ab\0c')}
return {struct.unpack('<hH', '\173\173\173\173')}
return struct.size('s')
return struct.pack('c2', 'abc')
return {struct.unpack('>I2', 'abcd', 3)}
return struct.pack('>l', -1)
return struct.pack('>i3', 70000)
-- formats
return {cjson.encode({}), cjson.encode({1, 2}), cjson.encode({a = 1}), cjson.encode(cjson.null)}
return {cjson.encode({[1]=1, [3]=3}), cjson.encode(1.5), cjson.encode(1e20), cjson.encode(2^53)}
return cjson.encode('a/"\\10\1W\195\149')
return cjson.encode({[1]=1, [100]=3})
return cjson.encode(1/0)
return cjson.encode({[1.5]=1})
return cjson.encode({[true]=2})
return cjson.encode(pcall)
return cjson.encode()
return cjson.encode(1, 2)
return cjson.decode()
return cjson.decode(1)
return cjson.decode('{"a":[1,2,{"b":null}]}').a[3].b == cjson.null
return cjson.decode('[1,2')
return {cjson.decode('[1.5e3, -0, 01, 1e2]')[1], cjson.decode('[]')[1]}
return cjson.decode('{a:1}')
return cjson.decode('"\\u00e9\\ud83d\\ude00 \n"')
return cjson.decode('"\\ud83d"')
return cjson.decode('nul')
return cjson.decode('')
return cjson.decode('[1,x]')
return cjson.decode('[1] 2')
return cjson.decode('{"a" 1}')
return cjson.decode('{"a":1,}')
return cjson.decode('[1 2]')
return cjson.decode('"\\x"')
return cjson.decode('true')
return tostring(cjson.decode('[-Infinity]')[1])
return cjson.decode('0x1F')
return cjson.decode(' 12 ')
return cjson.decode(string.rep('[', 2000))
return cjson.encode(cjson.decode('{"a":{"b":[{},[]]}}'))
cjson.encode_number_precision(3) return cjson.encode(3.14159)
cjson.encode_number_precision(14) return 1
cjson.encode_sparse_array(true) return cjson.encode({[1]=1, [100]=3})
return cjson.decode('[false]')[1]
return cmsgpack.pack({1, 2, {a=1}}, 1.5, -3, 2^40, 'x', true, nil)
return cmsgpack.pack(0.1, -1000, 70000)
return {cmsgpack.unpack(cmsgpack.pack(1, -1, 127, 128, 255, 256, 65535, 65536, 2^32, 2^53, -128, -129))}
return {cmsgpack.unpack(cmsgpack.pack('a', {x={1, 2}}, string.rep('y', 300)))}
return cmsgpack.pack()
return cmsgpack.unpack(cmsgpack.pack({1, {2, {3}}}))[2][2][1]
return cmsgpack.unpack('\173')
return cmsgpack.unpack()
return cmsgpack.unpack('\193')
return cmsgpack.unpack('\143')
return cmsgpack.unpack('f\1')
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2))}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2), 1)}
return cmsgpack.unpack_one('a', 9)
return cmsgpack.pack({[1]=1, [3]=3}) ~= nil
