"""Every scenario of every family: the same decision, refusal and words as kube-scheduler 1.36.3."""

from pathlib import Path

import pytest

from tests.conformance.__main__ import check, files, scenarios

DATA = Path(__file__).parent / "data"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in files([DATA]))


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "queue"])
def test_every_scenario_is_decided_as_kube_scheduler_decides_it(family: str) -> None:
    differing = {
        scenario["id"]: lines for scenario in scenarios(DATA / f"{family}.jsonl.gz") if (lines := check(scenario))
    }
    assert not differing


def test_the_data_of_all_families_is_there() -> None:
    assert len(FAMILIES) == 20
