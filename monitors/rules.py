"""The rules: clauses of the documents that one process can break, each with what excuses it.

`checkers/control/clauses.py` declares them as findings, and docs/properties.md says what each breaks.
"""

from monitors.commands import COMMANDS
from monitors.controller import CONTROLLER
from monitors.disks import DISKS
from monitors.engine import Rule
from monitors.fetches import FETCHES
from monitors.membership import MEMBERSHIP
from monitors.moves import MOVES
from monitors.obedience import OBEDIENCE
from monitors.replicas import REPLICAS
from monitors.znodes import ZNODES

RULES: tuple[Rule, ...] = (
    *MOVES,
    *CONTROLLER,
    *COMMANDS,
    *ZNODES,
    *MEMBERSHIP,
    *OBEDIENCE,
    *REPLICAS,
    *FETCHES,
    *DISKS,
)
