"""Rows of what each broker's metrics say: those that differ from the broker's last scrape, and in the last scrape all of them."""

from collections.abc import Mapping

from history.event import EventKind
from history.recorder import Recorder
from reference.types import Address


class Scrapes:
    """Records what scrapes of brokers tell. The metrics of a process begin anew with its life."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last_values: dict[tuple[Address, int], Mapping[str, int]] = {}

    def record(self, node: Address, life: int, values: Mapping[str, int], *, whole: bool = False) -> None:
        """Record one scrape of a broker process; `whole`: also the values that have not changed."""
        before = {} if whole else self._last_values.get((node, life), {})
        self._last_values[node, life] = values
        for name, value in values.items():
            if before.get(name) != value:
                self._recorder.event(EventKind.GAUGE, node=node, life=life, gauge=value, detail=name)
