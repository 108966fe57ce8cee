"""Which layouts each version of the inter-broker protocol sends, and which each release knows."""

from itertools import pairwise

from reference.config import RELEASES, Protocol, Release
from server.wire.versions import SENT, VERSIONS, Api, is_known, sent_by


def test_release_knows_its_layouts_and_older_ones() -> None:
    """R-316: a release that knew less than the one before could not take part in the first roll."""
    layouts_by_release = {
        release: {(api, version) for api, versions in VERSIONS.items() for version in versions if is_known(release, api, version)}
        for release in RELEASES
    }

    for older, newer in pairwise(RELEASES):
        assert layouts_by_release[older] < layouts_by_release[newer]
    for release in RELEASES:
        assert {(api, version) for api, version in SENT[release].items()} <= layouts_by_release[release]
    assert not is_known("kip112", Api.LEADER_AND_ISR, 2)
    assert not is_known("kip112", Api.METADATA_HEARTBEAT, 0)
    assert not is_known("kip343_v0", Api.ISR_CHANGE, 1)


def test_versions_send_the_layouts_of_the_documents() -> None:
    apis = (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA, Api.ISR_CHANGE)
    named: dict[Protocol, tuple[int, ...]] = {"v3": (0, 0, 0, 1), "kip112": (1, 1, 0, 1), "kip343_v0": (1, 1, 0, 0)}
    today: tuple[Protocol, ...] = ("legacy", "kip343")

    assert named == {protocol: tuple(sent_by(protocol, api) for api in apis) for protocol in named}
    assert all(tuple(sent_by(protocol, api) for api in apis) == (2, 1, 1, 1) for protocol in today)


def test_only_releases_from_kip_343_on_have_heartbeats() -> None:
    has: dict[Release, bool] = {release: is_known(release, Api.METADATA_HEARTBEAT, 0) for release in RELEASES}

    assert has == {"v3": False, "kip112": False, "kip343_v0": True, "kip343": True}
