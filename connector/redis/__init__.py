"""``relstate redis``: a server that Redis clients talk to, over document tables of a store.

Read in this order: protocol and replies (bytes to requests, replies to bytes); values (what is at a
key), tables (how it is stored), keyspace (memory above the tables), database (what commands see),
committer (changes to epochs); command and commands (the table of commands), then the commands by
type; session (one client, without I/O) and server (sockets, limits, time).

Needs the extra ``relstate[redis]``: hiredis, which parses. Does not know: Spark.
"""
