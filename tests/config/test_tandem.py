"""TandemConfiguration."""

from __future__ import annotations

import pytest

from scheduler.config.durations import SECOND, Duration
from scheduler.config.loading import load, write_config
from scheduler.config.tandem import Nominations, PDBPolicy, PreemptionMode, UserPlugin, VictimScope
from scheduler.errors import ConfigurationError

HEADER = "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(HEADER + text)
    return [str(fault) for fault in caught.value.faults]


def test_a_file_without_our_settings_behaves_as_kube_scheduler() -> None:
    settings = load().tandem
    assert settings.nominations is Nominations.OURS
    assert settings.preemption.pdb_policy is PDBPolicy.BEST_EFFORT
    assert settings.preemption.victim_scope is VictimScope.ALL
    assert settings.preemption.nomination_timeout == 0
    assert settings.limits.requests_in_flight == 128
    assert settings.pod_max_in_unschedulable_pods_duration == Duration(300 * SECOND)


def test_all_settings_are_read() -> None:
    settings = load(
        HEADER
        + """
nominations: all
preemption:
  pdbPolicy: strict
  victimScope: own
  nominationTimeout: 5m
  mode: sync
  breaker: {rounds: 3, window: 1h}
  preferOtherThanDaemonSets: true
plugins:
- {name: Mine, path: "my.plugins:Mine"}
limits: {requestsInFlight: 32, queuedWrites: 5}
podMaxInUnschedulablePodsDuration: 30s
"""
    ).tandem
    assert settings.nominations is Nominations.ALL
    assert settings.preemption.pdb_policy is PDBPolicy.STRICT
    assert settings.preemption.victim_scope is VictimScope.OWN
    assert settings.preemption.nomination_timeout == Duration(300 * SECOND)
    assert settings.preemption.mode is PreemptionMode.SYNC
    assert (settings.preemption.breaker.rounds, str(settings.preemption.breaker.window)) == (3, "1h0m0s")
    assert settings.preemption.prefer_other_than_daemon_sets
    assert settings.plugins == (UserPlugin("Mine", "my.plugins:Mine"),)
    assert (settings.limits.requests_in_flight, settings.limits.queued_writes) == (32, 5)
    assert settings.pod_max_in_unschedulable_pods_duration == Duration(30 * SECOND)


def test_a_setting_of_the_version_before_is_accepted_with_a_warning() -> None:
    configuration = load(HEADER + "limits: {bindsInFlight: 32, queuedWrites: 5}")
    assert configuration.tandem.limits.queued_writes == 5
    assert configuration.warnings == (
        "limits.bindsInFlight has no effect any more: limits.requestsInFlight bounds all writes",
    )


def test_a_renamed_setting_is_accepted_under_its_old_name_with_a_warning() -> None:
    configuration = load(HEADER + "limits: {journalEntries: 5}")
    assert configuration.tandem.limits.remembered_attempts == 5
    assert configuration.warnings == ("limits.journalEntries is renamed to limits.rememberedAttempts",)


def test_the_old_and_the_new_name_of_a_setting_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match="journalEntries"):
        load(HEADER + "limits: {journalEntries: 5, rememberedAttempts: 6}")


def test_no_nomination_timeout_may_be_written_as_a_bare_0() -> None:
    assert load(HEADER + "preemption: {nominationTimeout: 0}").tandem.preemption.nomination_timeout == 0


def test_all_faults_of_our_settings_are_found() -> None:
    text = """
nominations: mine
preemption:
  pdbPolicy: loose
  nominationTimeout: 5
  breaker: {rounds: -1, window: 0s}
  victims: all
plugins:
- {name: DefaultBinder, path: a:B}
- {name: Mine, path: nothing}
- {name: Mine, path: "a.b:C.D"}
- {}
limits: {requestsInFlight: 0, queuedWrites: "5"}
podMaxInUnschedulablePodsDuration: -1s
"""
    assert faults(text) == [
        'strict decoding error: unknown field "preemption.victims"',
        'nominations: Unsupported value: "mine": supported values: "ours", "all"',
        'preemption.pdbPolicy: Unsupported value: "loose": supported values: "bestEffort", "strict"',
        'preemption.nominationTimeout: Invalid value: 5: expected a duration such as "1m30s", got an integer',
        'limits.queuedWrites: Invalid value: "5": expected an integer, got a string',
        "preemption.breaker.rounds: Invalid value: -1: must be non-negative",
        "preemption.breaker.window: Invalid value: 0s: must be greater than zero",
        'plugins[0].name: Invalid value: "DefaultBinder": is the name of a built-in plugin',
        'plugins[1].path: Invalid value: "nothing": must have the form "module:Class"',
        'plugins[2].name: Duplicate value: "Mine"',
        "plugins[3].name: Required value",
        "plugins[3].path: Required value",
        "limits.requestsInFlight: Invalid value: 0: not in valid range [24-256]",
        "podMaxInUnschedulablePodsDuration: Invalid value: -1s: must be zero or positive",
    ]


# --- nodeScope --------------------------------------------------------------------------------------------------------


def test_the_nodes_of_a_profile_are_read_and_written_back() -> None:
    text = """nodeScope:
  tandem-scheduler:
    matchLabels: {pool: a}
    matchExpressions: [{key: zone, operator: NotIn, values: [x, 'y']}]
"""
    loaded = load(HEADER + text)
    scope = loaded.tandem.node_scope["tandem-scheduler"]
    assert scope.match_labels == {"pool": "a"}
    assert [(part.key, part.operator, part.values) for part in scope.match_expressions] == [
        ("zone", "NotIn", ("x", "y"))
    ]
    assert load(write_config(loaded)).tandem == loaded.tandem
    assert "nodeScope" not in write_config(load())


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (
            "{other: {matchLabels: {a: b}}}",
            ['nodeScope.other: Unsupported value: "other": supported values: "tandem-scheduler"'],
        ),
        (
            "{tandem-scheduler: {}}",
            [
                "nodeScope.tandem-scheduler: Required value: matchLabels or matchExpressions; a profile that may use "
                "all nodes is not named here"
            ],
        ),
        (
            "{tandem-scheduler: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: Gt}]}}",
            ['nodeScope.tandem-scheduler.matchExpressions[1]: "Gt" is not a valid label selector operator'],
        ),
        (
            "{tandem-scheduler: [a]}",
            ['nodeScope.tandem-scheduler: Invalid value: ["a"]: expected a mapping, got a list'],
        ),
    ],
)
def test_faults_of_the_nodes_of_a_profile(scope: str, expected: list[str]) -> None:
    assert faults(f"nodeScope: {scope}") == expected


def test_a_label_that_no_node_can_have_is_a_fault() -> None:
    (fault,) = faults("nodeScope: {tandem-scheduler: {matchLabels: {pool: 'a b'}}}")
    assert fault.startswith('nodeScope.tandem-scheduler.matchLabels: values[0][pool]: Invalid value: "a b"')


def test_the_name_of_the_plugin_behind_it_is_taken() -> None:
    assert faults("plugins: [{name: NodeScope, path: 'a:B'}]") == [
        'plugins[0].name: Invalid value: "NodeScope": is the name of a built-in plugin'
    ]


def test_the_longest_time_in_the_pool_may_be_nothing_as_in_kube_scheduler() -> None:
    own = "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
    assert load(own + "podMaxInUnschedulablePodsDuration: 0s\n").tandem.pod_max_in_unschedulable_pods_duration == 0
