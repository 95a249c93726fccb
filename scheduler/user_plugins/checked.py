"""Wraps a plugin class so that all its answers are checked: an invalid one becomes an error that names the plugin.

Built-in plugins are verified by tests and not checked; user plugins pay some microseconds per call. The checks are a
subclass, created when the plugin is loaded, so the framework sees an ordinary plugin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec.structs

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.errors import ConfigurationError, Fault, PluginError, type_and_message
from scheduler.framework.events import EventRegistration, Hint, HintKeys, always_queue
from scheduler.framework.per_node import PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    FilterPlugin,
    NormalizePlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.plugin_ports import CalledInShell
from scheduler.framework.post_filter import PostFilterContext, PostFilterPlugin
from scheduler.framework.sort_keys import SortKey
from scheduler.messages.status import failure
from scheduler.user_plugins import answers
from scheduler.user_plugins.shape import defines, limit_fault

Check = Callable[[Any, tuple[Any, ...]], None]
"""``check(answer, arguments)``; raises TypeError or ValueError."""

_MARK: Final = "is_checked_subclass"

_CHECKS: Final[tuple[tuple[type[Plugin], str, Check], ...]] = (
    (Plugin, "fragment", lambda answer, _: answers.check_fragment(answer)),
    (Plugin, "fragment_stamp", lambda answer, _: answers.check_fragment(answer)),
    (Plugin, "stamp", lambda answer, _: answers.check_fragment(answer)),
    (Plugin, "concerns", lambda answer, _: answers.check_truth(answer)),
    (Plugin, "findings", lambda answer, _: answers.check_findings(answer)),
    (Plugin, "events", lambda answer, _: answers.check_events(answer)),
    (PreEnqueuePlugin, "pre_enqueue", lambda answer, _: answers.check_optional_refusal(answer)),
    (PreEnqueuePlugin, "held_back", lambda answer, _: answers.check_uids(answer)),
    (PreEnqueuePlugin, "may_release", lambda answer, _: answers.check_truth(answer)),
    (PreFilterPlugin, "pre_filter", lambda answer, _: answers.check_state(answer)),
    (FilterPlugin, "filter", lambda answer, asked: answers.check_verdicts(answer, asked[3], asked[2].table.size)),
    (FilterPlugin, "filter_row", lambda answer, _: answers.check_optional_refusal(answer)),
    (FilterPlugin, "filter_few", lambda answer, asked: answers.check_few_refusals(answer, len(asked[3]))),
    (FilterPlugin, "why_not", lambda answer, _: answers.check_findings(answer)),
    (PerNodeFilter, "filter_one", lambda answer, _: answers.check_optional_refusal(answer)),
    (PostFilterPlugin, "post_filter", lambda answer, _: answers.check_post_filter(answer)),
    (PreScorePlugin, "pre_score", lambda answer, _: answers.check_state(answer)),
    (
        ScorePlugin,
        "score",
        lambda answer, asked: answers.check_scores(answer, answers.row_count(asked[3], asked[2].table.size)),
    ),
    (ScorePlugin, "score_row", lambda answer, _: answers.check_score(answer)),
    (ScorePlugin, "score_few", lambda answer, asked: answers.check_few_scores(answer, len(asked[3]))),
    (PerNodeScore, "score_one", lambda answer, _: answers.check_score(answer)),
    (NormalizePlugin, "normalize", lambda answer, asked: answers.check_scores(answer, len(asked[1]))),
    (PreBindPlugin, "pre_bind_pre_flight", lambda answer, _: answers.check_pre_flight(answer)),
    (PreBindPlugin, "pre_bind_progress", lambda answer, _: answers.check_progress(answer)),
)
"""Base class, method, and the check of its answers."""

_WATCHED: Final[tuple[tuple[type[Plugin], str, str], ...]] = (
    (Plugin, "fragment", "Fragment"),
    (Plugin, "fragment_stamp", "FragmentStamp"),
    (Plugin, "stamp", "Stamp"),
    (Plugin, "concerns", "Concerns"),
    (PreEnqueuePlugin, "pre_enqueue", "PreEnqueue"),
    (QueueSortPlugin, "sort_key", "QueueSort"),
    (PreFilterPlugin, "pre_filter", "PreFilter"),
    (FilterPlugin, "filter", "Filter"),
    (FilterPlugin, "filter_row", "Filter"),
    (FilterPlugin, "filter_few", "Filter"),
    (PostFilterPlugin, "post_filter", "PostFilter"),
    (PreScorePlugin, "pre_score", "PreScore"),
    (ScorePlugin, "score", "Score"),
    (ScorePlugin, "score_row", "Score"),
    (ScorePlugin, "score_few", "Score"),
    (NormalizePlugin, "normalize", "Normalize"),
    (ReservePlugin, "reserve", "Reserve"),
    (PermitPlugin, "permit", "Permit"),
    (PreBindPlugin, "pre_bind_pre_flight", "PreBindPreFlight"),
    (PreBindPlugin, "pre_bind_progress", "PreBind"),
)
"""Base class, method, and the extension point under which its errors and slow calls are reported.

``filter_one`` and ``score_one`` are timed as parts of ``filter`` and ``score``: a clock read a node would cost more.
"""

_FAILING: Final[tuple[tuple[type[Plugin], str, Check], ...]] = (
    (ReservePlugin, "reserve", lambda answer, _: answers.check_reserve(answer)),
    (PermitPlugin, "permit", lambda answer, _: answers.check_permit(answer)),
)
"""Methods whose errors become a refusal with the code ERROR, which the cycle reports under the plugin's name."""


def checked(plugin_type: type[Plugin], name: str, path: str) -> type[Plugin]:
    """The checked class, under its configured name. ``path`` is the field path for errors of its construction."""
    members: dict[str, Any] = {"name": name, "__doc__": plugin_type.__doc__, "__module__": plugin_type.__module__}
    members[_MARK] = True
    members["__init__"] = _constructor(plugin_type, name, path)
    members["validate_args"] = _validation(plugin_type)
    for base, method, check in _CHECKS:
        if defines(plugin_type, base, method):
            members[method] = _checking(_method(plugin_type, method), check)
    if defines(plugin_type, ScorePlugin, "score"):
        members["score"] = _owning(members["score"])
    if issubclass(plugin_type, QueueSortPlugin):
        members["sort_key"] = _sorting(_method(plugin_type, "sort_key"), name)
    if defines(plugin_type, NormalizePlugin, "normalize"):
        members["normalize"] = _lending(members["normalize"])
    for base, method, check in _FAILING:
        if defines(plugin_type, base, method):
            members[method] = _failing(_method(plugin_type, method), check, name, method.title())
    for base, method, point in _WATCHED:
        if method in members or (issubclass(plugin_type, base) and method in ("filter", "score")):
            members[method] = _watching(members.get(method) or _method(plugin_type, method), name, point)
    if "fragment_stamp" in members:
        members["fragment_stamp"] = _naming(members["fragment_stamp"], name)
    members["events"] = _watching_hints(members.get("events") or _method(plugin_type, "events"), name)
    if issubclass(plugin_type, ReservePlugin):
        members["unreserve"] = _watching(_never_failing(_method(plugin_type, "unreserve"), name), name, "Unreserve")
    return type(plugin_type.__name__, (plugin_type,), members)


def is_checked(plugin: Plugin) -> bool:
    """Whether it is a user plugin."""
    return _MARK in vars(type(plugin))


def written_type(plugin: Plugin) -> type[Plugin]:
    """The plugin's class as its author wrote it: each configuration that is read derives a checked one from it."""
    plugin_type = type(plugin)
    return plugin_type.__bases__[0] if is_checked(plugin) else plugin_type


def _constructor(plugin_type: type[Plugin], name: str, path: str) -> Callable[..., None]:
    def construct(self: Plugin, *arguments: Any) -> None:
        try:
            plugin_type.__init__(self, *arguments)
            # The configuration names the plugin; one that names itself would have no answers under its own name.
            vars(self).pop("name", None)
            wrong = limit_fault(self.time_limit_seconds) if isinstance(self, CalledInShell) else ""
            if wrong:
                raise ValueError(wrong)
            self.events()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            text = f'initializing plugin "{name}": {type_and_message(error)}'
            raise ConfigurationError([Fault(path, text)]) from error

    return construct


def _validation(plugin_type: type[Plugin]) -> Any:
    def validate_args(_: type[Plugin], args: Any, path: str) -> tuple[tuple[str, str], ...]:
        try:
            return tuple((str(place), str(text)) for place, text in plugin_type.validate_args(args, path))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - any error of the plugin is reported as a fault of its args
            return ((path, type_and_message(error)),)

    return classmethod(validate_args)


def _method(plugin_type: type[Plugin], name: str) -> Callable[..., Any]:
    """The method as a function that takes the plugin first, whatever kind of method its author wrote."""
    written: Any = inspect.getattr_static(plugin_type, name)
    if inspect.isfunction(written):
        return written

    @functools.wraps(getattr(plugin_type, name))
    def call(self: Plugin, *asked: Any) -> Any:
        return getattr(super(type(self), self), name)(*asked)

    return call


def _checking(method: Callable[..., Any], check: Check) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Plugin, *asked: Any) -> Any:
        answer = method(self, *asked)
        check(answer, asked)
        return answer

    return _contained(call)


def _watching(method: Callable[..., Any], name: str, point: str) -> Callable[..., Any]:
    """The call, with its exceptions and slowness reported under the plugin's name."""

    @functools.wraps(method)
    def call(self: Plugin, *asked: Any) -> Any:
        began = PLUGIN_WATCH.begin()
        try:
            return method(self, *asked)
        except Exception as error:
            PLUGIN_WATCH.raised(error, name, point, _pod_of(asked))
            raise
        finally:
            PLUGIN_WATCH.end(began, name, point, _pod_of(asked))

    return call


def _naming(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The call, with the plugin's name in its exceptions: the framework asks several plugins at once."""

    @functools.wraps(method)
    def call(self: Plugin, *asked: Any) -> Any:
        try:
            return method(self, *asked)
        except Exception as error:
            raise PluginError(name, "Fragment", error) from error

    return call


def _watching_hints(
    events: Callable[[Any], Iterable[EventRegistration]], name: str
) -> Callable[[Plugin], tuple[EventRegistration, ...]]:
    """The plugin's registrations, with their hints watched; ``always_queue`` is ours."""

    def registered(self: Plugin) -> tuple[EventRegistration, ...]:
        listed = [one if one.hint is always_queue else _watching_hint(one, name) for one in events(self)]
        return tuple(map(_staying, listed))

    return registered


def _watching_hint(registration: EventRegistration, name: str) -> EventRegistration:
    hint: Callable[..., Hint] = _contained(registration.hint)

    def call(pod: Any, old: Any, new: Any) -> Hint:
        began = PLUGIN_WATCH.begin()
        try:
            answer = hint(pod, old, new)
            answers.check_hint(answer)
            return answer
        except Exception as error:
            PLUGIN_WATCH.raised(error, name, "QueueingHint", pod.key)
            raise
        finally:
            PLUGIN_WATCH.end(began, name, "QueueingHint", pod.key)

    return msgspec.structs.replace(registration, hint=call)


def _staying(registration: EventRegistration) -> EventRegistration:
    """The registration, whose facet and keys end nothing but their own call."""
    facet, keys = registration.facet, registration.keys
    return msgspec.structs.replace(
        registration,
        facet=facet and _contained(facet),
        keys=keys and HintKeys(_contained(keys.wanted), _contained(keys.offered)),
    )


def _contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a RuntimeError in place of what is no Exception."""

    @functools.wraps(function)
    def call(*asked: Any) -> Any:
        try:
            return function(*asked)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            # It would end the process, or the task in which the engine runs.
            raise RuntimeError(type_and_message(error)) from error

    return call


def _pod_of(asked: tuple[Any, ...]) -> str:
    pods = (each.pod if isinstance(each, PostFilterContext) else each for each in asked)
    return next((pod.key for pod in pods if isinstance(pod, PodInfo)), "")


def _owning(score: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(score)
    def call(self: Plugin, *asked: Any) -> Any:
        # The class cache holds it, and one of the table's columns or the plugin's own, used again, would change.
        return score(self, *asked).copy()

    return call


def _lending(normalize: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(normalize)
    def call(self: Plugin, state: Any, scores: Any, *asked: Any) -> Any:
        # The class cache goes on using its own: a plugin that normalises in place would change them.
        return normalize(self, state, scores.copy(), *asked)

    return call


def _failing(method: Callable[..., Any], check: Check, name: str, point: str) -> Callable[..., Any]:
    guarded = _checking(method, check)

    @functools.wraps(method)
    def call(self: Plugin, *asked: Any) -> Any:
        try:
            return guarded(self, *asked)
        except Exception as error:  # noqa: BLE001 - the cycle reports it in the plugin's name
            PLUGIN_WATCH.raised(error, name, point, _pod_of(asked))
            return failure(type_and_message(error))

    return call


def _sorting(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The pod's key, or one behind all others: an error here would take other pods out of the queue, too."""
    contained = _contained(method)

    @functools.wraps(method)
    def call(self: Plugin, pod: PodInfo, timestamp: float) -> SortKey:
        try:
            return False, *answers.ordered(contained(self, pod, timestamp))
        except Exception as error:  # noqa: BLE001 - the pod waits in the queue in spite of this error
            PLUGIN_WATCH.raised(error, name, "QueueSort", pod.key)
            return True, timestamp

    return call


def _never_failing(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    guarded = _checking(method, lambda answer, _: answers.check_effects(answer))

    @functools.wraps(method)
    def call(self: Plugin, *asked: Any) -> Any:
        try:
            return guarded(self, *asked)
        except Exception as error:  # noqa: BLE001 - the pod goes back to the queue in spite of this error
            PLUGIN_WATCH.raised(error, name, "Unreserve", _pod_of(asked))
            return ()

    return call
