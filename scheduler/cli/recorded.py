"""Recordings and snapshots from the command line: what made them, and how they are opened again."""

from __future__ import annotations

import hashlib
import inspect
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler import engine as engine_package
from scheduler.compose import all_plugins, build_profiles, engine_settings
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import Configuration, load, write_config
from scheduler.config.own_version import own_version
from scheduler.controller.record.segments import About, Damaged, Segment, segments_in
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.report.logs import configure_logs
from scheduler.engine.engine import Engine
from scheduler.engine.recording.checkpoint import CORE, CheckpointError
from scheduler.engine.recording.door import Beginning, StatedConfiguration
from scheduler.engine.recording.replay import Difference, Made, RecordedInput, Replay
from scheduler.errors import ConfigurationError, Fault
from scheduler.extenders.extender import build_extenders
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.user_plugins.loading import PluginClasses
from scheduler.user_plugins.sources import PluginSources, plugin_folder

MAX_SEGMENTS: Final = 100_000


def stated_of(configuration: Configuration) -> StatedConfiguration:
    """The configuration as a recording holds it: without keys and paths, none of which feeds a decision."""
    extenders = tuple(msgspec.structs.replace(one, tls_config=None) for one in configuration.kube.extenders)
    connection = msgspec.structs.replace(configuration.kube.client_connection, kubeconfig="")
    kube = msgspec.structs.replace(configuration.kube, extenders=extenders, client_connection=connection)
    gates = ",".join(f"{name}={str(value).lower()}" for name, value in configuration.gates.explicit.items())
    return StatedConfiguration(write_config(msgspec.structs.replace(configuration, kube=kube)), gates)


def about_of(profiles: Mapping[str, Profile]) -> About:
    """This program, as a recording names it."""
    return About(secrets.token_hex(4), own_version() or "(not installed)", code_digest(), plugin_digests(profiles))


def code_digest() -> str:
    """SHA-256 over the source of everything that decides."""
    digest = hashlib.sha256()
    for path in code_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def code_files() -> list[Path]:
    """The source of everything that decides."""
    root = Path(engine_package.__file__ or "").parent.parent
    packages = sorted(prefix.split(".")[1] for prefix in CORE)
    return [path for package in packages for path in sorted((root / package).rglob("*.py"))]


def plugin_digests(profiles: Mapping[str, Profile]) -> dict[str, str]:
    """Module of a user's plugin → SHA-256 of its source."""
    found: dict[str, str] = {}
    for module in sorted(user_modules(profiles)):
        path = _source_of(module)
        found[module] = hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else "no source"
    return found


def user_modules(profiles: Mapping[str, Profile]) -> frozenset[str]:
    """The modules of the plugins that are not Tandem's own."""
    classes = {kind for profile in profiles.values() for plugin in profile.plugins for kind in type(plugin).__mro__}
    return frozenset({kind.__module__ for kind in classes if not _is_ours(kind.__module__)})


def _is_ours(module: str) -> bool:
    return module.startswith("scheduler.") or module in ("builtins", "abc", "typing")


def _source_of(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    path = inspect.getsourcefile(loaded) if loaded is not None else None
    return Path(path) if path is not None and os.access(path, os.R_OK) else None


class Maker:
    """Makes profiles from the configurations of a recording; each text once."""

    def __init__(self, classes: PluginClasses) -> None:
        self._classes = classes
        self._made: dict[StatedConfiguration, Made] = {}

    def __call__(self, stated: StatedConfiguration) -> Made:
        """What this configuration makes, made once. Raises ConfigurationError."""
        made = self._made.get(stated)
        if made is None:
            made = self._made[stated] = self.made_of(load(stated.text, gates=parse_feature_gates(stated.gates)))
        return made

    def made_of(self, configuration: Configuration) -> Made:
        """The profiles, extenders and settings of a configuration. Raises ConfigurationError."""
        profiles = build_profiles(configuration, all_plugins(configuration, self._classes))
        extenders = build_extenders(configuration.kube.extenders)
        return Made(profiles, extenders, engine_settings(configuration), user_modules(profiles))


# --- reading ----------------------------------------------------------------------------------------------------------


class Stretch(Struct):
    """Inputs without a gap: segments of one run, one after another. ``problem``: what ended it early, "" for
    nothing."""

    about: About
    paths: list[Path]
    replay: Replay
    difference: Difference | None = None
    problem: str = ""
    notes: list[str] = field(default_factory=list)


class Until(Struct, frozen=True):
    """Where a replay stops: before the first input later than ``wall`` (nanoseconds since 1970), or after the first
    attempt at ``pod``."""

    wall: int | None = None
    pod: str = ""


def until_of(text: str) -> Until | None:
    """The moment that ``--until`` names; None for no text. Raises ConfigurationError for what is neither a time nor a
    pod."""
    if not text:
        return None
    if "/" in text:
        return Until(pod=text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        stated = f'"{text}" is neither a time such as 2026-01-31T12:00:00Z nor NAMESPACE/NAME of a pod'
        raise ConfigurationError([Fault("--until", stated)]) from None
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return Until(wall=round(moment.timestamp() * 1e6) * 1000)


Watch = Callable[[Replay, RecordedInput], None]
"""Is called after each input."""
Begin = Callable[[Replay, Beginning], None]
"""Is called where a stretch has begun."""


def stretches(
    place: Path,
    make: Maker,
    until: Until | None = None,
    watch: Watch | None = None,
    on_begin: Begin | None = None,
) -> Iterator[Stretch]:
    """Replays what is at the place, stretch by stretch, each as far as it is whole.

    Raises ConfigurationError for a place without recordings and for a configuration that can't be made here.
    """
    return stretches_of(_paths(place), make, until, watch, on_begin)


def stretches_of(
    paths: list[Path],
    make: Maker,
    until: Until | None,
    watch: Watch | None = None,
    on_begin: Begin | None = None,
) -> Iterator[Stretch]:
    """As ``stretches``, of these segments."""
    stretch: Stretch | None = None
    for path in paths:
        try:
            segment = Segment(path)
        except (Damaged, OSError) as error:
            if stretch is not None:
                yield stretch
            stretch = None
            yield Stretch(About("", "", ""), [path], Replay(make), problem=str(error))
            continue
        with segment:
            if path == paths[0]:
                _check_begun(segment, until)
            elif not _begins_before(segment, until):
                break
            if stretch is not None and _follows(stretch, segment):
                stretch.paths.append(path)
            else:
                if stretch is not None:
                    yield stretch
                stretch = Stretch(segment.about, [path], Replay(make))
                try:
                    stretch.replay.begin(segment.beginning)
                except CheckpointError as error:
                    yield Stretch(segment.about, [path], Replay(make), problem=f"{path}: {error}")
                    stretch = None
                    continue
                if on_begin is not None:
                    on_begin(stretch.replay, segment.beginning)
            is_over = _play(stretch, segment, until, watch)
        if is_over:
            break
        if stretch.problem:
            yield stretch
            stretch = None
    if stretch is not None:
        yield stretch


def _begins_before(segment: Segment, until: Until | None) -> bool:
    return until is None or until.wall is None or segment.beginning.at.wall <= until.wall


def _check_begun(first: Segment, until: Until | None) -> None:
    """Raise ConfigurationError for a time before the recording, of which nothing is known. In the second in which it
    begins, its beginning is shown: answers name their time in whole seconds, and it may be asked about by that."""
    begins = first.beginning.at.wall // 10**9
    if until is not None and until.wall is not None and until.wall // 10**9 < begins:
        shown = f"{datetime.fromtimestamp(begins, UTC):%Y-%m-%dT%H:%M:%SZ}"
        raise ConfigurationError([Fault("--until", f"the time is before the recording, which begins at {shown}")])


def _play(stretch: Stretch, segment: Segment, until: Until | None, watch: Watch | None) -> bool:
    """Applies a segment's inputs; returns whether the replay is over."""
    try:
        for recorded in segment.inputs():
            if until is not None and until.wall is not None and recorded.now.wall > until.wall:
                return True
            stretch.difference = stretch.replay.apply(recorded)
            if watch is not None:
                watch(stretch.replay, recorded)
            if stretch.difference is not None:
                return True
            if until is not None and until.pod and until.pod in stretch.replay.attempted:
                return True
    except Damaged as error:
        stretch.problem = str(error)
        return False
    if not segment.is_complete:
        stretch.notes.append(f"{segment.path}: it has no end: it is being written, or the process was killed")
    return False


def _follows(stretch: Stretch, segment: Segment) -> bool:
    is_same = stretch.about.run == segment.about.run and segment.beginning.number == stretch.replay.number
    return is_same and not stretch.problem


def _paths(place: Path) -> list[Path]:
    try:
        paths = segments_in(place)
        place.stat()
    except OSError as error:
        raise ConfigurationError([Fault("", f"{place}: {error.strerror or error}")]) from error
    if not paths:
        raise ConfigurationError([Fault("", f"{place}: there is no recording in it")])
    return paths[:MAX_SEGMENTS]


class Moment(Struct, frozen=True):
    """An engine as it was at ``now``. ``problems``: files on the way there that could not be read."""

    engine: Engine
    now: Now
    problems: tuple[str, ...] = ()


def engine_at(place: Path, until: Until | None = None, plugins: PluginClasses | None = None) -> Moment:
    """The engine as it was at a point of a recording, or in a snapshot, for questions. Without ``until``: at the end.

    It begins at the last checkpoint before that point, so that it takes one segment's time. Raises ConfigurationError
    where nothing there can be opened, the pod was not tried, or the replay differs before that point.
    """
    paths = _paths(place)
    maker = Maker(plugins or PluginClasses())
    start = 0 if until is not None and until.pod else _start_of(paths, until)
    if start:
        try:
            return _moment(paths[start:], maker, until)
        except ConfigurationError:
            # The checkpoint is of another version, or cut off. Begin with the run's first segment, which needs none.
            pass
    return _moment(paths, maker, until)


def _start_of(paths: list[Path], until: Until | None) -> int:
    """The last segment that can be opened and begins before that point."""
    for place in range(len(paths) - 1, 0, -1):
        try:
            with Segment(paths[place]) as segment:
                if _begins_before(segment, until):
                    return place
        except (Damaged, OSError):
            continue
    return 0


def _moment(paths: list[Path], maker: Maker, until: Until | None) -> Moment:
    """The engine after these segments, as far as ``until``. Raises ConfigurationError."""
    found: Moment | None = None
    problems: list[str] = []
    attempted: tuple[str, ...] = ()
    for stretch in stretches_of(paths, maker, until):
        if stretch.difference is not None:
            number = stretch.difference.number
            text = f"{stretch.paths[-1]}: input {number} is decided otherwise here: nothing after it is as it was"
            raise ConfigurationError([Fault("", text)])
        if stretch.problem:
            problems.append(stretch.problem)
        if stretch.replay.last is not None:
            found = Moment(stretch.replay.engine, stretch.replay.last)
            attempted = stretch.replay.attempted
    if found is None:
        raise ConfigurationError([Fault("", problem) for problem in problems])
    if until is not None and until.pod and until.pod not in attempted:
        raise ConfigurationError([Fault("--until", f"no attempt at pod {until.pod} is in this recording")])
    return replace(found, problems=tuple(problems))


def classes_of(folder: str) -> PluginClasses:
    """The plugins in a folder, which decide in this process; "" for none. Raises ConfigurationError for a folder that
    is none."""
    # What is logged of them must not be amid the answer, which may be JSON.
    configure_logs(LogSettings(format="text"), sys.stderr)
    return PluginClasses(PluginSources(plugin_folder(folder, "")))


def why_not_provable(about: About, profiles: Iterable[Mapping[str, Profile]]) -> list[str]:
    """Reasons why equal decisions prove nothing, or other decisions were to be expected: other code than recorded."""
    found = {}
    for each in profiles:
        found.update(plugin_digests(each))
    reasons = [
        f"plugin module {module} is not the one that was recorded"
        for module, digest in about.plugins.items()
        if found.get(module) != digest
    ]
    if about.code != code_digest():
        reasons.append(f"it was recorded by other code: Tandem {about.tandem}")
    return reasons
