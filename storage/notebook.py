"""Tables of HTML, for notebooks: what `_repr_html_` returns.

Promises: every text is escaped. Does not know: what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption; numbers are aligned right, with separators."""
    from html import escape

    cells = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = (f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,}</td>'
    from html import escape

    return f"<td>{escape(str(value))}</td>"
