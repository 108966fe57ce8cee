"""What a certificate says: which history, which question, which verdict, and the witness that proves it (docs/certificates.md).

Operations are numbered in the order of invocation from 0, those that certainly failed behind all others. A `Place` is one
micro-operation of a transaction: the number of the operation, and the position in it.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from history.foreign.pairing import Paired
from history.foreign.step import Call, shown

FORMAT = 1


class Refused(Exception):  # noqa: N818 - the certificate is refused; the verifier has not failed
    """Raised with the reason why a certificate proves nothing."""


def must(holds: object, words: str) -> None:
    """Raise Refused with these words unless it holds."""
    if not holds:
        raise Refused(words)


Place = tuple[int, int]


class Linearization(Struct, frozen=True, kw_only=True, tag="linearization", tag_field="kind"):
    """An order of the calls that explains every answer. A call of unknown outcome that is not in it had no effect."""

    order: tuple[int, ...]


class NoLinearization(Struct, frozen=True, kw_only=True, tag="no-linearization", tag_field="kind"):
    """Calls that no order explains, whatever the others did: each of the others may act at any time that it had, or not at all.

    `last` is the call that fits nowhere, and `before` an order of the calls up to just before its return; () if none is known.
    """

    kept: tuple[int, ...]
    last: int
    before: tuple[int, ...] = ()


class TransactionOrder(Struct, frozen=True, kw_only=True, tag="transaction-order", tag_field="kind"):
    """The order in which transactions committed. `snapshots`: how many of these commits each of them sees; () if it sees all.

    A transaction of unknown outcome that is not in it did not commit.
    """

    order: tuple[int, ...]
    snapshots: tuple[int, ...] = ()


class Edge(Struct, frozen=True, kw_only=True):
    """A dependency: `source` comes before `target`. `at` holds the places in the history that show it, and `shown` their values.

    wr: the write and the read that shows it. rw: the read and the write that it lacks. ww: the earlier write and the later one.
    process, realtime: nothing. A ww of a list also has the read that shows the earlier one. A ww or rw of a register also has
    what orders its versions: nothing after nil; the read of the earlier one by the transaction that wrote the later one; a place
    that left the earlier one and a place that found the later one; or two reads of one transaction (`verifier.transactions`).
    """

    source: int
    target: int
    kind: Literal["ww", "wr", "rw", "process", "realtime"]
    at: tuple[Place, ...] = ()
    shown: str = ""


class Cycle(Struct, frozen=True, kw_only=True, tag="cycle", tag_field="kind"):
    """Dependencies of which each begins where the one before it ends: a contradiction that the level forbids."""

    edges: tuple[Edge, ...]


class Case(Struct, frozen=True, kw_only=True):
    """A forbidden cycle that exists if, of each of these pairs of writes to one key, the first is the earlier one."""

    assumed: tuple[tuple[Place, Place], ...]
    edges: tuple[Edge, ...]


class NoVersionOrder(Struct, frozen=True, kw_only=True, tag="no-version-order", tag_field="kind"):
    """Cases of which every order of the writes has one."""

    cases: tuple[Case, ...]


class Oddity(Struct, frozen=True, kw_only=True, tag="anomaly", tag_field="kind"):
    """An anomaly that needs no cycle: its name, and the places or operations that show it."""

    name: str
    at: tuple[Place, ...]


class Answers(Struct, frozen=True, kw_only=True, tag="answers", tag_field="kind"):
    """An anomaly of a model that looks at answers one by one, and the operations that show it, in the order of its rule.

    The rules are in `verifier.answers`: an element that is lost is shown by its addition and the read that misses it.
    """

    name: str
    operations: tuple[int, ...]


Witness = Linearization | NoLinearization | TransactionOrder | Cycle | NoVersionOrder | Oddity | Answers


class Certificate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verdict on a history with its witness. `words` are for the reader and prove nothing.

    `model` and `initial` are as given to `highwater check`; `level` is the isolation level of transactions, "" of other models.
    """

    format: int
    history: str  # `digest_of` the history
    model: str
    initial: str
    level: str
    verdict: Literal["VALID", "INVALID"]
    witness: Witness
    words: str = ""


def digest_of(history: Paired) -> str:
    """Return 32 hex digits over everything that is known of the operations of a history."""
    state = blake2b(digest_size=16)
    for part in (history.calls, history.failed):
        for call in part:
            state.update(_line(call).encode(errors="surrogatepass"))
        state.update(b"\n\n")
    return state.hexdigest()


def _line(call: Call) -> str:
    fields: Sequence[object] = (call.line, call.f, call.start, call.end)
    return f"{fields!r} {' '.join(shown(value) for value in (call.process, call.key, call.argument, call.result))}\n"
