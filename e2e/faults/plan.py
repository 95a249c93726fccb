"""What the fault proxy does to each request and to each watch: decisions only, by one seed.

Each kind (pods, nodes, pods/binding, …) has a random source and a temper of its own, so that what happens to one kind
does not depend on how often another one is asked for.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """The value is the name in the report."""

    NOT_FOUND = "404"
    CONFLICT = "409"
    GONE = "410"
    TOO_MANY_REQUESTS = "429"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    LOST_ANSWER = "answer lost"
    """The API server carries the request out; the connection ends without an answer, at once or after a silence."""
    LATE = "late"
    """A write reaches the API server many seconds later, often after the client has given it up."""
    SILENCE = "silence"
    """No byte comes any more; a request does not reach the API server."""
    HALF = "half"
    """Half an answer or half a line, then the connection ends."""
    CUT = "cut"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"


ANSWERS: Final = {
    Fault.NOT_FOUND: "NotFound",
    Fault.CONFLICT: "Conflict",
    Fault.GONE: "Expired",
    Fault.TOO_MANY_REQUESTS: "TooManyRequests",
    Fault.SERVER_ERROR: "InternalError",
    Fault.UNAVAILABLE: "ServiceUnavailable",
}
"""Faults that are an answer of the proxy's own, with the reason in its Status."""
RETRY_AFTER_SECONDS: Final = (1, 1, 2, 3600)

READ_FAULTS: Final = {**dict.fromkeys(ANSWERS, 2), Fault.LOST_ANSWER: 3, Fault.SILENCE: 1, Fault.HALF: 3}
WRITE_FAULTS: Final = {
    **dict.fromkeys(ANSWERS, 2),
    Fault.LOST_ANSWER: 5,
    Fault.SILENCE: 1,
    Fault.HALF: 3,
    Fault.LATE: 2,
}
WATCH_ENDS: Final = {Fault.CUT: 4, Fault.HALF: 3, Fault.SILENCE: 2, Fault.GONE: 2}
OPENING_FAULTS: Final = dict.fromkeys(ANSWERS, 1)

REQUEST_SHARE: Final = 0.10
"""Of requests that meet a fault, times the kind's temper; so are the shares below."""
OPENING_SHARE: Final = 0.15
DUPLICATE_SHARE: Final = 0.03
REORDER_SHARE: Final = 0.03
DELAY_SHARE: Final = 0.004
TEMPERS: Final = (0.5, 1.0, 2.0)
MEAN_WATCH_SECONDS: Final = 15.0
MAX_DELAY_SECONDS: Final = 3.0
MAX_LINES_HELD: Final = 3
LATE_SECONDS: Final = (2.0, 20.0)
"""The scheduler waits 10 s for most writes and 15 s for a binding."""


def kind_of(path: str) -> str:
    """The resource of an API path, with its subresource: ``pods``, ``pods/binding``; ``discovery`` for other paths."""
    parts = path.strip("/").split("/")
    begin = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    parts = parts[begin:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    if not parts:
        return "discovery"
    return f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]


@dataclass(frozen=True, slots=True)
class Treatment:
    """What one request meets. ``seconds``: how long a silence or a delay is. ``retry_after``: of a 429."""

    fault: Fault | None = None
    seconds: float = 0.0
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """What one watch meets. ``opening``: its request. ``end``: after ``life_seconds``; a silence lasts
    ``silence_seconds``."""

    opening: Treatment
    end: Fault
    life_seconds: float
    silence_seconds: float
    lines: LineOrder


class LineOrder:
    """The lines of one watch in the order in which they are passed on: some of them late, some of them twice.

    No line is lost as long as ``rest`` is passed on before the stream ends. Lines that have changed places are passed
    on together: a watch that begins again behind the later one would never show the earlier one.
    """

    def __init__(self, rng: random.Random, temper: float, fired: Counter[Fault]) -> None:
        self._rng = rng
        self._temper = temper
        self._fired = fired
        self._held: list[tuple[int, bytes, Fault]] = []
        """The lines that come after as many others, and why."""
        self._passing: list[bytes] = []
        """In their new order, while a line that they pass is held."""

    def take(self, line: bytes) -> list[bytes]:
        """The lines to pass on now that this one has come, which may be none of them."""
        ripe = [held for after, held, _ in self._held if after <= 1]
        self._held = [(after - 1, held, fault) for after, held, fault in self._held if after > 1]
        number = self._rng.random() / self._temper
        if number < REORDER_SHARE:
            self._hold(line, Fault.REORDER)
        else:
            self._passing.append(line)
            if number < REORDER_SHARE + DUPLICATE_SHARE:
                self._hold(line, Fault.DUPLICATE)
        self._passing += ripe
        if any(fault is Fault.REORDER for *_, fault in self._held):
            return []
        passed, self._passing = self._passing, []
        return passed

    def rest(self) -> list[bytes]:
        """What is held back."""
        lines = [*self._passing, *(line for _, line, _ in self._held)]
        self._held, self._passing = [], []
        return lines

    @property
    def holds_any(self) -> bool:
        return bool(self._held or self._passing)

    def delay_seconds(self) -> float:
        """How long the stream stands still before the next lines."""
        if self._rng.random() / self._temper >= DELAY_SHARE:
            return 0.0
        self._fired[Fault.DELAY] += 1
        return self._rng.uniform(0.1, MAX_DELAY_SECONDS)

    def _hold(self, line: bytes, fault: Fault) -> None:
        self._fired[fault] += 1
        self._held.append((self._rng.randint(1, MAX_LINES_HELD), line, fault))


class Plan:
    """Decides for all kinds; ``fired`` counts by kind. A watch's end is counted by the one who carries it out, since
    the watch may end before."""

    def __init__(self, seed: int, max_silence_seconds: float) -> None:
        self._seed = seed
        self._max_silence_seconds = max_silence_seconds
        self._sources: dict[str, tuple[random.Random, float]] = {}
        self.fired: defaultdict[str, Counter[Fault]] = defaultdict(Counter)

    def request(self, kind: str, *, is_write: bool) -> Treatment:
        return self._treatment(kind, REQUEST_SHARE, WRITE_FAULTS if is_write else READ_FAULTS)

    def watch(self, kind: str) -> Watch:
        rng, temper = self._source(kind)
        return Watch(
            self._treatment(kind, OPENING_SHARE, OPENING_FAULTS),
            rng.choices(list(WATCH_ENDS), list(WATCH_ENDS.values()))[0],
            rng.expovariate(temper / MEAN_WATCH_SECONDS),
            rng.uniform(2.0, self._max_silence_seconds),
            # Of its own, so that how many lines one watch has does not change what the next one meets.
            LineOrder(random.Random(rng.random()), temper, self.fired[kind]),
        )

    def _treatment(self, kind: str, share: float, faults: dict[Fault, int]) -> Treatment:
        rng, temper = self._source(kind)
        if rng.random() >= share * temper:
            return Treatment()
        fault = rng.choices(list(faults), list(faults.values()))[0]
        self.fired[kind][fault] += 1
        seconds = rng.uniform(2.0, self._max_silence_seconds)
        if fault is Fault.LATE:
            seconds = rng.uniform(*LATE_SECONDS)
        elif fault is Fault.LOST_ANSWER and rng.random() < 0.8:
            seconds = 0.0
        return Treatment(fault, seconds, rng.choice(RETRY_AFTER_SECONDS))

    def _source(self, kind: str) -> tuple[random.Random, float]:
        if kind not in self._sources:
            rng = random.Random(f"{self._seed} {kind}")
            self._sources[kind] = rng, rng.choice(TEMPERS)
        return self._sources[kind]
