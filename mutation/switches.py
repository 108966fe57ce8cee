"""Conditions of the protocol's code that the switches of protocol `safe` decide.

The gate runs `safe`, so code that only another protocol executes would give mutants that nothing can kill. An edit that merely
turns a switch would give a known-bad protocol, which has its plan in corpus/mutants.yaml already.
"""

import ast

from highwater.coverage import conditions
from highwater.coverage.conditions import reads_switch
from reference.config import VARIANTS

__all__ = ["decided", "is_taken", "reads_switch"]
_SAFE = VARIANTS["safe"]


def decided(test: ast.expr) -> bool | None:
    """The value of a condition under `safe`, if the switches alone decide it."""
    return conditions.decided(test, _SAFE)


def is_taken(case: ast.match_case, subject: ast.expr) -> bool:
    """Whether `safe` may take a case of a `match` on a switch; True if the subject is no switch."""
    return conditions.is_taken(case, subject, _SAFE)
