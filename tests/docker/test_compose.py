"""docker/compose.yml: brokers accept its settings, and it uses the images of `make images`. No engine is needed."""

from pathlib import Path

import pytest
import yaml

from highwater.backends.real.containers.images import NODE, ZOOKEEPER
from reference.config import SAFE
from server.runtime.settings import load

DOCKER = Path(__file__).parents[2] / "docker"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_compose_accepts_the_settings_and_publishes_ports(number: int) -> None:
    settings = load(DOCKER / "compose" / f"b{number}.json")
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]

    (clients,) = settings.clients
    advertised = clients.advertised[f"b{number}"]  # type: ignore[index] # the key is an Address
    assert (settings.broker.broker, settings.broker.variant) == (number, SAFE)
    assert clients.bind.rpartition(":")[2] == advertised.rpartition(":")[2]
    ports = [
        f"{advertised}:{advertised.rpartition(':')[2]}",
        f"127.0.0.1:1940{number}:{(settings.metrics or '').rpartition(':')[2]}",
    ]
    assert services[f"b{number}"]["ports"] == ports


def test_compose_uses_the_images_that_are_built_here() -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]

    assert {service["image"] for service in services.values()} == {NODE, ZOOKEEPER}
