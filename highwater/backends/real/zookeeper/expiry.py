"""Expire a broker's ZooKeeper session: another client takes it over by its id and password and closes it.

The password can be computed from the session id. ZooKeeper takes it from java.util.Random, seeded with the id and a constant
(ZooKeeperServer.generatePasswd), so that every server of a quorum can check it. `password` does the same; the broker is not
asked.
"""

from time import monotonic

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
    """Raised when ZooKeeper does not answer a request of the harness in time."""


class OverError(HarnessError):
    """Raised when the ZooKeeper session to be expired does not exist or has ended already."""


def password(session: int) -> bytes:
    """The 16-byte password that ZooKeeper gives to this session id, needed to take the session over."""
    state = ((session ^ _SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    digits = bytearray()
    while len(digits) < _PASSWORD_BYTES:  # java.util.Random.nextBytes: four bytes of each 32-bit draw, the lowest first
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        digits += (state >> 16).to_bytes(4, "little")
    return bytes(digits)


def end_session(hosts: str, session: int) -> None:
    """End another client's ZooKeeper session, with its ephemeral znodes. Blocks.

    Raises SilenceError if ZooKeeper does not answer, OverError if the session has ended already.
    """
    if not _is_taken_over_and_closed(hosts, session):
        raise OverError(f"session 0x{session:x} could not be taken over: it has ended already or never existed")
    # If the owner reconnected between takeover and close, only a connection was closed. Repeat until a takeover fails.
    for _ in range(_TIMES):
        if not _is_taken_over_and_closed(hosts, session):
            return
    raise SilenceError(f"session 0x{session:x} could not be ended: its owner reconnected {_TIMES} times")


def _is_taken_over_and_closed(hosts: str, session: int) -> bool:
    """Take the session over and close it; False if it was over before. Raises SilenceError without an answer."""
    client = KazooClient(hosts=hosts, timeout=END_TIMEOUT_S, client_id=(session, password(session)))
    began = monotonic()
    try:
        client.start(timeout=END_TIMEOUT_S)
        return client.client_id is not None and client.client_id[0] == session
    except (KazooException, KazooTimeoutError) as error:
        if isinstance(error, KazooTimeoutError) and monotonic() - began < END_TIMEOUT_S:
            return True  # kazoo connected and lost the connection at once: the owner has taken its session back
        raise SilenceError(f"session 0x{session:x} could not be ended: ZooKeeper did not answer: {error}") from error
    finally:
        client.stop()  # if connected, this closes the session that the client has
        client.close()
