"""unique-ids: no id is answered twice (`jepsen.checker/unique-ids`).

`generate` answers an id of any kind; nil is none.
"""

from collections.abc import Hashable, Iterator

from checkers.jepsen.found import Finding, Found, Model, Object, Unchecked, reads
from history.foreign.step import Call, short


def findings(ids: Object) -> Iterator[Finding]:
    """Find the ids that were answered before. A single id could not have been wrong."""
    first_calls: dict[Hashable, Call] = {}
    answered = [call for call in reads(ids.calls, "generate") if call.result is not None]
    if len(answered) < 2:
        yield Unchecked("fewer than two ids were answered")
    for call in answered:
        first = first_calls.setdefault(call.result, call)
        if first is not call:
            words = f"line {call.line} is answered {short(call.result)}, as line {first.line} was"
            yield Found("duplicate", (first.line, call.line), words)


MODEL = Model(
    name="unique-ids",
    claim="no id is answered twice",
    kinds=("duplicate",),
    blind="Ids of calls without an answer; the order of ids.",
    functions=("generate",),
    answers=("generate",),
    findings=findings,
    keyed=False,
)
