"""How long the event loop's steps take, and how much of that is work."""

from __future__ import annotations

from scheduler.controller.step_watch import SECONDS_BETWEEN_MARKS, StepWatch


class Clocks:
    """Of the wall, and of the thread's CPU."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.reads = 0

    def work(self, seconds: float, waiting: float = 0.0) -> None:
        self.wall += seconds + waiting
        self.cpu += seconds

    def thread_seconds(self) -> float:
        self.reads += 1
        return self.cpu


def watch(clocks: Clocks) -> StepWatch:
    return StepWatch(lambda: clocks.wall, clocks.thread_seconds)


def test_a_step_that_waited_for_a_processor_is_long_and_takes_little_cpu() -> None:
    clocks = Clocks()
    steps = watch(clocks)
    for work, waiting in ((0.004, 0.0), (0.001, 0.03), (0.006, 0.0)):
        steps.mark(clocks.wall)
        with steps.step("some"):
            clocks.work(work, waiting)
    assert (round(steps.longest_seconds, 6), round(steps.longest_cpu_seconds, 6)) == (0.031, 0.006)


def test_cpu_of_a_step_counts_what_came_before_it_since_the_mark_up_to_its_duration() -> None:
    clocks = Clocks()
    steps = watch(clocks)
    clocks.work(0.002)
    with steps.step("some"):
        clocks.work(0.005, waiting=0.001)
    assert round(steps.longest_cpu_seconds, 6) == 0.006
    clocks.work(0.05)
    with steps.step("another"):
        clocks.work(0.007)
    assert round(steps.longest_cpu_seconds, 6) == 0.007


def test_the_threads_cpu_is_not_read_for_steps_that_are_shorter_than_the_most_cpu_of_one() -> None:
    clocks = Clocks()
    steps = watch(clocks)
    with steps.step("long"):
        clocks.work(0.005)
    before = clocks.reads
    for _ in range(10):
        with steps.step("short"):
            clocks.work(0.004)
    assert clocks.reads == before


def test_the_threads_cpu_is_not_read_twice_in_a_moment() -> None:
    clocks = Clocks()
    steps = watch(clocks)
    before = clocks.reads
    for _ in range(10):
        steps.mark(clocks.wall)
        clocks.work(SECONDS_BETWEEN_MARKS / 4)
    assert clocks.reads == before + 3


def test_of_nested_steps_the_outermost_counts() -> None:
    clocks = Clocks()
    steps = watch(clocks)
    with steps.step("outer"), steps.step("inner"):
        clocks.work(0.002)
    assert round(steps.longest_seconds, 6) == 0.002
