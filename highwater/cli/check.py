"""`highwater check`: judge one history from a file; prints and stores nothing.

Our own runs are judged by the checkers of the log. A history from elsewhere is judged by the model that the caller names.
"""

import resource
import sys
from collections.abc import Hashable
from pathlib import Path
from time import perf_counter
from typing import Annotated

import msgspec
import typer

from checkers.elle.judge import FORBIDS
from checkers.elle.judge import MODELS as TRANSACTIONS
from checkers.elle.judge import judge as judge_transactions
from checkers.kafka.judge import MODEL as KAFKA
from checkers.kafka.judge import judge as judge_queue
from checkers.linearizability.judge import Judgement
from checkers.linearizability.judge import judge as judge_linearizability
from checkers.linearizability.registry import NAMES, WITH_INITIAL, model_named
from checkers.verdict import Verdict
from highwater.cli import options
from highwater.cli.output import by_kind, first_of, say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.exit_codes import of_verdict
from highwater.run import judge
from highwater.summary import VALIDITY_NAMES
from history import store
from history.errors import HistoryError
from history.foreign import edn
from history.foreign.pairing import Paired
from history.foreign.read import Form, calls, form_of, steps

_OURS = "log"
_MODELS = (_OURS, KAFKA, *NAMES, *TRANSACTIONS)
_LINEARIZABLE = ("strict-serializable", "linearizable")


def check(
    file: Annotated[Path, typer.Argument(help="A run (folder, .parquet, .jsonl), Jepsen EDN or JSON, a Porcupine log.")],
    *,
    model: Annotated[str, typer.Option(help=f"What the history is of: {', '.join(_MODELS)}.")] = _OURS,
    initial: Annotated[str, typer.Option(help="The first value, as EDN; without it what the format implies.")] = "",
    consistency: Annotated[str, typer.Option(help="What is promised; several with commas.")] = _LINEARIZABLE[0],
    json: options.AsJson = False,
) -> int:
    """Judge one history; print the verdict, store nothing."""
    if model not in _MODELS:
        raise UsageError(f"unknown model {model!r}; there is {', '.join(_MODELS)}")
    promised = tuple(consistency.split(","))
    known = tuple(FORBIDS) if model in TRANSACTIONS else _LINEARIZABLE
    if any(name not in known for name in promised):
        raise UsageError(f"model {model} is judged as {', '.join(known)}, not as {consistency!r}")
    form = form_of(file)
    if form is not Form.OURS:
        return _check_foreign(file, form, _Asked(model=model, initial=initial, consistency=promised), json=json)
    if model != _OURS:
        raise UsageError(f"a history of highwater is judged as {_OURS}, not as {model}")
    return _check_ours(file, json=json)


def _check_ours(file: Path, *, json: bool) -> int:
    began = perf_counter()
    history = store.load(file)
    verdict = judge(history)
    if json:
        measured = {"operations": history.operations_frame["index"].n_unique(), **_measured(began)}
        say_json({"file": str(file), **encoded(verdict), **measured})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {file}")
        for line in explained(verdict):
            say(f"  {line}")
    return of_verdict(verdict.validity, live=verdict.live)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    initial: str
    consistency: tuple[str, ...]


def _check_foreign(file: Path, form: Form, asked: _Asked, *, json: bool) -> int:
    began = perf_counter()
    if asked.model == KAFKA:
        _say_judgement(file, found := _queue(file, asked), _measured(began), json=json)
        return of_verdict(found.validity, live=None)
    history = calls(file)
    if not history.steps:
        raise HistoryError(f"{file}: no step of a client in it")
    try:
        if asked.model not in TRANSACTIONS:
            found = _linearizable(history, form, asked)
        elif asked.initial:
            raise UsageError(f"{asked.model} begins with nothing; no initial value can be given")
        else:
            found = judge_transactions(asked.model, history, asked.consistency)
    except HistoryError as error:
        raise HistoryError(f"{file}: {error}") from error
    _say_judgement(file, found, _measured(began), json=json)
    return of_verdict(found.validity, live=None)


def _queue(file: Path, asked: _Asked) -> Judgement:
    if asked.initial:
        raise UsageError("a queue begins empty; no initial value can be given")
    try:
        return judge_queue(steps(file))
    except HistoryError as error:
        said = str(error)
        raise error if said.startswith(str(file)) else HistoryError(f"{file}: {said}") from error


def _linearizable(history: Paired, form: Form, asked: _Asked) -> Judgement:
    # Another name for the same in a history from elsewhere: a log is a partition log.
    name = "partition-log" if asked.model == _OURS else asked.model
    if asked.initial and name not in WITH_INITIAL:
        raise UsageError(f"a {name} has no initial value to be given")
    first = edn.value(asked.initial) if asked.initial else _implied(form, name)
    # etcd's logs write nil for a register that was never written; Knossos for what a read did not write down. Where the register
    # begins as nil, reading it is an observation.
    nil_is_a_value = form is Form.ETCD_LOG or first is None
    return judge_linearizability(model_named(name, initial=first, nil_is_a_value=nil_is_a_value), history.calls)


def _implied(form: Form, model: str) -> Hashable:
    """What a format means by saying nothing: nil in etcd's logs, 0 in Knossos's histories of registers."""
    if model == "kv":
        return ""
    return 0 if form in (Form.EDN, Form.JSON) and model in ("cas-register", "multi-register") else None


def _say_judgement(file: Path, found: Judgement, measured: dict[str, float], *, json: bool) -> None:
    verdict = VALIDITY_NAMES[found.validity]
    if json:
        # An order of a million calls is for programs that call the judge themselves.
        body = {k: v for k, v in msgspec.structs.asdict(found).items() if k not in ("validity", "longest")}
        say_json({"file": str(file), "verdict": verdict, **body, **measured})
        return
    say(f"{verdict}: {file}: {found.operations} operations, {measured['seconds']} s, {measured['peak_mb']} MB")
    for line in (*by_kind(found.anomalies), *first_of(found.unchecked), *found.notes):
        say(f"  {line}")


def _measured(began: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": round(perf_counter() - began, 3), "peak_mb": peak >> 20 if sys.platform == "darwin" else peak >> 10}


def encoded(verdict: Verdict) -> dict[str, object]:
    """A verdict as JSON, with the validity by name."""
    return {
        "verdict": VALIDITY_NAMES[verdict.validity],
        **{k: v for k, v in msgspec.structs.asdict(verdict).items() if k != "validity"},
    }


def explained(verdict: Verdict) -> list[str]:
    """Why a verdict is what it is, in few lines; `--json` has all."""
    excused = [
        f"excused: {e.topic}-{e.partition} offset {e.offset} {e.value!r}, by the wound in row {e.wound}" for e in verdict.excused
    ]
    return [*by_kind(verdict.anomalies), *first_of(excused), *first_of((*verdict.unchecked, *verdict.not_live))]
