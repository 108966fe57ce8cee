"""What is to be found in rows about a whole run, or about topics of one name."""

from itertools import combinations

from history.op import OpType
from tests.proof.log_rows import Events, Operations


def single_controller(operations: Operations, events: Events) -> set[str]:
    """One node for each controller epoch."""
    elected = [(row.controller_epoch, row.node) for row in events if row.controller_epoch is not None]
    return {"two-controllers" for one, two in combinations(elected, 2) if one[0] == two[0] and one[1] != two[1]}


def topic_identity(operations: Operations, events: Events) -> set[str]:
    """P8: seen under an id under which no leader appended it, though one did under another."""
    named = [row for row in events if row.topic_id is not None]
    if len({row.topic_id for row in named}) < 2:
        return set()
    led = {(row.value, row.topic_id) for row in named if row.detail == "leader"}
    seen = [(row.value, row.topic_id) for row in named]
    seen.extend((row.value, row.topic_id) for row in operations if row.type is OpType.OK and row.topic_id is not None)
    return {"other-topic" for one in seen if one not in led and any(one[0] == value for value, _ in led)}
