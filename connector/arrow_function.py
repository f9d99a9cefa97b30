"""Whether Spark lets Arrow functions run: it asks for pandas first, which nothing here uses.

Does not know: what the functions do.
"""

from __future__ import annotations

from importlib.util import find_spec

from relstate.storage import errors


def check_arrow_functions(what: str, extra: str) -> None:
    """SessionError where Spark would refuse the functions that ``what`` runs, without pandas."""
    if find_spec("pandas") is None:
        raise errors.SessionError(
            f"{what} run an Arrow function of Spark's, and Spark asks for pandas before it does: "
            f'pip install "relstate[{extra}]"'
        )
