"""As what a file is judged: the log of a run, or a history of the model that was given, that its manifest names, or is guessed.

The guess goes by the functions in use and the shape of their values.
Several models share functions: a read may be of a register, a set or a counter. The values tell them apart; where they do not,
the history is judged by each, the one that claims most first. If one accuses and another does not, nobody knows which the user
means: the choice is asked for. Otherwise the first is said, with the others that fit.
"""

from collections.abc import Hashable, Iterable
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.linearizability.judge import Judgement
from highwater.errors import UsageError
from highwater.foreign.files import LOG, MODELS, ModelChoice, check_asked, judge_file
from history import store
from history.errors import HistoryError
from history.foreign import recorded
from history.foreign.read import Form, steps
from history.foreign.step import Pairs, Step
from history.history import History
from history.op import OpType

_STEPS_READ = 50_000  # of a history; a function that is not used before is not considered
_QUEUE = frozenset({"send", "poll", "assign", "subscribe", "crash", "debug-topic-partitions"})
# Sets of functions, and the models that have them, the one that claims most first.
_BY_FUNCTIONS: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (frozenset({"acquire", "release"}), ("mutex",)),
    (frozenset({"enqueue", "dequeue"}), ("fifo-queue", "unordered-queue", "total-queue")),
    (frozenset({"enqueue", "dequeue", "drain"}), ("total-queue",)),
    (frozenset({"put", "get", "append"}), ("kv",)),
    (frozenset({"transfer", "read"}), ("bank",)),
    (frozenset({"broadcast", "read"}), ("broadcast",)),
    (frozenset({"generate"}), ("unique-ids",)),
    (frozenset({"insert"}), ("adya-g2",)),
    (frozenset({"create", "set", "delete", "read"}), ("versioned-node",)),
    (frozenset({"append", "read", "end"}), ("partition-log",)),
    (frozenset({"read", "write", "cas"}), ("cas-register",)),
)


class Guess(Struct, frozen=True, kw_only=True):
    """A model, the functions that it was guessed from, and other models that fit as well."""

    model: str
    functions: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The guess as one line for the reader."""
        also = f"; {', '.join(self.others)} would fit too" if self.others else ""
        return f"model {self.model}, guessed from {', '.join(self.functions)}{also}: --model chooses another"


class Unguessed(Struct, frozen=True, kw_only=True):
    """No model has the functions in use, or they do not tell it."""

    functions: tuple[str, ...]

    @property
    def words(self) -> str:
        """Why no model is guessed."""
        if not self.functions:
            return "no model can be guessed without a step of a client"
        if self.functions == ("read",):
            return "reads alone do not tell the model"
        return f"no model has the functions {', '.join(self.functions)}"


class Subject(Struct, frozen=True, kw_only=True):
    """As what a file is judged: by a model, which may be guessed, or as the log of a run."""

    model: str
    log: History | None = None
    guess: Guess | None = None


class Ruled(Struct, frozen=True, kw_only=True):
    """The judgement of a file by a model: how it was asked for, and how the model was guessed, if it was."""

    asked: ModelChoice
    found: Judgement
    guess: Guess | None = None

    @property
    def words(self) -> str:
        """The guess as one line for the reader; "" if the model was given."""
        return self.guess.words if self.guess else ""


def subject_of(file: Path, form: Form, model: str) -> Subject:
    """As what to judge a file, if this model was given, or none. UsageError if no model fits."""
    as_log = model in ("", LOG)
    if form is Form.RECORDED:
        recording = recorded.read(file, MODELS)
        return Subject(model=model or recording.model, log=recording.log if as_log else None)
    if form is Form.OURS and as_log:
        return Subject(model=LOG, log=store.load(file))
    if model:
        return Subject(model=model)
    guessed = guess(steps(file))
    if isinstance(guessed, Unguessed):
        raise UsageError(f"{file}: {guessed.words}; --model must be of {', '.join(MODELS)}, or FILE.py:CLASS of your own")
    return Subject(model=guessed.model, guess=guessed)


def judge_subject(file: Path, subject: Subject, choice: ModelChoice) -> Ruled:
    """Judge a file as this subject, which is no log.

    HistoryError as for `judge_file`; UsageError if the model does not have what was asked for, or if models that fit differ.
    """
    guessed = subject.guess
    models = (subject.model,) if guessed is None else (guessed.model, *guessed.others)
    fit: dict[str, Judgement] = {}
    refusals: list[HistoryError | UsageError] = []
    for model in models:
        choice_of_model = replace(choice, model=model)
        try:
            check_asked(choice_of_model)
            fit[model] = judge_file(file, choice_of_model)
        except (HistoryError, UsageError) as error:
            refusals.append(error)
    if not fit and guessed is not None:
        kind = HistoryError if isinstance(refusals[0], HistoryError) else UsageError
        raise kind(f"{refusals[0]}; {guessed.words}")
    if not fit:
        raise refusals[0]
    first, *others = fit
    if guessed is None:
        return Ruled(asked=replace(choice, model=first), found=fit[first])
    guessed = replace(guessed, model=first, others=tuple(others))
    validities = {judgement.validity for judgement in fit.values()}
    if Validity.INVALID in validities and len(validities) > 1:
        verdicts = ", ".join(f"{model} says {judgement.validity.name}" for model, judgement in fit.items())
        functions = ", ".join(guessed.functions)
        raise UsageError(
            f"{file}: several models have the functions {functions}, and they differ: {verdicts}; choose with --model"
        )
    return Ruled(asked=replace(choice, model=first), found=fit[first], guess=guessed)


class _Used(Struct, kw_only=True):
    """What a history uses: functions, micro-operations, and the first values that were asked and answered."""

    functions: set[str] = msgspec.field(default_factory=set)
    micros: set[str] = msgspec.field(default_factory=set)
    asked: dict[str, Hashable] = msgspec.field(default_factory=dict)
    told: dict[str, Hashable] = msgspec.field(default_factory=dict)
    writes_0: bool = False
    reads_lists: bool = False
    begins_with_0: bool = False  # 0 was read before anybody wrote it

    def see(self, step: Step) -> None:
        """Count one step."""
        self.functions.add(step.f)
        if step.value is not None:
            (self.told if step.type is OpType.OK else self.asked).setdefault(step.f, step.value)
        if step.f in ("read", "write"):
            self._take(step, step.f == "write", step.value)
        for micro in step.value if type(step.value) is tuple else ():
            if type(micro) is tuple and micro and isinstance(micro[0], str):
                self.micros.add(micro[0])
                self.reads_lists |= micro[0] == "r" and type(micro[-1]) is tuple
                if micro[0] in ("r", "w") and type(micro[-1]) is not tuple:
                    self._take(step, micro[0] == "w", micro[-1])

    def _take(self, step: Step, writes: bool, value: Hashable) -> None:
        if type(value) is int and value == 0 and (writes or step.type is OpType.OK):
            self.writes_0 |= writes
            self.begins_with_0 |= not self.writes_0

    def answer(self) -> Hashable:
        """The first answer to a read, without its key if the history has independent keys."""
        question, answered = self.asked.get("read"), self.told.get("read")
        keyed = all(type(value) is tuple and len(value) == 2 for value in (question, answered))
        return answered[1] if keyed and question[1] is None else answered  # type: ignore[index]  # both are pairs


def guess(history: Iterable[Step]) -> Guess | Unguessed:
    """Guess the model of a history that another system recorded."""
    used = _Used()
    for step in islice(history, _STEPS_READ):
        used.see(step)
    models = _models_of_transactions(used) or _models_of_functions(used)
    names = tuple(sorted(used.micros if used.functions == {"txn"} else used.functions))
    return Guess(model=models[0], functions=names, others=models[1:]) if models else Unguessed(functions=names)


def _models_of_transactions(used: _Used) -> tuple[str, ...]:
    """The models that transactions with these micro-operations fit, the likeliest first."""
    functions, micros = used.functions, used.micros
    if functions & {"send", "poll"} or micros & {"send", "poll"}:
        return ("kafka",) if functions <= _QUEUE | {"txn"} else ()
    if functions <= {"read", "write"} and micros and micros <= {"r", "w"}:
        return ("long-fork",)
    if not functions <= {"txn", "read", "write"} or not micros:  # some clients name what a transaction does
        return ()
    if micros <= {"append", "r"} and ("append" in micros or used.reads_lists):
        return ("list-append",)
    if micros <= {"w", "r"}:
        # Knossos's registers begin with 0, Elle's with nil.
        return ("multi-register", "rw-register") if used.begins_with_0 else ("rw-register",)
    return ("multi-register",) if micros <= {"read", "write"} else ()


def _models_of_functions(used: _Used) -> tuple[str, ...]:
    """The models that calls of these functions fit, the likeliest first."""
    functions = used.functions
    if functions == {"read"}:  # nothing says what a read is of, unless it is a map
        return ("bank",) if isinstance(used.answer(), Pairs) else ()
    if functions <= {"add", "read"} and functions:
        return _models_of_adds(used)
    if functions <= {"read", "write"} and functions:
        return _models_of_writes(used)
    if functions <= {"append", "read"} and "append" in functions:
        return ("partition-log",)
    return next((models for needed, models in _BY_FUNCTIONS if functions and functions <= needed), ())


def _models_of_adds(used: _Used) -> tuple[str, ...]:
    """The models of a history of adds and reads."""
    answer = used.answer()
    if isinstance(answer, int):
        return ("counter",)
    if type(answer) is tuple and answer and all(isinstance(entry, Pairs) for entry in answer):
        return ("monotonic",)
    return ("set", "set-full") if used.asked.get("add") is not None else ("monotonic",)


def _models_of_writes(used: _Used) -> tuple[str, ...]:
    """The models of a history of writes and reads."""
    answer = used.answer()
    if isinstance(answer, frozenset):
        return ("comments",)
    if type(answer) is tuple and len(answer) == 2 and type(answer[1]) is tuple and not isinstance(answer[1], Pairs):
        return ("sequential",)
    # Knossos's histories begin with a register of 0, which the model cas-register implies.
    return ("cas-register",) if used.begins_with_0 else ("register",)
