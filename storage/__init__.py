"""The embedded engine: keyed tables in immutable LMDB files, versioned by a commit log.

Read in this order: store (the calls of users), which is a catalog (tables, indexes and views) with
rows, jobs (the calls of Spark's driver and tasks), epochs (the newest state, and the commit of the
next), definition_changes and view_catalog; then the folders: log (how an epoch comes to be),
segment (immutable files of sorted entries), table (what is visible of them, what is written), index
(secondary indexes), codec (rows to bytes), schema (types and columns), predicate (the condition of
a read), expression (values that are computed of a row), aggregate (what tasks add up), feed (what
commits changed), maintenance (compaction and vacuum), figures (sizes, for people). read_plan
carries a read to another process, aggregate_plan and limited_plan what a query does with its rows;
check verifies a store; everything outside the process goes through environment: local_environment
is a folder, objects a bucket.

Promises: works without Spark. Does not know: Spark.
"""

from . import figures
from .aggregate import moments
from .aggregate.measure import Function as AggregateFunction
from .aggregate.partial import PartialAggregate, group_name, measure_name
from .aggregate_plan import AggregatePlan
from .alteration import descriptions_of, is_wider
from .check import Report
from .codec import ragged
from .codec.memcomparable import KeyCodec
from .codec.row import RowCodec
from .disk import raise_descriptor_limit
from .duration import duration_text, parse_interval, positive_seconds, whole_seconds
from .environment import Environment
from .environment_choice import environment_of
from .erasure import ErasureReport
from .expression.binding import bind_value
from .expression.column import ColumnValue
from .expression.value import Failure, Value
from .extras import install_command
from .feed.columns import CHANGE_TYPE, adds_row, feed_fields, is_feed_column
from .feed.feed_plan import FeedPlan, FeedSnapshot
from .feed.planning import DEDUPLICATIONS
from .index.layout import IndexDescription
from .instant import iso_time, moment_of, parse_instant
from .limited_plan import MOST_SORTED_ROWS, LimitedPlan, RowLimit, SortColumn
from .location import Location, location_of, may_be_secret
from .log.entry import Entry, Transaction
from .log.names import (
    QUARANTINE_SUFFIX,
    RESERVED_PREFIX,
    check_table_name,
    is_quarantine_name,
    quarantine_name,
)
from .log.proposal import NewProgress, NewTable, NewView, Proposal, Reads
from .log.rules import without_expiry
from .log.segment_record import SegmentRecord
from .log.sequenced_segment import sequence_segments
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .log.transaction import CommitResult
from .log.view import (
    CatalogView,
    MomentRange,
    RefreshFigures,
    RefreshRecord,
    ViewClock,
    ViewDefinition,
    ViewInput,
    ViewProgress,
)
from .log.violations import Violations
from .maintenance.compaction import CompactionJob, CompactionReport
from .maintenance.vacuum import VacuumReport
from .new_table import new_table
from .notebook import html_table
from .objects.cache import Cache, cache_of
from .predicate.predicate import Predicate
from .read_plan import ReadPlan
from .replacement import (
    Replacement,
    check_replaceable,
    next_definition,
    renamed_table,
    replacement_name,
)
from .restoring import restored_columns
from .rows import Rows
from .schema import arrow, cast, ddl, type_json, types
from .schema.batch import Misfit
from .schema.default import ColumnDefault
from .schema.properties import TableProperties
from .schema.schema import Column, KeyColumn, TableSchema
from .schema_merge import altered_meanwhile_error, schema_digest
from .segment.key import Kind
from .segment.writer import SegmentWriter
from .snapshot import Snapshot
from .store import DEFAULT_RETENTION, Store
from .table.changed_entries import changed_entries
from .table.chunk import OP_COLUMN, Op
from .table.document.change import Action as ChangeAction
from .table.document.change import Change, check_action
from .table.document.documentencoding import DocumentEncoding
from .table.document.target import Target
from .table.encoding import document_encoding, encoding_of
from .table.generation import generation_of
from .table.header import NEVER
from .table.misfits import NO_REFUSED_ROWS, RefusedRows
from .table.record import Row
from .table.rowid import no_key_error
from .table.statetable import StateTable
from .table.storagetable import StorageTable
from .table.table import Table
from .table.tablewriter import TableWriter, WriteTarget, check_ttl
from .table.value import UPSERTS
from .threaded_aggregate import AddedUp, add_up_in_threads
from .user_tables import replaced_tables
from .view_failures import ViewFailure, keep_failure, read_failure

__all__ = [
    "CHANGE_TYPE",
    "DEDUPLICATIONS",
    "DEFAULT_RETENTION",
    "MOST_SORTED_ROWS",
    "NEVER",
    "NO_REFUSED_ROWS",
    "OP_COLUMN",
    "QUARANTINE_SUFFIX",
    "RESERVED_PREFIX",
    "UPSERTS",
    "AddedUp",
    "AggregateFunction",
    "AggregatePlan",
    "Cache",
    "CatalogView",
    "Change",
    "ChangeAction",
    "Column",
    "ColumnDefault",
    "ColumnValue",
    "CommitResult",
    "CompactionJob",
    "CompactionReport",
    "DocumentEncoding",
    "Entry",
    "Environment",
    "ErasureReport",
    "Failure",
    "FeedPlan",
    "FeedSnapshot",
    "IndexDescription",
    "KeyCodec",
    "KeyColumn",
    "Kind",
    "LimitedPlan",
    "Location",
    "Misfit",
    "MomentRange",
    "NewProgress",
    "NewTable",
    "NewView",
    "Op",
    "PartialAggregate",
    "Predicate",
    "Proposal",
    "ReadPlan",
    "Reads",
    "RefreshFigures",
    "RefreshRecord",
    "RefusedRows",
    "Replacement",
    "Report",
    "Row",
    "RowCodec",
    "RowLimit",
    "Rows",
    "SegmentRecord",
    "SegmentWriter",
    "Snapshot",
    "SortColumn",
    "StateTable",
    "StorageTable",
    "Store",
    "StoreState",
    "Table",
    "TableDefinition",
    "TableProperties",
    "TableSchema",
    "TableWriter",
    "Target",
    "Transaction",
    "VacuumReport",
    "Value",
    "ViewClock",
    "ViewDefinition",
    "ViewFailure",
    "ViewInput",
    "ViewProgress",
    "Violations",
    "WriteTarget",
    "add_up_in_threads",
    "adds_row",
    "altered_meanwhile_error",
    "arrow",
    "bind_value",
    "cache_of",
    "cast",
    "changed_entries",
    "check_action",
    "check_replaceable",
    "check_table_name",
    "check_ttl",
    "ddl",
    "descriptions_of",
    "document_encoding",
    "duration_text",
    "encoding_of",
    "environment_of",
    "feed_fields",
    "figures",
    "generation_of",
    "group_name",
    "html_table",
    "install_command",
    "is_feed_column",
    "is_quarantine_name",
    "is_wider",
    "iso_time",
    "keep_failure",
    "location_of",
    "may_be_secret",
    "measure_name",
    "moment_of",
    "moments",
    "new_table",
    "next_definition",
    "no_key_error",
    "parse_instant",
    "parse_interval",
    "positive_seconds",
    "quarantine_name",
    "ragged",
    "raise_descriptor_limit",
    "read_failure",
    "renamed_table",
    "replaced_tables",
    "replacement_name",
    "restored_columns",
    "schema_digest",
    "sequence_segments",
    "type_json",
    "types",
    "whole_seconds",
    "without_expiry",
]
