"""Every kind of question, asked of a simulated cluster's scheduler at random."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from scheduler.engine import explain
from scheduler.engine.explain_groups import group_page, waiting_groups
from scheduler.engine.questions.capacity import capacity
from scheduler.engine.questions.edits import AddNodes, Cordon, Drain, Edit, RemoveNode, RemovePod, WrongQuestion
from scheduler.engine.questions.question import Asked, Question
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import what_if
from scheduler.engine.queue_pages import grouped_queue_page, queue_page
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.testing.documents import pod_json

MAX_STEPS = 60


class Asking:
    """``ask`` some questions between two steps of a run. Draws from a source of its own."""

    def __init__(self, seed: int) -> None:
        self.answered = 0
        self._random = Random(f"{seed} questions")

    def ask(self, world: World) -> None:
        engine, now, random = world.engine, world.now, self._random
        if not engine.is_synced:
            return
        nodes = [key.rpartition("/")[2] for key, _ in world.facts.of(Kind.NODE)] or ["none"]
        pods = [key for key, _ in world.facts.of(Kind.POD)] or ["default/none"]
        for key in random.sample(pods, min(2, len(pods))):
            explain.pod_page(engine, key, now, node=random.choice(nodes))
            self._go_through(what_helps(engine, key, now))
        groups = [key for key, _ in world.facts.of(Kind.POD_GROUP)]
        for key in groups:
            group_page(engine, key)
        for key in random.sample(groups, min(1, len(groups))):
            self._go_through(what_helps(engine, key, now))
        waiting_groups(engine)
        queue_page(engine)
        grouped_queue_page(engine)
        self._go_through(capacity(engine, now, ()))
        node = random.choice(nodes)
        edits: list[Edit] = random.sample(
            [Drain(node), Cordon(node), RemoveNode(node), AddNodes(node, 2), RemovePod(random.choice(pods))], 2
        )
        manifest = pod_json("asked", cpu="1", priority=random.choice([0, 1000]))
        asked = Asked({"kind": "Pod", **manifest}, random.randint(1, 4))
        self._go_through(what_if(engine, Question((asked,), tuple(edits), finds_max=random.random() < 0.3), now))

    def _go_through(self, steps: Generator[Any, None, Any]) -> None:
        """To the end, or so far."""
        try:
            for _ in range(self._random.choice([1, 5, MAX_STEPS])):
                next(steps)
        except (StopIteration, WrongQuestion):
            pass
        steps.close()
        self.answered += 1
