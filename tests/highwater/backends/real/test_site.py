"""`end_all` tries every part of a site, and a probe that looks again ends with what it found last."""

import asyncio

import pytest

from highwater.backends.real import site
from highwater.backends.real.site import Proof, end_all, looking_again
from highwater.errors import HarnessError


def test_site_cleanup_ends_all_processes_despite_a_failure() -> None:
    """Otherwise one broker that does not end would leave ZooKeeper running and all mounts in place."""
    tried: list[str] = []

    def fails(error: Exception) -> None:
        tried.append(str(error))
        raise error

    with pytest.raises(HarnessError, match="the disk is busy"):
        end_all([lambda: fails(OSError("the disk is busy")), lambda: fails(HarnessError("later")), lambda: tried.append("last")])

    assert tried == ["the disk is busy", "later", "last"]


@pytest.mark.parametrize(("seconds", "found"), [(60.0, (True, "look 3")), (0.0, (False, "look 2"))])
def test_probe_looks_until_it_sees_the_effect_or_gives_up(
    seconds: float, found: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what the last look saw."""
    monkeypatch.setattr(site, "LOOK_AGAIN_S", 0.0)
    times = iter([0.0, 0.0, 1.0, 1.0])
    monkeypatch.setattr(site, "monotonic", lambda: next(times))
    looks = 0

    async def look() -> Proof:
        nonlocal looks
        looks += 1
        return Proof(looks == 3, f"look {looks}")

    async def play() -> Proof:
        return await looking_again(look, seconds=seconds)()

    proof = asyncio.run(play())

    assert (proof.holds, proof.detail) == found
