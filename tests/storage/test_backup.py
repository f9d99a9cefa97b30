"""Copies of a store in a folder that is written meanwhile, by the code of docs/guides/backup.md."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relstate.storage import Store
from support.commits import quick_environment
from support.stores import contents

_GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "backup.md"


def back_up_of_the_guide() -> Callable[[str, str], None]:
    """Return the function of the guide that copies a store."""
    (code,) = re.findall(r"```python\n(.*?)```", _GUIDE.read_text(), re.DOTALL)
    (definition,) = re.findall(r"^def back_up.*?(?=^\S)", code, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"shutil": shutil}
    exec(definition, names)
    function: Callable[[str, str], None] = names["back_up"]
    return function


def test_every_copy_of_a_busy_store_is_a_store(tmp_path: Path) -> None:
    """Whatever is written, moved to the archive, or about to be renamed at the time."""
    path, is_over = tmp_path / "store", threading.Event()
    store = Store.create("", environment=quick_environment(path))
    store.create_table("t", "id BIGINT", primary_key=["id"])
    committed = 0

    def write() -> None:
        nonlocal committed
        while not is_over.wait(0.004):
            store.write("t", [{"id": committed}])
            # A commit of another process that is about to be linked, at the end of the listing.
            temporary = path / "_log" / f"{10**20 - 1}.json.{committed:032x}.tmp"
            temporary.write_bytes(b"")
            committed += 1
            temporary.unlink()

    writer = threading.Thread(target=write)
    writer.start()
    back_up = back_up_of_the_guide()
    try:
        number = 0
        while number < 12 or committed <= 32:
            number += 1
            least = committed
            back_up(str(path), str(tmp_path / f"copy {number}"))
            with Store.open(str(tmp_path / f"copy {number}")) as copy:
                assert copy.check().problems == ()
                keys = [key for (key,) in contents(copy, "t")]
                assert keys == list(range(len(keys)))
                assert len(keys) >= least
    finally:
        is_over.set()
        writer.join()
