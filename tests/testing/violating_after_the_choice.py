"""Plugins that break the contract once a pod has its node, or by their class, each with the rule that must catch it."""

from __future__ import annotations

from typing import Any

from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    ReservePlugin,
    Rows,
    State,
    Verdicts,
)


class NoName(FilterPlugin):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        return None


class Awaiting(PermitPlugin):
    name = "Awaiting"

    async def permit(self, state: State | None, pod: Any, view: Any, node: str) -> Any:  # type: ignore[override]
        return None


class PermitOfSeconds(PermitPlugin):
    name = "PermitOfSeconds"

    def permit(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return 30


class ReserveOfNothing(ReservePlugin):
    name = "ReserveOfNothing"

    def reserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return None

    def unreserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return ()


class ReserveThatWrites(ReservePlugin):
    name = "ReserveThatWrites"

    def reserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        view.table.pod_count[:] += 1
        return ()

    def unreserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return ()


class UnreserveThatRaises(ReservePlugin):
    name = "UnreserveThatRaises"

    def reserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return ()

    def unreserve(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        raise KeyError(pod.name)


class PreFlightOfTruth(PreBindPlugin):
    name = "PreFlightOfTruth"

    def pre_bind_pre_flight(self, state: State | None, pod: Any, view: Any, node: str) -> Any:
        return True


VIOLATIONS_AFTER_THE_CHOICE: list[tuple[type[Plugin], str]] = [
    (NoName, "shape"),
    (Awaiting, "shape"),
    (PermitOfSeconds, "answers"),
    (ReserveOfNothing, "answers"),
    (ReserveThatWrites, "inputs"),
    (UnreserveThatRaises, "raises"),
    (PreFlightOfTruth, "answers"),
]
