"""Judge histories of objects, transactions, queues like Kafka and Jepsen's workloads, and runs of a replicated log.

Read a history from a file (Jepsen's EDN or JSON, Porcupine's logs) or write it inline, as here. Is this register linearizable?

    >>> from checkers import history_of, judge_calls, model_named
    >>> lines = '''{:process 0 :type :invoke :f :write :value 1} {:process 0 :type :ok :f :write :value 1}
    ... {:process 1 :type :invoke :f :read :value nil} {:process 1 :type :ok :f :read :value 0}'''
    >>> judge_calls(model_named("register", initial=0), history_of(lines).calls).anomalies[0].words
    'read -> 0 of line 2 cannot follow the 1 calls ordered before it: the state is 1'

Do these transactions keep the promised isolation level?

    >>> from checkers import judge_transactions
    >>> one = "{:process 0 :type :%s :value [[:append :x 1] [:r :y nil]]}"
    >>> two = "{:process 1 :type :%s :value [[:append :y 1] [:r :x nil]]}"
    >>> skew = one % "invoke" + two % "invoke" + one % "ok" + two % "ok"
    >>> [found.kind for found in judge_transactions("list-append", history_of(skew), ("serializable",)).anomalies]
    ['G2-item']

Run one checker of runs on a few rows:

    >>> from checkers import sketch
    >>> sketch("offset-agreement", "ok poll offset=0 value=a", "ok poll offset=0 value=b")
    ['inconsistent-offsets']

A verdict's `validity` is VALID, INVALID or UNKNOWN; `unchecked` lists what could not be judged and why. docs/properties.md states
the claim and the blind spots of each judge. Names are imported on first use: judging a run needs no judge of transactions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.elle.consistency import FORBIDS
    from checkers.elle.levels import judge as judge_transactions
    from checkers.engine.verdict import Anomaly, Validity, Verdict
    from checkers.jepsen.judge import judge as judge_reads
    from checkers.judge import judge as judge_run
    from checkers.kafka.judge import judge as judge_queue
    from checkers.linearizability.judge import Judgement
    from checkers.linearizability.judge import judge as judge_calls
    from checkers.linearizability.registry import NAMES, model_named
    from checkers.sketches import sketch
    from history.foreign.read import calls as read_history
    from history.foreign.read import history_of
    from history.foreign.read import steps as read_steps

# Public name -> (module, name in that module).
_PLACES = {
    "FORBIDS": ("checkers.elle.consistency", "FORBIDS"),
    "judge_transactions": ("checkers.elle.levels", "judge"),
    "judge_reads": ("checkers.jepsen.judge", "judge"),
    "judge_queue": ("checkers.kafka.judge", "judge"),
    "Judgement": ("checkers.linearizability.judge", "Judgement"),
    "judge_calls": ("checkers.linearizability.judge", "judge"),
    "NAMES": ("checkers.linearizability.registry", "NAMES"),
    "model_named": ("checkers.linearizability.registry", "model_named"),
    "judge_run": ("checkers.judge", "judge"),
    "sketch": ("checkers.sketches", "sketch"),
    "Anomaly": ("checkers.engine.verdict", "Anomaly"),
    "Validity": ("checkers.engine.verdict", "Validity"),
    "Verdict": ("checkers.engine.verdict", "Verdict"),
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
    "judge_reads",
    "judge_run",
    "judge_transactions",
    "model_named",
    "read_history",
    "read_steps",
    "sketch",
]


def __getattr__(name: str) -> object:
    """Import a public name of package `checkers` on its first use, so that importing the package stays cheap."""
    if name not in _PLACES:
        raise AttributeError(f"module 'checkers' has no attribute {name!r}")
    module, inner = _PLACES[name]
    return getattr(import_module(module), inner)


def __dir__() -> list[str]:
    return sorted(__all__)
