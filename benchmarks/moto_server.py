"""moto's server with S3's promise: of several create-only puts of one object one succeeds.

moto looks for the object and puts it afterwards; another put may come between. Run as a program,
with the arguments of ``moto.server``.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_put_object = S3Response.put_object
_lock = threading.Lock()


def _put_one_at_a_time(response: S3Response) -> Any:
    with _lock:
        return _put_object(response)


if __name__ == "__main__":
    S3Response.put_object = _put_one_at_a_time  # type: ignore[method-assign, assignment]
    main()
