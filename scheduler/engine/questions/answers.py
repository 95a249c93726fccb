"""Answers as values, ready for JSON. Lists are cut at ``MAX_LISTED`` entries; the counts beside them are complete."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_LISTED: Final = 1_000
MAX_NODES_NAMED: Final = 20
"""Names listed of an allowed set; its size is complete."""

ASKED, EVICTED, WAITING, PREEMPTED, ADDED = "asked", "evicted", "waiting", "preempted", "added"
"""Where a pod of an answer comes from."""
STEPS, SECONDS = "steps", "seconds"
"""The bounds of a question."""


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Refused(_Value, frozen=True):
    plugin: str
    reasons: tuple[str, ...]
    count: int


class Placement(_Value, frozen=True, omit_defaults=True):
    """What becomes of one pod. ``node`` "": it stays pending, ``message`` says why."""

    pod: str
    origin: str
    node: str = ""
    left_node: str = ""
    """Where it was before, of an evicted or preempted pod."""
    after_seconds: int = 0
    """How long the evicted pod stays there first, since it tolerates the taint for a time."""
    allowed_count: int = 0
    """The size of the allowed set: 1 if the decision is certain."""
    allowed: tuple[str, ...] = ()
    is_sampled: bool = False
    """The configuration samples nodes: the allowed set is that of one sample."""
    after_chance: bool = False
    """An earlier pod of this answer had several nodes to go to or preempted others, or this one preempts while others
    are still to be tried: with another choice, or another timing, this may come out otherwise."""
    victims: tuple[str, ...] = ()
    hidden_victims: int = 0
    violated_budgets: int = 0
    message: str = ""
    refused: tuple[Refused, ...] = ()
    waits: tuple[str, ...] = ()
    """Permit plugins that it waits for."""
    by_profile: str = ""
    """The profile that was used in place of another scheduler's."""


class Moved(_Value, frozen=True, omit_defaults=True):
    """A pod that stays on a drained node, or that nothing creates again."""

    pod: str
    node: str
    stays: bool
    why: str
    budgets: tuple[str, ...] = ()


class BudgetPage(_Value, frozen=True):
    """``wanted`` evictions, of which ``allowed`` are allowed at once; ``blocked`` pods can't be evicted at all."""

    budget: str
    wanted: int
    allowed: int
    blocked: int


class Room(_Value, frozen=True):
    """How many more pods of a workload fit, besides those that were placed. ``is_at_least``: a bound was reached."""

    workload: str
    count: int
    is_at_least: bool
    by_node: dict[str, int]
    runs_out: tuple[Refused, ...] = ()
    """Why no further one fits: refusals by the number of nodes, the most frequent first."""
    message: str = ""


class Hidden(_Value, frozen=True):
    """Pods of namespaces whose pods the asker may not list, counted in place of being named."""

    placed: int = 0
    pending: int = 0
    left: int = 0
    budgets: int = 0


class Answer(_Value, frozen=True, omit_defaults=True):
    """The answer to a what-if question."""

    nodes: int
    placed: int
    pending: int
    seed: int
    placements: tuple[Placement, ...] = ()
    left: tuple[Moved, ...] = ()
    left_count: int = 0
    budgets: tuple[BudgetPage, ...] = ()
    nodes_added: tuple[str, ...] = ()
    room: tuple[Room, ...] = ()
    steps: int = 0
    """Pods that were tried."""
    bound: str = ""
    """The bound that ended it: STEPS or SECONDS. "": it is complete."""
    not_tried: int = 0
    """Pods that a bound left out."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """About the question's configuration."""
    hidden: Hidden | None = None
