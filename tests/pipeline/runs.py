"""Runs to judge twice: the corpus, and random runs composed of its stories."""

from pathlib import Path

from msgspec.structs import replace

from history import jsonl
from history.event import ClusterEvent
from history.history import History
from history.op import Operation
from history.seed import Rng

STORIES = Path(__file__).parents[2] / "corpus" / "histories"


def corpus() -> list[History]:
    """Every small handwritten history of the corpus."""
    return [jsonl.read(path) for path in sorted(STORIES.rglob("*.jsonl"))]


def random_run(rng: Rng) -> History:
    """Interleave one to three stories, each on a partition of its own, and drop some rows. The run may violate any rule."""
    stories = corpus()
    histories = [rng.pick(stories) for _ in range(rng.between(1, 3))]
    tellers = [_teller(story, partition) for partition, story in enumerate(histories)]
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    while any(tellers):
        index = len(operations) + len(events)
        row = replace(rng.pick([teller for teller in tellers if teller]).pop(0), index=index, time_ns=1_000 * index)
        if rng.ratio(1, 20):
            continue
        if isinstance(row, Operation):
            operations.append(row)
        else:
            events.append(row)
    return History(histories[0].manifest, operations=operations, events=events)


def _teller(story: History, partition: int) -> list[Operation | ClusterEvent]:
    """The rows of a story, on this partition and by clients of its own. Slots are set to 0, so each record becomes a call."""
    rows: list[Operation | ClusterEvent] = [
        replace(op, slot=0, process=10 * partition + op.process, partition=partition) for op in story.operations
    ]
    rows += [event if event.partition is None else replace(event, partition=partition) for event in story.events]
    return sorted(rows, key=lambda row: row.index)
