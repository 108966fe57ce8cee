"""Judging histories: of linearizable objects, of transactions, of queues like Kafka, and whole runs of a replicated log.

A history from anywhere is read from a file (Jepsen's EDN or JSON, Porcupine's logs) or written down as here. Whether one order
of all calls explains a register:

    >>> from checkers import history_of, judge_calls, model_named
    >>> lines = '''{:process 0 :type :invoke :f :write :value 1} {:process 0 :type :ok :f :write :value 1}
    ... {:process 1 :type :invoke :f :read :value nil} {:process 1 :type :ok :f :read :value 0}'''
    >>> judge_calls(model_named("register", initial=0), history_of(lines).calls).anomalies[0].words
    'read -> 0 of line 2 cannot follow the 1 calls that can be put in order before it: the state is 1'

Whether transactions are isolated as was promised:

    >>> from checkers import judge_transactions
    >>> one = "{:process 0 :type :%s :value [[:append :x 1] [:r :y nil]]}"
    >>> two = "{:process 1 :type :%s :value [[:append :y 1] [:r :x nil]]}"
    >>> skew = one % "invoke" + two % "invoke" + one % "ok" + two % "ok"
    >>> [found.kind for found in judge_transactions("list-append", history_of(skew), ("serializable",)).anomalies]
    ['G2-item']

What a checker of runs says of a few rows:

    >>> from checkers import sketch
    >>> sketch("offset-agreement", "ok poll offset=0 value=a", "ok poll offset=0 value=b")
    ['inconsistent-offsets']

What is VALID, INVALID or UNKNOWN says `validity`, why it could not be judged `unchecked`. docs/properties.md says what each judge
claims and what it cannot see. Names are loaded when they are asked for: a run of Spark needs no judge of transactions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.elle.consistency import FORBIDS
    from checkers.elle.judge import judge as judge_transactions
    from checkers.kafka.judge import judge as judge_queue
    from checkers.linearizability.judge import Judgement
    from checkers.linearizability.judge import judge as judge_calls
    from checkers.linearizability.registry import NAMES, model_named
    from checkers.single import judge as judge_run
    from checkers.sketches import sketch
    from checkers.verdict import Anomaly, Validity, Verdict
    from history.foreign.read import calls as read_history
    from history.foreign.read import history_of
    from history.foreign.read import steps as read_steps

# Name -> the module that has it, and its name there.
_PLACES = {
    "FORBIDS": ("checkers.elle.consistency", "FORBIDS"),
    "judge_transactions": ("checkers.elle.judge", "judge"),
    "judge_queue": ("checkers.kafka.judge", "judge"),
    "Judgement": ("checkers.linearizability.judge", "Judgement"),
    "judge_calls": ("checkers.linearizability.judge", "judge"),
    "NAMES": ("checkers.linearizability.registry", "NAMES"),
    "model_named": ("checkers.linearizability.registry", "model_named"),
    "judge_run": ("checkers.single", "judge"),
    "sketch": ("checkers.sketches", "sketch"),
    "Anomaly": ("checkers.verdict", "Anomaly"),
    "Validity": ("checkers.verdict", "Validity"),
    "Verdict": ("checkers.verdict", "Verdict"),
    "read_history": ("history.foreign.read", "calls"),
    "read_steps": ("history.foreign.read", "steps"),
    "history_of": ("history.foreign.read", "history_of"),
}

__all__ = [
    "FORBIDS",
    "NAMES",
    "Anomaly",
    "Judgement",
    "Validity",
    "Verdict",
    "history_of",
    "judge_calls",
    "judge_queue",
    "judge_run",
    "judge_transactions",
    "model_named",
    "read_history",
    "read_steps",
    "sketch",
]


def __getattr__(name: str) -> object:
    """One of `__all__`."""
    if name not in _PLACES:
        raise AttributeError(f"module 'checkers' has no attribute {name!r}")
    module, inner = _PLACES[name]
    return getattr(import_module(module), inner)


def __dir__() -> list[str]:
    return sorted(__all__)
