"""Values of VARIANT: the fields of objects are parts, each under its key, at any depth.

Arrays and plain values have no parts. What is written below a value that is not an object makes it
one of what is written there, as a JSON merge patch does.

What a row holds and is not a variant, as a table of rows may, is NULL of JSON where a part of it
changes: what is written below replaces it. A part is a variant, or its file is damaged.

Promises: a value that is collected has the fields of its objects in the order of their keys; the
metadata of a part has the keys in it, and no others.
Does not know: which of several parts at a path counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ...codec.key_field import Tagged, key_field_of
from ...codec.path import LIVENESS, extended
from ...codec.ragged import (
    Bytes,
    Positions,
    constant,
    from_binary,
    lengths_of,
    load,
    parts_of,
)
from ...codec.variant import (
    MOST_LEVELS,
    NULL,
    Node,
    Tree,
    components,
    parse,
    parse_stored,
)
from ...codec.variant_build import build
from ...errors import SchemaMismatchError
from ...schema import types as t
from ...segment.key import Kind
from .itemkeys import begin_items, read_keys
from .part import Parts
from .shape import MOST_DEPTH, Branch, Flags, Leaf, PutParts, Shape, scattered

DEEPEST = MOST_LEVELS + MOST_DEPTH
"""How many objects and arrays are in one another at most: some make a path to others."""
_KEY = Tagged(key_field_of(t.String()))


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes of a tree at one depth: each with its path, and the number of the value it is in.

    ``is_leaf``: which are stored whole.
    """

    depth: int
    nodes: Positions
    owners: Positions
    paths: Bytes
    is_leaf: Flags


class VariantShape(Shape):
    """Variants."""

    has_parts = True

    def __init__(self, depth: int) -> None:
        super().__init__(t.Variant(), depth)

    @cached_property
    def _item(self) -> Shape:
        depth = self.depth + 1
        return VariantShape(depth) if depth < MOST_DEPTH else Leaf(t.Variant(), depth)

    def explode(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return an OBJECT for each object, and a PUT for each other value in one; and NULLs."""
        return self._exploded(values, paths, parse_stored)

    def explode_stored(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return what `explode` does. ValueError if the bytes of a value are not a variant."""
        return self._exploded(values, paths, parse)

    def _exploded(
        self, values: pa.Array, paths: Bytes, read: Callable[[Bytes, Bytes, int], Tree]
    ) -> Parts:
        """Return all parts of some values, whose bytes are parsed by ``read``."""
        pieces = [self._nulls(values, paths, Kind.PUT)]
        rows, present = _present(values)
        tree = read(*_bytes_of(present), DEEPEST)
        levels = list(self._levels(tree, rows, paths.take(pa.array(rows))))
        pieces.append(self._puts(tree, levels, [level.is_leaf for level in levels]))
        pieces += [_without_values(level, ~level.is_leaf, Kind.OBJECT) for level in levels]
        return Parts.joined(pieces)

    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return a DELETE for each NULL, of SQL or of JSON, and a PUT for each array and the rest.

        An object is merged; one that gives nothing a value has a LIVENESS. SchemaMismatchError for
        bytes that are not a variant.
        """
        pieces = [self._nulls(values, paths, Kind.DELETE)]
        rows, present = _present(values)
        try:
            tree = parse(*_bytes_of(present))
        except ValueError as error:
            raise SchemaMismatchError(f"a value of a patch is not a variant: {error}") from None
        levels = list(self._levels(tree, rows, paths.take(pa.array(rows))))
        nulls = [_equal_bytes(tree.plain, level.nodes, NULL) for level in levels]
        flags = [level.is_leaf & ~null for level, null in zip(levels, nulls, strict=True)]
        pieces.append(self._puts(tree, levels, flags))
        pieces += [
            _without_values(level, null, Kind.DELETE)
            for level, null in zip(levels, nulls, strict=True)
        ]
        is_bare = ~_have_values(tree)
        pieces += [_livenesses(level, ~level.is_leaf & is_bare[level.nodes]) for level in levels]
        return Parts.joined(pieces)

    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the parts in the fields."""
        is_liveness = _are_liveness(parts, rows, starts)
        rows, starts = rows[~is_liveness], starts[~is_liveness]
        if len(rows):
            yield Branch(self._item, rows, starts + read_keys(_KEY, parts, rows, starts)[1])

    def collect(self, count: int, parts: Parts, starts: Positions) -> pa.Array:
        """Return the variants; a value with parts below it is an object of these."""
        tree, is_there = self._tree(count, parts, starts)
        roots = np.flatnonzero(is_there)
        columns = [array.cast(pa.binary()) for array in build(tree, roots)]
        variants = pa.StructArray.from_arrays(columns, fields=list(self.arrow_type))
        return scattered(variants, roots, count)

    def _nulls(self, values: pa.Array, paths: Bytes, kind: Kind) -> Parts:
        """Return a part of a kind for each value that is NULL."""
        rows = np.flatnonzero(~np.asarray(values.is_valid()))
        chosen = pa.array(rows)
        kinds = np.full(len(rows), kind, np.uint8)
        return self._parts(values.take(chosen), paths.take(chosen), kinds).owned_by(rows)

    def _levels(self, tree: Tree, owners: Positions, paths: Bytes) -> Iterator[_Level]:
        """Yield the nodes of a tree that are parts; the values have some owners and paths."""
        nodes = np.arange(len(owners))
        for depth in range(self.depth, MOST_DEPTH + 1):
            is_leaf = (tree.kinds[nodes] != Node.OBJECT) | (depth == MOST_DEPTH)
            yield _Level(depth, nodes, owners, paths, is_leaf)
            inner = np.flatnonzero(~is_leaf)
            above = np.repeat(inner, tree.counts[nodes[inner]])
            nodes = tree.items(nodes[inner])
            if not len(nodes):
                return
            owners = owners[above]
            keys = components(tree.keys.take(pa.array(nodes)))
            paths = extended(paths.take(pa.array(above)), keys)

    def _puts(self, tree: Tree, levels: Sequence[_Level], flags: Sequence[Flags]) -> Parts:
        """Return the flagged nodes of some levels as parts that are stored whole."""
        pairs = [*zip(levels, flags, strict=True)]
        nodes = [np.empty(0, np.int64), *(level.nodes[flagged] for level, flagged in pairs)]
        columns = [array.cast(pa.binary()) for array in build(tree, np.concatenate(nodes))]
        values = pa.StructArray.from_arrays(columns, fields=list(self.arrow_type))
        parts = Parts.joined(
            [_without_values(level, flagged, Kind.PUT) for level, flagged in pairs]
        )
        return Parts(parts.owners, parts.paths, parts.depths, parts.kinds, self.encode(values))

    def _tree(self, count: int, parts: Parts, starts: Positions) -> tuple[Tree, Flags]:
        """Return the values as a tree, whose first nodes they are, and which there are."""
        parents, keys = [np.full(count, -1)], [constant(b"", count)]
        owned: list[Positions] = []
        live = [np.empty(0, np.int64)]
        rows, owners, first = np.arange(len(parts)), parts.owners, 0
        while True:
            is_own = starts == lengths_of(parts.paths)[rows]
            own = np.full(len(parents[-1]), -1)
            own[owners[is_own]] = rows[is_own]
            owned.append(own)
            rows, owners, starts = rows[~is_own], owners[~is_own], starts[~is_own]
            is_liveness = _are_liveness(parts, rows, starts)
            live.append(first + owners[is_liveness])
            rows, owners, starts = rows[~is_liveness], owners[~is_liveness], starts[~is_liveness]
            if not len(rows):
                break
            texts, sizes = read_keys(_KEY, parts, rows, starts)
            members = parts.take(rows)
            members = Parts(owners, members.paths, members.depths, members.kinds, members.bodies)
            is_first = begin_items(members, starts, starts + sizes)
            parents.append(first + owners[is_first])
            keys.append(from_binary(texts).filter(pa.array(is_first)))
            first += len(own)
            owners, starts = np.cumsum(is_first) - 1, starts + sizes
        all_owned = np.concatenate(owned)
        is_object = np.bincount(np.concatenate(parents)[count:], minlength=len(all_owned)) > 0
        is_object[np.concatenate(live)] = True
        return self._grown(parts, parents, keys, all_owned, is_object)

    def _grown(
        self,
        parts: Parts,
        parents: list[Positions],
        keys: list[Bytes],
        owned: Positions,
        is_object: Flags,
    ) -> tuple[Tree, Flags]:
        """Return the tree of some nodes with the values of those that are stored whole.

        ``owned``: the part of each node, -1 where only parts below it are there. ``is_object``:
        the nodes that have fields, or of which a liveness says that they are objects.
        """
        nodes = len(owned)
        is_put = (owned >= 0) & ~is_object
        is_put[is_put] = parts.kinds[owned[is_put]] == Kind.PUT
        values = self.decode(parts.bodies.take(pa.array(owned[is_put])))
        is_null = ~np.asarray(values.is_valid())
        leaves = np.flatnonzero(is_put)[~is_null]
        present = values.filter(pa.array(~is_null))
        below = parse_stored(*_bytes_of(present), DEEPEST)
        rest = slice(len(leaves), None)
        numbers = np.concatenate([leaves, nodes + np.arange(len(below.parents) - len(leaves))])
        kinds = np.full(nodes, Node.OBJECT, np.uint8)
        kinds[leaves] = below.kinds[: len(leaves)]
        plain = np.full(nodes, -1)
        plain[leaves] = np.arange(len(leaves))
        texts = pa.concat_arrays([below.plain.slice(0, len(leaves)), constant(b"", 1)])
        tree = Tree(
            np.concatenate([*parents, numbers[below.parents[rest]]]),
            pa.concat_arrays([*keys, below.keys.slice(len(leaves))]),
            np.concatenate([kinds, below.kinds[rest]]),
            pa.concat_arrays(
                [
                    texts.take(pa.array(np.where(plain < 0, len(leaves), plain))),
                    below.plain.slice(len(leaves)),
                ]
            ),
        )
        is_there = is_object | (owned >= 0)
        is_there[np.flatnonzero(is_put)[is_null]] = False
        return tree, is_there[: len(parents[0])]


def _present(values: pa.Array) -> tuple[Positions, pa.Array]:
    """Return (the indices of the values that are not NULL, these values)."""
    rows = np.flatnonzero(np.asarray(values.is_valid()))
    return rows, values.take(pa.array(rows))


def _bytes_of(variants: pa.Array) -> tuple[Bytes, Bytes]:
    """Return the values and the metadata of some variants, none of them NULL."""
    return from_binary(variants.field("value")), from_binary(variants.field("metadata"))


def _without_values(level: _Level, flags: Flags, kind: Kind) -> Parts:
    """Return the flagged nodes of a level as parts of a kind, without values."""
    rows = np.flatnonzero(flags)
    count = len(rows)
    return Parts(
        level.owners[rows],
        level.paths.take(pa.array(rows)),
        np.full(count, level.depth, np.uint8),
        np.full(count, kind, np.uint8),
        constant(b"", count),
    )


def _equal_bytes(array: Bytes, indices: Positions, value: bytes) -> NDArray[np.bool_]:
    """Return which of some values of a bytes array are these bytes."""
    equal: NDArray[np.bool_] = np.asarray(
        pc.equal(array.take(pa.array(indices)), pa.scalar(value, pa.large_binary()))
    )
    return equal


def _have_values(tree: Tree) -> Flags:
    """Return which nodes have an item that is not JSON's null."""
    is_value = ~_equal_bytes(tree.plain, np.arange(len(tree.parents)), NULL)
    have_values = np.zeros(len(tree.parents), np.bool_)
    have_values[tree.parents[is_value & (tree.parents >= 0)]] = True
    return have_values


def _livenesses(level: _Level, flags: Flags) -> Parts:
    """Return a LIVENESS for each flagged node of a level."""
    parts = _without_values(level, flags, Kind.LIVENESS)
    paths = extended(parts.paths, LIVENESS)
    return Parts(parts.owners, paths, parts.depths + np.uint8(1), parts.kinds, parts.bodies)


def _are_liveness(parts: Parts, rows: Positions, starts: Positions) -> Flags:
    """Return which parts are a liveness of the value whose path ends at ``starts``.

    ``rows``: the indices of the parts. ValueError for a path that goes on below one.
    """
    data, offsets = parts_of(parts.paths)
    positions = offsets[:-1][rows] + starts
    are_liveness: Flags = load(data, positions, "u1") == LIVENESS[0]
    if (positions + len(LIVENESS) != offsets[1:][rows])[are_liveness].any():
        raise ValueError("a path goes on below the liveness of an object")
    return are_liveness
