"""How an epoch comes to be: the commit log.

Read in this order: entry (what one epoch says) and frame (its checksum), state (what all entries
amount to), view (what it knows of views), checkpoint and archive (what lets entries leave), log
(the files), proposal, rules and transaction (from a proposal to its epoch, with the races).

Promises: creating an entry is the commit; it happens once or not at all.
Does not know: what segments hold.
"""
