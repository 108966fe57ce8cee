"""A second Ctrl-C while a run is taken down does not lose its record."""

import signal
from typing import cast

import pytest

from highwater.backends.real.interrupts import held
from highwater.backends.real.site import Site
from highwater.backends.real.stage import perform
from highwater.backends.real.systems.reference import Reference
from tests.highwater.backends.real.test_stage import Nowhere
from tests.zookeeper.test_process_backend import PROVENANCE, plan


class Impatient(Nowhere):
    """A site during whose method of this name the user presses Ctrl-C again."""

    def __init__(self, during: str) -> None:
        super().__init__(KeyboardInterrupt())
        self._during = during

    def _does(self, name: str) -> None:
        if name == self._during:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("during", ["stop", "commits", "close"])
def test_second_interrupt_keeps_the_record_of_a_run(during: str) -> None:
    site = Impatient(during)
    short = plan(faults_ms=1000)

    run = perform(short, PROVENANCE, cast(Site, site), Reference(short), backend="process")

    assert (run.history.manifest.outcome, run.failure, site.is_closed) == ("interrupted", None, True)


def test_interrupt_works_again_after_it_was_held_back() -> None:
    with held() as interrupts:
        signal.raise_signal(signal.SIGINT)

    assert interrupts.pressed
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
