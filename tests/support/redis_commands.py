"""Random sequences of Redis commands: few keys, so that types meet, and odd arguments."""

from __future__ import annotations

from hypothesis import strategies as st

Words = tuple[bytes, ...]

KEYS = (b"a", b"b", b"c", b"\x00\xff")
_FIELDS = (b"f", b"g", b"h", b"", b"10")
_VALUES = (
    b"", b"x", b"yy", b"10", b"-3", b"3.5", b" 1", b"01", b"9223372036854775807", b"\x00\xff\r\n",
    b"1e400", b"inf",
)  # fmt: skip
_INTEGERS = (b"0", b"1", b"-1", b"2", b"-2", b"5", b"-100", b"9223372036854775807", b"x", b"1.5")
_FLOATS = (b"0", b"0.1", b"-2.5", b"3", b"1e3", b"inf", b"nan", b"x", b"1e-5")
_TIMES = (b"100", b"1000", b"0", b"-1", b"x", b"9223372036854775807")
_PATTERNS = (b"*", b"?", b"[a-b]", b"[^a]*", b"\\a", b"f*", b"")
_WORDS = {
    "key": (KEYS[0], *KEYS),  # the first one more often
    "field": _FIELDS,
    "value": _VALUES,
    "integer": _INTEGERS,
    "float": _FLOATS,
    "time": _TIMES,
    "pattern": _PATTERNS,
    "member": _FIELDS,
    "add": (b"NX", b"XX", b"GT", b"LT", b"CH", b"ch"),
    "score": (b"0", b"-inf", b"+inf", b"(1", b"(-2.5", b"3", b"1e3", b"x", b"nan"),
    "end": (b"-", b"+", b"[f", b"(f", b"(g", b"[", b"[1", b"x"),
    "condition": (b"NX", b"XX", b"GT", b"LT", b"nx", b"zz"),
    "lifetime": (b"EX", b"ex"),
    "subcommand": (b"INFO", b"slots", b"KEYSLOT", b"NODES", b"SHARDS", b"MYID", b"NOSUCH", b"MEET"),
    "count": (b"ZUNION", b"ZINTER", b"ZDIFF", b"SINTERCARD", b"ZINTERCARD", b"LMPOP", b"ZMPOP"),
    "store": (b"ZUNIONSTORE", b"ZINTERSTORE", b"ZDIFFSTORE"),
    "number": (b"0", b"1", b"2", b"3", b"-1", b"x"),
}

STRINGS = """
    SET key value | SET key value | SET key value NX | SET key value XX GET | SET key value GET
    SET key value lifetime time | SET key value KEEPTTL | SET key value EX 100 KEEPTTL
    SET key value PX 100000 | GETEX key PX 100000 | PSETEX key 0 value
    SET key value NX XX | SET key value EX | SET key value lifetime time NX GET
    SETNX key value | SETEX key time value | PSETEX key 100000 value | GETSET key value
    GET key | GET key | MGET key key key | MSET key value key value | MSET key value key
    MSETNX key value key value | GETDEL key | GETEX key | GETEX key lifetime time
    GETEX key PERSIST | APPEND key value | STRLEN key | GETRANGE key integer integer
    SUBSTR key integer integer | SETRANGE key 3 value | SETRANGE key -1 value | INCR key
    DECR key | INCRBY key integer | DECRBY key integer | INCRBYFLOAT key float | GET
"""
HASHES = """
    HSET key field value | HSET key field value field value | HSET key field value field
    HMSET key field value | HSETNX key field value | HGET key field | HMGET key field field
    HGETALL key | HKEYS key | HVALS key | HLEN key | HEXISTS key field | HSTRLEN key field
    HDEL key field | HDEL key field field field field | HINCRBY key field integer
    HINCRBYFLOAT key field float | HSCAN key 0 | HSCAN key 0 MATCH pattern COUNT 3
    HSCAN key x | HSCAN key 0 COUNT 0
"""
SETS = """
    SADD key member | SADD key member member member | SREM key member | SREM key member member
    SMEMBERS key | SISMEMBER key member | SMISMEMBER key member member | SCARD key
    SMOVE key key member | SPOP key 0 | SPOP key 100 | SPOP key -1 | SPOP key x
    SRANDMEMBER key 100 | SRANDMEMBER key 0 | SINTER key key | SUNION key key key
    SDIFF key key key | SINTERSTORE key key key | SUNIONSTORE key key key
    SDIFFSTORE key key key | SINTERCARD 2 key key | SINTERCARD 2 key key LIMIT integer
    SINTERCARD integer key key | SINTERCARD 1 key NOLIMIT | SSCAN key 0
    SSCAN key 0 MATCH pattern | SSCAN key 0 TYPE x
"""
SORTED_SETS = """
    ZADD key float member | ZADD key float member float member | ZADD key add float member
    ZADD key add add float member | ZADD key add CH float member float member
    ZADD key INCR float member | ZADD key add INCR float member | ZADD key float
    ZADD key INCR float member float member | ZINCRBY key float member | ZREM key member member
    ZSCORE key member | ZMSCORE key member member | ZCARD key | ZRANK key member
    ZREVRANK key member | ZCOUNT key score score | ZLEXCOUNT key end end
    ZRANGE key integer integer | ZRANGE key integer integer REV WITHSCORES
    ZRANGE key score score BYSCORE | ZRANGE key score score BYSCORE REV LIMIT integer integer
    ZRANGE key score score BYSCORE LIMIT 0 integer WITHSCORES | ZRANGE key end end BYLEX
    ZRANGE key end end BYLEX REV LIMIT 1 2 | ZRANGE key end end BYLEX WITHSCORES
    ZRANGE key 0 -1 LIMIT 0 1 | ZREVRANGE key integer integer WITHSCORES
    ZRANGEBYSCORE key score score WITHSCORES LIMIT integer integer
    ZREVRANGEBYSCORE key score score | ZRANGEBYLEX key end end LIMIT 0 -1
    ZREVRANGEBYLEX key end end | ZRANGESTORE key key integer integer
    ZRANGESTORE key key score score BYSCORE REV | ZREMRANGEBYRANK key integer integer
    ZREMRANGEBYSCORE key score score | ZREMRANGEBYLEX key end end | ZPOPMIN key | ZPOPMAX key
    ZPOPMIN key integer | ZPOPMAX key integer | ZSCAN key 0 | ZSCAN key 0 MATCH pattern
    ZRANDMEMBER key 0 | ZUNION 2 key key WITHSCORES | ZINTER 2 key key | ZDIFF 2 key key WITHSCORES
    ZUNIONSTORE key 2 key key WEIGHTS float float AGGREGATE MAX
    ZUNIONSTORE key 2 key key AGGREGATE MIN | ZINTERSTORE key 2 key key WEIGHTS 2 float
    ZINTERSTORE key integer key key | ZDIFFSTORE key 2 key key | ZUNION 1 key WEIGHTS 1 2
    BZPOPMIN key key 0.01 | BZPOPMAX key 0.01 | ZMPOP 2 key key MIN COUNT integer
    ZMPOP 1 key x | BZMPOP 0.01 1 key MAX | ZMPOP integer key MIN
    ZINTERCARD 2 key key | ZINTERCARD 1 key LIMIT integer | SADD key member member
"""
LISTS = """
    LPUSH key value | RPUSH key value value | LPUSH key value value value | RPUSHX key value
    LPUSHX key value | LPOP key | RPOP key | LPOP key integer | RPOP key integer | LLEN key
    LRANGE key 0 -1 | LRANGE key integer integer | LINDEX key integer | LSET key integer value
    LTRIM key integer integer | LTRIM key 1 -2 | LREM key integer value
    LINSERT key BEFORE value value | LINSERT key after value value | LINSERT key x value value
    LMOVE key key LEFT RIGHT | LMOVE key key RIGHT LEFT | LMOVE key key left left
    LMOVE key key UP LEFT | RPOPLPUSH key key | LPOS key value | LPOS key value RANK integer
    LPOS key value COUNT integer | LPOS key value RANK -1 COUNT 0 MAXLEN integer
    BLPOP key key 0.01 | BRPOP key 0.01 | BLMOVE key key LEFT RIGHT 0.01 | BLPOP key -1
    BRPOPLPUSH key key 0.01 | LMPOP 2 key key LEFT COUNT integer | LMPOP integer key key LEFT
    BLMPOP 0.01 1 key RIGHT | BLMPOP 0.01 2 key key LEFT COUNT 2 | BRPOP key x | LMPOP 1 key UP
    LPOP key 1 1 | LPOS key value RANK
"""
GENERAL = """
    DEL key | DEL key key | UNLINK key | EXISTS key key | TOUCH key | TYPE key | KEYS pattern
    SCAN 0 COUNT 1000 | SCAN 0 COUNT 1000 MATCH pattern | SCAN 0 COUNT 1000 TYPE hash
    RENAME key key | RENAMENX key key | COPY key key | COPY key key REPLACE
    EXPIRE key time | EXPIRE key time condition | PEXPIRE key 100000 condition
    EXPIRE key 200 condition condition | EXPIREAT key time | PEXPIREAT key 1000 | TTL key
    PERSIST key | EXPIRETIME c | PING | PING value | ECHO value | SELECT 0 | NOSUCH key value
    FLUSHDB | FLUSHDB SYNC | OBJECT | MOVE key 1 | MOVE key 0 | MOVE key 99
    CLUSTER subcommand | CLUSTER subcommand key | CLUSTER | MONITOR x
    COMMAND GETKEYS count 2 key key | COMMAND GETKEYS ZUNION number key key
    COMMAND GETKEYS count number key key LEFT | COMMAND GETKEYS store key 2 key key
    COMMAND GETKEYS BLMPOP 0 2 key key LEFT | COMMAND GETKEYS MSET key x key x
    COMMAND GETKEYS DBSIZE | COMMAND GETKEYS RENAME key key | COMMAND GETKEYS NOSUCH key
"""


def commands(*texts: str) -> st.SearchStrategy[Words]:
    """Return commands made of templates: names of kinds of words in small letters are replaced."""
    templates = [
        line.split()
        for text in texts
        for group in text.strip().splitlines()
        for line in group.split("|")
    ]
    return st.one_of([st.tuples(*map(_word, template)) for template in templates])


def _word(word: str) -> st.SearchStrategy[bytes]:
    return st.sampled_from(_WORDS[word]) if word in _WORDS else st.just(word.encode())
