"""The whole plugin contract, checked on small clusters: READ ``check_contract`` for the list of promises."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import (
    FilterPlugin,
    NodeSubset,
    Plugin,
    PreFilterPlugin,
    Reads,
    ScorePlugin,
)
from scheduler.messages.status import SKIP, Refusal
from scheduler.testing.clusters import Cluster, World, usual_clusters
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
    """Raise ContractViolation with the first promise that the plugin breaks. In this order:

    * ``shape``: the class defines what its extension points need and declares nothing that it lacks.
    * ``answers``, ``raises``: types, codes and lengths are right, and nothing raises.
    * ``forms``: the vector form for all rows, for some rows in any order, and the scalar form agree.
    * ``range``, ``normalize``: final scores are 0 to 100; equal raw scores come out equal, alone as among others.
    * ``repeatable``: the same question has the same answer, also after other pods were asked about.
    * ``inputs``: nothing that the plugin is given is changed.
    * ``concerns``: a pod that does not concern the plugin is skipped by its PreFilter and PreScore.
    * ``with_pod``: a State with a pod added or taken away answers as a fresh one would if the pod were really there.
    * ``fragment``, ``reads``: pods with equal fragments have equal answers, and through ``changes`` random changes of
      the cluster the answers that the class cache keeps are those of a fresh evaluation.
    * ``hints``: a queueing hint answers with a Hint, alike for pods that differ in name and UID only, and alike for
      events of which its facet shows the same.

    ``clusters`` None: ``usual_clusters(seed)``. Give clusters of your own where the plugin looks at labels, taints or
    objects that those have not got: random changes draw on what a cluster holds.
    """
    wrong = faults_of(type(plugin))
    if wrong:
        raise ContractViolation(plugin.name, "shape", "; ".join(wrong))
    for number, cluster in enumerate(usual_clusters(seed) if clusters is None else clusters):
        rng = Random(seed + number)
        _check_answers(plugin, cluster)
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


def _all_answers(plugin: Plugin, pod: PodInfo, view: View) -> tuple[Any, ...]:
    """In a form that can be compared; the plugin's own State takes part only by what comes of it."""
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
        found.append(asked(plugin, "fragment", lambda: plugin.fragment(pod, view), answers.check_fragment))
    return tuple(found)


def _check_concerns(plugin: Plugin, pod: PodInfo, view: View) -> None:
    if asked(plugin, f"concerns of pod {pod.name}", lambda: plugin.concerns(pod)):
        return
    skips_filter = not isinstance(plugin, PreFilterPlugin) or pre_filter_answer(plugin, pod, view) is SKIP
    skips_score = not isinstance(plugin, ScorePlugin) or score_answers(plugin, pod, view) is None
    if not (skips_filter and skips_score):
        message = f"it says that pod {pod.name} does not concern it, but does not skip the pod"
        raise ContractViolation(plugin.name, "concerns", message)


def _picture(view: View) -> tuple[Any, ...]:
    """Everything of the table that a plugin could write to, as bytes and identities."""
    table = view.table
    held: list[Any] = [column.tobytes() for column in columns_of(table).values()]
    held.append([sorted(pods) for pods in table.pods])
    held.append([msgspec.json.encode(node, order="sorted") if node is not None else b"" for node in table.nodes])
    held.append(view.ordered_rows.tobytes())
    return tuple(held)
