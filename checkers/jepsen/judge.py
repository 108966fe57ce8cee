"""Judge a history by one of the models of Jepsen's that look at the answers to reads.

    >>> from checkers.jepsen.judge import judge
    >>> from history.foreign.read import history_of
    >>> lines = "{:process 0 :type :invoke :f :add :value 2} {:process 1 :type :invoke :f :read :value nil}"
    >>> [a.kind for a in judge("counter", history_of(lines + "{:process 1 :type :ok :f :read :value 3}")).anomalies]
    ['above-upper-bound']

Each model is a module with a function that finds anomalies in the calls on one object. A history without an answer that could
have been wrong, such as that of a read, is UNKNOWN. Rules and shapes of operations are those of Jepsen 0.3 (`jepsen.tests`,
`jepsen.checker`), of its former tests of CockroachDB (`jepsen.cockroach`) and of Maelstrom; what is judged beyond them is written
at each model.
"""

from collections.abc import Hashable, Iterator

from msgspec.structs import replace

from checkers.engine.verdict import Anomaly, Validity
from checkers.jepsen import adya, bank, comments, counter, long_fork, monotonic, sequential, set_full, total_queue, unique_ids
from checkers.jepsen.found import Found, Model, Note, Object, Unchecked, reads
from checkers.linearizability.independent import by_key
from checkers.linearizability.judge import Judgement, name_of_key
from history.errors import HistoryError
from history.foreign.pairing import Paired
from history.foreign.step import Call

MODELS: tuple[Model, ...] = (
    bank.MODEL,
    long_fork.MODEL,
    counter.MODEL,
    set_full.MODEL,
    sequential.MODEL,
    comments.MODEL,
    monotonic.MODEL,
    set_full.BROADCAST,
    total_queue.MODEL,
    unique_ids.MODEL,
    adya.MODEL,
)
NAMES = tuple(model.name for model in MODELS)
WITH_INITIAL = ("bank", "counter")
_OF_A_KIND_MAX = 8


def judge(name: str, history: Paired, *, initial: Hashable = None, strict: bool = False) -> Judgement:
    """Judge a history by the model of this name, one of `NAMES`. `initial`: of the models `WITH_INITIAL`; None for their own.

    `strict`: linearizability is asked for (set-full). HistoryError for a call that the model does not have; KeyError for an
    unknown model.
    """
    if name not in NAMES:
        raise KeyError(name)
    model = MODELS[NAMES.index(name)]
    anomalies: list[Anomaly] = []
    unchecked = list(history.unsure)
    notes = []
    for key, object_ in _objects(model, history):
        object_findings = [*model.findings(object_._replace(initial=initial, strict=strict))]
        about = "" if key is None else f"key {name_of_key(key)}: "
        anomalies += _anomalies(name, key, [finding for finding in object_findings if isinstance(finding, Found)])
        unchecked += [about + finding.words for finding in object_findings if isinstance(finding, Unchecked)]
        notes += [about + finding.words for finding in object_findings if isinstance(finding, Note)]
    if not any(reads(history.calls, f) for f in model.answers):
        unchecked = [f"no {' or '.join(model.answers)} certainly returned"]
    return Judgement(
        validity=Validity.INVALID if anomalies else Validity.UNKNOWN if unchecked else Validity.VALID,
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        notes=tuple(notes),
        operations=len(history.calls) + len(history.failed),
    )


def _objects(model: Model, history: Paired) -> Iterator[tuple[Hashable, Object]]:
    """The calls on each object, with keys and values separated where the history has independent keys."""
    calls = [*history.calls, *(replace(call, index=-1) for call in history.failed)]
    for call in calls:
        if call.f not in model.functions:
            allowed = " and ".join(model.functions)
            raise HistoryError(f"line {call.line}: {call.f} is not a function of {model.name}; allowed are {allowed}")
    calls_by_object: dict[Hashable, tuple[list[Call], list[Call]]] = {}
    for call in by_key(calls) if model.keyed else calls:
        calls_by_object.setdefault(call.key, ([], []))[call.index < 0].append(call)
    for key, (calls_of_key, failed) in calls_by_object.items():
        yield key, Object(calls_of_key, failed)


def _anomalies(name: str, key: Hashable, findings: list[Found]) -> Iterator[Anomaly]:
    """The first anomalies of each kind."""
    counted: dict[str, int] = {}
    for finding in findings:
        counted[finding.kind] = counted.get(finding.kind, 0) + 1
        if counted[finding.kind] <= _OF_A_KIND_MAX:
            yield Anomaly(kind=finding.kind, checker=name, key=name_of_key(key), witness=finding.lines, words=finding.words)
