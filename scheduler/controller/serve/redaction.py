"""Answers without the names of what the asker may not see: pods of other namespaces are counted, not named."""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec

from scheduler.engine.questions.answers import ASKED, Answer, Hidden
from scheduler.engine.questions.capacity import Capacity
from scheduler.engine.questions.edits import DeleteObject, PutObject, RemovePod, kinds_named
from scheduler.engine.questions.helps import Helps
from scheduler.engine.questions.question import Question


def namespaces_of_edits(question: Question) -> tuple[str, ...]:
    """The namespaces of the pods and objects that a question changes, or asks for by name."""
    found = []
    for edit in question.edits:
        if isinstance(edit, RemovePod):
            found.append(edit.pod.partition("/")[0])
        elif isinstance(edit, DeleteObject):
            if any(kind.entry.namespaced for kind in kinds_named(edit.kind)):
                found.append(edit.namespace or "default")
        elif isinstance(edit, PutObject):
            metadata = edit.object.get("metadata")
            found.append(str(metadata.get("namespace") or "default") if isinstance(metadata, dict) else "default")
    return tuple(dict.fromkeys(name for name in found if name))


def namespaces_in(answer: Answer) -> tuple[str, ...]:
    """The namespaces of the pods and budgets that an answer names, except for the asked pods."""
    keys: list[str] = []
    for placement in answer.placements:
        keys += placement.victims
        if placement.origin != ASKED:
            keys.append(placement.pod)
    for left in answer.left:
        keys += (left.pod, *left.budgets)
    keys += [budget.budget for budget in answer.budgets]
    return tuple(dict.fromkeys(key.partition("/")[0] for key in keys))


def without_names(answer: Answer, visible: Container[str]) -> Answer:
    """The answer with what is in namespaces that are not ``visible`` counted only."""

    def sees(key: str) -> bool:
        return key.partition("/")[0] in visible

    placements, placed, pending = [], 0, 0
    for one in answer.placements:
        if one.origin == ASKED or sees(one.pod):
            seen = _seen(one.victims, visible)
            hidden = len(one.victims) - len(seen)
            placements.append(msgspec.structs.replace(one, victims=seen, hidden_victims=hidden) if hidden else one)
        elif one.node:
            placed += 1
        else:
            pending += 1
    left = tuple(
        [msgspec.structs.replace(one, budgets=_seen(one.budgets, visible)) for one in answer.left if sees(one.pod)]
    )
    budgets = tuple([one for one in answer.budgets if sees(one.budget)])
    hidden_left, hidden_budgets = len(answer.left) - len(left), len(answer.budgets) - len(budgets)
    is_whole = not (placed or pending or hidden_left or hidden_budgets)
    return msgspec.structs.replace(
        answer,
        placements=tuple(placements),
        left=left,
        budgets=budgets,
        hidden=None if is_whole else Hidden(placed, pending, hidden_left, hidden_budgets),
    )


def namespaces_of_helps(answer: Helps) -> tuple[str, ...]:
    """The namespaces of the pods that an answer names."""
    keys = [key for one in answer.helps for key in (one.pod, *one.victims) if key]
    return tuple(dict.fromkeys(key.partition("/")[0] for key in (answer.pod or answer.group, *keys)))


def helps_without_names(answer: Helps, visible: Container[str]) -> Helps:
    """The answer without changes that name a pod in a namespace that is not ``visible``; victims there are counted."""
    helps = []
    for one in answer.helps:
        if one.pod and one.pod.partition("/")[0] not in visible:
            continue
        seen = _seen(one.victims, visible)
        helps.append(msgspec.structs.replace(one, victims=seen, hidden_victims=len(one.victims) - len(seen)))
    return msgspec.structs.replace(answer, helps=tuple(helps), hidden=len(answer.helps) - len(helps))


def namespaces_of_shapes(answer: Capacity) -> tuple[str, ...]:
    """The namespaces of the pods that an answer counts in."""
    return tuple(dict.fromkeys(shape.name.partition("/")[0] for shape in answer.shapes))


def capacity_without_names(answer: Capacity, visible: Container[str]) -> Capacity:
    """The answer with a number in place of the name of each shape in a namespace that is not ``visible``."""
    names = {
        shape.name: shape.name if shape.name.partition("/")[0] in visible else f"(hidden {number})"
        for number, shape in enumerate(answer.shapes, start=1)
    }
    shapes = [
        shape if names[shape.name] == shape.name else msgspec.structs.replace(shape, name=names[shape.name], message="")
        for shape in answer.shapes
    ]
    pools = [
        msgspec.structs.replace(
            pool, fits=tuple([msgspec.structs.replace(one, shape=names[one.shape]) for one in pool.fits])
        )
        for pool in answer.pools
    ]
    return msgspec.structs.replace(answer, shapes=tuple(shapes), pools=tuple(pools))


def _seen(keys: Iterable[str], visible: Container[str]) -> tuple[str, ...]:
    return tuple([key for key in keys if key.partition("/")[0] in visible])
