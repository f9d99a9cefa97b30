"""The data source of a session that opens stores on S3 by the session's settings of Hadoop's S3A.

Spark plans reads and writes of a Python source in a process that has no session, and sends it no
settings. So a class of the source that has them is registered.

Does not know: what the settings mean.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import SparkSession

from relstate.connector.s3a_options import s3a_settings, with_s3a_settings

from .datasource import RelstateDataSource


def use_s3a_settings(spark: SparkSession) -> None:
    """Open stores on S3 by the settings ``spark.hadoop.fs.s3a.*`` that the session has now.

    It is for reads, writes and streams of this session that have no options ``storage.*``. Call it
    again after a setting was changed; `connect` needs no call.
    """
    settings = s3a_settings(spark.conf.getAll)

    class S3ADataSource(RelstateDataSource):
        """The source, with the settings of a session: Spark pickles the class by value."""

        def __init__(self, options: MutableMapping[str, str]) -> None:
            super().__init__(with_s3a_settings(options, settings))

    spark.dataSource.register(S3ADataSource)
