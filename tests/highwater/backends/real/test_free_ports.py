"""Ports for servers that bind later: not the kernel's for outgoing connections, none twice, none that is taken."""

import socket
from pathlib import Path

import pytest

from highwater.backends.real.zookeeper import local
from highwater.errors import HarnessError


def test_ports_are_below_those_of_outgoing_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(local.free_port() < first for _ in range(50))


def test_no_port_is_given_twice() -> None:
    ports = [local.free_port() for _ in range(2000)]
    assert len(set(ports)) == len(ports)


def test_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        port = local.free_port()
        taken.bind(("127.0.0.1", port))
        monkeypatch.setattr(local, "_given", set())
        monkeypatch.setattr("secrets.randbelow", lambda _: port - local._PORTS_FIRST)
        with pytest.raises(HarnessError, match="no free port at 127"):
            local.free_port()
