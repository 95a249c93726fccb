"""The commands' output and exit codes."""

import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from scheduler.cli.main import main
from scheduler.cli.queue import MAX_ROWS, print_pods, print_queue
from scheduler.cli.why import page_path, print_why
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.engine import explain
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.engine import Engine
from scheduler.engine.queue_pages import grouped_queue_page, queue_page
from scheduler.engine.wanted import Wanted
from scheduler.engine.workloads import workload_page_in_slices
from scheduler.errors import ConfigurationError
from scheduler.messages.now import Now
from scheduler.messages.page_limits import MAX_GROUPS_LISTED
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.testing.fragments import owner_json
from scheduler.testing.objects import node, pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NOW = Now(monotonic=1000.0, wall=1_800_000_000 * 10**9)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def tried_engine() -> Engine:
    """One node; `fits` is on it, `huge` waits."""
    engine = build_engine(load(), started=NOW, seed=1, stopwatch=lambda: 0.0)
    engine.handle(Synced(), NOW)
    engine.handle(ObjectObserved(Kind.NODE, node("n1", cpu="2")), NOW)
    for each in (pod("fits", cpu="1"), pod("huge", cpu="9"), pod("gated", gates=["example.com/wait"])):
        engine.handle(ObjectObserved(Kind.POD, each), NOW)
    while engine.schedule_one(NOW) is not None:
        pass
    return engine


def printed(printer, page, width: int = 160) -> str:  # type: ignore[no-untyped-def]
    file = io.StringIO()
    printer(page, Console(file=file, width=width))
    return file.getvalue()


# --- exit codes -------------------------------------------------------------------------------------------------------


def test_wrong_flags_end_a_run_with_every_fault_and_no_traceback() -> None:
    answer = run("run", "--nope", "--leader-elect=maybe")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[0] == "Error: unknown flag: --nope"
    assert 'invalid argument "maybe" for "--leader-elect" flag' in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("words", [["version"], ["--help"], ["completion", "bash"]])
def test_a_reader_that_has_seen_enough_gets_no_traceback(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "scheduler", *words]
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (1, "")


@pytest.mark.parametrize("is_read", [True, False])
def test_only_output_without_a_reader_is_taken_for_a_reader_that_has_gone(is_read: bool) -> None:
    reading, writing = os.pipe()
    if not is_read:
        os.close(reading)
    asking = "import sys; from scheduler.cli.main import has_lost_its_reader; sys.exit(has_lost_its_reader())"
    answer = subprocess.run([sys.executable, "-c", asking], stdout=writing, timeout=60, check=False)
    os.close(writing)
    if is_read:
        os.close(reading)
    assert answer.returncode == (0 if is_read else 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_a_full_disk_does_not_take_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "scheduler", "version"]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (1, "Error: standard output: No space left on device\n")


def test_a_run_that_cannot_reach_its_kubeconfig_ends_with_one_line() -> None:
    answer = run("run", "--kubeconfig=/nope/kubeconfig", "--secure-port=0")
    assert answer.returncode == 1
    assert "/nope/kubeconfig" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_check_config_tells_all_faults_with_their_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + "parallelism: 0\nprofiles: [{schedulerName: a}, {schedulerName: a}]\n")
    assert main(["check-config", str(file)]) == 1
    output = capsys.readouterr().err
    assert "Error: parallelism: Invalid value: 0" in output
    assert 'Error: profiles[1].schedulerName: Duplicate value: "a"' in output


def test_check_config_names_the_profiles_of_a_file_without_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    assert main(["check-config", str(file)]) == 0
    assert capsys.readouterr().out.endswith("is valid. Profiles: a, b\n")


def test_a_written_configuration_is_read_back_without_a_fault(tmp_path: Path) -> None:
    target = tmp_path / "written.yaml"
    assert main(["run", f"--write-config-to={target}", "--leader-elect-lease-duration=20s"]) == 0
    assert "leaseDuration: 20s" in target.read_text()
    assert main(["check-config", str(target)]) == 0


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frobnicate"]) == 1
    assert "No such command" in capsys.readouterr().err


def test_asking_a_scheduler_that_does_not_run_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "a", "--server", "http://127.0.0.1:1"]) == 1
    assert "Is the scheduler running?" in capsys.readouterr().err


def test_the_help_of_run_shows_the_flags_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    output = capsys.readouterr().out
    assert "--leader-elect-lease-duration" in output
    assert "without effect" in output


def test_the_version_names_the_kube_scheduler_whose_decisions_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert main(["run", "--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert "kube-scheduler 1.36" in first


# --- pages ------------------------------------------------------------------------------------------------------------


def test_the_page_of_a_pod_that_waits_names_the_refusals_and_what_would_wake_it() -> None:
    page = explain.pod_page(tried_engine(), "default/huge", NOW)
    assert page is not None
    assert page["attempt"]["refusals"] == [
        {"plugin": "NodeResourcesFit", "status": "UnschedulableAndUnresolvable", "reasons": ["Insufficient cpu"]}
        | {"count": 1, "nodes": ["n1"]}
    ]
    assert page["preview"]["fits"] is False
    assert page["preview"]["listed"][0]["plugin"] == "NodeResourcesFit"
    assert page["queue"]["place"] == "unschedulable"
    (wish,) = page["queue"]["wokenBy"]
    assert wish["plugin"] == "NodeResourcesFit"
    assert any(event.startswith("Node: Add") for event in wish["events"])
    text = printed(print_why, page)
    assert "Insufficient cpu" in text
    assert "NodeResourcesFit waits for" in text


def test_the_page_of_a_pod_that_was_placed_has_the_attempt_and_says_how_far_its_binding_is() -> None:
    page = explain.pod_page(tried_engine(), "default/fits", NOW)
    assert page is not None
    assert page["attempt"]["node"] == "n1"
    assert (page["queue"]["place"], page["queue"]["binding"], page["queue"]["node"]) == ("in flight", "Binding", "n1")
    assert "preview" not in page
    text = printed(print_why, page)
    assert "1 of 1 nodes fit" in text
    assert "its binding to n1 is under way" in text


def test_the_page_of_a_gated_pod_names_its_gate() -> None:
    page = explain.pod_page(tried_engine(), "default/gated", NOW)
    assert page is not None
    assert page["queue"]["gatedBy"] == "SchedulingGates"
    assert "example.com/wait" in printed(print_why, page)


def test_the_page_of_a_preemptor_keeps_its_victims_when_later_attempts_follow() -> None:
    memory = explain.PreemptionMemory()
    engine = build_engine(load(), started=NOW, seed=1, stopwatch=lambda: 0.0)
    engine.handle(Synced(), NOW)
    engine.handle(ObjectObserved(Kind.NODE, node("n1", cpu="1")), NOW)
    engine.handle(ObjectObserved(Kind.POD, pod("low", cpu="1", node="n1", priority=0)), NOW)
    engine.handle(ObjectObserved(Kind.POD, pod("high", cpu="1", priority=10)), NOW)
    for command in engine.schedule_one(NOW) or ():
        if isinstance(command, RecordAttempt):
            memory.observe(command.attempt)
    page = explain.pod_page(engine, "default/high", NOW, memory)
    assert page is not None
    assert page["madeRoom"]["victims"] == [{"pod": "default/low", "priority": 0}]
    assert page["madeRoom"]["criterion"] == "the only candidate"
    assert "room is made on n1" in printed(print_why, page)


def test_of_many_preemptors_the_oldest_are_forgotten() -> None:
    memory = explain.PreemptionMemory(limit=2)
    victim = PodInfo(pod("low", node="n1"))
    for number in range(3):
        attempt = Attempt(f"default/{number}", str(number), "tandem-scheduler", 1, NOW.wall)
        attempt.preemption = PreemptionEvidence(eligible=True, nominated_node="n1", victims=(victim,))
        memory.observe(attempt)
    assert [memory.of(str(number)) is not None for number in range(3)] == [False, True, True]


def test_an_unknown_pod_has_no_page() -> None:
    assert explain.pod_page(tried_engine(), "default/absent", NOW) is None


def test_the_page_of_the_queue_has_every_pod_that_waits() -> None:
    page = queue_page(tried_engine())
    assert page["counts"]["unschedulable"] == 1
    assert page["counts"]["gated"] == 1
    assert {story["pod"]: story["place"] for story in page["pods"]} == {
        "default/huge": "unschedulable",
        "default/gated": "gated",
        "default/fits": "in flight",
    }
    assert page["counts"]["in flight"] == 1
    text = printed(print_queue, grouped_queue_page(tried_engine()))
    assert "default/huge" in text
    stories = {story["pod"]: story for story in page["pods"]}
    huge = stories["default/huge"]
    assert huge["nextTry"] > huge["since"], "the flush of the pool, if nothing wakes it before"
    assert "nextTry" not in stories["default/gated"], "its gate is asked again, but it is not tried"


def test_the_age_of_a_pod_that_is_tried_again_and_again_is_that_of_its_wait_and_not_of_its_last_attempt() -> None:
    engine = tried_engine()
    later = Now(NOW.monotonic + 600, NOW.wall + 600 * 10**9)
    engine.handle(ObjectObserved(Kind.NODE, node("n2", cpu="9", taints=["a=b:NoSchedule"])), later)
    tried = engine.schedule_one(later)
    assert tried is not None
    soon = datetime.fromtimestamp(later.wall / 10**9 + 1, UTC)
    pods, grouped = queue_page(engine), grouped_queue_page(engine)
    (huge,) = [story for story in pods["pods"] if story["pod"] == "default/huge"]
    assert (huge["attempts"], huge["since"] > huge["pendingSince"]) == (2, True)
    assert re.search(r"default/huge +unschedulable +10m", printed(lambda page, to: print_pods(page, to, soon), pods))
    assert "default/huge  unschedulable, oldest 10m" in printed(lambda page, to: print_queue(page, to, soon), grouped)


def test_of_very_many_pods_the_page_prints_some_and_counts_the_rest() -> None:
    page = queue_page(tried_engine())
    page["pods"] *= MAX_ROWS
    assert f"and {2 * MAX_ROWS} more pods" in printed(print_pods, page)


def test_of_very_many_workloads_the_largest_are_listed_and_the_rest_is_counted() -> None:
    engine = tried_engine()
    for number in range(MAX_GROUPS_LISTED + 7):
        engine.handle(ObjectObserved(Kind.POD, pod(f"single-{number}", cpu="9")), NOW)
    for number in range(2):
        owner = owner_json("Job", "train", uid="j")
        engine.handle(ObjectObserved(Kind.POD, pod(f"train-{number}", cpu="9", owner=owner)), NOW)
    page = grouped_queue_page(engine)
    assert [group["count"] for group in page["waiting"]] == [2, *[1] * (MAX_GROUPS_LISTED - 1)]
    text = printed(print_queue, page)
    assert "2 pods  default/train (job)  active" in text
    assert "and 11 more groups" in text


def test_the_queue_is_grouped_by_workload_and_reason_within_80_columns() -> None:
    engine = tried_engine()
    long = "a-workload-with-a-long-name-of-50-characters-in-all"
    for number in range(3):
        owner = owner_json("ReplicaSet", f"{long}-5d4f8", uid="rs")
        labels = {"pod-template-hash": "5d4f8"}
        name = f"{long}-5d4f8-{number}"
        waiting = pod(name, cpu="9", owner=owner, labels=labels)
        engine.handle(ObjectObserved(Kind.POD, waiting), NOW)
    while engine.schedule_one(NOW) is not None:
        pass
    page = grouped_queue_page(engine)
    assert [group["count"] for group in page["waiting"]] == [3, 1, 1, 1]
    assert (page["workloads"], page["pods"]) == (4, 6), "gated, huge, and the one that is being bound"
    text = printed(print_queue, page, width=80)
    assert f"3 pods default/{long} (deployment)" in " ".join(text.split())
    assert text.count("NodeResourcesFit") == 2, "a line for the workload, one for huge"
    assert max(map(len, text.splitlines())) <= 80


def test_the_queue_can_be_asked_for_a_namespace_a_profile_and_a_plugin() -> None:
    engine = tried_engine()
    engine.handle(ObjectObserved(Kind.POD, pod("huge", namespace="other", cpu="9")), NOW)
    while engine.schedule_one(NOW) is not None:
        pass

    def asked(**wanted: str) -> set[str]:
        page = queue_page(engine, wanted=Wanted(**wanted))
        assert page["counts"]["unschedulable"] == 2, "the counts are of the whole queue"
        return {story["pod"] for story in page["pods"]}

    assert asked(namespace="other") == {"other/huge"}
    assert asked(plugin="SchedulingGates") == {"default/gated"}
    assert asked(plugin="NodeResourcesFit") == {"default/huge", "other/huge"}
    assert asked(profile="unknown") == set()


@pytest.mark.parametrize(
    ("target", "namespace", "path"),
    [
        ("a", "", "default/a"),
        ("a", "shop", "shop/a"),
        ("shop/a", "", "shop/a"),
        ("shop/a", "shop", "shop/a"),
        ("pod/a", "shop", "shop/a"),
        ("deploy/web", "shop", "shop/deployment/web"),
        ("job/x", "", "default/job/x"),
        ("a b?c", "", "default/a%20b%3Fc"),
    ],
)
def test_why_takes_pods_and_workloads_as_kubectl_does(target: str, namespace: str, path: str) -> None:
    assert page_path(target, namespace) == f"/debug/why/{path}"


@pytest.mark.parametrize(("target", "namespace"), [("shop/a", "other"), ("a/b/c", ""), ("deploy/", ""), ("/a", "")])
def test_a_namespace_that_contradicts_the_name_is_refused_and_not_ignored(target: str, namespace: str) -> None:
    with pytest.raises(ConfigurationError):
        page_path(target, namespace)


def test_a_workload_s_page_groups_those_that_wait_and_explains_one() -> None:
    engine = tried_engine()
    owner = owner_json("Job", "batch", uid="job")
    for number in range(2):
        engine.handle(ObjectObserved(Kind.POD, pod(f"w{number}", cpu="9", owner=owner)), NOW)
    engine.handle(ObjectObserved(Kind.POD, pod("there", node="n1", owner=owner)), NOW)
    while engine.schedule_one(NOW) is not None:
        pass
    slices = workload_page_in_slices(engine, "default", "job/batch")
    with pytest.raises(StopIteration) as end:
        next(slices)
    page = end.value.value
    assert (page["pods"], page["placed"], page["nodes"]) == (3, 1, {"n1": 1})
    (group,) = page["waiting"]
    assert (group["count"], group["rejectedBy"], group["pods"]) == (2, "NodeResourcesFit", ["default/w0", "default/w1"])
    page["example"] = explain.pod_page(engine, page["example"], NOW)
    text = printed(print_why, page)
    assert "1 of 3 pods have a node" in text and "cpu: needs 9" in text


def test_scores_are_said_to_be_weighted_and_plugins_have_the_names_of_configurations() -> None:
    engine = build_engine(load(), started=NOW, seed=1, stopwatch=lambda: 0.0)
    engine.handle(Synced(), NOW)
    for name in ("n1", "n2"):
        engine.handle(ObjectObserved(Kind.NODE, node(name, cpu="2")), NOW)
    engine.handle(ObjectObserved(Kind.POD, pod("there", cpu="1", node="n1")), NOW)
    page = explain.pod_page(engine, "default/there", NOW)
    assert page is not None
    text = printed(print_why, page, width=80)
    assert "NodeResourcesBalancedAllocation ×1" in text and "TaintToleration ×3" in text
    assert "before this scheduler started" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_several_plugins_wait_for_is_listed_once_a_kind() -> None:
    page = queue_page(tried_engine())
    story = next(story for story in page["pods"] if story["pod"] == "default/huge")
    story["wokenBy"] = [{"plugin": "A", "events": ["Node: Add"]}, {"plugin": "B", "events": ["Node: Add, Delete"]}]
    assert "Node: Add, Delete" in printed(print_pods, {**page, "pods": [story]})


def test_a_written_configuration_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It may hold extenders' keys; this also holds for a file that exists already, and for its old content."""
    (tmp_path / "old").write_text("x" * 100_000)
    (tmp_path / "old").chmod(0o644)
    for name in ("old", "new"):
        assert main(["run", f"--write-config-to={tmp_path / name}"]) == 0
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        assert main(["check-config", str(tmp_path / name)]) == 0
