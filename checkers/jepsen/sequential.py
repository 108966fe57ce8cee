"""sequential: what one client inserted one after another appears in that order (`jepsen.cockroach.sequential`).

`write k` inserts the subkeys `k_0`, `k_1`, … in transactions of their own; `read k` reads them in transactions of their own, the
last first, and answers `[k [… k_1 k_0]]`, with nil for those that it did not find. Under sequential consistency an earlier subkey
is there once a later one was seen, so no nil follows a subkey.
"""

from collections.abc import Hashable, Iterator, Sequence

from checkers.jepsen.found import Finding, Found, Model, Object, reads
from history.errors import HistoryError
from history.foreign.step import Call, short


def findings(keys: Object) -> Iterator[Finding]:
    """Find the reads that saw a later subkey and then missed an earlier one."""
    begun: dict[Hashable, Call] = {}
    for call in sorted((*keys.calls, *keys.failed), key=lambda call: call.start):
        if call.f == "write":
            begun.setdefault(call.argument, call)
    for call in reads(keys.calls):
        key, subkeys = _key_and_subkeys(call)
        newest = next((subkey for subkey in subkeys if subkey is not None), None)
        if newest is None:
            continue
        write = begun.get(key)
        assert call.end is not None
        if write is None or write.start > call.end:
            yield Found("phantom-read", (call.line,), f"line {call.line} reads {short(newest)}, which nobody had begun to write")
        at = subkeys.index(newest)
        if None in subkeys[at:]:
            words = f"line {call.line} reads {short(newest)} and then misses a subkey of {short(key)} that was written before it"
            yield Found("out-of-order", (call.line,) if write is None else (write.line, call.line), words)


def _key_and_subkeys(call: Call) -> tuple[Hashable, Sequence[Hashable]]:
    """The key and the subkeys that a read answered. Raises HistoryError."""
    value = call.result
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple)):
        raise HistoryError(f"line {call.line}: the answer to a read must be [key [subkey …]], not {short(value)}")
    if value[0] != call.argument and call.argument is not None:
        raise HistoryError(f"line {call.line}: the answer to a read of {short(call.argument)} names {short(value[0])}")
    return value[0], value[1]


MODEL = Model(
    name="sequential",
    claim="a read that sees a later insert of a client also sees its earlier ones",
    kinds=("out-of-order", "phantom-read"),
    blind="Stale reads, and reads that saw all subkeys or none.",
    functions=("write", "read"),
    findings=findings,
    keyed=False,
)
