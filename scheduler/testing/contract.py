"""Checks the whole plugin contract on small clusters; ``check_contract`` lists the rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import (
    FilterPlugin,
    FragmentReads,
    NodeSubset,
    Plugin,
    PreFilterPlugin,
    Reads,
    ScorePlugin,
)
from scheduler.messages.status import SKIP, Refusal
from scheduler.testing.chosen import check_chosen
from scheduler.testing.clusters import Cluster, World, twin, usual_clusters
from scheduler.testing.hints import check_hints
from scheduler.testing.questions import columns_of, filter_answers, pre_filter_answer, score_answers
from scheduler.testing.sharing import check_sharing
from scheduler.testing.violations import ContractViolation, asked
from scheduler.testing.with_pod import check_with_pod
from scheduler.user_plugins import answers
from scheduler.user_plugins.shape import defines, faults_of


def check_contract(
    plugin: Plugin, clusters: Iterable[Cluster] | None = None, *, changes: int = 60, seed: int = 0
) -> None:
    """Raises ContractViolation for the first rule that the plugin violates, in this order:

    * ``shape``: the class defines what its extension points need and declares nothing that it lacks.
    * ``answers``, ``raises``: types, codes and lengths are right, and nothing raises: of PreFilter, Filter, PreScore
      and Score, and, once a pod has its node, of Reserve, Unreserve, Permit and the pre-flight of PreBind.
    * ``forms``: the vector form for all rows, for some rows in any order, and the scalar form agree.
    * ``range``, ``normalize``: final scores are 0 to 100; equal raw scores become equal ones, alone or among others.
    * ``repeatable``: the same call has the same answer, also after calls for other pods.
    * ``inputs``: the plugin mutates none of its arguments.
    * ``concerns``: a pod that does not concern the plugin is skipped by its PreFilter and PreScore; what is said of a
      pod does not come from its name, UID, resourceVersion or status.
    * ``with_pod``: a State with a pod added or removed answers as a new one would for the changed cluster.
    * ``fragment``, ``reads``: pods with equal fragments have equal answers, and through ``changes`` random changes of
      the cluster the answers of the class cache equal those of a fresh evaluation.
    * ``hints``: a queueing hint returns a Hint, the same for pods that differ in name and UID only, and the same for
      events with equal facets; and never Queue for an event without the keys that the pod wants.

    ``clusters`` None: ``usual_clusters(seed)``. Pass clusters of your own if the plugin reads labels, taints or
    objects that those lack: random changes are drawn from the objects of a cluster.
    """
    if not isinstance(getattr(plugin, "name", None), str):
        raise ContractViolation(type(plugin).__name__, "shape", "name is missing")
    wrong = faults_of(type(plugin))
    if wrong:
        raise ContractViolation(plugin.name, "shape", "; ".join(wrong))
    for number, cluster in enumerate(usual_clusters(seed) if clusters is None else clusters):
        rng = Random(seed + number)
        _check_answers(plugin, cluster)
        _check_chosen(plugin, cluster)
        check_with_pod(plugin, cluster, rng)
        check_sharing(plugin, cluster, rng, changes)
        check_hints(plugin, cluster)


def _check_answers(plugin: Plugin, cluster: Cluster) -> None:
    world = World(cluster)
    first: dict[str, Any] = {}
    for pod in world.pending:
        before = _picture(world.view), msgspec.json.encode(pod.pod)
        first[pod.uid] = _all_answers(plugin, pod, world.view)
        if (_picture(world.view), msgspec.json.encode(pod.pod)) != before:
            raise ContractViolation(
                plugin.name, "inputs", f"asked about pod {pod.name} it changed the cluster or the pod"
            )
    for pod in reversed(world.pending):
        again = _all_answers(plugin, pod, world.view)
        if again != first[pod.uid]:
            message = f"asked about pod {pod.name} again it says {again}, at first it said {first[pod.uid]}"
            raise ContractViolation(plugin.name, "repeatable", message)


def _check_chosen(plugin: Plugin, cluster: Cluster) -> None:
    world = World(cluster)
    before = _picture(world.view)
    check_chosen(plugin, world)
    if _picture(world.view) != before:
        raise ContractViolation(plugin.name, "inputs", "asked about a pod that has its node it changed the cluster")


def _all_answers(plugin: Plugin, pod: PodInfo, view: View) -> tuple[Any, ...]:
    """All answers in a comparable form; the plugin's State is compared only through the answers that follow from it."""
    found: list[Any] = []
    if isinstance(plugin, PreFilterPlugin):
        answer = pre_filter_answer(plugin, pod, view)
        found.append(answer if isinstance(answer, Refusal) else type(answer))
        found.append(answer.names if isinstance(answer, NodeSubset) else None)
    if isinstance(plugin, FilterPlugin):
        found.append(filter_answers(plugin, pod, view))
    if isinstance(plugin, ScorePlugin):
        found.append(score_answers(plugin, pod, view))
    _check_concerns(plugin, pod, view)
    if Reads.UNDECLARED not in plugin.reads and defines(type(plugin), Plugin, "fragment"):
        found.append(_fragment(plugin, pod, view))
        if plugin.fragment_reads is FragmentReads.TEMPLATE and _fragment(plugin, _double(pod), view) != found[-1]:
            message = (
                f"the fragment of pod {pod.name} differs for a pod of the same template: declare FragmentReads.POD"
            )
            raise ContractViolation(plugin.name, "fragment", message)
    return tuple(found)


def _fragment(plugin: Plugin, pod: PodInfo, view: View) -> Hashable:
    found: Hashable = asked(plugin, "fragment", lambda: plugin.fragment(pod, view), answers.check_fragment)
    return found


def _double(pod: PodInfo) -> PodInfo:
    """A pod of the same template, which differs in all else."""
    other = twin(pod.pod, f"{pod.name}-twin")
    status = msgspec.structs.replace(other.status, nominated_node_name="contract-test")
    metadata = msgspec.structs.replace(other.metadata, resource_version=f"{other.metadata.resource_version}1")
    return PodInfo(msgspec.structs.replace(other, metadata=metadata, status=status))


def _check_concerns(plugin: Plugin, pod: PodInfo, view: View) -> None:
    is_concerned, and_its_like = (_concerns(plugin, each) for each in (pod, _double(pod)))
    if is_concerned is not and_its_like:
        message = f"whether pod {pod.name} concerns it depends on the pod's name, UID, resourceVersion or status"
        raise ContractViolation(plugin.name, "concerns", message)
    if is_concerned:
        return
    skips_filter = not isinstance(plugin, PreFilterPlugin) or pre_filter_answer(plugin, pod, view) is SKIP
    skips_score = not isinstance(plugin, ScorePlugin) or score_answers(plugin, pod, view) is None
    if not (skips_filter and skips_score):
        message = f"it says that pod {pod.name} does not concern it, but does not skip the pod"
        raise ContractViolation(plugin.name, "concerns", message)


def _concerns(plugin: Plugin, pod: PodInfo) -> bool:
    return bool(asked(plugin, f"concerns of pod {pod.name}", lambda: plugin.concerns(pod), answers.check_truth))


def _picture(view: View) -> tuple[Any, ...]:
    """A snapshot of all parts of the table that a plugin could mutate, as bytes and identities."""
    table = view.table
    held: list[Any] = [column.tobytes() for column in columns_of(table).values()]
    held.append([sorted(pods) for pods in table.pods])
    held.append([msgspec.json.encode(node, order="sorted") if node is not None else b"" for node in table.nodes])
    held.append(view.ordered_rows.tobytes())
    return tuple(held)
