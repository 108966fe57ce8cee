"""One owner at a time of a folder in an object store: a lease that its owner renews, and that a crash lets run out.

    <folder>/.owner-<number>    a lease: who holds it, for how many seconds after its last write, and whether it was given back

Objects cannot be locked, but S3 creates one only if there is none of its name (If-None-Match: *). Whoever wants the folder reads
the lease with the highest number. If that was given back, or was not renewed within its seconds, they create the next number:
of several who try, one succeeds. Only lower numbers are deleted, and only by an owner; so the highest lease tells who owns the
folder, and whoever created a lower one late sees the higher one and withdraws.

How old a lease is, is told by the store's clock alone: its own time of writing beside that of an object written now. The owner
counts on its own monotonic clock, from before the last renewal that succeeded; so it gives up before others may take over,
however long it was paused. What it had sent to the store before then may still arrive later.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

from history.errors import NOT_JSON
from pipeline.errors import OwnedError, PipelineError

if TYPE_CHECKING:
    from obstore.store import MemoryStore, S3Config, S3Store

LEASE_S = 60.0
_PREFIX = ".owner-"
_CLOCK = ".clock-"
_RENEWALS = 4  # within the seconds of a lease
_RETRY_S = 10  # of one request


class Held(Struct, frozen=True, kw_only=True):
    """The content of a lease."""

    who: str
    seconds: float
    given_back: bool = False


class Objects(Protocol):
    """What a lease asks of an object store. Each call raises PipelineError where the store refuses it."""

    def numbers(self) -> dict[int, datetime]:
        """The numbers of all leases, and when each was written by the store's clock."""

    def create(self, number: int, data: bytes) -> bool:
        """Write a lease unless there is one of this number; whether it was written."""

    def write(self, number: int, data: bytes) -> None:
        """Write a lease."""

    def read(self, number: int) -> bytes | None:
        """The content of a lease; None if there is none."""

    def delete(self, number: int) -> None:
        """Delete a lease, if there is one."""

    def now(self) -> datetime:
        """The time by the store's clock."""


class StoredObjects:
    """The leases below a folder of an object store (obstore)."""

    def __init__(self, store: "S3Store | MemoryStore", where: str) -> None:
        self._store = store
        self._path = where

    def numbers(self) -> dict[int, datetime]:
        """As in `Objects`."""
        with self._refusals_in_words():
            found = self._store.list_with_delimiter()["objects"]
        named = {entry["path"].rpartition("/")[2]: entry["last_modified"] for entry in found}
        return {int(name.removeprefix(_PREFIX)): at for name, at in named.items() if name.startswith(_PREFIX)}

    def create(self, number: int, data: bytes) -> bool:
        """As in `Objects`."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._refusals_in_words():
            try:
                self._store.put(_name(number), data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def write(self, number: int, data: bytes) -> None:
        """As in `Objects`."""
        with self._refusals_in_words():
            self._store.put(_name(number), data)

    def read(self, number: int) -> bytes | None:
        """As in `Objects`."""
        with self._refusals_in_words():
            try:
                return bytes(self._store.get(_name(number)).bytes())
            except FileNotFoundError:
                return None

    def delete(self, number: int) -> None:
        """As in `Objects`."""
        with self._refusals_in_words(), suppress(FileNotFoundError):
            self._store.delete(_name(number))

    def now(self) -> datetime:
        """As in `Objects`."""
        name = f"{_CLOCK}{uuid4()}"
        with self._refusals_in_words():
            self._store.put(name, b"")
            at: datetime = self._store.head(name)["last_modified"]
            self._store.delete(name)
        return at

    @contextmanager
    def _refusals_in_words(self) -> Iterator[None]:
        """Turn a refusal of the store into one sentence."""
        from obstore.exceptions import BaseError, NotSupportedError

        try:
            yield
        except NotSupportedError as error:
            raise PipelineError(_NO_CONDITIONS.format(self._path)) from error
        except BaseError as error:
            words = str(error)
            if "NotImplemented" in words or "501" in words:
                raise PipelineError(_NO_CONDITIONS.format(self._path)) from error
            raise PipelineError(f"{self._path}: the lease of the folder: {' '.join(words.split())[:200]}") from error


_NO_CONDITIONS = (
    "{}: the store does not refuse to create an object that is there (If-None-Match): nothing keeps two writers apart"
)


def _name(number: int) -> str:
    return f"{_PREFIX}{number:010}"


def objects_on_s3(where: str, *, bucket: str, folder: str, region: str | None, endpoint: str | None) -> Objects:
    """The leases below a folder on S3. Raises PipelineError where obstore is not installed."""
    try:
        from obstore.store import S3Store
    except ImportError:
        words = "a store on S3 needs obstore: install highwater with its extra, pip install 'highwater-harness[s3]'"
        raise PipelineError(words) from None
    own: S3Config = {"region": region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"}
    if endpoint is not None:
        own["endpoint"] = endpoint
    store = S3Store(
        bucket,
        prefix=folder or None,
        client_options={"allow_http": True},
        retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=_RETRY_S)},
        config=own,
    )
    return StoredObjects(store, where)


class Lease:
    """A lease on the folder of these objects. `take` first; `renew` several times within its seconds; `give_back` at the end."""

    def __init__(self, objects: Objects, where: str, *, seconds: float = LEASE_S, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._objects = objects
        self._path = where
        self._held = Held(who=_me(), seconds=seconds)
        self._number = 0
        self._until = 0.0  # by this clock, which is monotonic

    @property
    def is_held(self) -> bool:
        """Whether nobody else may have taken over."""
        return self._clock() < self._until

    def take(self) -> None:
        """Own the folder. Raises PipelineError if somebody else does, and says who; or if the store creates what exists."""
        latest = max(self._objects.numbers(), default=0)
        if latest:
            self._check_free(latest)
        start = self._clock()
        self._number = latest + 1
        if not self._objects.create(self._number, msgspec.json.encode(self._held)):
            raise self._refusal(self._number)
        if self._objects.create(self._number, msgspec.json.encode(self._held)):
            self._objects.delete(self._number)
            raise PipelineError(_NO_CONDITIONS.format(self._path))
        present = self._objects.numbers()
        higher = max(present, default=0)
        if higher > self._number:  # the lease that was read had been replaced, and its successor deleted
            self._objects.delete(self._number)
            raise self._refusal(higher)
        self._until = start + self._held.seconds
        for number in present:
            if number < self._number:
                self._objects.delete(number)

    def _check_free(self, number: int) -> None:
        """Raise PipelineError if this lease is neither given back nor over."""
        data = self._objects.read(number)
        written = self._objects.numbers().get(number)
        if data is None or written is None:  # a higher one has replaced it
            raise self._refusal(number)
        held = _content_of(data)
        if held is None or held.given_back:
            return
        age_s = (self._objects.now() - written).total_seconds()
        if age_s <= held.seconds:
            raise self._refusal(number, f", or in {held.seconds - age_s:.0f} s if it was killed")

    def _refusal(self, number: int, more: str = "") -> OwnedError:
        """The error for a folder that another process owns, with its words on who it is."""
        data = self._objects.read(number)
        held = None if data is None else _content_of(data)
        who = "another process" if held is None else held.who
        return OwnedError(f"{self._path}: {who} writes here; wait for its end{more}")

    def renew(self) -> None:
        """Prolong the lease. Raises PipelineError if it is lost, or if the store does not answer."""
        start = self._clock()
        if not self.is_held or max(self._objects.numbers(), default=0) > self._number:
            self._until = 0.0
            raise self.loss_error()
        self._objects.write(self._number, msgspec.json.encode(self._held))
        self._until = start + self._held.seconds

    def loss_error(self) -> PipelineError:
        """The error of an owner that was paused for too long, or whose store did not answer."""
        return PipelineError(f"{self._path}: the lease was not renewed in time, and another process may write here")

    def give_back(self) -> None:
        """Free the folder, if the lease is still held."""
        if self.is_held:
            self._until = 0.0
            self._objects.write(self._number, msgspec.json.encode(msgspec.structs.replace(self._held, given_back=True)))


def _content_of(data: bytes) -> Held | None:
    """The content of a lease; None where it is damaged: nobody can say that they hold it."""
    try:
        return msgspec.json.decode(data, type=Held)
    except NOT_JSON:
        return None


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC,"


@contextmanager
def leased(lease: Lease, *, seconds: float = LEASE_S, on_loss: Callable[[], None]) -> Iterator[None]:
    """Hold a lease within the context, renewed by a thread; `on_loss` is called there if it is lost.

    Raises PipelineError at the begin if somebody else holds it, and at the end if it was lost meanwhile.
    """
    lease.take()
    over = threading.Event()
    lost: list[str] = []

    def keep() -> None:
        while not over.wait(seconds / _RENEWALS):
            try:
                lease.renew()
            except PipelineError as error:
                if not lease.is_held:
                    lost.append(str(error))
                    on_loss()
                    return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        # A process that was paused since the last renewal finds the next one not yet due: the thread cannot have noticed.
        was_held = lease.is_held
        with suppress(PipelineError):  # a store that does not answer lets the lease run out
            lease.give_back()
    if lost:
        raise PipelineError(lost[0])
    if not was_held:
        raise lease.loss_error()
