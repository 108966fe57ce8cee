"""The catalogue of kinds and the names that select from it."""

import pytest

from history.fault_kinds import FAMILIES, KIND_NAMES
from history.seed import Rng
from nemesis.blows import Aim, Kind
from nemesis.faults import wounds
from nemesis.kinds import KINDS, MIXES, UnknownKindError, kind, select
from nemesis.schedule import Shape, TopicFacts, Window, validate
from nemesis.targets import Everyone

SHAPE = Shape(
    brokers=3,
    log_dirs=2,
    topics=(TopicFacts(name="orders", partitions=2, min_insync_replicas=2, flush="none"),),
    session_timeout_ms=3000,
    replica_lag_time_max_ms=2000,
    end_ms=100_000,
    zookeeper=3,
    places=3,
)


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: entry.name)
def test_fault_kind_draws_valid_faults_with_documented_damage(entry: Kind) -> None:
    for seed in range(50):
        blow = entry.draw(Rng(seed), Aim(shape=SHAPE, topic="orders", partition=1))
        windows = tuple(
            Window(
                id=f"f{number}",
                kind=entry.name,
                at_ms=one.after_ms,
                until_ms=one.after_ms + one.lasts_ms,
                fault=one.fault,
                target=one.target,
            )
            for number, one in enumerate((blow, *blow.beside))
        )

        assert validate(windows, SHAPE) == ()
        assert wounds(blow.fault, "none") == (entry.destroys != "nothing")
        assert wounds(blow.fault, "before_ack") == (entry.destroys == "everything")
        assert not entry.everyone or blow.target == Everyone()


def test_fault_kind_names_are_unique_and_families_known() -> None:
    assert len(set(KIND_NAMES)) == len(KIND_NAMES)
    assert {entry.name: entry.family for entry in KINDS} == {name: family for family in FAMILIES for name in FAMILIES[family]}
    assert kind("bounce").name == "bounce"


def test_faults_are_selected_by_family_mix_first_word_or_kind() -> None:
    assert select(["pause"]) == FAMILIES["pause"]
    assert select(["isolate"]) == tuple(name for name in FAMILIES["partition"] if name.startswith("isolate-"))
    assert select(["crash-leader", "cut-peers", "crash-leader"]) == ("cut-peers", "crash-leader")
    assert select(["calm"]) == ()
    assert select(["all"]) == tuple(entry.name for entry in KINDS if not entry.named_only)
    assert select(["power"]) == FAMILIES["power"]


@pytest.mark.parametrize("name", MIXES)
def test_fault_mix_has_only_known_kinds(name: str) -> None:
    assert set(select([name])) <= set(KIND_NAMES)


def test_unknown_fault_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownKindError, match=r"unknown fault 'partitoin'; did you mean 'partition'"):
        select(["pause", "partitoin"])
    with pytest.raises(UnknownKindError, match=r"unknown fault 'flood'; known: calm, .* and \d+ more$"):
        select(["flood"])
