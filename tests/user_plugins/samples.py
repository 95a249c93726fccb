"""Plugins from outside, good and bad, for the tests of loading, checking and running them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import msgspec
import numpy as np

from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    BackgroundPlugin,
    BindPlugin,
    FilterPlugin,
    NormalizePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Scores,
    State,
    Wait,
)
from scheduler.framework.plugin_ports import BindContext, PluginHandle
from scheduler.framework.post_filter import PostFilterPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, unschedulable
from scheduler.objects.node import Node

NOT_A_CLASS = 3


class RackArgs(msgspec.Struct, frozen=True, rename="camel"):
    label: str = "rack"
    weight_of_it: int = 1


class Rack(PerNodeFilter):
    """Pods that name a rack go there only."""

    name = "Rack"
    Args = RackArgs

    @classmethod
    def validate_args(cls, args: RackArgs, path: str) -> tuple[tuple[str, str], ...]:
        return ((f"{path}.label", "must not be empty"),) if not args.label else ()

    def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Refusal | None:
        wanted = pod.labels.get(self.args.label)
        if wanted and node.metadata.labels.get(self.args.label) != wanted:
            return unschedulable("node(s) stand in another rack")
        return None


class Broken(Rack):
    """Its filter raises for the pods that say so."""

    def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Refusal | None:
        if "break" in pod.labels:
            raise KeyError("oops")
        return None


class Unsure(Rack):
    """It can't say whether a pod concerns it."""

    def concerns(self, pod: Any) -> bool:
        raise KeyError("oops")


class NotAPlugin:
    pass


class Idle(Plugin):
    name = "Idle"


class Incomplete(FilterPlugin, ScorePlugin):
    name = "Incomplete"
    reads = Reads.NODE


class NotAwaiting(PreBindPlugin):
    name = "NotAwaiting"
    time_limit_seconds = 0

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> PreFlight:
        return PreFlight()

    def pre_bind(self, context: BindContext) -> None:  # type: ignore[override]
        return None


class Unmakable(Rack):
    def __init__(self, args: Any = None) -> None:
        raise OSError("no licence")


class Moody(Rack):
    """Its validation raises."""

    @classmethod
    def validate_args(cls, args: RackArgs, path: str) -> tuple[tuple[str, str], ...]:
        raise ZeroDivisionError("by zero")


class Answering(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    NormalizePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
):
    """Answers at each method what ``answers`` holds for it; an exception is raised."""

    name = "Answering"
    answers: ClassVar[dict[str, Any]] = {}

    def _answer(self, method: str, usual: Any) -> Any:
        answer = self.answers.get(method, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def pre_enqueue(self, pod: Any, context: Any) -> Any:
        return self._answer("pre_enqueue", None)

    def pre_filter(self, pod: Any, view: Any) -> Any:
        return self._answer("pre_filter", SKIP)

    def filter(self, state: State, pod: Any, view: Any, rows: Any) -> Any:
        return self._answer("filter", None)

    def post_filter(self, context: Any) -> Any:
        return self._answer("post_filter", None)

    def pre_score(self, pod: Any, view: Any, rows: Any) -> Any:
        return self._answer("pre_score", State())

    def score(self, state: State, pod: Any, view: Any, rows: Any) -> Any:
        count = view.table.size if isinstance(rows, slice) else len(rows)
        return self._answer("score", np.zeros(count, np.int64))

    def normalize(self, state: State, scores: Scores, view: Any, rows: Any) -> Any:
        return self._answer("normalize", scores)

    def reserve(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("reserve", ())

    def unreserve(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("unreserve", ())

    def permit(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("permit", None)

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("pre_bind_pre_flight", SKIP)


class Choosy(Answering):
    """Has to do with pods that carry its label only."""

    def concerns(self, pod: Any) -> bool:
        return "mine" in pod.labels


class Reserving(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Takes no part in the choice of the node; ``answers`` as of Answering."""

    name = "Reserving"
    answers: ClassVar[dict[str, Any]] = {}

    def concerns(self, pod: Any) -> bool:
        return "mine" in pod.labels

    def _answer(self, method: str, usual: Any) -> Any:
        answer = self.answers.get(method, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def reserve(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("reserve", ())

    def unreserve(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return ()

    def permit(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("permit", None)

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        return self._answer("pre_bind_pre_flight", SKIP)


class Guess(PerNodeScore):
    """Scores that are no whole numbers."""

    name = "Guess"

    def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
        return float("nan")  # type: ignore[return-value]


class Lending(NormalizePlugin):
    """Prefers crowded nodes; its raw scores are the table's own column."""

    name = "Lending"
    reads = Reads.USAGE

    def fragment(self, pod: Any, view: Any) -> int:
        return 0

    def score(self, state: State, pod: Any, view: Any, rows: Any) -> Scores:
        column: Scores = view.table.pod_count[rows]
        return column

    def normalize(self, state: State, scores: Scores, view: Any, rows: Any) -> Scores:
        return scores * 100 // max(int(scores.max()), 1)


class Panic(BaseException):
    """As a library raises it that is written in another language."""


class Tickets(PreBindPlugin, BindPlugin, PostBindPlugin):
    """Runs in the shell; a pod's label ``does`` says what."""

    name = "Tickets"
    time_limit_seconds = 0.05

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> PreFlight | Skip:
        return PreFlight() if "does" in pod.labels else SKIP

    async def pre_bind(self, context: BindContext) -> Any:
        return await self._do(context)

    async def bind(self, context: BindContext) -> Any:
        return await self._do(context)

    async def post_bind(self, context: BindContext) -> None:
        await self._do(context)

    async def _do(self, context: BindContext) -> Any:
        match context.pod.labels.get("does"):
            case "hang":
                await asyncio.Event().wait()
            case "cling":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                await asyncio.Event().wait()
            case "exit":
                raise SystemExit(3)
            case "cancel":
                raise asyncio.CancelledError
            case "panic":
                raise Panic("index out of bounds")
            case "nonsense":
                return True
            case "skip":
                return SKIP
            case "refuse":
                return unschedulable(f"not on {context.node}")
        return None


UNKNOWN_EFFECTS: Any = ("unheard of",)


class Doorkeeper(PermitPlugin, BackgroundPlugin):
    """Pods labelled ``door`` wait; those whose door is open are let in, those whose door is shut are sent back."""

    name = "Doorkeeper"

    def permit(self, state: State | None, pod: Any, view: Any, node: str) -> Wait | None:
        return Wait(600) if "door" in pod.labels else None

    async def run(self, handle: PluginHandle) -> None:
        while True:
            for waiting in handle.waiting_pods():
                door = waiting.pod.labels["door"]
                if door == "open":
                    handle.allow(waiting.pod.uid)
                elif door == "shut":
                    handle.reject(waiting.pod.uid, "the door is shut")
            await asyncio.sleep(0.02)


class Quitter(Doorkeeper):
    """Its background part ends with what it waits for."""

    name = "Quitter"

    async def run(self, handle: PluginHandle) -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task
