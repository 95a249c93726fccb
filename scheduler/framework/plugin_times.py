"""How long the plugins' calls took in a cycle that is timed: one in ``TIMED_CYCLES``, as kube-scheduler 1.36 samples a
tenth for ``plugin_execution_duration_seconds`` (reference cycle.md §16). All other cycles have no ``PluginTimes``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import msgspec

from scheduler.framework.plugin import Plugin, Wait
from scheduler.framework.post_filter import PostFilterAnswer
from scheduler.messages.status import Code, Refusal, Skip

TIMED_CYCLES: Final = 10

if TYPE_CHECKING:
    from scheduler.framework.profile import Profile

Call = TypeVar("Call", bound=Callable[..., object])


class Timed(Protocol):
    """Outlives the attempt, and calls plugins."""

    def time_by(self, times: PluginTimes | None) -> None: ...


class PluginTime(msgspec.Struct, frozen=True):
    """One call of a plugin."""

    plugin: str
    point: str
    status: str
    """Name of the status code, as kube-scheduler 1.36 has it. An answer for many nodes at once is a Success."""
    seconds: float


class PluginTimes:
    """What was measured in one attempt; ``stopwatch`` is in seconds and feeds no decision."""

    __slots__ = ("_samples", "_stopwatch", "_timed")

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._samples: list[PluginTime] = []
        self._timed: list[Timed] = []

    def start(self, *timed: Timed) -> None:
        """Their calls of plugins are timed until ``stop``."""
        self._timed.extend(timed)
        for one in timed:
            one.time_by(self)

    def stop(self) -> None:
        for one in self._timed:
            one.time_by(None)
        self._timed.clear()

    def timing(self, call: Call, plugin: str, point: str) -> Call:
        """The same call, each answer of which is timed, and each error."""

        def timed(*args: object) -> object:
            begun = self._stopwatch()
            status = Code.ERROR.value
            try:
                answer = call(*args)
                status = _status_of(answer)
                return answer
            finally:
                self.took(plugin, point, status, self._stopwatch() - begun)

        return timed  # type: ignore[return-value]

    def took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._samples.append(PluginTime(plugin, point, status, seconds))

    def take(self) -> list[PluginTime]:
        """What was measured since the last call, in order; who counts them keeps them, attempts are remembered long."""
        taken, self._samples = self._samples, []
        return taken


def with_times(profile: Profile, times: PluginTimes) -> Profile:
    """The profile for one attempt in which the calls from Reserve to the binding are timed."""
    return cast("Profile", _TimedProfile(profile, times))


class _TimedProfile:
    """Stands for a profile."""

    def __init__(self, profile: Profile, times: PluginTimes) -> None:
        self._profile = profile
        self.reserve_plugins = tuple([_TimedPlugin(plugin, times) for plugin in profile.reserve_plugins])
        self.permit_plugins = tuple([_TimedPlugin(plugin, times) for plugin in profile.permit_plugins])
        self.pre_bind_plugins = tuple([_TimedPlugin(plugin, times) for plugin in profile.pre_bind_plugins])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._profile, name)


_POINTS: Final = {
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
}


class _TimedPlugin:
    """Stands for a plugin: it is the plugin in all that is asked of it, and times the calls of ``_POINTS``."""

    def __init__(self, plugin: Plugin, times: PluginTimes) -> None:
        self._plugin = plugin
        self._times = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plugin, name)
        point = _POINTS.get(name)
        return found if point is None else self._times.timing(found, self._plugin.name, point)


def _status_of(answer: object) -> str:
    if isinstance(answer, PostFilterAnswer):
        answer = answer.status
    if isinstance(answer, Refusal):
        return answer.code.value
    if isinstance(answer, Skip):
        return Code.SKIP.value
    return Code.WAIT.value if isinstance(answer, Wait) else Code.SUCCESS.value
