"""Lua scripts of clients: EVAL, EVALSHA, SCRIPT.

Read in this order: runtime (Lua 5.1 with the globals of ``sandbox.lua``, limits of time and
memory), conversion (replies to values of Lua and back), caller (``redis.call``), scripts (sources
by their SHA1), evaluation (the commands). ``json.lua`` and ``msgpack.lua`` are the libraries
``cjson`` and ``cmsgpack``; structure and bits have ``struct`` and ``bit``,
whose arguments and errors are those of ``arguments``.

Needs the extra ``relstate[redis]``: lupa, which has Lua. Does not know: sockets, commits.
"""
