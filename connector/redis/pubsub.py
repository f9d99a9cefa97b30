"""Channels: SUBSCRIBE, PSUBSCRIBE, PUBLISH and their like.

Messages are not stored: who is not subscribed when one is published does not get it.
"""

from __future__ import annotations

from .command import Arguments
from .patterns import glob
from .replies import CommandError, Push, Reply, Several
from .service import Subscribers
from .session import Session, SessionCommand


def _channels_of(session: Session, name: bytes) -> tuple[dict[bytes, None], Subscribers]:
    """Return what the client is subscribed to, and all subscribers: of channels or of patterns."""
    if name.startswith(b"P"):
        return session.patterns, session.service.patterns
    return session.channels, session.service.channels


def _subscribe(session: Session, args: Arguments) -> Reply:
    name = args[0].upper()
    own, subscribers = _channels_of(session, name)
    if subscribers is session.service.patterns:
        for pattern in args[1:]:
            glob(pattern)
    messages: list[Reply] = []
    for channel in args[1:]:
        own[channel] = None
        subscribers.add(channel, session)
        messages.append(Push([name.lower(), channel, session.subscriptions]))
    return Several(messages)


def _unsubscribe(session: Session, args: Arguments) -> Reply:
    name = args[0].upper()
    own, subscribers = _channels_of(session, name)
    messages: list[Reply] = []
    for channel in args[1:] or list(own):
        if own.pop(channel, session) is None:
            subscribers.remove(channel, session)
        messages.append(Push([name.lower(), channel, session.subscriptions]))
    return Several(messages or [Push([name.lower(), None, session.subscriptions])])


def _publish(session: Session, args: Arguments) -> Reply:
    return session.service.publish(args[1], args[2])


def _pubsub(session: Session, args: Arguments) -> Reply:
    service = session.service
    match args[1].upper():
        case b"CHANNELS" if len(args) <= 3:
            pattern = glob(args[2] if len(args) == 3 else b"*")
            return pattern.filter(service.channels.names())
        case b"NUMSUB":
            counts = ((channel, len(service.channels.of(channel))) for channel in args[2:])
            return [item for pair in counts for item in pair]
        case b"NUMPAT" if len(args) == 2:
            return len(service.patterns.names())
    shown = args[1].decode(errors="replace")
    raise CommandError(f"ERR unknown subcommand '{shown}'. Try PUBSUB HELP.")


_FLAGS = frozenset({"pubsub", "noscript"})
COMMANDS: dict[str, SessionCommand] = {
    "psubscribe": SessionCommand(_subscribe, -2, _FLAGS),
    "publish": SessionCommand(_publish, 3, frozenset({"pubsub", "fast"})),
    "pubsub": SessionCommand(_pubsub, -2, frozenset({"pubsub"})),
    "punsubscribe": SessionCommand(_unsubscribe, -1, _FLAGS),
    "subscribe": SessionCommand(_subscribe, -2, _FLAGS),
    "unsubscribe": SessionCommand(_unsubscribe, -1, _FLAGS),
}
