"""``tandem replay --config``: a recording decided by another configuration, beside what was decided."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from scheduler.cli.recorded import Maker, Until, stretches
from scheduler.cli.tables import table
from scheduler.config.loading import Configuration
from scheduler.engine.recording.door import Beginning, NewConfiguration, NextPod
from scheduler.engine.recording.otherwise import Otherwise, Outcomes, Waits, outcomes_of
from scheduler.engine.recording.replay import Made, RecordedInput, Replay
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.commands import BindPod, DeletePod, EvictPod
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.pod import Pod
from scheduler.user_plugins.loading import PluginClasses


class Comparison:
    """Both configurations side by side over one stretch of a recording."""

    def __init__(self, maker: Maker, made: Made) -> None:
        self._maker = maker
        self._made = made
        self._waits = Waits()
        self._victims: set[str] = set()
        self._other: Otherwise

    def begin(self, _recorded: Replay, beginning: Beginning) -> None:
        replay = Replay(self._maker)
        replay.begin(beginning, instead=self._made)
        self._waits, self._victims = Waits(), set()
        self._other = Otherwise(replay.engine)

    def watch(self, replay: Replay, recorded: RecordedInput) -> None:
        """One input, which the recorded configuration has just decided."""
        input_, now = recorded.input, recorded.now
        if isinstance(input_, ObjectObserved) and isinstance(input_.object, Pod):
            self._waits.seen(input_.object, now)
        for command in replay.commands:
            if isinstance(command, BindPod):
                self._waits.bound(command.pod.uid, now)
            elif isinstance(command, DeletePod | EvictPod):
                self._victims.add(command.pod.uid)
        if isinstance(input_, NextPod):
            self._other.next_pod(now)
        elif not isinstance(input_, NewConfiguration):
            self._other.apply(input_, now, self._victims)

    def outcomes(self, replay: Replay) -> tuple[Outcomes, Outcomes]:
        """What was recorded, and what the other configuration makes of it."""
        if replay.last is not None:
            self._other.finish(replay.last)
        recorded = outcomes_of(replay.engine, self._waits, len(self._victims))
        return recorded, outcomes_of(self._other.engine, self._other.waits, self._other.victims)


def compare(
    place: Path, configuration: Configuration, until: Until | None, classes: PluginClasses, as_json: bool
) -> int:
    """Raises ConfigurationError, also for extenders: they can't be asked."""
    if configuration.kube.extenders:
        raise ConfigurationError([Fault("extenders", "can't be asked about a recording")])
    maker = Maker(classes)
    comparison = Comparison(maker, maker.made_of(configuration))
    reports = []
    for stretch in stretches(place, maker, until, comparison.watch, comparison.begin):
        if stretch.replay.last is None:
            raise ConfigurationError([Fault("", stretch.problem)])
        recorded, other = comparison.outcomes(stretch.replay)
        reports.append({"files": [str(path) for path in stretch.paths], "recorded": recorded, "other": other})
        if not as_json:
            _print(str(stretch.paths[0]), recorded, other)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(reports), indent=2).decode())
    return 0


def _print(file: str, recorded: Outcomes, other: Outcomes) -> None:
    console = Console()
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
        unit = f"{name} (m)" if name == "cpu" else name
        rows.add_row(f"{escape(unit)} free, of {room.of}", str(room.free), str(there.free))
        rows.add_row(f"{escape(unit)}, largest pod that fits", str(room.largest), str(there.largest))
    console.print(rows)
