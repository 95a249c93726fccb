from pathlib import Path

from scheduler.simulate.ports import free_ports


def test_free_ports_are_distinct_and_not_those_of_outgoing_connections() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if first > 20_000:
        assert not [port for port in ports if first <= port <= last]
