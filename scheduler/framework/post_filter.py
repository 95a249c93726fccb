"""What PostFilter plugins get and answer (docs/kube-scheduler/preemption.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import Enum
from typing import Protocol, TypeVar

from msgspec import Struct, field

from scheduler.cluster.groups.group import GroupReference
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin import FilterPlugin, Plugin, State
from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.status import Refusal, Skip


class NominationMode(Enum):
    """What becomes of the pod's nominated node after a failed attempt."""

    KEEP = "keep"
    SET = "set"
    CLEAR = "clear"


class Nomination(Struct, frozen=True):
    mode: NominationMode = NominationMode.KEEP
    node_name: str = ""
    """The node, for SET."""


KEEP_NOMINATION = Nomination()
CLEAR_NOMINATION = Nomination(NominationMode.CLEAR)


def nominate(node_name: str) -> Nomination:
    return Nomination(NominationMode.SET, node_name)


class WholeGroup(Struct, frozen=True):
    """A group of pods that makes room as one."""

    reference: GroupReference
    nodes: Mapping[str, str]
    """UID → node of each pod that is nominated."""
    pods: tuple[PodInfo, ...]
    """These pods, in the order in which they are tried."""


class Remove(Struct, frozen=True):
    """Victims have to leave ``node``, to which the answer nominates the pod. Those that terminate already are left
    alone, and waited for."""

    node: str
    victims: tuple[PodInfo, ...]
    """Most important first."""
    group: WholeGroup | None = None
    """The preemptor where it is a group; its victims leave any nodes."""


class WaitForVictims(Struct, frozen=True):
    """Victims on the nominated node are on their way out: until they are gone, other pods' victims do not concern the
    pod."""


class PutOff(Struct, frozen=True):
    """The pod is tried again when a removal has ended, since the limit of removals under way is reached."""


class WaitForBudget(Struct, frozen=True):
    """A node would do if the budgets allowed its victims to leave: the pod is tried again when one may allow more."""


Room = Remove | WaitForVictims | PutOff | WaitForBudget
"""What is done so that the pod finds room: what the engine acts on, besides the nomination."""


class Chance(Protocol):
    """The injected source of chance; ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """A whole number in [0, stop)."""
        ...


class NominationLog(Protocol):
    """Which nodes' nominations have changed."""

    @property
    def identity(self) -> object:
        """Another one for each log: versions of two logs, such as a fork's, say nothing of each other."""
        ...

    @property
    def version(self) -> int:
        """Grows by one with each change."""
        ...

    def nodes_changed_since(self, version: int) -> set[str] | None:
        """Names of nodes; None where that is no longer known."""
        ...


class Filters(Protocol):
    """What a dry run needs of the profile."""

    @property
    def filter_plugins(self) -> Sequence[FilterPlugin]:
        """The Filter plugins in the order in which they are asked; the first refusal wins."""
        ...


KeptType = TypeVar("KeptType")


class Kept:
    """One object of each type, made when it is first asked for: the memory of one engine that PostFilter plugins, which
    hold no state, may use. It is dropped with the profiles; what is kept must not change a decision."""

    __slots__ = ("_by_type",)

    def __init__(self) -> None:
        self._by_type: dict[type[object], object] = {}

    def of(self, kind: type[KeptType]) -> KeptType:
        """The object of this class, whose constructor takes nothing."""
        found = self._by_type.get(kind)
        if found is None:
            found = self._by_type[kind] = kind()
        assert isinstance(found, kind)
        return found

    def clear(self) -> None:
        self._by_type.clear()


class PostFilterContext(Struct, frozen=True):
    """An attempt that found no node, as a PostFilter plugin sees it."""

    pod: PodInfo
    view: View
    diagnosis: Diagnosis
    states: Mapping[str, State | Skip]
    """What ``pre_filter`` answered, by plugin name; a plugin is absent when its ``pre_filter`` was never called."""
    profile: Filters
    rng: Chance
    now_nanoseconds: int
    """Wall clock, nanoseconds since 1970, one value for the whole attempt."""
    nominated_pods: Callable[[str], Sequence[PodInfo]]
    """The pods nominated to a node, by its name."""
    may_others_name_victims: bool = False
    """Extenders are asked about the candidates, and may know victims where the plugins see nothing in the way."""
    policy: PreemptionPolicy = UPSTREAM_POLICY
    """What this pod's preemption may do."""
    on_trial: Collection[str] = ()
    """UIDs of the pods that count on nodes in this trial alone."""
    kept: Kept = field(default_factory=Kept)
    """What plugins keep from one attempt to the next."""
    nominations: NominationLog | None = None
    """The log of changes of ``nominated_pods``; None: what has changed there is not known."""
    class_key: Hashable | None = None
    """Equal for pods of one class: filters that declare what they read answer them alike. None: nothing is known."""


class PostFilterAnswer(Struct, frozen=True):
    """``status`` None is success and ends the round; UNRESOLVABLE and errors end it too; after UNSCHEDULABLE the next
    plugin is asked, and the reasons of all are joined."""

    status: Refusal | None
    nomination: Nomination = KEEP_NOMINATION
    room: Room | None = None
    evidence: object = None
    """What was found on the way (candidates, victims, the criterion that decided): kept in the Attempt for people, and
    never read by the engine."""
    writes: tuple[ClaimCommand, ...] = ()
    """Writes of claims that are sent if the pod still waits."""


class PostFilterPlugin(Plugin):
    """Called when no node fits; may make room."""

    def post_filter(self, context: PostFilterContext) -> PostFilterAnswer:
        raise NotImplementedError
