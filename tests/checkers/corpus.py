"""The histories of corpus/histories, and what the judges must find in each (corpus/histories/expected.yaml)."""

from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from checkers.linearizability.registry import NAMES
from history import jsonl
from history.history import History

ROOT = Path(__file__).parents[2] / "corpus" / "histories"
SIDES = ("ok", "bad", "undecided")  # of foreign histories


class Run(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole verdict of one history of our own: every anomaly with its witness, and what else matters in the story."""

    story: str
    validity: Literal["VALID", "UNKNOWN", "INVALID"] = "VALID"
    anomalies: tuple[tuple[str, tuple[int, ...]], ...] = ()
    excused: tuple[tuple[int, str, int], ...] = ()  # offset, value, row of the wound
    unchecked: tuple[str, ...] = ()
    not_live: tuple[str, ...] = ()
    live: bool | None = None
    counts: dict[str, int] = {}


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kinds found in one history of sends and polls, the allowed ones apart."""

    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchecked: bool = False


class _Expected(Struct, frozen=True, forbid_unknown_fields=True):
    runs: dict[str, Run]
    sessions: dict[str, Run]
    kafka: dict[str, Queue]
    elle: dict[str, str]  # "<model>-<kind>" -> the isolation level
    jepsen: dict[str, str]  # model -> the kind of its bad history


class Foreign(NamedTuple):
    """How a history of transactions or calls is judged; `kind` is the anomaly of the bad one."""

    judge: Literal["elle", "linearizability", "jepsen"]
    model: str
    consistency: str
    kind: str


_EXPECTED = msgspec.yaml.decode((ROOT / "expected.yaml").read_bytes(), type=_Expected)
RUNS = _EXPECTED.runs
SESSIONS = _EXPECTED.sessions  # "ok/<checker>-…" and "bad/<checker>-…", below the folder sessions
QUEUES = _EXPECTED.kafka


def _foreign_histories() -> dict[str, Foreign]:
    """The histories of the corpus that foreign judges judge, by their paths without the suffix."""
    foreigns: dict[str, Foreign] = {}
    for side in SIDES:
        for name, level in _EXPECTED.elle.items():
            model = next(model for model in ("list-append", "rw-register") if name.startswith(f"{model}-"))
            foreigns[f"elle/{side}/{name}"] = Foreign("elle", model, level, name.removeprefix(f"{model}-"))
        for model in NAMES:
            foreigns[f"linearizability/{side}/{model}"] = Foreign("linearizability", model, "linearizable", "nonlinearizable")
        for model, kind in _EXPECTED.jepsen.items():
            foreigns[f"jepsen/{side}/{model}"] = Foreign("jepsen", model, "linearizable", kind)
    return foreigns


FOREIGN = _foreign_histories()


def history(name: str) -> History:
    """The history of one name of `RUNS`."""
    return jsonl.read(ROOT / f"{name}.jsonl")
