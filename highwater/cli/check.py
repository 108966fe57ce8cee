"""`highwater check`: judge one history from a file; prints and stores nothing."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from checkers.verdict import Verdict
from highwater.cli import options
from highwater.cli.output import by_kind, first_of, say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.exit_codes import of_verdict
from highwater.run import judge
from highwater.summary import VALIDITY_NAMES
from history import store

# Models of foreign histories come with their own readers.
_MODELS = ("log",)
_MODELS_TO_COME = ("register", "cas-register", "multi-register", "kv", "list-append", "rw-register")


def check(
    file: Annotated[Path, typer.Argument(help="The folder of a run, one of its two .parquet files (for both), or a .jsonl.")],
    *,
    model: Annotated[str, typer.Option(help="What the history is of.")] = "log",
    json: options.AsJson = False,
) -> int:
    """Judge one history; print the verdict, store nothing."""
    if model in _MODELS_TO_COME:
        raise UsageError(f"model {model} is not built yet; there is {', '.join(_MODELS)}")
    if model not in _MODELS:
        raise UsageError(f"unknown model {model!r}; there is {', '.join(_MODELS)}")
    history = store.load(file)
    verdict = judge(history)
    if json:
        say_json({"file": str(file), **encoded(verdict)})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {file}")
        for line in explained(verdict):
            say(f"  {line}")
    return of_verdict(verdict.validity, live=verdict.live)


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
