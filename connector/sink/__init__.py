"""Writing tables through Spark: batch and streaming sinks, and the writer for foreachBatch."""

from .foreach import ForeachBatchWriter

__all__ = ["ForeachBatchWriter"]
