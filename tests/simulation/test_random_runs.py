"""Whole clusters from a seed. A failing seed is in the test's name: ``python -m tests.simulation SEED`` replays it."""

import pytest

from scheduler.config.loading import load
from scheduler.engine.outcome import Placed
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.simulate.world_extender import no_extender
from scheduler.testing.objects import build
from tests.simulation.runs import CASES, Run, whole_run
from tests.simulation.workload import plain_pods_that_fit

STEPS = 300

KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TANDEM = "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
CONFIGURATIONS = {
    "sampling": KUBE + "percentageOfNodesToScore: 0\n",
    "short back-off": KUBE + "podMaxBackoffSeconds: 1\n",
    "budgets kept": KUBE + TANDEM + "preemption: {pdbPolicy: strict}\n",
    "no flush of the pool: events alone wake the pods that they help": KUBE
    + TANDEM
    + "podMaxInUnschedulablePodsDuration: 100h\n",
    "all nominations": KUBE + TANDEM + "nominations: all\n",
    "an extender that is down": KUBE + "extenders: [{urlPrefix: 'http://e', filterVerb: f, ignorable: true}]\n",
}


@pytest.mark.parametrize("seed", range(20))
def test_in_the_end_every_pod_that_fits_is_bound(seed: int) -> None:
    run = whole_run(seed, STEPS)
    assert plain_pods_that_fit(run) == []
    for key in run.pending():
        pod = build(Pod, run.facts.get(Kind.POD, key) or {})
        assert not isinstance(run.engine.preview(pod, run.now)[1], Placed), key


@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_so_it_is_however_the_scheduler_is_configured(seed: int, text: str) -> None:
    assert plain_pods_that_fit(whole_run(seed, 150, load(text))) == []


@pytest.mark.parametrize("seed", range(200, 202))
@pytest.mark.parametrize("name", [name for name in CASES if name != "plain"])
def test_so_it_is_with_volumes_extenders_and_reloads_that_fail_at_times(seed: int, name: str) -> None:
    run = Run(seed, CASES[name])
    run.draw(150)
    if run.case.extender is not no_extender:
        return  # A preview asks no extender, and so places what the extender keeps from everywhere.
    for key in run.world.pending():
        document = run.world.facts.get(Kind.POD, key) or {}
        if "schedulingGroup" in document["spec"]:
            continue  # One member may fit where its group does not: test_gangs.py has the check for groups.
        found = run.world.engine.preview(build(Pod, document), run.world.now)[1]
        assert not isinstance(found, Placed), key


def test_the_same_seed_gives_the_same_journal() -> None:
    first, second = whole_run(3, STEPS), whole_run(3, STEPS)
    assert first.journal == second.journal
    assert first.bound() == second.bound()


def test_another_seed_gives_another_journal() -> None:
    assert whole_run(3, 50).journal != whole_run(4, 50).journal


def test_the_runs_reach_what_they_are_there_for() -> None:
    """Preemption, failed binds, waiting and placing all happen, or the runs above would prove little."""
    lines = [line for seed in range(4) for line in whole_run(seed, STEPS).journal]
    for wanted in (" scheduled ", " unschedulable ", " error ", "preemption: ", "Insufficient cpu", "anti-affinity"):
        assert any(wanted in line for line in lines), wanted
    victims = [line for line in lines if line.endswith(tuple(f"-{number}" for number in range(400)))]
    assert victims
