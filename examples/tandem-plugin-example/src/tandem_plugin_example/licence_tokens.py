"""LicenceTokens: no more pods of a licence run in the whole cluster than there are tokens of it.

A pod says ``example.com/licence: matlab``; the number of tokens of each licence is an argument. Pods of a licence that
is not listed are not held back. A pod that found no token waits until a pod of its licence ends, or preempts one of
lower priority.

Arguments: ``tokens`` (for example ``{matlab: 3}``).
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.plugin import (
    SKIP,
    Action,
    ClusterEvent,
    EventRegistration,
    FilterPlugin,
    Hint,
    PodInfo,
    PreFilterPlugin,
    Resource,
    Rows,
    Skip,
    State,
    Verdicts,
    View,
    unschedulable,
)

LICENCE = "example.com/licence"


class LicenceTokensArgs(msgspec.Struct, frozen=True, rename="camel"):
    tokens: dict[str, int] = {}


class Used(State):
    """How many pods of the licence are on nodes, those that preemption tries to do without left out."""

    def __init__(self, licence: str, used: int) -> None:
        self.licence, self.used = licence, used

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> Used:
        return Used(self.licence, self.used + sign) if other.labels.get(LICENCE) == self.licence else self


class LicenceTokens(PreFilterPlugin, FilterPlugin):
    name = "LicenceTokens"
    Args = LicenceTokensArgs
    refusals = (unschedulable("node(s) had no licence token left in the cluster"),)

    def __init__(self, args: LicenceTokensArgs | None = None) -> None:
        super().__init__(args or LicenceTokensArgs())

    @classmethod
    def validate_args(cls, args: LicenceTokensArgs, path: str) -> tuple[tuple[str, str], ...]:
        return tuple((f"{path}.tokens[{name}]", "must not be negative") for name, n in args.tokens.items() if n < 0)

    def concerns(self, pod: PodInfo) -> bool:
        return pod.labels.get(LICENCE, "") in self.args.tokens

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip:
        if not self.concerns(pod):
            return SKIP
        licence = pod.labels[LICENCE]
        on_nodes = (other for row in view.ordered_rows.tolist() for other in view.table.pods[row].values())
        return Used(licence, sum(other.labels.get(LICENCE) == licence for other in on_nodes))

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, Used)
        if state.used < self.args.tokens[state.licence]:
            return None
        return Verdicts(np.ones(len(view.table.pod_count[rows]), np.int16), self.refusals)

    def events(self) -> tuple[EventRegistration, ...]:
        return (EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _a_token_is_free),)


def _a_token_is_free(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if old is not None and old.labels.get(LICENCE) == pod.labels.get(LICENCE) else Hint.SKIP
