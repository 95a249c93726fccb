"""docs/devices.md says what the code does with the gates of devices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.gate_table import GATES
from scheduler.errors import ConfigurationError

PAGE = (Path(__file__).parents[2] / "docs/devices.md").read_text()
TABLE = PAGE.partition("<!-- device-gates:begin -->")[2].partition("<!-- device-gates:end -->")[0]
ROWS = re.findall(r"^\| `(\w+)` \| (on|off) \| (locked|refused|no effect|honoured) \|", TABLE, re.MULTILINE)


def test_every_gate_of_devices_is_in_the_table() -> None:
    of_devices = [name for name in GATES if name.startswith("DRA") or name == "DynamicResourceAllocation"]
    assert sorted(name for name, _, _ in ROWS) == sorted(of_devices)


@pytest.mark.parametrize(("gate", "default", "_"), ROWS)
def test_the_defaults_are_those_of_1_36(gate: str, default: str, _: str) -> None:
    assert GATES[gate].default is (default == "on")


@pytest.mark.parametrize(("gate", "default", "effect"), ROWS)
def test_a_gate_away_from_its_default_does_what_the_table_says(gate: str, default: str, effect: str) -> None:
    wanted = default == "off"
    # A gate may need others, or be needed by others; these are switched along.
    along: dict[str, bool] = {other: wanted for other in GATES[gate].requires if wanted and not GATES[other].default}
    needed_by = [other for other, one in GATES.items() if gate in one.requires and one.default]
    along |= dict.fromkeys(() if wanted else needed_by, wanted)
    setting = ",".join(f"{name}={str(value).lower()}" for name, value in {gate: wanted, **along}.items())
    if effect == "no effect":
        parsed = parse_feature_gates(f"{gate}={str(wanted).lower()}")
        assert any(f"{gate}={str(wanted).lower()} has no effect" in warning for warning in parsed.warnings)
        return
    if effect == "honoured":
        assert parse_feature_gates(setting).enabled(gate) is wanted
        return
    with pytest.raises(ConfigurationError) as caught:
        parse_feature_gates(setting)
    text = "locked to" if effect == "locked" else f"{gate}={str(wanted).lower()} is not supported by Tandem"
    assert any(text in str(fault) and gate in str(fault) for fault in caught.value.faults)
