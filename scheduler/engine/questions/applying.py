"""What each change does to the fork of a trial."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import filterfalse
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import UNREADY
from scheduler.engine.questions.edits import (
    HOSTNAME,
    AddNodes,
    AddTaint,
    Consequences,
    Cordon,
    DeleteObject,
    Drain,
    Edit,
    PutObject,
    RemoveNode,
    RemovePod,
    SetLabel,
    Uncordon,
    WrongQuestion,
)
from scheduler.engine.questions.evictions import Evictions, with_own_name
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.put_objects import delete_object, put_object
from scheduler.engine.questions.trial import Trial
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node, Taint
from scheduler.objects.storage import CSINode
from scheduler.objects.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, tolerates

MAX_NEW_NODES: Final = 1_000
_STATUS_TAINTS: Final = "node.kubernetes.io/"
"""Taints of this domain report a node's condition: a new node has none of them."""
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def apply_edits(trial: Trial, edits: Sequence[Edit], consequences: Consequences) -> Generator[None, None, None]:
    """Change the fork, and yield after each edit. Budgets come first, since they hold for every eviction; then nodes
    are closed, so that no evicted pod goes to one that is about to be drained. Raises WrongQuestion.
    """
    for edit in filter(_is_of_a_budget, edits):
        _APPLY[type(edit)](trial, edit, consequences)
        yield
    edits = list(filterfalse(_is_of_a_budget, edits))
    consequences.evictions = Evictions(trial)
    for edit in edits:
        if isinstance(edit, Drain):
            _cordon(trial, Cordon(edit.node), consequences)
            yield
    for edit in edits:
        _APPLY[type(edit)](trial, edit, consequences)
        yield
    # Only now: the budgets count the pods that leave regardless of them, which are known once all edits are made.
    yield from consequences.evictions.take_turns(consequences.evicted, consequences.left)


def _is_of_a_budget(edit: Edit) -> bool:
    kind = edit.object.get("kind") if isinstance(edit, PutObject) else getattr(edit, "kind", None)
    return kind == Kind.POD_DISRUPTION_BUDGET.entry.name


def _node(trial: Trial, name: str) -> Node:
    row = trial.cache.table.existing_row(name)
    node = trial.cache.table.nodes[row] if row is not None else None
    if node is None:
        raise WrongQuestion(f"node {shown(name)} is not known")
    return node


def _with_spec(node: Node, **fields: Any) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, **fields))


def _drain(trial: Trial, edit: Drain, consequences: Consequences) -> None:
    assert consequences.evictions is not None
    consequences.evictions.drain(edit.node, consequences.evicted, consequences.left)


def _cordon(trial: Trial, edit: Cordon, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    others = tuple([taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT.key])
    trial.cache.observe_node(_with_spec(node, unschedulable=True, taints=(*others, UNSCHEDULABLE_TAINT)))


def _uncordon(trial: Trial, edit: Uncordon, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    others = tuple([taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT.key])
    trial.cache.observe_node(_with_spec(node, unschedulable=False, taints=others))


def _taint(trial: Trial, edit: AddTaint, consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    if edit.effect not in EFFECTS:
        raise WrongQuestion(f"effect {shown(edit.effect)} must be one of {', '.join(EFFECTS)}")
    if not edit.key:
        raise WrongQuestion("a taint needs a key")
    taint = Taint(edit.key, edit.value, edit.effect)
    added = [taint]
    if edit.key in UNREADY and edit.effect == NO_EXECUTE:
        # A node that is lost gets both taints. With one only, pods that tolerate it for a time would come back.
        added.append(Taint(edit.key, edit.value, NO_SCHEDULE))
    replaced = [(one.key, one.effect) for one in added]
    others = [one for one in node.taints if (one.key, one.effect) not in replaced]
    trial.cache.observe_node(_with_spec(node, taints=(*others, *added)))
    if edit.effect == NO_EXECUTE:
        assert consequences.evictions is not None
        consequences.evictions.push_off(
            edit.node,
            consequences.evicted,
            consequences.left,
            lambda info: _seconds_tolerated(taint, info),
            "does not tolerate the taint",
        )


def _seconds_tolerated(taint: Taint, info: PodInfo) -> int | None:
    """How long the pod may stay with the taint; None: for ever. The first toleration that matches counts."""
    used = next((one for one in info.pod.spec.tolerations if tolerates(one, taint)), None)
    if used is None:
        return 0
    return None if used.toleration_seconds is None else max(used.toleration_seconds, 0)


def _label(trial: Trial, edit: SetLabel, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    labels = {key: value for key, value in node.labels.items() if key != edit.key}
    if edit.value is not None:
        labels[edit.key] = edit.value
    trial.cache.observe_node(
        msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))
    )


def _remove_node(trial: Trial, edit: RemoveNode, consequences: Consequences) -> None:
    _node(trial, edit.node)
    assert consequences.evictions is not None
    consequences.evictions.push_off(
        edit.node, consequences.evicted, consequences.left, lambda _: 0, "ends with its node"
    )
    trial.cache.remove_node(edit.node)


def _add_nodes(trial: Trial, edit: AddNodes, consequences: Consequences) -> None:
    like = _node(trial, edit.like)
    if edit.count < 1 or len(consequences.nodes_added) + edit.count > MAX_NEW_NODES:
        raise WrongQuestion(f"{edit.count} new nodes: a question can add 1 to {MAX_NEW_NODES}")
    limits = trial.cache.objects.get(Kind.CSI_NODE, edit.like)
    number = 0
    for _ in range(edit.count):
        number += 1
        while trial.cache.table.row(f"{edit.like}-new-{number}") is not None:
            number += 1
        node = node_like(like, f"{edit.like}-new-{number}")
        trial.cache.observe_node(node)
        if isinstance(limits, CSINode):
            trial.cache.observe_object(Kind.CSI_NODE, with_own_name(limits, node.name))
        consequences.nodes_added.append(node.name)


def node_like(like: Node, name: str) -> Node:
    """An empty node as ``like`` was when it came: without images, and without the taints of a condition."""
    labels = {**like.labels, HOSTNAME: name} if HOSTNAME in like.labels else like.labels
    metadata = msgspec.structs.replace(like.metadata, labels=labels)
    node = with_own_name(msgspec.structs.replace(like, metadata=metadata), name)
    taints = tuple([taint for taint in like.taints if not taint.key.startswith(_STATUS_TAINTS)])
    status = msgspec.structs.replace(like.status, images=())
    return msgspec.structs.replace(_with_spec(node, unschedulable=False, taints=taints), status=status)


def _remove_pod(trial: Trial, edit: RemovePod, _consequences: Consequences) -> None:
    found = trial.placed(edit.pod)
    if found is None:
        raise WrongQuestion(f"pod {shown(edit.pod)} is on no node")
    trial.remove(found)


_APPLY: Final[dict[type, Callable[[Trial, Any, Consequences], None]]] = {
    Drain: _drain,
    Cordon: _cordon,
    Uncordon: _uncordon,
    AddTaint: _taint,
    SetLabel: _label,
    RemoveNode: _remove_node,
    AddNodes: _add_nodes,
    RemovePod: _remove_pod,
    PutObject: put_object,
    DeleteObject: delete_object,
}
