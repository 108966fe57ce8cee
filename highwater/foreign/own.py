"""Loads a user's own model: `mine.py:Stack` is the class Stack of the file mine.py (docs/your-own-system.md)."""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from checkers.linearizability.own import OwnObject, OwnReads, checked_state
from highwater.errors import UsageError

_SHAPES = "`first` and `step(self, state, f, value, answer)`, or `reads` and `holds(self, read, before, maybe)`"


def is_own(model: str) -> bool:
    """Whether a model is given as FILE.py:CLASS."""
    return ".py:" in model


def own_model(words: str) -> OwnObject | OwnReads:
    """The model FILE.py:CLASS. UsageError, in one line, if there is none."""
    file, _, name = words.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"--model {words}: there is no file {file}")
    spec = spec_from_file_location(f"own_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
        own = getattr(module, name)()
        return _of_shape(words, name, own)
    except UsageError:
        raise
    except AttributeError:
        if hasattr(module, name):
            raise UsageError(f"--model {words}: {_last_line()}") from None
        raise UsageError(f"--model {words}: {file} has no {name}") from None
    except (Exception, SystemExit):  # noqa: BLE001  # it is the user's code
        raise UsageError(f"--model {words}: {_last_line()}") from None


def _of_shape(words: str, name: str, own: object) -> OwnObject | OwnReads:
    """The model, if the object has one of the two shapes."""
    if hasattr(own, "first") and callable(getattr(own, "step", None)):
        try:
            checked_state(own.first)
        except TypeError as error:
            raise UsageError(f"--model {words}: `first` cannot be a state: {error}") from None
        return OwnObject(name, own)
    if hasattr(own, "reads") and callable(getattr(own, "holds", None)):
        reads = own.reads
        if not isinstance(reads, tuple | list | set | frozenset) or not all(isinstance(f, str) for f in reads):
            raise UsageError(f"--model {words}: `reads` must be a tuple of names of functions, not {reads!r}")
        return OwnReads(name, own)
    raise UsageError(f"--model {words}: a model has {_SHAPES}")


def _last_line() -> str:
    """What went wrong in the user's file, and in which line of it."""
    error = sys.exception()
    assert error is not None
    what = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return f"{what} (line {error.lineno} of {error.filename})"
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what} (line {where.lineno} of {where.filename})"
