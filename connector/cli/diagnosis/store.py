"""Whether a store can be read and written here."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from relstate.storage import Environment, Store, environment_of, errors

from ..surroundings import Surroundings
from .finding import Finding, problem, warning, well

# What many systems give; fewer make relstate close and open segments all the time.
FEW_DESCRIPTORS = 1024


def judge_store(surroundings: Surroundings, path: str) -> Iterator[Finding]:
    """Yield whether a store opens, and whether its file system and this process are fit for it."""
    try:
        environment = environment_of(path)
        with Store.open(path, environment=environment) as store:
            found = f"{store.path}: {len(store.tables())} tables at epoch {store.epoch}"
    except errors.RelstateError as error:
        advice = "give the path of a store, or repair what the message says"
        yield problem("store", f"{type(error).__name__}: {error}", advice)
    else:
        yield well("store", found)
        yield _judge_links(environment)
    yield _judge_descriptors(surroundings)


def _judge_links(environment: Environment) -> Finding:
    """Create a file as a commit does and remove it."""
    subject = "hard links"
    name = f".doctor-{environment.random_id()}"
    try:
        environment.put_if_absent(name, b"")
        environment.remove(name)
    except errors.RelstateError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EROFS):
            found = "this user cannot write into the store, so they could not be tried"
            return warning(subject, found, "run doctor as the user who writes")
        advice = "put the store on a local POSIX file system with hard links"
        return problem(subject, str(error), advice)
    return well(subject, "the store's file system has them")


def _judge_descriptors(surroundings: Surroundings) -> Finding:
    subject = "open files"
    limit = surroundings.descriptor_limit()
    if limit is not None and limit < FEW_DESCRIPTORS:
        found = f"a process may have {limit} open"
        return warning(subject, found, f"raise the limit: ulimit -n {4 * FEW_DESCRIPTORS}")
    return well(subject, f"a process may have {'any number' if limit is None else limit} open")
