"""VolumeBinding: a pod goes where its claims' volumes can be used, found or made; and waits there until they are bound.

Filter: bound claims keep the pod to the nodes that their PersistentVolume's node affinity allows. Claims whose class
waits for the first consumer (``volumeBindingMode: WaitForFirstConsumer``) need a free volume that fits, the smallest
one, or a provisioner that can make one there: the class's ``allowedTopologies`` and, for drivers that publish it, the
free capacity are looked at. Refuses with up to four reasons: ``node(s) didn't match PersistentVolume's node affinity``,
``node(s) didn't find available persistent volumes to bind``, ``node(s) did not have enough free storage`` and
``node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)``. A pod with a claim that is unbound but
should not be is refused as a whole.

Before the bind, the volume gets its ``claimRef`` or the claim its ``volume.kubernetes.io/selected-node``, each written
only to the version that was decided on, and the pod waits until the claims are bound.

Arguments: ``bindTimeoutSeconds``, how long it waits (600; 0: not at all). ``shape`` needs the feature gate
StorageCapacityScoring (``capacity_scores.py``); without it nodes are not scored.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.effects import Effect
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.volumes.reserved import Release
from scheduler.config.field_faults import invalid
from scheduler.config.types import Int32, Int64
from scheduler.errors import Fault
from scheduler.framework.events import EventRegistration
from scheduler.framework.findings import RowArray, grouped
from scheduler.framework.likeness import AlikeState, Likeness
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    PreBindPlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable
from scheduler.objects.steps import Steps
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.plugins.volume_binding.claims import sort_claims, why_unbound
from scheduler.plugins.volume_binding.delayed import IS_BINDABLE, NOT_FOUND, TOO_SMALL, DelayedClaims, UnusableClaim
from scheduler.plugins.volume_binding.evidence import causes_of_bound, causes_of_delayed
from scheduler.plugins.volume_binding.hints import EVENTS
from scheduler.plugins.volume_binding.writes import awaited, progress, reservation_of, writes_of

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_NOT_FOUND = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_REASONS = {1: NODE_CONFLICT, 2: BIND_CONFLICT, 4: NOT_ENOUGH_SPACE, 8: VOLUME_NOT_FOUND}
_REFUSALS = tuple(unresolvable(*(reason for bit, reason in _REASONS.items() if code & bit)) for code in range(1, 16))
"""By a code that has a bit for each reason."""

Codes = npt.NDArray[np.int16]

_MAX_SINGLE_ROWS = 4
"""The number of rows up to which each is asked alone: asking all of them costs as much as ten such answers."""


class UtilizationShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    """Utilization in percent, score from 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel"):
    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


def timeout_faults(args: VolumeBindingArgs, path: str) -> list[Fault]:
    """The faults of ``bindTimeoutSeconds``."""
    if args.bind_timeout_seconds >= 0:
        return []
    rule = "invalid BindTimeoutSeconds, should not be a negative value"
    return [invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, rule)]


class Claims(Struct, AlikeState, frozen=True):
    """Claims that are bound, and how those that are not can be."""

    is_blind_to_pods: ClassVar[bool] = True
    bound: tuple[PersistentVolumeClaim, ...]
    delayed: DelayedClaims | None
    unusable: Refusal | None = None
    """The error for which nothing can be said of any node."""

    def likeness(self, view: View) -> Likeness | None:
        """By the rows that each volume can be used from. Volumes for claims without one are each found once."""
        if self.delayed is not None or self.unusable is not None:
            return None
        return Likeness(tuple([_reach(claim, view) for claim in self.bound]))


class VolumeBinding(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin, LookingPlugin
):
    """See docs/kube-scheduler/plugins.md §3.15, volumes.md §2."""

    name = "VolumeBinding"
    needs_pre_filter = True
    Args = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        super().__init__(args or VolumeBindingArgs())

    @classmethod
    def validate_args(cls, args: VolumeBindingArgs, path: str) -> tuple[tuple[str, str], ...]:
        faults = timeout_faults(args, path)
        if args.shape is not None:
            rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            faults.append(invalid(f"{path}.shape", msgspec.to_builtins(args.shape), rule))
        return tuple((fault.path, fault.message) for fault in faults)

    # --- filter -------------------------------------------------------------------------------------------------------

    def concerns(self, pod: PodInfo) -> bool:
        return any(
            volume.persistent_volume_claim is not None or volume.ephemeral is not None
            for volume in pod.pod.spec.volumes
        )

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        if not pod.pod.spec.volumes:
            return SKIP
        claims = sort_claims(pod, view)
        if isinstance(claims, Skip | Refusal):
            return claims
        try:
            return Claims(claims.bound, DelayedClaims(claims.delayed, view) if claims.delayed else None)
        except UnusableClaim as error:
            return Claims(claims.bound, None, failure(str(error)))

    def look_in_steps(self, point: str, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal] | None:
        if point != PRE_FILTER or not view.volumes.has_long_selector(pod):
            return None
        return self._look_in_steps(pod, view)

    def _look_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        yield from view.volumes.parse_in_steps(pod)
        return self.pre_filter(pod, view)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, Claims)
        if state.unusable is not None:
            return Verdicts(np.ones(len(view.table.exists[rows]), np.int16), (state.unusable,))
        codes = _bound_codes(state.bound, view, rows)
        if state.delayed is not None:
            codes |= _delayed_codes(state.delayed, view, rows)
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        assert isinstance(state, Claims)
        kept_for = _live(view, rows)
        assert isinstance(kept_for, np.ndarray)
        causes = list(causes_of_bound(state.bound, view, kept_for))
        if state.delayed is not None:
            causes += causes_of_delayed(state.delayed, view, kept_for, [view.table.names[row] for row in rows.tolist()])
        return grouped(view, rows, causes)

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        return SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return np.zeros(len(view.table.exists[rows]), np.int64)

    # --- reserve and bind ---------------------------------------------------------------------------------------------

    def reserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...] | Refusal:
        if not isinstance(state, Claims) or state.delayed is None:
            return ()
        row = view.table.existing_row(node)
        found = view.table.nodes[row] if row is not None else None
        if found is None:
            return failure(f'node "{node}" not found')
        sources = state.delayed.sources_on(node, found.metadata.labels)
        if not sources.is_complete:
            # Filter found them: this happens only if the cluster changed while an extender was asked.
            return failure(BIND_CONFLICT if not sources.is_bindable else NOT_ENOUGH_SPACE)
        return (reservation_of(pod.uid, node, sources),)

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...]:
        return (Release(pod.uid),) if view.volumes.reservation(pod.uid) is not None else ()

    def pre_bind_pre_flight(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> PreFlight | Skip | Refusal:
        reservation = view.volumes.reservation(pod.uid)
        if reservation is None:
            return SKIP
        return PreFlight(
            is_parallel=True,
            writes=tuple(writes_of(reservation)),
            wait_seconds=float(self.args.bind_timeout_seconds),
            doing="binding volumes",
        )

    def pre_bind_progress(self, state: State | None, pod: PodInfo, view: View, node: str) -> bool | Refusal:
        return progress(pod, view, node)

    def findings(self, pod: PodInfo, view: View) -> tuple[Finding, ...]:
        """The claims whose volumes the pod waits for: before it is tried, or once its node is chosen."""
        reservation = view.volumes.reservation(pod.uid)
        if reservation is None:
            lines = tuple(why_unbound(pod, view)) if not pod.node_name else ()
            return (Finding(0, (), lines),) if lines else ()
        lines = tuple(awaited(pod, view))
        return (Finding(1, (reservation.node,), lines),) if lines else ()

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return EVENTS


# --- claims that are bound --------------------------------------------------------------------------------------------


def _bound_codes(claims: tuple[PersistentVolumeClaim, ...], view: View, rows: Rows) -> Codes:
    """By row: the first claim whose volume cannot be used there decides."""
    codes = np.zeros(len(view.table.exists[rows]), np.int16)
    for claim in claims:
        volume = view.volumes.volume(claim.spec.volume_name)
        if volume is None:
            codes[codes == 0] = 8
            break
        reached = view.volumes.rows_reaching(volume)
        if reached is not None:
            codes[(codes == 0) & ~reached[_live(view, rows)]] = 1
    return codes


def _reach(claim: PersistentVolumeClaim, view: View) -> bytes | bool:
    """Equal for claims that ``_bound_codes`` does not tell apart."""
    volume = view.volumes.volume(claim.spec.volume_name)
    if volume is None:
        return False
    reached = view.volumes.rows_reaching(volume)
    return True if reached is None else reached.tobytes()


def _live(view: View, rows: Rows) -> Rows:
    """The same rows, in the table that volumes are kept for."""
    return rows if view.live_rows is None else view.live_rows[rows]


# --- claims that are not ----------------------------------------------------------------------------------------------


def _delayed_codes(claims: DelayedClaims, view: View, rows: Rows) -> Codes:
    table = view.table
    if not isinstance(rows, slice) and len(rows) <= _MAX_SINGLE_ROWS:
        return np.array([_code(claims, view, row) for row in rows.tolist()], np.int16)
    if claims.selected_nodes:
        codes = np.full(table.size, NOT_FOUND, np.int16)
        (node, *others) = claims.selected_nodes
        row = None if others else table.existing_row(node)
        if row is not None:
            codes[row] = _code(claims, view, row)
        return codes[rows]
    codes = claims.codes(view.volumes)[_live(view, rows)]
    codes[~table.exists[rows]] = IS_BINDABLE
    return codes


def _code(claims: DelayedClaims, view: View, row: int) -> int:
    node = view.table.nodes[row]
    if node is None:
        return IS_BINDABLE
    sources = claims.sources_on(node.metadata.name, node.metadata.labels)
    return (IS_BINDABLE if sources.is_bindable else NOT_FOUND) | (IS_BINDABLE if sources.has_space else TOO_SMALL)
