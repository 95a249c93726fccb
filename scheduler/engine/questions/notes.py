"""What an answer says beside its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from scheduler.cluster.object_store import ObjectStore
from scheduler.engine.questions.admission import Object, is_claim_template
from scheduler.engine.questions.edits import PutObject
from scheduler.engine.questions.evictions import Evicted, LeftBehind
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.question import Question
from scheduler.objects.kinds import Kind
from scheduler.objects.namespace import Namespace

_NAMED: Final = 10
_POD: Final = Kind.POD.entry.name
_DEFAULTED: Final = ("cpu", "memory")
"""Resources of which a LimitRange usually sets the requests that containers do not state."""


def of_evictions(evicted: Sequence[Evicted], left: Sequence[LeftBehind]) -> Iterator[str]:
    """Drains that do not come to their end, and pods that leave later."""
    kept = [one for one in left if len(one.budgets) == 1]
    if kept:
        yield f"the drain of {_nodes(kept)} does not end: budgets keep {_counted(len(kept))} there"
    refused = [one for one in left if len(one.budgets) > 1]
    if refused:
        count = _counted(len(refused))
        yield f"the drain of {_nodes(refused)} fails: the API server evicts none of {count} under more than one budget"
    seconds = [one.after_seconds for one in evicted if one.after_seconds]
    if seconds:
        first, last = min(seconds), max(seconds)
        after = f"{first} s" if first == last else f"{first} to {last} s"
        yield f"evicted later: {_counted(len(seconds))}, after tolerating the taint for {after}"


def of_manifests(question: Question, objects: ObjectStore) -> Iterator[str]:
    """What the API server would set in the pods of the question, or refuse them for, by objects that are not known
    here."""
    pods = list(_pods_of(question))
    classes = [
        spec["runtimeClassName"] for _, spec in pods if spec.get("runtimeClassName") and not spec.get("overhead")
    ]
    if classes:
        names = _names(shown(str(one)) for one in classes if one)
        yield f"nothing is known of the RuntimeClass {names}: its overhead and its node selector were left out"
    silent = [str(metadata.get("name") or metadata.get("generateName")) for metadata, spec in pods if _is_silent(spec)]
    if silent:
        yield (
            f"containers of {_names(silent)} state no request for cpu, or none for memory: "
            "what a LimitRange of the namespace would set was left out"
        )
    # A file of objects may hold no Namespace: then none is reported as missing.
    if known := objects.all_of(Namespace):
        present = {name for name, one in known.items() if not one.is_terminating}
        missing = [
            namespace for metadata, _ in pods if (namespace := metadata.get("namespace") or "default") not in present
        ]
        if missing:
            yield f"no namespace {_names(missing)} is there to take pods: the API server refuses them"


def _pods_of(question: Question) -> Iterator[tuple[Object, Object]]:
    """The metadata of the manifests of pods, and their pods' specifications; of pods that are put those without a node,
    since the API server has let the others in."""
    for asked in question.workloads:
        if is_claim_template(asked.manifest):
            continue
        spec: Object = asked.manifest.get("spec") or {}
        if asked.manifest.get("kind") != _POD:
            spec = (spec.get("template") or {}).get("spec") or {}
        yield asked.manifest.get("metadata") or {}, spec
    for edit in question.edits:
        if isinstance(edit, PutObject) and edit.object.get("kind") == _POD:
            spec = edit.object.get("spec") or {}
            if not spec.get("nodeName"):
                yield edit.object.get("metadata") or {}, spec


def _is_silent(spec: Object) -> bool:
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        if not all(resource in stated for resource in _DEFAULTED):
            return True
    return False


def _nodes(left: Sequence[LeftBehind]) -> str:
    return _names(one.node for one in left)


def _names(found: Iterable[str]) -> str:
    names = list(dict.fromkeys(found))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _counted(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"
