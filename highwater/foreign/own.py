"""Loads a user's own model: `mine.py:Stack` is the class Stack of the file mine.py (docs/your-own-system.md)."""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from checkers.linearizability.own import OwnObject, OwnReads
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
    except AttributeError:
        if hasattr(module, name):
            raise UsageError(f"--model {words}: {_last_line()}") from None
        raise UsageError(f"--model {words}: {file} has no {name}") from None
    except Exception:  # noqa: BLE001  # it is the user's code
        raise UsageError(f"--model {words}: {_last_line()}") from None
    if hasattr(own, "first") and callable(getattr(own, "step", None)):
        return OwnObject(name, own)
    if hasattr(own, "reads") and callable(getattr(own, "holds", None)):
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
