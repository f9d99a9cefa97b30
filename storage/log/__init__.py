"""The commit log: how an epoch is committed.

Read in this order: entry (the content of one epoch) and what it is made of: names, segment_record
(files), table_definition, view (definitions and progress of views); file_frame (its checksum) and
typecheck; state (the sum of all entries) and sequenced_segment, checkpoint and archive (which let
entries leave the log) with manifest, live_segments and table_segments (of large stores, read in
part), log_files, folding and history (past epochs); log (follows the newest epoch) with
newest_state, folder_watch and seen_entry, append and store_creation (add the next epoch, and the
first); proposal, rules and transaction (from a proposal to its epoch, with the races).

Promises: creating an entry is the commit; it happens once or not at all.
Does not know: the content of segments.
"""
