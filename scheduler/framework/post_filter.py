"""What PostFilter plugins get and answer (reference preemption.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin import FilterPlugin, State
from scheduler.messages.status import Refusal, Skip

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View


class NominationMode(Enum):
    """What becomes of the pod's nominated node after a failed attempt."""

    KEEP = "keep"
    SET = "set"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Nomination:
    mode: NominationMode = NominationMode.KEEP
    node_name: str = ""
    """The node, for SET."""


KEEP_NOMINATION = Nomination()
CLEAR_NOMINATION = Nomination(NominationMode.CLEAR)


def nominate(node_name: str) -> Nomination:
    return Nomination(NominationMode.SET, node_name)


class Chance(Protocol):
    """The injected source of chance; ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """A whole number in [0, stop)."""
        ...


class Filters(Protocol):
    """What a dry run needs of the profile."""

    @property
    def filter_plugins(self) -> Sequence[FilterPlugin]:
        """In the order in which they are asked; the first refusal wins."""
        ...


@dataclass(frozen=True, slots=True)
class PostFilterContext:
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


@dataclass(frozen=True, slots=True)
class PostFilterAnswer:
    """``status`` None is success and ends the round; UNRESOLVABLE and errors end it too; after UNSCHEDULABLE the next
    plugin is asked, and the reasons of all are joined."""

    status: Refusal | None
    nomination: Nomination = KEEP_NOMINATION
    evidence: Any = None
    """What was found on the way (candidates, victims, the criterion that decided), kept in the Attempt."""
    writes: tuple[Any, ...] = ()
    """Commands that are to be sent, if the pod is still waiting."""
