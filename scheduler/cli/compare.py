"""``tandem replay --config``: a recording decided by another configuration, beside what was decided."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from rich.markup import escape

from scheduler.cli.complaint import complain, warn
from scheduler.cli.config_warnings import warnings_about_decisions
from scheduler.cli.recorded import Maker, Stretch, Until, stretches
from scheduler.cli.tables import table, terminal
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.engine.recording.door import Beginning, NewConfiguration, NextPod
from scheduler.engine.recording.otherwise import Otherwise, Outcomes, Waits, outcomes_of
from scheduler.engine.recording.replay import RecordedInput, Replay
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.commands import BindPod, DeletePod, EvictPod
from scheduler.messages.stimuli import ExtenderAnswered, ObjectObserved
from scheduler.objects.pod import Pod
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.shown_amounts import shown_amount
from scheduler.user_plugins.loading import PluginClasses

_CLAIMS: Final = "devices are allocated as recorded: pods with claims for devices go where the recorded ones are"
_EXTENDERS: Final = "the recorded scheduler asked extenders, which can't be asked: the other decides without them"


class Comparison:
    """Both configurations side by side over one stretch of a recording. ``text``: the other configuration."""

    def __init__(self, maker: Maker, text: bytes | None) -> None:
        self._maker = maker
        self._text = text
        self._waits = Waits()
        self._victims: set[str] = set()
        self._warned: set[str] = set()
        self._notes: dict[str, None] = {}
        self._names: dict[str, None] = {}
        """The scheduler names of the pods that the recorded configuration had to place."""
        self._other: Otherwise

    def begin(self, recorded: Replay, beginning: Beginning) -> None:
        """Begin with an engine of the other configuration at the recording's beginning. Raises ConfigurationError, also
        for extenders: they can't be asked."""
        # Feature gates are flags of the process and not in the file: without them no pod would be in a group.
        gates = parse_feature_gates(beginning.configurations[-1].gates)
        configuration = load(self._text, gates=gates)
        for warning in warnings_about_decisions(configuration):
            if warning not in self._warned:
                self._warned.add(warning)
                warn(warning)
        if configuration.kube.extenders:
            raise ConfigurationError([Fault("extenders", "can't be asked about a recording")])
        replay = Replay(self._maker)
        replay.begin(beginning, instead=self._maker.made_of(configuration))
        self._waits, self._victims, self._notes, self._names = Waits(), set(), {}, {}
        for info in recorded.engine.known_pods:
            self._name(info.pod, recorded)
        self._other = Otherwise(replay.engine)

    def watch(self, replay: Replay, recorded: RecordedInput) -> None:
        """Feed one input, which the recorded configuration has just decided, to the other one."""
        input_, now = recorded.input, recorded.now
        if isinstance(input_, ObjectObserved) and isinstance(input_.object, Pod):
            self._waits.seen(input_.object, now)
            self._name(input_.object, replay)
        elif isinstance(input_, ObjectObserved) and isinstance(input_.object, ResourceClaim):
            self._notes[_CLAIMS] = None
        elif isinstance(input_, ExtenderAnswered):
            self._notes[_EXTENDERS] = None
        for command in replay.commands:
            if isinstance(command, BindPod):
                self._waits.bound(command.pod.uid, now)
            elif isinstance(command, DeletePod | EvictPod):
                self._victims.add(command.pod.uid)
        if isinstance(input_, NextPod):
            self._other.next_pod(now)
        elif not isinstance(input_, NewConfiguration):
            self._other.apply(input_, now, self._victims)

    def _name(self, pod: Pod, recorded: Replay) -> None:
        if not pod.is_assigned and pod.scheduler_name in recorded.engine.profiles:
            self._names[pod.scheduler_name] = None

    def notes(self, stretch: Stretch) -> list[str]:
        """What the outcomes leave out."""
        profiles = self._other.engine.profiles
        foreign = [name for name in self._names if name not in profiles]
        if foreign:
            self._notes[_foreign(foreign, profiles)] = None
        if stretch.replay.engine.cache.objects.all_of(ResourceClaim):
            self._notes[_CLAIMS] = None
        if stretch.difference is not None:
            number = stretch.difference.number
            self._notes[f"compared up to input {number}, which this version decides otherwise than recorded"] = None
        return list(self._notes)

    def outcomes(self, replay: Replay) -> tuple[Outcomes, Outcomes]:
        """What was recorded, and what the other configuration makes of it."""
        if replay.last is not None:
            self._other.finish(replay.last)
        recorded = outcomes_of(replay.engine, self._waits, len(self._victims))
        return recorded, outcomes_of(self._other.engine, self._other.waits, self._other.victims)


def _foreign(names: Iterable[str], profiles: Iterable[str]) -> str:
    return (
        f"no profile of the other configuration is for pods of scheduler {', '.join(names)}, which go where the "
        f"recorded ones are, and count neither as placed nor as waiting: its profiles are {', '.join(profiles)}"
    )


def compare(place: Path, text: bytes | None, until: Until | None, classes: PluginClasses, as_json: bool) -> int:
    """Decide a recording by another configuration (``text``) and print both; returns the exit code. Raises
    ConfigurationError."""
    maker = Maker(classes)
    comparison = Comparison(maker, text)
    reports = []
    for stretch in stretches(place, maker, until, comparison.watch, comparison.begin):
        problem = stretch.problem
        if stretch.replay.last is None:
            complain(problem or f"{stretch.paths[0]}: it holds no input")
            continue
        if problem:
            complain(problem)
        recorded, other = comparison.outcomes(stretch.replay)
        files, notes = [str(path) for path in stretch.paths], comparison.notes(stretch)
        reports.append({"files": files, "recorded": recorded, "other": other, "notes": notes})
        if not as_json:
            _print(files[0], recorded, other, notes)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(reports), indent=2).decode())
    return 0 if reports else 1


def _print(file: str, recorded: Outcomes, other: Outcomes, notes: list[str]) -> None:
    console = terminal()
    console.print(f"[bold]{escape(file)}[/bold]")
    rows = table("", "Recorded", "Other")
    rows.add_row("pods placed", str(recorded.placed), str(other.placed))
    rows.add_row("pods waiting at the end", str(recorded.waiting), str(other.waiting))
    for text, before, after in (
        ("median wait", recorded.median_wait_seconds, other.median_wait_seconds),
        ("99 of 100 waited at most", recorded.p99_wait_seconds, other.p99_wait_seconds),
        ("longest wait", recorded.longest_wait_seconds, other.longest_wait_seconds),
    ):
        rows.add_row(text, f"{before:.3f} s", f"{after:.3f} s")
    rows.add_row("pods removed for others", str(recorded.victims), str(other.victims))
    for name, room in recorded.room.items():
        there = other.room[name]
        free, largest, free_there, largest_there, of = (
            shown_amount(name, amount) for amount in (room.free, room.largest, there.free, there.largest, room.of)
        )
        rows.add_row(f"{escape(name)} free, of {of}", free, free_there)
        rows.add_row(f"{escape(name)}, largest pod that fits", largest, largest_there)
    console.print(rows)
    for note in notes:
        console.print(f"Note: {escape(note)}")
