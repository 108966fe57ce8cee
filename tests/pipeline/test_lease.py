"""The lease of a folder in an object store: one owner at a time, in every order of requests; whoever is killed loses it."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest
from obstore.store import MemoryStore

from highwater.cli.main import run_command_line
from pipeline.dataset import compact
from pipeline.errors import PipelineError
from pipeline.lease import Lease, Objects, StoredObjects, leased, objects_on_s3
from pipeline.owner import owned
from pipeline.storage import s3_options, storage_at

_HOLDS = """
import sys, time
from pipeline.lease import Lease, leased, objects_on_s3
from pipeline.storage import s3_options
objects = objects_on_s3(sys.argv[1], **s3_options(sys.argv[1]))
with leased(Lease(objects, sys.argv[1], seconds=3), seconds=3, on_loss=lambda: None):
    print("held", flush=True)
    time.sleep(600)
"""


class Fake:
    """Objects in memory, with a clock that is set, and something to do before the next call of a method."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.before: dict[str, Callable[[], object]] = {}
        self._objects: dict[int, tuple[bytes, datetime]] = {}

    def _called(self, name: str) -> None:
        self.before.pop(name, lambda: None)()

    def numbers(self) -> dict[int, datetime]:
        self._called("numbers")
        return {number: at for number, (_, at) in self._objects.items()}

    def create(self, number: int, data: bytes) -> bool:
        self._called("create")
        if number in self._objects:
            return False
        self.write(number, data)
        return True

    def write(self, number: int, data: bytes) -> None:
        self._called("write")
        self._objects[number] = (data, self.now())

    def read(self, number: int) -> bytes | None:
        self._called("read")
        return self._objects.get(number, (None,))[0]

    def delete(self, number: int) -> None:
        self._called("delete")
        self._objects.pop(number, None)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture(params=["fake", "memory", "s3"])
def objects(request: pytest.FixtureRequest) -> Objects:
    if request.param == "fake":
        return Fake()
    if request.param == "memory":
        return StoredObjects(MemoryStore(), "memory")
    uri = request.getfixturevalue("s3")
    return objects_on_s3(uri, **s3_options(uri))


def _lease(objects: Objects, seconds: float = 60.0) -> Lease:
    clock = partial(getattr, objects, "seconds") if isinstance(objects, Fake) else (lambda: 0.0)
    return Lease(objects, "place", seconds=seconds, clock=clock)


def test_objects_keep_the_contract_of_a_lease(objects: Objects) -> None:
    """The fake is as the store: it creates once, tells its own time, and forgets what is deleted."""
    assert objects.numbers() == {}
    assert objects.read(1) is None
    assert [objects.create(1, b"one"), objects.create(1, b"two")] == [True, False]
    assert objects.read(1) == b"one"
    objects.write(1, b"three")
    assert objects.read(1) == b"three"
    assert [*objects.numbers()] == [1]
    assert abs((objects.now() - objects.numbers()[1]).total_seconds()) < 30
    objects.delete(1)
    objects.delete(1)
    assert objects.numbers() == {}


def test_second_owner_is_refused_until_the_first_gives_back(objects: Objects) -> None:
    first, second = _lease(objects), _lease(objects)
    first.take()

    with pytest.raises(PipelineError, match=r"place: process \d+ on .* writes here; wait for its end, or in \d+ s if it was"):
        second.take()
    first.renew()
    first.give_back()
    second.take()

    assert [*objects.numbers()] == [2]


def test_killed_owner_loses_the_folder_after_its_lease() -> None:
    store = Fake()
    killed, next_owner = _lease(store), _lease(store)
    killed.take()
    store.seconds = 40
    killed.renew()

    store.seconds = 99
    with pytest.raises(PipelineError, match="in 1 s if it was killed"):
        next_owner.take()
    store.seconds = 101
    next_owner.take()
    with pytest.raises(PipelineError, match="not renewed in time"):
        killed.renew()
    killed.give_back()

    with pytest.raises(PipelineError, match="writes here"):
        _lease(store).take()


@pytest.mark.parametrize("call", ["numbers", "read", "create"])
def test_of_two_who_take_an_ended_lease_one_succeeds(call: str) -> None:
    """Whatever the other does before one's next request: both saw that the lease had ended."""
    store = Fake()
    _lease(store).take()
    store.seconds = 100
    first, second = _lease(store), _lease(store)
    store.before[call] = second.take

    with pytest.raises(PipelineError, match="writes here"):
        first.take()

    assert (first.is_held, second.is_held) == (False, True)
    assert [*store.numbers()] == [2]


def test_late_taker_of_a_deleted_number_withdraws() -> None:
    """Two owners came and went since it looked: the number that it creates is free, but not the highest."""
    store = Fake()
    _lease(store).take()
    store.seconds = 100
    late_taker, current = _lease(store), _lease(store)

    def pass_on() -> None:
        (between := _lease(store)).take()
        between.give_back()
        current.take()

    store.before["create"] = pass_on
    with pytest.raises(PipelineError, match="writes here"):
        late_taker.take()

    assert (late_taker.is_held, current.is_held) == (False, True)
    assert [*store.numbers()] == [3]
    current.renew()


def test_paused_owner_that_writes_late_takes_nothing_back() -> None:
    """Its renewal arrives after another one took over: the folder stays with the other."""
    store = Fake()
    paused, next_owner = _lease(store), _lease(store)
    paused.take()

    def pass_time() -> None:
        store.seconds = 100
        next_owner.take()

    store.before["write"] = pass_time
    paused.renew()

    next_owner.renew()
    assert not paused.is_held
    with pytest.raises(PipelineError, match="not renewed in time"):
        paused.renew()


def test_store_that_ignores_the_condition_is_refused() -> None:
    """Older servers accept If-None-Match and create the object all the same."""

    class Lax(Fake):
        def create(self, number: int, data: bytes) -> bool:
            self.write(number, data)
            return True

    with pytest.raises(PipelineError, match="place: the store does not refuse to create an object that is there"):
        _lease(Lax()).take()


def test_store_without_conditions_is_told_in_one_line() -> None:
    class Old:
        def put(self, *_: object, **__: object) -> None:
            from obstore.exceptions import GenericError

            raise GenericError("<Error><Code>NotImplemented</Code></Error>")

    with pytest.raises(PipelineError, match=r"^old: the store does not refuse to create .* nothing keeps two writers apart$"):
        StoredObjects(Old(), "old").create(1, b"")  # type: ignore[arg-type] # of a store, only `put`


def test_lost_lease_stops_its_owner() -> None:
    """The main thread is interrupted as soon as the lease is lost, and the command ends with the reason."""
    store = Fake()
    ticks = count()
    lease = Lease(store, "place", seconds=0.2, clock=lambda: 100.0 * next(ticks))
    losses: list[bool] = []

    def work() -> None:
        with leased(lease, seconds=0.02, on_loss=lambda: losses.append(True)):
            while not losses:
                pass

    with pytest.raises(PipelineError, match="place: the lease was not renewed in time"):
        work()


def test_owner_paused_between_two_renewals_is_told_at_its_end() -> None:
    """No renewal was due before its end: it would report as its own what another one has written since."""
    store = Fake()
    paused, next_owner = _lease(store), _lease(store)

    def work() -> None:
        with leased(paused, on_loss=lambda: None):
            store.seconds = 100
            next_owner.take()

    with pytest.raises(PipelineError, match="place: the lease was not renewed in time"):
        work()
    assert next_owner.is_held


@pytest.mark.slow
def test_killed_driver_on_s3_frees_the_folder_after_its_lease(s3: str) -> None:
    objects = objects_on_s3(s3, **s3_options(s3))
    with subprocess.Popen([sys.executable, "-c", _HOLDS, s3], stdout=subprocess.PIPE, text=True) as next_owner:
        assert next_owner.stdout is not None
        assert next_owner.stdout.readline() == "held\n"
        with pytest.raises(PipelineError, match=f"process {next_owner.pid} on"):
            Lease(objects, s3).take()
        next_owner.kill()
    lease = Lease(objects, s3)
    while True:
        try:
            lease.take()
            break
        except PipelineError as error:
            assert f"process {next_owner.pid} on" in str(error)  # noqa: PT017 - until the lease ends


def test_two_writers_of_a_dataset_on_s3_do_not_meet(s3: str) -> None:
    storage = storage_at(s3)
    with owned(storage):
        assert storage.names() == []  # a lease is no file of the store
        with pytest.raises(PipelineError, match="writes here"):
            compact(storage)
    compact(storage)


@pytest.mark.slow
def test_second_driver_of_a_campaign_on_s3_is_refused(s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    base, _, options = s3.partition("?")
    with owned(storage_at(f"{base}/campaigns/safe-1-2?{options}")):
        assert run_command_line(["campaign", "--seeds", "1..2", "--jobs", "1", "--store", s3]) == 2
    assert "writes here; wait for its end" in capsys.readouterr().err
