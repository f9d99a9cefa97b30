"""A process that drives one system: ``python -m benchmarks.peers.worker PEER FOLDER``.

It reads a line of JSON for each operation, ``{"do": name, "with": [arguments]}``, and answers with
one: ``{"seconds": …, "answer": …}``, ``{"missing": reason}`` or ``{"error": text}``. What the
system prints goes to the standard error, so that nothing else reaches the harness.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from .peer import MissingError, Peer


def main(name: str, folder: str) -> None:
    """Answer until the input ends."""
    answers = _private_output()
    peer: Peer | None = None
    try:
        module = importlib.import_module(f".systems.{name}", __package__)
        peer = module.PEER(Path(folder))
        about = {
            "versions": peer.versions(),
            "settings": list(peer.settings),
            "silent": dict(peer.silent),
        }
        _send(answers, about)
        for line in sys.stdin:
            request = json.loads(line)
            _send(answers, _perform(peer, request["do"], request["with"]))
    except Exception as error:
        traceback.print_exc()
        _send(answers, {"error": _short(error)})
    finally:
        if peer is not None:
            peer.close()


def _perform(peer: Peer, operation: str, arguments: list[Any]) -> dict[str, Any]:
    try:
        work = getattr(peer, operation)(*arguments)
        gc.collect()
        start = time.perf_counter()
        result = work.action()
        seconds = time.perf_counter() - start
        answer = work.answer(result)
    except MissingError as reason:
        return {"missing": str(reason)}
    except Exception as error:
        traceback.print_exc()
        return {"error": _short(error)}
    if operation == "stored":
        return {"megabytes": result}
    return {
        "seconds": seconds / work.per,
        "load": os.getloadavg()[0],
        "answer": answer,
    }


def _private_output() -> TextIO:
    """Return the standard output, and let what others print there go to the standard error."""
    private = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return private


def _send(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _short(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:400]


if __name__ == "__main__":
    main(*sys.argv[1:])
