"""However a run ends, what was recorded is kept, and nothing of its site is."""

from collections.abc import Sequence
from typing import cast

import pytest

from highwater.backends.api import Run
from highwater.errors import HarnessError
from highwater.local.site import Site
from highwater.local.stage import perform
from highwater.zookeeper_log import AnyCommit
from tests.zookeeper.test_process_backend import PROVENANCE, plan


class Nowhere:
    """A site that does not come up, and a broker of which does not end."""

    nodes: dict[int, object] = {}

    def __init__(self, trouble: BaseException) -> None:
        self.trouble = trouble
        self.is_closed = False

    async def open(self) -> None:
        raise self.trouble

    async def leave(self) -> None:
        """Nothing is there."""

    def stop(self) -> None:
        raise HarnessError("a broker does not end")

    def commits(self) -> Sequence[AnyCommit]:
        return ()

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("trouble", "told"), [(KeyboardInterrupt(), "a broker does not end"), (HarnessError("no engine"), "no engine")]
)
def test_a_broker_that_does_not_end_takes_no_record_with_it(trouble: BaseException, told: str) -> None:
    """The record may hold what proves an anomaly, whatever becomes of the laboratory afterwards."""
    site = Nowhere(trouble)

    run: Run = perform(plan(faults_ms=1000), PROVENANCE, cast(Site, site), backend="process")

    assert (run.history.manifest.outcome, run.failure) == ("harness-fault", told)
    assert site.is_closed
