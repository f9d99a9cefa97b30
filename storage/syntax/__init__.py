"""Spark's SQL, read as tokens and trees and written again: the one dialect of relstate.

Read in this order: node (trees and their marks), literals (the values of strings), parser and
generator (sqlglot's, corrected), dialect (both of them, and the tokens), tree (a text to a tree and
back).

sqlglot knows functions of many dialects and translates between them: what it translates it may
change. So the parser here knows few functions; any other stays a name and its arguments.

Promises: string literals have the values that Spark gives them; what is parsed and written again
means to Spark what it meant before, except where the connector's analysis of a view refuses it.
Does not know: which names are columns, or their types. Importing it loads sqlglot: lookups and
tasks never do.
"""

from .dialect import Dialect
from .node import IS_NOT, LITERAL, MAX_LEVEL, SUFFIX, Tree
from .tree import (
    describe_read_error,
    excerpt,
    operands,
    parse_condition,
    parse_tokens,
    text_of,
    tokenize,
    without_outer_comments,
)

__all__ = [
    "IS_NOT",
    "LITERAL",
    "MAX_LEVEL",
    "SUFFIX",
    "Dialect",
    "Tree",
    "describe_read_error",
    "excerpt",
    "operands",
    "parse_condition",
    "parse_tokens",
    "text_of",
    "tokenize",
    "without_outer_comments",
]
