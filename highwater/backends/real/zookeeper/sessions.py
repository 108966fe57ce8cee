"""Ending somebody's ZooKeeper session: another client takes it over by its id and password, and closes it.

The password of a session is no secret from whoever knows its id. ZooKeeper makes it from java.util.Random, seeded with the id
and a constant (ZooKeeperServer.generatePasswd), so that every server of a quorum can check it; here it is worked out in the same
way, and no broker has to tell.
"""

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from highwater.errors import HarnessError

END_TIMEOUT_S = 5.0
_TIMES = 20
_SUPER_SECRET = 0xB3415C00
_PASSWORD_BYTES = 16
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


class SilenceError(HarnessError):
    """ZooKeeper does not answer the laboratory."""


class OverError(HarnessError):
    """There is no such session (any more)."""


def password(session: int) -> bytes:
    """16 bytes, as ZooKeeper makes them."""
    state = ((session ^ _SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    made = bytearray()
    while len(made) < _PASSWORD_BYTES:  # java.util.Random.nextBytes: four bytes of each 32-bit draw, the lowest first
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        made += (state >> 16).to_bytes(4, "little")
    return bytes(made)


def end_session(hosts: str, session: int) -> None:
    """Take it over and close it; its ephemeral znodes go with it. Blocks.

    SilenceError where ZooKeeper does not answer, OverError where the session is over already.
    """
    if not _taken_over_and_closed(hosts, session):
        raise OverError(f"session 0x{session:x} could not be taken over")
    # Its owner may have connected again in between, and then what was closed was a connection: until it cannot be taken any more.
    for _ in range(_TIMES):
        if not _taken_over_and_closed(hosts, session):
            return
    raise SilenceError(f"session 0x{session:x} could not be ended: its owner took it back {_TIMES} times")


def _taken_over_and_closed(hosts: str, session: int) -> bool:
    client = KazooClient(hosts=hosts, timeout=END_TIMEOUT_S, client_id=(session, password(session)))
    try:
        client.start(timeout=END_TIMEOUT_S)
        return client.client_id is not None and client.client_id[0] == session
    except (KazooException, KazooTimeoutError) as error:
        raise SilenceError(f"session 0x{session:x} could not be ended: ZooKeeper did not answer: {error}") from error
    finally:
        client.stop()  # closes whichever session it has, where it is connected
        client.close()
