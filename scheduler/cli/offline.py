"""Questions without a scheduler: about a moment of a recording, a snapshot, or objects in a file.

An engine is made of them in this process, and its pages are those that a running scheduler serves.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import Struct

from scheduler.cli.complaint import complain
from scheduler.cli.config_warnings import warnings_about_decisions
from scheduler.cli.objects_file import engine_of, read_objects
from scheduler.cli.recorded import classes_of, engine_at, until_of
from scheduler.compose import all_plugins, build_profiles
from scheduler.config.loading import load
from scheduler.controller.record.segments import MAGIC
from scheduler.engine import explain
from scheduler.engine.engine import Engine
from scheduler.engine.explain_groups import group_page
from scheduler.engine.questions.capacity import capacity
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.question import Question
from scheduler.engine.questions.trial import Basis
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import what_if
from scheduler.engine.queue_pages import grouped_queue_page, queue_page
from scheduler.engine.wanted import Wanted
from scheduler.engine.workloads import workload_page_in_slices
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.now import Now
from scheduler.objects.steps import run_to_end
from scheduler.user_plugins.loading import PluginClasses

Answered = TypeVar("Answered")


class Offline(Struct, frozen=True):
    """An engine that stands still at ``now``, which answers what a running scheduler is asked."""

    engine: Engine
    now: Now
    classes: PluginClasses
    is_past: bool

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now.wall / 1e9, UTC)

    def answer(self, path: str, question: bytes | None = None) -> bytes:
        """The page at a path of the scheduler, or the answer to a question. Raises ConfigurationError for what can't be
        answered."""
        place, _, query = path.partition("?")
        for prefix, answer in _PAGES.items():
            if place == prefix or place.startswith(f"{prefix}/"):
                rest = [unquote(part) for part in place[len(prefix) + 1 :].split("/")]
                asked = {name: values[-1] for name, values in parse_qs(query).items()}
                try:
                    return msgspec.json.encode(answer(self, rest, asked, question or b""))
                except WrongQuestion as error:
                    raise ConfigurationError([Fault("", str(error))]) from error
        raise AssertionError(f"no page of this name: {path}")


def opened(place: str, until: str, plugin_folder: str) -> Offline:
    """The state in a recording (``until`` which moment), in a snapshot, or in a file of objects. Raises
    ConfigurationError."""
    classes = classes_of(plugin_folder)
    path = Path(place)
    if path.is_dir() or _is_segment(path):
        moment = engine_at(path, until_of(until), classes)
        for problem in moment.problems:
            complain(problem)
        return Offline(moment.engine, moment.now, classes, is_past=True)
    if until:
        raise ConfigurationError([Fault("--until", f"{place} is no recording: it has one moment")])
    return Offline(*engine_of(read_objects(place)), classes, is_past=False)


def _is_segment(path: Path) -> bool:
    """Whether the file begins as a recording's do. A pipe, whose beginning can be read once only, has none."""
    if path.is_fifo():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ConfigurationError([Fault("--from", f"open {path}: {error.strerror or error}")]) from error


def _queue(state: Offline, _rest: list[str], asked: dict[str, str], _question: bytes) -> Any:
    wanted = Wanted(asked.get("namespace", ""), asked.get("profile", ""), asked.get("plugin", ""))
    page = grouped_queue_page if asked.get("grouped") == "true" else queue_page
    return page(state.engine, wanted=wanted)


def _why(state: Offline, rest: list[str], asked: dict[str, str], _question: bytes) -> Any:
    engine, now = state.engine, state.now
    if len(rest) == 3:
        namespace, kind, name = rest
        page = run_to_end(workload_page_in_slices(engine, namespace, f"{kind}/{name}"))
        if not page["pods"]:
            raise WrongQuestion(f"no pod of {kind}/{name} is known there in namespace {namespace}")
        if example := page.get("example"):
            page["example"] = explain.pod_page(engine, example, now)
        return page
    key = "/".join(rest)
    found = explain.pod_page(engine, key, now, node=asked.get("node", "")) or group_page(engine, key)
    if found is None:
        raise WrongQuestion(f"pod {key} is not known there, at {state.moment:%Y-%m-%dT%H:%M:%SZ}")
    return found


def _capacity(state: Offline, _rest: list[str], asked: dict[str, str], _question: bytes) -> Any:
    labels = [label for label in asked.get("pool", "").split(",") if label]
    return run_to_end(capacity(state.engine, state.now, labels))


def _what_helps(state: Offline, _rest: list[str], _asked: dict[str, str], question: bytes) -> Any:
    return run_to_end(what_helps(state.engine, msgspec.json.decode(question, type=dict[str, str])["pod"], state.now))


def _what_if(state: Offline, _rest: list[str], _asked: dict[str, str], question: bytes) -> Any:
    read = msgspec.json.decode(question, type=Question)
    basis = None
    if read.configuration:
        configuration = load(read.configuration.encode())
        profiles = build_profiles(configuration, all_plugins(configuration, state.classes))
        basis = Basis(
            profiles, configuration.kube.percentage_of_nodes_to_score, warnings_about_decisions(configuration)
        )
    return run_to_end(what_if(state.engine, read, state.now, basis))


_PAGES: Final[dict[str, Callable[[Offline, list[str], dict[str, str], bytes], Any]]] = {
    "/debug/queue": _queue,
    "/debug/why": _why,
    "/debug/capacity": _capacity,
    "/debug/what-if": _what_if,
    "/debug/what-helps": _what_helps,
}
