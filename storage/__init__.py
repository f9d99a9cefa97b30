"""The embedded engine: keyed tables in immutable LMDB files, versioned by a commit log.

Read in this order: store (what there is), transaction and log (how an epoch comes to be), state
(what the log amounts to), writer and segment (rows to files), storagetable, scan and merge (files
to rows), encoding, memcomparable and row (rows to bytes), memtable and statetable (an executor's
view). Everything that touches the outside goes through environment.

Promises: works without Spark. Does not know it.
"""

from .check import Report
from .chunk import OP_COLUMN, Op, chunk_of
from .entry import SegmentRecord, Settings, TableDefinition, Transaction, check_table_name
from .environment import Environment, LocalEnvironment
from .kind import Kind
from .plan import ReadPlan, WriteTarget
from .record import Row
from .schema import Column, KeyColumn, TableSchema
from .statetable import StateTable
from .storagetable import StorageTable
from .store import Snapshot, Store
from .table import Table
from .tablewriter import TableWriter
from .transaction import Committed, Proposal, Skipped
from .writer import SegmentWriter

__all__ = [
    "OP_COLUMN",
    "Column",
    "Committed",
    "Environment",
    "KeyColumn",
    "Kind",
    "LocalEnvironment",
    "Op",
    "Proposal",
    "ReadPlan",
    "Report",
    "Row",
    "SegmentRecord",
    "SegmentWriter",
    "Settings",
    "Skipped",
    "Snapshot",
    "StateTable",
    "StorageTable",
    "Store",
    "Table",
    "TableDefinition",
    "TableSchema",
    "TableWriter",
    "Transaction",
    "WriteTarget",
    "check_table_name",
    "chunk_of",
]
