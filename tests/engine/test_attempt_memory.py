"""What is remembered of attempts, and that it has a limit."""

from __future__ import annotations

from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import MAX_CANDIDATES, MAX_NAMES, AttemptMemory
from scheduler.engine.attempt_pages import attempt_page
from scheduler.engine.explain import pod_page
from scheduler.framework.diagnosis import Diagnosis
from scheduler.messages.status import unschedulable
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.preemption.summary import PreemptionSummary
from tests.engine.driver import Cluster

NAMES = [f"n{row}" for row in range(200)]


def attempt(pod: str, message: str = "no") -> Attempt:
    made = Attempt(pod, pod, "tandem-scheduler", 1, 0, total_nodes=len(NAMES), message=message)
    made.diagnosis = Diagnosis.of_rows({row: unschedulable("full").by("Fit") for row in range(200)}, 200)
    return made


def test_the_newest_attempts_stay_whole_and_older_ones_keep_counts_and_the_first_names() -> None:
    memory = AttemptMemory(1_000, lambda: NAMES)
    attempts = [attempt(f"default/{number}") for number in range(100)]
    for each in attempts:
        memory.remember(each)
    assert attempts[-1].diagnosis is not None
    old = memory.of("default/0")
    assert old is not None and old.diagnosis is None
    (entry,) = old.refused
    assert (entry.refusal.plugin, entry.count, entry.names) == ("Fit", 200, tuple(NAMES[:MAX_NAMES]))


def test_attempts_that_failed_alike_share_what_is_left_and_others_keep_their_own() -> None:
    memory = AttemptMemory(1_000, lambda: NAMES)
    kinds = [attempt("a"), attempt("b", message="longer")]
    kinds[1].diagnosis = Diagnosis.of_rows({row: unschedulable("taken").by("Ports") for row in range(3)}, 200)
    kinds[1].preemption = PreemptionEvidence(eligible=True, message="in vain")
    for number in range(200):
        made = attempt(f"default/{number}", kinds[number % 2].message)
        made.diagnosis, made.preemption = kinds[number % 2].diagnosis, kinds[number % 2].preemption
        memory.remember(made)
    old = [memory.of(f"default/{number}") for number in range(4)]
    plugins = [[entry.refusal.plugin for entry in each.refused] for each in old if each is not None]
    assert plugins == [["Fit"], ["Ports"], ["Fit"], ["Ports"]]
    assert [each.message for each in old if each is not None] == ["no", "longer", "no", "longer"]
    summaries = [each.preemption for each in old if each is not None]
    assert summaries[0] is summaries[2] is None
    assert isinstance(summaries[1], PreemptionSummary) and summaries[1] is summaries[3]


def test_a_page_says_the_same_of_an_attempt_before_and_after_it_was_cut_down() -> None:
    cluster = Cluster()
    for number in range(MAX_CANDIDATES - 1):
        cluster.node(f"n{number}", cpu="1")
        cluster.pod(f"low{number}", cpu="1", priority=number, node=f"n{number}")
    cluster.node("taken", cpu="1")
    cluster.pod("there", cpu="1", priority=1000, node="taken")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    made = cluster.engine.attempt_of("default/high")
    assert made is not None and isinstance(made.preemption, PreemptionEvidence)
    before = attempt_page(cluster.engine, made)
    assert before["preemption"]["criterion"] == "lowest priority of the most important victim"
    assert before["preemption"]["candidateCount"] == MAX_CANDIDATES - 1
    for number in range(100):
        cluster.pod(f"filler{number}", cpu="8")
    cluster.schedule_all()
    summary: object = cluster.engine.attempt_of("default/high") and made.preemption
    assert isinstance(summary, PreemptionSummary)
    page = pod_page(cluster.engine, "default/high", cluster.now)
    assert page is not None
    assert page["attempt"] == before


def test_of_many_candidates_the_chosen_one_is_always_shown() -> None:
    cluster = Cluster()
    for number in range(3 * MAX_CANDIDATES):
        cluster.node(f"n{number}", cpu="1")
        cluster.pod(f"low{number}", cpu="1", priority=90 - number, node=f"n{number}")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    for number in range(100):
        cluster.pod(f"filler{number}", cpu="8")
    cluster.schedule_all()
    page = pod_page(cluster.engine, "default/high", cluster.now)
    assert page is not None
    summary = page["attempt"]["preemption"]
    assert summary["candidateCount"] == 3 * MAX_CANDIDATES
    assert len(summary["candidates"]) == MAX_CANDIDATES
    assert summary["nominatedNode"] == f"n{3 * MAX_CANDIDATES - 1}"
    assert summary["nominatedNode"] in {candidate["node"] for candidate in summary["candidates"]}


def test_no_more_than_the_stated_number_of_pods_is_known() -> None:
    memory = AttemptMemory(3, lambda: NAMES)
    for number in range(5):
        memory.remember(attempt(f"default/{number}"))
    assert [memory.of(f"default/{number}") is not None for number in range(5)] == [False, False, True, True, True]


def test_no_attempt_is_kept_where_none_is_wanted() -> None:
    memory = AttemptMemory(0, lambda: NAMES)
    memory.remember(attempt("default/0"))
    assert len(memory) == 0


def test_attempts_that_take_more_bytes_than_allowed_push_the_oldest_out() -> None:
    memory = AttemptMemory(10_000, lambda: NAMES, max_bytes=100_000)
    for number in range(1_000):
        memory.remember(attempt(f"default/{number}", message="x" * 4_000))
    assert memory.bytes <= 100_000
    assert len(memory) < 120
    assert memory.of("default/999") is not None
    assert memory.of("default/0") is None


def test_a_later_attempt_takes_the_place_of_the_pods_last_one() -> None:
    memory = AttemptMemory(10_000, lambda: NAMES)
    for _ in range(3):
        for number in range(100):
            memory.remember(attempt(f"default/{number}"))
    assert len(memory) == 100
    once = AttemptMemory(10_000, lambda: NAMES)
    for number in range(100):
        once.remember(attempt(f"default/{number}"))
    assert memory.bytes == once.bytes
