from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from e2e.bench.driver import Times, _decode
from e2e.bench.measurement import Pause, Result, Spent, least_ratios, measure, middle, percentile, ratios
from e2e.bench.metering import LongestStep, longest_step, pause_since
from e2e.bench.report import COLUMNS, row

SPENT = Spent(0.02, 0.03, 0.01, 1 << 20)


def run(contender: str = "tandem", **changes: object) -> Result:
    """Ten pods created at second 100, bound one a tenth of a second, each with its event at once."""
    names = [f"p{index}" for index in range(10)]
    moments: dict[str, object] = {
        "scenario": "plain",
        "contender": contender,
        "nodes": 5,
        "names": frozenset(names),
        "began": 100.0,
        "created": dict.fromkeys(names, 100.0),
        "bound": {name: 100.1 + index / 10 for index, name in enumerate(names)},
        "reported": {name: 100.1 + index / 10 for index, name in enumerate(names)},
        "spent": SPENT,
        "ended": 101.0,
    }
    return measure(**{**moments, **changes})  # type: ignore[arg-type]


def test_throughput_is_from_the_first_creation_to_the_last_binding() -> None:
    assert round(run().pods_per_second, 6) == 10


def test_percentiles_are_of_the_time_from_creation_to_binding() -> None:
    result = run()
    assert (round(result.p50, 6), round(result.p99, 6)) == (0.5, 1.0)


def test_pods_that_were_there_before_the_clock_started_wait_from_its_start_on() -> None:
    result = run(created=dict.fromkeys((f"p{index}" for index in range(10)), 40.0))
    assert (round(result.p50, 6), round(result.p99, 6)) == (0.5, 1.0)


def test_a_run_that_was_cut_off_gives_bounds_and_does_not_count() -> None:
    theirs = run("kube-scheduler", bound={"p0": 100.5}, reported={"p0": 100.5}, ended=150.0)
    shown = dict(zip(COLUMNS, row(theirs), strict=True))
    assert [shown[name] for name in ("pods", "seconds", "pods/s", "p50 ms", "p99 ms")] == [
        "1/10",
        "> 50",
        "< 0.2",
        "–",
        "–",
    ]
    assert not theirs.counts
    assert least_ratios([run(), theirs]) == {"plain": 50.0}
    assert ratios([run(), theirs]) == {}
    shown = dict(zip(COLUMNS, row(run(bound={}, reported={}, ended=150.0)), strict=True))
    assert shown["CPU µs/pod"] == "–"


def test_no_bound_is_claimed_of_a_run_that_ended_or_for_one_that_does_not_count() -> None:
    theirs = run("kube-scheduler", bound={}, reported={}, ended=150.0)
    assert run().cut_off is None
    assert least_ratios([run(), run("kube-scheduler")]) == {}
    assert least_ratios([run(reported={}), theirs]) == {}


def test_cpu_time_is_shared_among_the_pods() -> None:
    assert run().cpu_per_pod == 0.002


def test_the_whole_machine_pays_for_scheduler_api_server_and_etcd() -> None:
    result = run()
    assert round(result.whole_cpu_per_pod, 6) == 0.006
    shown = dict(zip(COLUMNS, row(result), strict=True))
    assert (shown["whole CPU µs/pod"], shown["of it API server"], shown["etcd"]) == ("6000", "3000", "1000")


def test_the_longest_pause_says_whether_it_was_before_the_clock_ran() -> None:
    def shown(pause: Pause | None) -> str:
        return dict(zip(COLUMNS, row(run(spent=replace(SPENT, pause=pause))), strict=True))["longest pause ms (CPU)"]

    assert [shown(Pause(0.012)), shown(Pause(0.12, 0.007, True)), shown(None)] == ["12", "< 120 (7)", "–"]
    assert pause_since(LongestStep(0.25, 0.1, at=99.0), began_at=100.0) == Pause(0.25, 0.1, is_from_before=True)
    assert pause_since(LongestStep(0.25, at=101.0), began_at=100.0) == Pause(0.25)
    assert pause_since(None, began_at=100.0) is None


def test_the_longest_pause_is_read_from_a_series_that_the_product_has() -> None:
    known = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    assert all(f"`tandem_longest_step_{part}`" in known for part in ("seconds", "cpu_seconds", "timestamp_seconds"))
    page = "# TYPE x gauge\ntandem_longest_step_seconds 0.25\n"
    assert longest_step(page) == LongestStep(0.25)
    page += "tandem_longest_step_cpu_seconds 0.01\ntandem_longest_step_timestamp_seconds 1.7e+09\n"
    assert longest_step(page) == LongestStep(0.25, 0.01, 1.7e9)
    assert longest_step("") is None


def test_a_run_in_which_every_pod_is_bound_and_reported_counts() -> None:
    assert run().counts


def test_a_run_with_an_unbound_pod_does_not_count() -> None:
    result = run(bound={"p0": 100.1}, reported={"p0": 100.1})
    assert result.faults == ("9 pods without a binding",)


def test_a_run_with_a_missing_event_does_not_count() -> None:
    result = run(reported={f"p{index}": 101.0 for index in range(9)})
    assert result.faults == ("1 pods without a Scheduled event",)


def test_a_run_with_an_event_over_five_seconds_late_does_not_count() -> None:
    result = run(reported={f"p{index}": 100.1 + index / 10 + (5.1 if index == 3 else 4.9) for index in range(10)})
    assert result.faults == ("1 Scheduled events later than 5 s",)


def test_the_percentile_is_a_value_that_occurred() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], percent) for percent in (1, 25, 26, 50, 99, 100)] == [1, 1, 2, 2, 4, 4]


def test_of_three_rounds_the_middle_one_is_reported_and_those_that_do_not_count_are_left_out() -> None:
    quick, slow = run(began=100.05), run(began=99.0)
    broken = run(reported={})
    assert middle([quick, broken, slow, run()]) == run()


def test_ratios_above_one_are_in_favour_of_tandem() -> None:
    theirs = run("kube-scheduler", spent=Spent(0.04, 0.07, 0.01, 3 << 20))
    assert ratios([run(), theirs])["plain"] == {
        "throughput": 1.0,
        "p99": 1.0,
        "cpu": 2.0,
        "whole cpu": 2.0,
        "memory": 3.0,
    }


def test_a_run_that_does_not_count_is_compared_with_nothing() -> None:
    assert ratios([run(), run("kube-scheduler", reported={})]) == {}


def test_evicted_pods_are_reported_beside_the_times() -> None:
    result = run(victims=3)
    assert result.as_json()["victims"] == 3
    assert row(result)[COLUMNS.index("victims")] == "3"
    assert row(result)[COLUMNS.index("seconds")] == "1.0"
    assert len(row(result)) == len(COLUMNS)


def test_pods_that_go_count_once_and_the_measured_ones_not_at_all() -> None:
    times = Times(["measured"])
    for kind, name, deleted in (
        ("ADDED", "there", ""),
        ("MODIFIED", "victim", "2026-01-01T00:00:00Z"),
        ("DELETED", "victim", "2026-01-01T00:00:00Z"),
        ("DELETED", "measured", ""),
    ):
        metadata = {"name": name, **({"deletionTimestamp": deleted} if deleted else {})}
        times.saw_pod(_decode(msgspec.json.encode({"type": kind, "object": {"metadata": metadata}})))
    assert times.removed == {"victim"}
