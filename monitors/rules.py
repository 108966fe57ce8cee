"""The rules: clauses of the documents that one process can break, each with what excuses it.

`checkers/control/clauses.py` declares them as findings, and docs/properties.md says what each breaks.
"""

from monitors.controller import CONTROLLER
from monitors.engine import Rule
from monitors.membership import MEMBERSHIP
from monitors.moves import MOVES
from monitors.replicas import REPLICAS

RULES: tuple[Rule, ...] = (*MOVES, *CONTROLLER, *MEMBERSHIP, *REPLICAS)
