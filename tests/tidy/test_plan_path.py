"""A plan goes a short way into the simulator: one scene is made of it, and its parts are handed down (docs/ARCHITECTURE.md)."""

from tests.tidy.plan_path import climbs, way

PLACES_MAX = 45
CLIMBS_MAX = 5  # one of them in asking the simulator whether it can perform the plan


def test_plan_goes_through_few_places_into_the_simulator() -> None:
    places = way()

    assert {"highwater.rig.scene", "highwater.backends.sim.node"} <= {place.module for place in places}
    assert len(places) <= PLACES_MAX
    assert len(climbs(places)) <= CLIMBS_MAX
