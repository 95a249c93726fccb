"""The plugin contract: READ THIS to write a plugin.

A plugin is one value with a ``name`` and the points it takes part in, each a small base class below. It answers for
many nodes at once: nodes are *rows* of the node table, and ``rows`` is either a slice (all of them) or an int array.

Plugins hold no state about the cluster. What a plugin works out about a pod in ``pre_filter`` travels as a ``State``;
nominated pods and preemption ask the State what it would be with another pod on a row (``with_pod``), and nothing is
ever undone. What a plugin *reads* is declared (``reads``, ``fragment``, ``stamp``), so that pods which look alike to
it share its answers (``framework/classes/cache.py``). A plugin that declares nothing is asked afresh each time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from enum import Enum, Flag, auto
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.effects import Effect
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import DEFAULT_REGISTRATIONS, ClusterEvent, EventRegistration
from scheduler.framework.plugin_ports import BindContext, CalledInShell, PluginHandle
from scheduler.framework.plugin_requests import PluginRequest
from scheduler.framework.sort_keys import SortKey
from scheduler.framework.tallies import RowPods, Tally
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.commands import UpdateObject
from scheduler.messages.status import Refusal, Skip
from scheduler.objects.selectors import EVERYTHING, Selector

Rows = slice | npt.NDArray[np.int64]
"""The rows asked about: a slice for all, or an int64 array."""
Codes = npt.NDArray[np.int16]
Scores = npt.NDArray[np.int64]

MAX_NODE_SCORE = 100


class Reads(Flag):
    """What a plugin's answers for a row depend on, besides the pod's fragment and the stamp."""

    NOTHING = 0
    NODE = auto()
    """The row's Node object: labels, taints, allocatable, images, features."""
    USAGE = auto()
    """What runs on the row: requested resources, pods, ports."""
    FEASIBLE = auto()
    """Scores depend on which rows are feasible (a domain count, say), beyond what ``normalize`` does with them."""
    UNDECLARED = auto()
    """Unknown: never shared between pods."""


class FragmentReads(Enum):
    """What a plugin's fragment of a pod depends on."""

    TEMPLATE = auto()
    """Not on the pod's name, UID, resourceVersion or status, nor on the cluster: asked once a template."""
    POD = auto()
    """On the pod alone, its name and status included."""
    CLUSTER = auto()
    """On the template and on the cluster (on interned terms, say): asked each time, or while ``fragment_stamp`` stays
    equal."""


class Verdicts(Struct, frozen=True):
    """A filter's answer for the rows asked.

    ``codes``: int16, one a row; 0 = fits, k > 0 = refused by ``refusals[k - 1]``. ``None`` in place of Verdicts says
    that every row fits.
    """

    codes: Codes
    refusals: tuple[Refusal, ...]


class State:
    """What a plugin worked out about one pod in one attempt. Never changed once made: ``with_pod`` makes another."""

    __slots__ = ()

    is_blind_to_pods: ClassVar[bool] = False
    """Promises that the filter's answer for a row is the same whichever pods are there, of a plugin that does not
    declare what it reads."""

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays, which count for the size of its class of pods. Not overridden: 0."""
        return 0

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> State:
        """The state as if ``other`` were on ``row`` (sign +1) or were gone from it (-1).

        Called with the view of that one row *after* its table has been changed. Plugins whose state does not count
        pods keep this default.
        """
        return self

    def ignores(self, other: PodInfo) -> bool:
        """Whether ``with_pod`` of this pod changes nothing, on any row. Not overridden: every pod may change it."""
        return False

    def for_row(self, view: View, row: int) -> State:
        """A state, cheaper to change, with the same answers for this row and changes of its pods; for no other row."""
        return self

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        """What the filter's answers for these rows come from, in the order in which it looks: a row is refused by the
        first tally whose bound is exceeded there, and fits if none is. See ``tallies.py``.

        Only asked of States that override it; then nothing else of the row's pods may have a say.
        """
        raise NotImplementedError


class EmptyState(State):
    """The State of plugins that need none."""

    __slots__ = ()


EMPTY_STATE = EmptyState()


class NodeSubset(Struct, State, frozen=True):
    """A State that also restricts the search to the nodes named; names of no node are simply absent."""

    names: frozenset[str]
    inner: State = EMPTY_STATE


class Finding(Struct, frozen=True):
    """What a plugin can tell people about nodes that are alike to it, beyond its refusal."""

    count: int
    nodes: tuple[str, ...]
    """The first of them, by name."""
    lines: tuple[str, ...]


class Plugin:
    """Base of all plugins. ``name`` is what configuration, messages and metrics call it."""

    name: ClassVar[str]
    Args: ClassVar[type[msgspec.Struct] | None] = None
    """The Struct of the plugin's arguments; None = takes none."""
    reads: ClassVar[Reads] = Reads.UNDECLARED
    fragment_reads: ClassVar[FragmentReads] = FragmentReads.POD
    counts_pods: ClassVar[bool] = True
    """Whether ``stamp`` reads ``view.pod_counts`` or ``view.affinity_terms``. One that does not is not asked again
    where these are all that changed."""

    def __init__(self, args: object = None) -> None:
        # Any, as in validate_args: its type is the subclass's Args, which this class can't name.
        self.args: Any = args

    @classmethod
    def validate_args(cls, args: Any, path: str) -> tuple[tuple[str, str], ...]:
        """Faults of decoded arguments as (path, message) pairs; none means valid."""
        return ()

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        """Just what the plugin's answers depend on of the pod. Only asked when ``reads`` is declared.

        May look at what ``fragment_reads`` says.
        """
        raise NotImplementedError

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the plugin may have anything to say about the pod. False promises a Skip from PreFilter and PreScore,
        and nothing to reserve, permit or do before binding.

        For plugins that declare nothing: pods that they do not concern go without them. May look at all of the pod but
        its name, UID, resourceVersion and status: it is asked once for all pods made from one template.
        """
        return True

    def fragment_stamp(self, view: View) -> Hashable | None:
        """For ``FragmentReads.CLUSTER``: equal stamps promise equal fragments for pods of one template; None promises
        nothing."""
        return None

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        """Equal stamps promise equal answers on unchanged rows: versions of the counters and kinds that are read.

        A function of the fragment and of versions alone: it is asked again only when the view's ``versions`` differ.
        Covers ``pre_filter`` and ``pre_score`` too: one that looks at all nodes has ``view.table.node_version`` in it.
        """
        return ()

    def findings(self, pod: PodInfo, view: View) -> tuple[Finding, ...]:
        """For ``tandem why``: details of a pod that waits (why not where) or that has its node. Decides nothing."""
        return ()

    def events(self) -> tuple[EventRegistration, ...]:
        """The events that may make a pod schedulable which this plugin rejected."""
        return DEFAULT_REGISTRATIONS


class ScopedPlugin(Plugin):
    """A plugin whose answers depend on the profile's ``nodeScope``: which nodes the profile may use at all."""

    def __init__(self, args: object = None, node_scope: Selector = EVERYTHING) -> None:
        super().__init__(args)
        self.node_scope = node_scope


class PreEnqueuePlugin(Plugin):
    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        """Whether the pod may enter the active queue; a refusal gates it."""
        raise NotImplementedError

    def held_back(self, context: EnqueueContext) -> Collection[str]:
        """UIDs of pods that the plugin is sure to refuse again. It need not name any: those it names are passed over
        by events without being asked about one by one.
        """
        return ()

    def may_release(self, event: ClusterEvent) -> bool:
        """Whether an event of this kind can change a refusal of ``pre_enqueue``. False: pods that the plugin gates are
        passed over by such events, whatever ``events`` says for those that it refused later.
        """
        return True


class QueueSortPlugin(Plugin):
    def sort_key(self, pod: PodInfo, timestamp: float) -> SortKey:
        """Smaller goes first. ``timestamp``: seconds, when the pod was queued or last failed."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        """Work out what ``filter`` needs; SKIP leaves the plugin's filter out; a Refusal rejects the pod as a whole."""
        raise NotImplementedError


class FilterPlugin(Plugin):
    needs_pre_filter: ClassVar[bool] = False
    """``filter`` can do nothing without ``pre_filter``, which is then asked where a profile leaves it out, too."""

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        """Which rows fit; None = all do. ``state`` is EMPTY_STATE for plugins without ``pre_filter``."""
        raise NotImplementedError

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        """The same for one row. Hot plugins override it with plain integers; both forms must agree."""
        verdicts = self.filter(state, pod, view, np.array([row]))
        if verdicts is None or not verdicts.codes[0]:
            return None
        return verdicts.refusals[int(verdicts.codes[0]) - 1]

    def filter_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[Refusal | None]:
        """The same for the few rows that have changed since the class was met last."""
        return [self.filter_row(state, pod, view, row) for row in rows]

    def why_not(self, state: State, pod: PodInfo, view: View, rows: npt.NDArray[np.int64]) -> tuple[Finding, ...]:
        """For ``tandem why``: the values behind the plugin's refusals of these rows (which taint, what is free), by
        group of nodes. ``rows``: int64, all refused by ``filter`` in this view. See ``framework/findings.py``."""
        return ()


class PreScorePlugin(Plugin):
    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        """``rows``: the feasible ones. SKIP: the plugin contributes nothing. A Refusal is an error here."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    stays_in_range: ClassVar[bool] = False
    """Whether no score is ever below 0 or above 100: where many are stored they are not looked at for that."""

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        """Raw scores, int64, one a row asked. May be asked for infeasible rows too, whose scores are never read,
        unless ``reads`` has FEASIBLE."""
        raise NotImplementedError

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        return int(self.score(state, pod, view, np.array([row]))[0])

    def score_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
        """The same for the few rows that have changed since the class was met last."""
        return [self.score_row(state, pod, view, row) for row in rows]


class NormalizePlugin(ScorePlugin):
    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        """The scores from 0 to 100, from the raw scores of all feasible rows. Equal raw scores must come out equal."""
        raise NotImplementedError


class ReservePlugin(Plugin):
    def reserve(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> tuple[Effect | PluginRequest, ...] | Refusal:
        """What is to be set aside for the pod on the node. The engine applies the effects."""
        raise NotImplementedError

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect | PluginRequest, ...]:
        """What takes it back. Called for every reserve plugin, also for those that never ran: must be idempotent."""
        raise NotImplementedError

    def release_writes(self, state: State | None, pod: PodInfo, view: View) -> tuple[ClaimCommand, ...]:
        """What undoes the writes of claims before a bind that failed. Asked before ``unreserve``."""
        return ()


class Wait(Struct, frozen=True):
    """Permit's "not yet": the pod waits, assumed on its node, at most ``timeout_seconds`` (15 minutes at the most)."""

    timeout_seconds: float
    requests: tuple[PluginRequest, ...] = ()


class Permitted(Struct, frozen=True):
    """Permit's yes, with requests about other pods."""

    requests: tuple[PluginRequest, ...] = ()


class PermitPlugin(Plugin):
    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        """Whether the pod may be bound: None is yes. See ``BackgroundPlugin`` for a decision that comes later."""
        raise NotImplementedError


class Waiting(Struct, frozen=True):
    """What is reported of a wait before the bind: an event when it begins, and its end in metrics, by driver."""

    reason: str
    note: str
    drivers: tuple[str, ...]
    """Of each device of the pod's claims."""
    awaited: tuple[str, ...]
    """Of each device that is waited for."""
    endings: tuple[tuple[str, str], ...]
    """(how the message of a failure begins, how such an end is counted); others count as errors."""


class PreFlight(Struct, frozen=True):
    """There is work to do before binding.

    With ``writes`` (commands, for built-in plugins) the engine sends them and then asks ``pre_bind_progress`` every
    second, for at most ``wait_seconds``. Without, the plugin's own ``pre_bind`` runs in the shell.
    """

    is_parallel: bool = False
    """May run beside its neighbours that say so too."""
    writes: tuple[UpdateObject | ClaimCommand, ...] = ()
    wait_seconds: float | None = None
    asks_at_once: bool = False
    """``pre_bind_progress`` is asked as soon as the writes are done, not only a second later."""
    doing: str = ""
    """What the wait is for, in the message of one that took too long."""
    waiting: Waiting | None = None


class PreBindPlugin(CalledInShell, Plugin):
    """What must be done before the pod is bound. ``pre_bind_pre_flight`` is pure and says whether there is anything."""

    def pre_bind_pre_flight(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> PreFlight | Skip | Refusal:
        raise NotImplementedError

    def pre_bind_progress(self, state: State | None, pod: PodInfo, view: View, node: str) -> bool | Refusal:
        """Whether what ``writes`` set going is done; a Refusal gives up."""
        return True

    async def pre_bind(self, context: BindContext) -> Refusal | None:
        """Runs in the shell and may await. None is success."""
        raise NotImplementedError


class BindPlugin(CalledInShell, Plugin):
    async def bind(self, context: BindContext) -> Refusal | Skip | None:
        """Runs in the shell. DefaultBinder is not called: the engine sends its Binding itself."""
        raise NotImplementedError


class PostBindPlugin(CalledInShell, Plugin):
    async def post_bind(self, context: BindContext) -> None:
        raise NotImplementedError


class BackgroundPlugin(Plugin):
    """A plugin with a part that runs beside the decisions, on the replica that schedules."""

    async def run(self, handle: PluginHandle) -> None:
        """Started when this replica begins to schedule, cancelled when it stops, and when a reload replaces the plugin.

        Runs in the shell and may await; one that raises is named in the log, and started again after a while. One that
        returns is done.
        """
        raise NotImplementedError
