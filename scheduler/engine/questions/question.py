"""The question what if, as it comes by the wire, and its limits."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.engine.questions.edits import Edit, WrongQuestion
from scheduler.engine.questions.trial import DEFAULT_SEED

MAX_WORKLOADS: Final = 100
MAX_EDITS: Final = 1_000


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A manifest as in a file for ``kubectl apply``; ``replicas`` None: its own number."""

    manifest: dict[str, Any]
    replicas: int | None = None


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A what-if question: edits of the cluster, and pods to be placed after them."""

    workloads: tuple[Asked, ...] = ()
    edits: tuple[Edit, ...] = ()
    finds_max: bool = False
    """How many more pods of each workload fit, without preemption."""
    with_waiting: bool | None = None
    """Whether the pods that wait now are tried, too. None: if there are edits."""
    configuration: str = ""
    """Configuration files in place of the scheduler's: profiles and weights; "": its own."""
    seed: int = DEFAULT_SEED
    chosen: dict[str, str] = msgspec.field(default_factory=dict)
    """namespace/name → the node to take where it is among equally good ones."""


def check_question(question: Question) -> None:
    """Check a question's limits. Raises WrongQuestion for one beyond them, or one that asks nothing."""
    if len(question.workloads) > MAX_WORKLOADS:
        raise WrongQuestion(f"{len(question.workloads)} workloads: at most {MAX_WORKLOADS} are answered")
    if len(question.edits) > MAX_EDITS:
        raise WrongQuestion(f"{len(question.edits)} edits: at most {MAX_EDITS} are answered")
    if not (question.workloads or question.edits or question.with_waiting or question.configuration):
        raise WrongQuestion("the question has neither pods nor edits")
    if question.finds_max and not question.workloads:
        raise WrongQuestion("the largest number of what? The question has no pods")
