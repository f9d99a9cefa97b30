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

Importing the package loads none of its modules: a name is looked up when it is first used. So a
process that gets rows loads what a get needs, and each of Spark's Python workers what its task
needs; most of the time to a first row is the time of imports.

Promises: works without Spark. Does not know: Spark.
"""

import typing

if typing.TYPE_CHECKING:
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
    from .feed.columns import CHANGE_TYPE, DEDUPLICATIONS, adds_row, feed_fields, is_feed_column
    from .feed.feed_plan import FeedPlan, FeedSnapshot
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
    from .table.tablewriter import TableWriter, check_ttl
    from .table.value import UPSERTS
    from .table.writetarget import WriteTarget
    from .table_creation import new_table
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

# Where each name is: ``module:name in it``, or ``module:`` for a module itself.
_PLACES = {
    "CHANGE_TYPE": "feed.columns:CHANGE_TYPE",
    "DEDUPLICATIONS": "feed.columns:DEDUPLICATIONS",
    "DEFAULT_RETENTION": "store:DEFAULT_RETENTION",
    "MOST_SORTED_ROWS": "limited_plan:MOST_SORTED_ROWS",
    "NEVER": "table.header:NEVER",
    "NO_REFUSED_ROWS": "table.misfits:NO_REFUSED_ROWS",
    "OP_COLUMN": "table.chunk:OP_COLUMN",
    "QUARANTINE_SUFFIX": "log.names:QUARANTINE_SUFFIX",
    "RESERVED_PREFIX": "log.names:RESERVED_PREFIX",
    "UPSERTS": "table.value:UPSERTS",
    "AddedUp": "threaded_aggregate:AddedUp",
    "AggregateFunction": "aggregate.measure:Function",
    "AggregatePlan": "aggregate_plan:AggregatePlan",
    "Cache": "objects.cache:Cache",
    "CatalogView": "log.view:CatalogView",
    "Change": "table.document.change:Change",
    "ChangeAction": "table.document.change:Action",
    "Column": "schema.schema:Column",
    "ColumnDefault": "schema.default:ColumnDefault",
    "ColumnValue": "expression.column:ColumnValue",
    "CommitResult": "log.transaction:CommitResult",
    "CompactionJob": "maintenance.compaction:CompactionJob",
    "CompactionReport": "maintenance.compaction:CompactionReport",
    "DocumentEncoding": "table.document.documentencoding:DocumentEncoding",
    "Entry": "log.entry:Entry",
    "Environment": "environment:Environment",
    "ErasureReport": "erasure:ErasureReport",
    "Failure": "expression.value:Failure",
    "FeedPlan": "feed.feed_plan:FeedPlan",
    "FeedSnapshot": "feed.feed_plan:FeedSnapshot",
    "IndexDescription": "index.layout:IndexDescription",
    "KeyCodec": "codec.memcomparable:KeyCodec",
    "KeyColumn": "schema.schema:KeyColumn",
    "Kind": "segment.key:Kind",
    "LimitedPlan": "limited_plan:LimitedPlan",
    "Location": "location:Location",
    "Misfit": "schema.batch:Misfit",
    "MomentRange": "log.view:MomentRange",
    "NewProgress": "log.proposal:NewProgress",
    "NewTable": "log.proposal:NewTable",
    "NewView": "log.proposal:NewView",
    "Op": "table.chunk:Op",
    "PartialAggregate": "aggregate.partial:PartialAggregate",
    "Predicate": "predicate.predicate:Predicate",
    "Proposal": "log.proposal:Proposal",
    "ReadPlan": "read_plan:ReadPlan",
    "Reads": "log.proposal:Reads",
    "RefreshFigures": "log.view:RefreshFigures",
    "RefreshRecord": "log.view:RefreshRecord",
    "RefusedRows": "table.misfits:RefusedRows",
    "Replacement": "replacement:Replacement",
    "Report": "check:Report",
    "Row": "table.record:Row",
    "RowCodec": "codec.row:RowCodec",
    "RowLimit": "limited_plan:RowLimit",
    "Rows": "rows:Rows",
    "SegmentRecord": "log.segment_record:SegmentRecord",
    "SegmentWriter": "segment.writer:SegmentWriter",
    "Snapshot": "snapshot:Snapshot",
    "SortColumn": "limited_plan:SortColumn",
    "StateTable": "table.statetable:StateTable",
    "StorageTable": "table.storagetable:StorageTable",
    "Store": "store:Store",
    "StoreState": "log.state:StoreState",
    "Table": "table.table:Table",
    "TableDefinition": "log.table_definition:TableDefinition",
    "TableProperties": "schema.properties:TableProperties",
    "TableSchema": "schema.schema:TableSchema",
    "TableWriter": "table.tablewriter:TableWriter",
    "Target": "table.document.target:Target",
    "Transaction": "log.entry:Transaction",
    "VacuumReport": "maintenance.vacuum:VacuumReport",
    "Value": "expression.value:Value",
    "ViewClock": "log.view:ViewClock",
    "ViewDefinition": "log.view:ViewDefinition",
    "ViewFailure": "view_failures:ViewFailure",
    "ViewInput": "log.view:ViewInput",
    "ViewProgress": "log.view:ViewProgress",
    "Violations": "log.violations:Violations",
    "WriteTarget": "table.writetarget:WriteTarget",
    "add_up_in_threads": "threaded_aggregate:add_up_in_threads",
    "adds_row": "feed.columns:adds_row",
    "altered_meanwhile_error": "schema_merge:altered_meanwhile_error",
    "arrow": "schema.arrow:",
    "bind_value": "expression.binding:bind_value",
    "cache_of": "objects.cache:cache_of",
    "cast": "schema.cast:",
    "check_action": "table.document.change:check_action",
    "check_replaceable": "replacement:check_replaceable",
    "check_table_name": "log.names:check_table_name",
    "check_ttl": "table.tablewriter:check_ttl",
    "ddl": "schema.ddl:",
    "descriptions_of": "alteration:descriptions_of",
    "document_encoding": "table.encoding:document_encoding",
    "duration_text": "duration:duration_text",
    "encoding_of": "table.encoding:encoding_of",
    "environment_of": "environment_choice:environment_of",
    "feed_fields": "feed.columns:feed_fields",
    "figures": "figures:",
    "generation_of": "table.generation:generation_of",
    "group_name": "aggregate.partial:group_name",
    "html_table": "notebook:html_table",
    "install_command": "extras:install_command",
    "is_feed_column": "feed.columns:is_feed_column",
    "is_quarantine_name": "log.names:is_quarantine_name",
    "is_wider": "alteration:is_wider",
    "iso_time": "instant:iso_time",
    "keep_failure": "view_failures:keep_failure",
    "location_of": "location:location_of",
    "may_be_secret": "location:may_be_secret",
    "measure_name": "aggregate.partial:measure_name",
    "moment_of": "instant:moment_of",
    "moments": "aggregate.moments:",
    "new_table": "table_creation:new_table",
    "next_definition": "replacement:next_definition",
    "no_key_error": "table.rowid:no_key_error",
    "parse_instant": "instant:parse_instant",
    "parse_interval": "duration:parse_interval",
    "positive_seconds": "duration:positive_seconds",
    "quarantine_name": "log.names:quarantine_name",
    "ragged": "codec.ragged:",
    "raise_descriptor_limit": "disk:raise_descriptor_limit",
    "read_failure": "view_failures:read_failure",
    "renamed_table": "replacement:renamed_table",
    "replaced_tables": "user_tables:replaced_tables",
    "replacement_name": "replacement:replacement_name",
    "restored_columns": "restoring:restored_columns",
    "schema_digest": "schema_merge:schema_digest",
    "sequence_segments": "log.sequenced_segment:sequence_segments",
    "type_json": "schema.type_json:",
    "types": "schema.types:",
    "whole_seconds": "duration:whole_seconds",
    "without_expiry": "log.rules:without_expiry",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    path, _, attribute = _PLACES[name].partition(":")
    module = import_module(f"{__name__}.{path}")
    value = globals()[name] = getattr(module, attribute) if attribute else module
    return value


def __dir__() -> list[str]:
    return __all__
