from __future__ import annotations

import pytest

from scheduler.objects.ports import HostPort, any_port_conflicts, host_ports, port_conflicts
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import pod


def test_an_address_and_a_protocol_are_filled_in() -> None:
    asked = pod(ports=[80, {"hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP", "containerPort": 53}])
    assert host_ports(asked) == (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "UDP", 53))


def test_only_ports_of_the_host_in_containers_that_stay_count() -> None:
    asked = pod(
        containers=[container_json("a", ports=[{"containerPort": 8080}]), container_json("b", ports=[80, 80])],
        init_containers=[container_json("i", ports=[81]), container_json("s", ports=[82], sidecar=True)],
    )
    assert [port.port for port in host_ports(asked)] == [80, 82]


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "UDP", 80), False),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 81), False),
        (HostPort("::", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
    ],
)
def test_when_a_port_is_taken(wanted: HostPort, used: HostPort, conflict: bool) -> None:
    assert port_conflicts(wanted, {used}) is conflict
    assert any_port_conflicts([HostPort("0.0.0.0", "SCTP", 1), wanted], [used]) is conflict


def test_nothing_is_taken_on_an_empty_node() -> None:
    assert not any_port_conflicts([HostPort("0.0.0.0", "TCP", 80)] * 2, ())
