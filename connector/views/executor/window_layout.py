"""The state table of a window: the rows, their values, and what running functions carry on.

Does not know: how functions are computed.
"""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import arrow, types
from relstate.vnode import cached_property

from ..plan.node import Order, free_name
from ..plan.window import OrderedCall, OrderedWindow, WindowFunction
from .executor import StateTableSpec
from .rowkeys import RowKeys
from .window_values import carried_types


class WindowLayout:
    """The columns of the state of one operator."""

    def __init__(self, node: OrderedWindow) -> None:
        self._node = node
        used_names = {name.lower() for name in node.names}
        self._hidden = {
            call.output.name: tuple(
                types.Field(free_name(f"{call.output.name}_{ending}", used_names), data_type)
                for ending, data_type in carried_types(call, self.argument_type(call))
            )
            for call in node.calls
        }

    def argument_type(self, call: OrderedCall) -> types.DataType | None:
        """Return the type of a function's argument; None if it has none."""
        return None if call.argument is None else self._node.child.type_of(call.argument)

    def carried_by(self, call: OrderedCall) -> tuple[types.Field, ...]:
        """Return the columns from which the value of the next row follows."""
        is_own = call.function is WindowFunction.LAST_VALUE and not call.ignores_nulls
        if not call.is_running or is_own:
            return ()
        hidden = self._hidden[call.output.name]
        if call.function is WindowFunction.NTH_VALUE:
            return (*hidden, call.output)
        return hidden or (call.output,)

    @cached_property
    def order(self) -> tuple[Order, ...]:
        """The primary key: the partition, the order, the rest of the child's key."""
        return self._node.whole_order

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """All columns: the operator's, and those that only the state has."""
        hidden = (field for fields in self._hidden.values() for field in fields)
        return (*self._node.fields, *hidden)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return arrow.arrow_schema(self.fields)

    @cached_property
    def table(self) -> StateTableSpec:
        """The table."""
        distribution = self._node.distribution or ()
        return StateTableSpec.of_rows("rows", self.fields, self.order, distribution)

    @cached_property
    def carried(self) -> tuple[types.Field, ...]:
        """The columns from which the values of the next row follow."""
        return tuple(field for call in self._node.calls for field in self.carried_by(call))

    @cached_property
    def inputs(self) -> tuple[types.Field, ...]:
        """The fields that the functions read."""
        names = dict.fromkeys(name for call in self._node.calls for name in call.inputs)
        return tuple(types.Field(name, self._node.child.type_of(name)) for name in names)

    @cached_property
    def values(self) -> tuple[types.Field, ...]:
        """The columns in which rows of one key may differ."""
        return RowKeys(self.fields, self.order).values(self.fields)

    @cached_property
    def shown_values(self) -> tuple[types.Field, ...]:
        """Those of the values that the operator returns."""
        shown = set(self._node.names)
        return tuple(field for field in self.values if field.name in shown)
