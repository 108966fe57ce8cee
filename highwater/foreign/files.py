"""Judge a history file by a model; the file may come from highwater or from another system.

Of a highwater history only the operations of clients are judged here, not the events of the nodes.
"""

import os
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from checkers.elle.judge import MODELS as TRANSACTIONS
from checkers.elle.levels import NAMES as LEVELS
from checkers.elle.levels import judge as judge_transactions
from checkers.engine.collector import without_collector
from checkers.engine.verdict import Validity
from checkers.jepsen import judge as jepsen
from checkers.kafka.judge import MODEL as KAFKA
from checkers.kafka.judge import judge as judge_queue
from checkers.kafka.transactions import Op, operations
from checkers.linearizability.judge import Judgement
from checkers.linearizability.judge import judge as judge_linearizability
from checkers.linearizability.model import Model
from checkers.linearizability.own import OwnReads
from checkers.linearizability.registry import NAMES, WITH_INITIAL, model_named
from highwater.errors import UsageError
from highwater.foreign.own import is_own, own_model
from history import store
from history.errors import HistoryError, unknown
from history.foreign import edn, export, ours, recorded
from history.foreign.pairing import Paired, pair
from history.foreign.read import IN_EDN, Form, begins_a_history, calls, form_of, history_in, is_on_one_line, steps
from history.foreign.step import Pairs, Step, as_json, text_of
from history.history import History

LOG = "log"
MODELS = (LOG, KAFKA, *NAMES, *TRANSACTIONS, *jepsen.NAMES)
_HAVE_INITIAL = (*WITH_INITIAL, *jepsen.WITH_INITIAL)
_LINEARIZABLE = ("strict-serializable", "linearizable")
CONSISTENCY = _LINEARIZABLE[0]
SUFFIXES = (".edn", ".json", ".jsonl", ".log", ".gz")  # of files that may be histories
LEDGER = "judged"  # the folder of the verdicts of `highwater judge`, beside the histories
_ONE_LINE = "the steps of the file stand on one line: line N is the step N"
_NOTHING = "no step of a client in the file: no operation was judged"


class ModelChoice(Struct, frozen=True, kw_only=True):
    """How to judge a history file: model, consistency and initial value.

    `model` is guessed if empty (`highwater.foreign.guess`). `initial` is the initial value as EDN; if empty, the format's own.
    """

    model: str = ""
    initial: str = ""
    consistency: tuple[str, ...] = (CONSISTENCY,)


def arguments_of(choice: ModelChoice) -> list[str]:
    """The options of a command that judges so; without --model if it is to guess."""
    words = ["--model", choice.model] if choice.model else []
    words += ["--initial", choice.initial] if choice.initial else []
    return words + (["--consistency", ",".join(choice.consistency)] if choice.consistency != (CONSISTENCY,) else [])


def check_asked(choice: ModelChoice) -> None:
    """Check how a history file is to be judged: raise UsageError for an unknown model, consistency or initial value."""
    if not choice.consistency:
        raise UsageError("--consistency names no consistency model")
    if not choice.model:
        unfit = [name for name in choice.consistency if name not in LEVELS]
        if unfit:
            raise UsageError(unknown("consistency model", unfit[0], LEVELS))
        return
    if is_own(choice.model):
        own_model(choice.model)
    elif choice.model not in MODELS:
        raise UsageError(unknown("model", choice.model, MODELS))
    levels = LEVELS if choice.model in TRANSACTIONS else _LINEARIZABLE
    if any(name not in levels for name in choice.consistency):
        raise UsageError(
            f"--consistency of model {choice.model} must be of {', '.join(levels)}, not {','.join(choice.consistency)!r}"
        )
    if choice.initial and choice.model not in _HAVE_INITIAL:
        raise UsageError(f"--initial: model {choice.model} has no initial value")
    if choice.initial:
        initial_value(choice)


def initial_value(choice: ModelChoice) -> Hashable:
    """The initial value that --initial names, None if it names none. UsageError if the model cannot have it."""
    if not choice.initial:
        return None
    try:
        first = edn.value(choice.initial)
    except HistoryError as error:
        raise UsageError(f"--initial: {error}") from error
    if choice.model == "kv" and text_of(first) is None:
        raise UsageError(f"--initial: the value of model kv must be a string, such as '\"\"', not {choice.initial}")
    if choice.model == "multi-register" and isinstance(first, tuple | frozenset) and not isinstance(first, Pairs):
        raise UsageError(
            f"--initial: the value of model multi-register must be one value or a map of values, not {choice.initial}"
        )
    if choice.model == "counter" and not isinstance(first, int):
        raise UsageError(f"--initial: the value of model counter must be a whole number, not {choice.initial}")
    if choice.model == "bank" and not (isinstance(first, Pairs) and all(isinstance(balance, int) for _, balance in first)):
        raise UsageError(
            f"--initial: the value of model bank must be a map of whole numbers, such as {{0 10, 1 10}}, not {choice.initial}"
        )
    return first


def judge_file(file: Path, choice: ModelChoice) -> Judgement:
    """Judge a history file by a model and return the verdict.

    HistoryError with file and line if the file is no history of the model.
    """
    try:
        with without_collector():
            return _judgement(file, form_of(file), choice)
    except HistoryError as error:
        reason = str(error)
        raise error if reason.startswith(str(file)) else HistoryError(f"{file}: {reason}") from error


def _judgement(file: Path, form: Form, choice: ModelChoice) -> Judgement:
    """Judge the history by the chosen model; the notes say what was left out."""
    own_history = _ours(file, form)
    if choice.model == KAFKA:
        return judge_queue(_queue_steps(own_history) if own_history is not None else _steps(file, form))
    history = _history_of(own_history, file, form)
    if history.untimed and choice.model not in TRANSACTIONS:
        raise HistoryError(f"no model but {' and '.join(TRANSACTIONS)} can judge transactions whose order in time is not told")
    if choice.model in TRANSACTIONS:
        judgement = judge_transactions(choice.model, history, choice.consistency)
    elif choice.model in jepsen.NAMES:
        judgement = jepsen.judge(
            choice.model, history, initial=initial_value(choice), strict="linearizable" in choice.consistency
        )
    else:
        judgement = _judgement_of_object(history, form, choice)
    notes = (
        *judgement.notes,
        *history.notes,
        *(() if history.steps else (_NOTHING,)),
        *((_ONE_LINE,) if is_on_one_line(file) else ()),
        *((ours.LEFT_OUT,) if own_history is not None else ()),
    )
    return replace(judgement, notes=notes)


def history_of(file: Path, form: Form) -> Paired:
    """The calls of a history file, as every model but those of logs and queues judges them."""
    return _history_of(_ours(file, form), file, form)


def _history_of(mine: History | None, file: Path, form: Form) -> Paired:
    return ours.calls(mine) if mine is not None else _calls(file, form)


def _ours(file: Path, form: Form) -> History | None:
    """The history of a run, or one that another program recorded for the model `log`; None for steps."""
    if form is Form.RECORDED:
        return recorded.read(file, MODELS).log
    return store.load(file) if form is Form.OURS else None


def _steps(file: Path, form: Form) -> Iterable[Step]:
    return recorded.read(file, MODELS).steps if form is Form.RECORDED else steps(file)


def _calls(file: Path, form: Form) -> Paired:
    return pair(_steps(file, form)) if form is Form.RECORDED else calls(file)


def _queue_steps(history: History) -> Iterable[Step]:
    # A Jepsen client ends when the outcome of its call is unknown. A highwater client goes on, so a later send may overtake an
    # earlier one of unknown outcome.
    return export.renewed(lambda: ours.queue_steps(history) if ours.holds_records(history) else ours.steps(history))


def _judgement_of_object(history: Paired, form: Form, choice: ModelChoice) -> Judgement:
    """Judge the calls on an object; a doubt about their order makes VALID UNKNOWN."""
    model = _object(form, choice)
    judgement = (
        model.judge(history.calls)
        if isinstance(model, OwnReads)
        else judge_linearizability(model, history.calls, failed=history.failed)
    )
    validity = Validity.UNKNOWN if history.unsure and judgement.validity is Validity.VALID else judgement.validity
    return replace(judgement, unchecked=(*judgement.unchecked, *history.unsure), validity=validity)


class Thing(NamedTuple):
    """The model of an object as a file is judged by it: with its initial value, and whether a read of nil is an answer."""

    model: Model
    first: Hashable
    nil_is_a_value: bool


def object_of(form: Form, choice: ModelChoice) -> Thing:
    """The object that a file of this form is of."""
    # A history of another system has no model `log`; its name there is partition-log.
    name = "partition-log" if choice.model == LOG else choice.model
    first = initial_value(choice) if choice.initial else _implied(form, name)
    if form not in IN_EDN:
        first = as_json(first)
    # etcd's logs write nil if a register was never written; Knossos writes nil if a read recorded no value. Where the initial
    # value is nil, a read of nil is an observation.
    nil = form is Form.JEPSEN_LOG or first is None
    return Thing(model_named(name, initial=first, nil_is_a_value=nil), first, nil)


def _object(form: Form, choice: ModelChoice) -> Model | OwnReads:
    """The model with its initial value."""
    return own_model(choice.model) if is_own(choice.model) else object_of(form, choice).model


def _implied(form: Form, model: str) -> Hashable:
    """The initial value that a format implies: nil in etcd's logs, 0 in Knossos's histories of registers."""
    if model == "kv":
        return ""
    return 0 if form is not Form.JEPSEN_LOG and model in ("cas-register", "multi-register") else None


def page_of_file(file: Path, choice: ModelChoice, judgement: Judgement, *, guess: str, repeat: str, name: str) -> str:
    """Render the page of a judged file as HTML. `guess` says how the model was chosen, `repeat` is the command."""
    # Imported here because most files are judged without a page, and importing its modules takes as long as judging a small one.
    from reports.foreign import Object, page_of
    from reports.foreign_page import render_foreign

    form = form_of(file)
    own_history = _ours(file, form)
    judged: Object | list[Op] | None = None
    if choice.model == KAFKA:
        judged = operations(_queue_steps(own_history) if own_history is not None else _steps(file, form))
    elif choice.model not in (*TRANSACTIONS, *jepsen.NAMES) and not isinstance(model := _object(form, choice), OwnReads):
        judged = Object(model=model, calls=_history_of(own_history, file, form).calls)

    def read() -> Iterable[Step]:
        return _steps(file, form) if own_history is None else _steps_in(own_history)

    page = page_of(read, judgement, file=name, model=choice.model, repeat=repeat, guess=guess, judged=judged)
    return render_foreign(page)


def steps_of(file: Path, form: Form) -> Iterable[Step]:
    """The steps of a history file, whoever recorded it: what a verdict's lines refer to."""
    mine = _ours(file, form)
    return _steps(file, form) if mine is None else _steps_in(mine)


def _steps_in(history: History) -> Iterable[Step]:
    return ours.queue_steps(history) if ours.holds_records(history) else ours.steps(history)


def histories_below(folder: Path, choice: ModelChoice) -> list[str]:
    """The histories in a folder: the files that look like some, and the runs. HistoryError if there is none.

    The folder of a Jepsen test is one history. If the model is to be guessed, a file counts by its beginning; for the model `log`
    only runs count.
    """
    files = [] if choice.model == LOG else sorted(_files_below(folder, guessed=not choice.model))
    try:
        return [*files, *map(str, store.find_runs(folder))]
    except HistoryError:
        if not files:
            raise
        return files


def _files_below(folder: Path, *, guessed: bool) -> Iterator[str]:
    """The histories below a folder, by their names or first bytes."""
    for place, folders, names in os.walk(folder):
        history = history_in(Path(place))
        folders[:] = [] if history else [name for name in folders if name != LEDGER]
        if history:
            yield str(history)
        elif store.MANIFEST not in names:
            sure = (".edn",) if guessed else SUFFIXES
            files = [Path(place, name) for name in names if name.endswith((*SUFFIXES, ".txt"))]
            yield from (str(file) for file in files if file.name.endswith(sure) or begins_a_history(file))


def exported(file: Path) -> Iterable[str]:
    """Convert a history file to the lines of Jepsen's EDN format. HistoryError with the line if the file is no history."""
    form = form_of(file)
    if form is Form.SESSIONS:
        raise HistoryError(f"{file}: EDN cannot tell that sessions have no order in time, so the file is not exported")
    history = _ours(file, form)
    if history is None:
        return export.lines(lambda: _steps(file, form), names=form in IN_EDN)
    if not ours.holds_records(history):
        return export.lines(lambda: ours.steps(history))
    names = (f"; key {number} is {name}\n" for number, name in enumerate(ours.key_names(history)))
    return chain(names, export.lines(lambda: ours.queue_steps(history)))
