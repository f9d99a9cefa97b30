"""The change feed: what the commits of some epochs changed in a table.

Read in this order: columns (what a feed looks like), feed_plan (what travels to tasks), planning
(how the changes of a range of epochs are found in the log), feed_reader (from segments to batches);
below it source (the entries that the commits wrote), key_history and document_history (each row
before and after each commit).
"""
