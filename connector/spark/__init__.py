"""What differs between the versions of Spark that relstate works with.

Read in this order: version (the range, and the one that runs), capabilities (what some versions
lack, by name), arrow_transfer (rows to the JVM and back), streams (what a stream of changes is
told), quoted_text and worker_output (what errors show), worker_daemon (what workers have imported).

Promises: no other module of relstate asks for the number of a version, or imports a private name of
PySpark whose meaning has changed between these versions.
It imports nothing: Spark loads it in every Python worker, and the command line without Spark.
"""
