"""A failed assertion inside the system under test is an anomaly, not a failure of the harness.

Why it is sound: the assertions hold in every state that the protocol allows, so a failed one shows a wrong state.

>>> from checkers.sketches import sketch
>>> sketch("assertions", "assertion node=b1 detail=hw>leo")
['assertion']
"""

from checkers.engine.anomalies import BROKEN_MACHINE, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "assertions"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report one anomaly for each failed assertion that a node recorded."""
    columns = (events.column(name) for name in ("index", "node", "detail"))
    anomalies = tuple(
        Anomaly(kind="assertion", checker=NAME, key=node or "", witness=(index,), words=f"{node or 'a machine'}: {detail}")
        for index, node, detail in zip(*columns, strict=True)
    )
    return Findings(anomalies=anomalies)


CHECKER = Checker(
    name=NAME,
    claim="No assertion of the system under test fails.",
    assumes="The backend records failed assertions.",
    blind="Wrong states that no assertion checks.",
    reports=(Kind("assertion", Harm.USURPED, 170, unshown=BROKEN_MACHINE),),
    group_by=WHOLE_RUN,
    events=(K.ASSERTION,),
    check=check,
    split=gathered(check),
)
