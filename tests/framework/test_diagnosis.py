from __future__ import annotations

import numpy as np

from scheduler.framework.diagnosis import (
    Diagnosis,
    DiagnosisBuilder,
    disjoint_node_sets,
    fit_error_text,
    outside_node_set,
)
from scheduler.messages.status import Code, Refusal, unresolvable, unschedulable

CPU = unschedulable("Insufficient cpu").by("NodeResourcesFit")
BOTH = unschedulable("Insufficient cpu", "Insufficient memory").by("NodeResourcesFit")
TAINT = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")


def test_reasons_are_counted_per_node_and_sorted_as_texts() -> None:
    refusals = dict.fromkeys(range(10), unschedulable("A").by("X")) | dict.fromkeys(
        (10, 11), unschedulable("B").by("X")
    )
    assert fit_error_text(12, Diagnosis.of_rows(refusals, 12)) == "0/12 nodes are available: 10 A, 2 B."


def test_a_node_with_two_reasons_counts_for_both() -> None:
    diagnosis = Diagnosis.of_rows({0: CPU, 1: BOTH, 2: TAINT}, 3)
    assert fit_error_text(3, diagnosis) == (
        "0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )


def test_the_post_filter_message_follows_without_a_full_stop_of_its_own() -> None:
    diagnosis = Diagnosis.of_rows({0: CPU}, 1).with_post_filter("no new claims to deallocate, preemption: x.")
    assert fit_error_text(1, diagnosis) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: x."
    )


def test_a_refusal_of_the_pod_as_a_whole_takes_the_place_of_the_histogram() -> None:
    refusal = unresolvable('persistentvolumeclaim "nope" not found').by("VolumeRestrictions")
    diagnosis = Diagnosis.of_pod(refusal, 3).with_post_filter("not found")
    assert fit_error_text(3, diagnosis) == (
        '0/3 nodes are available: persistentvolumeclaim "nope" not found. not found'
    )
    assert diagnosis.at(1) == refusal
    assert diagnosis.unschedulable_plugins == {"VolumeRestrictions"}


def test_nodes_outside_a_node_set_count_with_its_reason() -> None:
    diagnosis = Diagnosis.of_rows({0: CPU}, 4, absent=outside_node_set(frozenset({"NodeAffinity"})))
    assert fit_error_text(3, diagnosis) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_unevaluated_nodes_and_an_empty_histogram_leave_no_trace() -> None:
    assert fit_error_text(3, Diagnosis(np.zeros(3, np.int32))) == "0/3 nodes are available:"
    assert fit_error_text(5, Diagnosis.of_rows({0: CPU}, 5)) == "0/5 nodes are available: 1 Insufficient cpu."


def test_node_sets_without_a_common_node_name_their_plugins() -> None:
    assert disjoint_node_sets(frozenset({"A"})).reasons == ("node(s) didn't satisfy plugin A",)
    assert disjoint_node_sets(frozenset({"B", "A"})).reasons == (
        "node(s) didn't satisfy plugin(s) [A B] simultaneously",
    )


def test_the_first_refusal_of_a_row_stays_and_only_rejectors_that_count_are_named() -> None:
    builder = DiagnosisBuilder(3)
    builder.refuse(np.array([0, 1]), TAINT)
    builder.refuse(np.array([1, 2]), CPU)
    builder.refuse(np.array([0]), unschedulable("never counts").by("NodePorts"))
    builder.refuse(np.array([], dtype=np.int64), unschedulable("nowhere").by("NodeName"))
    diagnosis = builder.build(narrowed_by=frozenset({"NodeAffinity"}))
    assert [diagnosis.at(row) for row in range(3)] == [TAINT, TAINT, CPU]
    assert diagnosis.unschedulable_plugins == {"TaintToleration", "NodeResourcesFit", "NodeAffinity"}
    assert diagnosis.explicit_count == 3


def test_pending_plugins_are_kept_apart() -> None:
    waiting = Refusal(Code.PENDING, ("not yet",), "Gang")
    diagnosis = Diagnosis.of_rows({0: waiting, 1: CPU}, 2)
    assert diagnosis.pending_plugins == {"Gang"}
    assert diagnosis.unschedulable_plugins == {"NodeResourcesFit"}


def test_rows_are_found_by_their_status_code() -> None:
    diagnosis = Diagnosis.of_rows({0: CPU, 2: TAINT, 3: BOTH}, 5)
    assert diagnosis.rows_refused_as(Code.UNSCHEDULABLE).tolist() == [0, 3]
    assert diagnosis.rows_refused_as(Code.UNRESOLVABLE).tolist() == [1, 2, 4]
