"""What counts as the same answer: each field of ``expect`` as the vectors' README says it is to be compared."""

from __future__ import annotations

from typing import Any

from scheduler.objects.quantity import parse
from tests.conformance.scenario import Answers

OWN_ERROR_TEXTS = ("no nodes available to schedule pods",)


def differences(expect: dict[str, Any], got: Answers) -> list[str]:
    """A line for each field that differs; none means exact."""
    lines: list[str] = []

    def compare(field: str, wanted: Any, found: Any) -> None:
        if wanted != found:
            lines.append(f"{field}: expected {wanted!r}, got {found!r}")

    compare("preEnqueue", expect["preEnqueue"], got.pre_enqueue)
    if expect["preEnqueue"] is not None:
        return lines
    compare("error", expect["error"] is not None, got.error is not None)
    if expect["error"] is not None:
        if expect["error"] in OWN_ERROR_TEXTS:
            compare("error text", expect["error"], got.error)
        return lines
    compare("preFilter.status", _sorted_reasons(expect["preFilter"]["status"]), got.pre_filter["status"])
    names = expect["preFilter"]["nodeNames"]
    compare("preFilter.nodeNames", sorted(names) if names is not None else None, got.pre_filter["nodeNames"])
    _compare_filter(expect["filter"], got, compare)
    compare("feasible", sorted(expect["feasible"]), sorted(got.feasible))
    if expect["scores"] is not None:
        _compare_scores(expect, got, compare)
    if "allocations" in expect and expect["error"] is None:
        _compare_allocations(expect, got, compare)
    released = expect.get("release") or []
    if len(got.released) > 1 or bool(got.released) != bool(released) or set(got.released) - set(released):
        compare("release", released, got.released)
    if expect["fitError"]:
        compare("fitError", expect["fitError"], got.fit_error)
        compare("nomination", expect["nomination"], got.nomination)
    if expect["preemption"] is not None:
        _compare_preemption(expect["preemption"], got, compare)
    return lines


def _compare_filter(wanted: dict[str, Any] | None, got: Answers, compare: Any) -> None:
    if wanted is None:
        compare("filter", None, got.filter)
        return
    for node, status in wanted.items():
        found = (got.filter or {}).get(node)
        expected = _sorted_reasons(status)
        if expected is not None and not expected["plugin"] and found is not None:
            # A node outside the PreFilter set: the vectors name no plugin for it.
            found = {**found, "plugin": ""}
        compare(f"filter[{node}]", expected, found)


def _compare_scores(expect: dict[str, Any], got: Answers, compare: Any) -> None:
    scores = got.scores or {}
    for plugin in sorted(expect["scores"].keys() | scores.keys()):
        wanted, found = expect["scores"].get(plugin), scores.get(plugin)
        if wanted is None or found is None:
            present = wanted if wanted is not None else found
            if len(set((present or {}).values())) > 1:
                compare(f"scores[{plugin}]", wanted, found)
            continue
        compare(f"scores[{plugin}]", wanted, found)
    compare("total", expect["total"], got.total)
    total = got.total or dict.fromkeys(got.feasible, 0)
    top = max(total.values(), default=0)
    compare("best", sorted(expect["best"]), sorted(node for node, value in total.items() if value == top))
    if got.choice not in expect["choice"]:
        compare("choice", expect["choice"], got.choice)


def _compare_allocations(expect: dict[str, Any], got: Answers, compare: Any) -> None:
    for node, wanted in expect["allocations"].items():
        compare(f"allocations[{node}]", _normal(wanted), _normal(got.allocations.get(node)))


def _normal(value: Any, key: str = "") -> Any:
    """Quantities by value; any share id is as good as another."""
    if isinstance(value, dict):
        if key == "consumedCapacity":
            return {name: parse(amount) for name, amount in value.items()}
        return {name: _normal(one, name) for name, one in value.items() if not _is_absent(one)}
    if isinstance(value, list | tuple):
        return [_normal(one) for one in value]
    return "*" if key == "shareID" else value


def _is_absent(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, list | tuple | dict) and not value)


def _compare_preemption(wanted: dict[str, Any], got: Answers, compare: Any) -> None:
    evidence = got.preemption
    if evidence is None:
        compare("preemption", wanted, None)
        return
    compare("preemption.eligible", wanted["eligible"], evidence.eligible)
    candidates = {
        candidate.node_name: {
            "victims": [victim.key for victim in candidate.victims],
            "pdbViolations": candidate.pdb_violations,
        }
        for candidate in evidence.candidates
    }
    compare("preemption.candidates", wanted["candidates"], candidates)
    statuses = {
        node: {"code": refusal.code.value, "plugin": refusal.plugin, "reasons": sorted(refusal.reasons)}
        for node, refusal in evidence.node_statuses.items()
    }
    expected = {node: _sorted_reasons(status) for node, status in (wanted.get("nodeStatuses") or {}).items()}
    compare("preemption.nodeStatuses", expected, statuses)
    compare("preemption.best", sorted(wanted["best"] or ()), sorted(evidence.best))
    if wanted["best"] and got.nominated not in wanted["best"]:
        compare("preemption.nominated", wanted["best"], got.nominated)


def _sorted_reasons(status: dict[str, Any] | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return {"code": status["code"], "plugin": status["plugin"], "reasons": sorted(status["reasons"])}
