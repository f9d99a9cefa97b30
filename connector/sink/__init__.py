"""Writing tables through Spark: batch and streaming sinks, and the writer for foreachBatch.

It imports nothing: tasks import single modules, and none of what only the driver needs.
"""
