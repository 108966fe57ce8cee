"""The states before and after rows of a stored run, for its page and for `highwater serve`, as `highwater inspect` has them."""

from collections.abc import Iterator, Sequence

from highwater.errors import HighwaterError, UsageError
from highwater.inspect.session import Session, row_words
from highwater.inspect.view import CLIENTS, Change, changes
from highwater.plans.text import plan_from_yaml
from highwater.rig.backend import REPEATABLE
from history.history import History
from reports.rows import partition_key
from reports.states import Field, Held, Inside, RowStates, held_by

FIELDS_MAX = 12  # changed fields that are listed for one row


def opened(plan: str, stored: History) -> Session:
    """A session on a stored run. `plan` is its text. UsageError if the run cannot be performed again."""
    backend = stored.manifest.backend
    if backend not in REPEATABLE:
        raise UsageError(f"states are those of simulated runs and explored paths; this run is of backend {backend}")
    if not plan:
        raise UsageError("the plan of the run is not known")
    return Session(plan_from_yaml(plan), stored=stored)


def inside(plan: str, stored: History, indices: Sequence[int]) -> Inside:
    """The states around rows with these indices. `plan` is the text of the run's plan.

    The run is performed again up to the last of them. No states if the present code makes other rows than the stored run has.
    """
    try:
        session = opened(plan, stored)
    except UsageError as error:
        return Inside(missing=f"No states: {error}.")
    try:
        return Inside(rows=tuple(states_at(session, index) for index in sorted(set(indices))))
    except HighwaterError as error:
        return Inside(missing=f"No states: {error}.")
    finally:
        session.close()


def states_at(session: Session, index: int) -> RowStates:
    """Go to a row; what its own process and those that its action changed held before and after it, of the row's partition."""
    session.partition = partition_key(session.row_at(index))
    session.to_row(index)
    assert session.row is not None
    changed = sorted(changes(session.before, session.moment), key=lambda change: not _is_about(change, session.partition))
    names = {*session.own(), *(change.process for change in changed)} - {CLIENTS}
    return RowStates(
        index=index,
        words=row_words(session.row),
        held=tuple(_held(session, names)),
        fields=tuple(_field(change) for change in changed[:FIELDS_MAX]),
        fields_left_out=max(0, len(changed) - FIELDS_MAX),
        called=session.called,
    )


def _is_about(change: Change, partition: str) -> bool:
    return bool(partition) and partition in change.field


def _field(change: Change) -> Field:
    return Field(process=change.process, name=change.field, before=change.before, after=change.after)


def _held(session: Session, names: set[str]) -> Iterator[Held]:
    before, after = dict(session.before.lines), dict(session.moment.lines)
    for name in after:
        if name in names:
            yield held_by(name, before.get(name, ()), after[name])
