"""Whole files: defaults, strictness, round trip."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config.durations import SECOND, Duration
from scheduler.config.loading import Configuration, load, write_config
from scheduler.config.points import PluginEntry
from scheduler.config.rendering import configuration_document
from scheduler.config.validation import MAX_FLOAT32
from scheduler.errors import ConfigurationError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"

# What kube-scheduler's documentation shows: two profiles, a cluster's usual sections, args of several plugins.
DOCUMENTED = (
    HEADER
    + """
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
leaderElection:
  leaderElect: true
profiles:
- schedulerName: multipoint-scheduler
  plugins:
    score:
      disabled:
      - name: PodTopologySpread
      enabled:
      - name: NodeResourcesBalancedAllocation
        weight: 5
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources:
        - name: intel.com/foo
          weight: 3
        requestedToCapacityRatio:
          shape:
          - {utilization: 0, score: 0}
          - {utilization: 100, score: 10}
- schedulerName: no-scoring-scheduler
  percentageOfNodesToScore: 0
  plugins:
    preScore:
      disabled:
      - name: '*'
    score:
      disabled:
      - name: '*'
extenders:
- urlPrefix: https://127.0.0.1:12345/api/scheduler/
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 5
  enableHTTPS: true
  httpTimeout: 100ms
  nodeCacheCapable: true
  tlsConfig: {certData: Y2VydA==, keyData: a2V5}
  managedResources:
  - {name: example.com/foo, ignoredByScheduler: true}
"""
)


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return [str(fault) for fault in caught.value.faults]


def test_without_a_file_everything_is_default() -> None:
    kube = load(own_namespace="ns").kube
    assert kube.parallelism == 16
    assert [profile.scheduler_name for profile in kube.profiles] == ["tandem-scheduler"]
    assert (kube.leader_election.resource_namespace, kube.leader_election.resource_name) == ("ns", "tandem-scheduler")
    assert kube.leader_election.leader_elect
    assert str(kube.leader_election.lease_duration) == "15s"
    assert kube.client_connection.qps == -1
    assert kube.percentage_of_nodes_to_score is None
    assert (kube.pod_initial_backoff_seconds, kube.pod_max_backoff_seconds) == (1, 10)
    assert kube.enable_profiling and kube.enable_contention_profiling
    assert kube.profiles[0].plugins.multi_point.enabled[4] == PluginEntry("TaintToleration", 3)


def test_a_file_that_states_only_its_kind_is_no_file() -> None:
    assert load(HEADER) == load()


def test_what_is_explicit_is_honoured() -> None:
    kube = load(
        HEADER
        + """
parallelism: 4
percentageOfNodesToScore: 0
enableProfiling: false
clientConnection: {qps: 50, burst: 7}
leaderElection: {leaderElect: false, resourceName: mine, resourceNamespace: kube-system, leaseDuration: 1m}
profiles: [{schedulerName: mine, percentageOfNodesToScore: 30}]
"""
    ).kube
    assert kube.parallelism == 4
    assert kube.percentage_of_nodes_to_score == 0
    assert not kube.enable_contention_profiling
    assert (kube.client_connection.qps, kube.client_connection.burst) == (50, 7)
    assert not kube.leader_election.leader_elect
    assert kube.leader_election.lease_duration == Duration(60 * SECOND)
    assert (kube.profiles[0].scheduler_name, kube.profiles[0].percentage_of_nodes_to_score) == ("mine", 30)


def test_a_file_written_for_kube_scheduler_works() -> None:
    kube = load(DOCUMENTED).kube
    first, second = kube.profiles
    assert first.plugins.score.enabled == (PluginEntry("NodeResourcesBalancedAllocation", 5),)
    args = first.args_of("NodeResourcesFit")
    assert args is not None and args["scoringStrategy"]["resources"] == [{"name": "intel.com/foo", "weight": 3}]
    assert second.args_of("NodeResourcesFit") is None
    assert second.percentage_of_nodes_to_score == 0
    (extender,) = kube.extenders
    assert extender.enable_https
    assert str(extender.http_timeout) == "100ms"
    assert extender.tls_config is not None and extender.tls_config.cert_data == b"cert"
    assert kube.leader_election.resource_name == "tandem-scheduler"


def test_an_extender_without_timeout_gets_5_seconds() -> None:
    (extender,) = load(HEADER + "extenders: [{urlPrefix: 'http://a'}]").kube.extenders
    assert extender.http_timeout == Duration(5 * SECOND)


def test_a_duration_of_null_is_the_default() -> None:
    text = "leaderElection: {leaseDuration: null}\nextenders: [{urlPrefix: 'http://x', httpTimeout: null}]\n"
    kube = load(HEADER + text).kube
    assert (kube.leader_election.lease_duration.seconds, kube.extenders[0].http_timeout.seconds) == (15, 5)


def test_json_is_read_too() -> None:
    text = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 2}'
    assert load(text.encode()).kube.parallelism == 2


def test_both_documents_may_come_in_either_order() -> None:
    kube, ours = HEADER + "parallelism: 2\n", OURS + "nominations: all\n"
    assert load(f"{kube}---\n{ours}") == load(f"{ours}---\n{kube}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: kubescheduler.config.k8s.io/v1\n", ["Object 'Kind' is missing"]),
        ("kind: KubeSchedulerConfiguration\n", ["Object 'apiVersion' is missing"]),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
            [
                'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3": '
                'the version served is "kubescheduler.config.k8s.io/v1"'
            ],
        ),
        ("apiVersion: v1\nkind: Pod\n", ['no kind "Pod" is registered for version "v1"']),
        (f"{HEADER}---\n{HEADER}", ["the configuration holds more than one KubeSchedulerConfiguration"]),
        (
            HEADER + "profiles: [{foo: 1}]\nparallelism: 1\nparallelism: 2\n",
            ['strict decoding error: duplicate field "parallelism", unknown field "profiles[0].foo"'],
        ),
        (
            HEADER + "Parallelism: 2\n",
            ['strict decoding error: unknown field "Parallelism" (did you mean "parallelism"?)'],
        ),
        (HEADER + "parallelism: 1.5\n", ["parallelism: Invalid value: 1.5: expected an integer, got a number"]),
        (
            HEADER + "clientConnection: {qps: .inf}\n",
            ['clientConnection.qps: ".inf" is no number in JSON (line 3, column 25)'],
        ),
        (
            HEADER + "clientConnection: {qps: 1e+39}\n",
            [f"clientConnection.qps: Invalid value: 1e+39: must be between -{MAX_FLOAT32} and {MAX_FLOAT32}"],
        ),
        (
            HEADER + "profiles: [{schedulerName: y}]\n",
            ["profiles[0].schedulerName: Invalid value: true: expected a string, got a boolean"],
        ),
        (
            HEADER + "leaderElection: {retryPeriod: 2, leaderElect: 'yes'}\n",
            [
                'leaderElection.retryPeriod: Invalid value: 2: expected a duration such as "1m30s", got an integer',
                'leaderElection.leaderElect: Invalid value: "yes": expected a boolean, got a string',
            ],
        ),
        (
            HEADER + "profiles: [{schedulerName: a}, 4, {schedulerName: []}]\nextenders: {}\n",
            [
                "profiles[1]: Invalid value: 4: expected a mapping, got an integer",
                "profiles[2].schedulerName: Invalid value: []: expected a string, got a list",
                "extenders: Invalid value: {}: expected a list, got a mapping",
            ],
        ),
        (
            HEADER + "profiles: [{pluginConfig: [{name: X, args: [1]}]}]\npercentageOfNodesToScore: 200\n",
            [
                "profiles[0].pluginConfig[0].args: Invalid value: [1]: expected a mapping, got a list",
                "percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
            ],
        ),
        (
            HEADER + "extenders: [{urlPrefix: a, tlsConfig: {keyData: '%%%'}}]\n",
            ["extenders[0].tlsConfig.keyData: Invalid value: not valid base64"],
        ),
    ],
)
def test_a_file_that_cannot_be_decoded_is_refused_with_all_its_faults(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_flags_have_their_say_before_the_check() -> None:
    def same_lease(configuration: Configuration) -> Configuration:
        election = msgspec.structs.replace(
            configuration.kube.leader_election, resource_namespace="kube-system", resource_name="kube-scheduler"
        )
        return msgspec.structs.replace(
            configuration, kube=msgspec.structs.replace(configuration.kube, leader_election=election)
        )

    with pytest.raises(ConfigurationError, match="kube-scheduler's own"):
        load(HEADER, adjust=same_lease)


def test_the_documented_file_survives_being_written_and_read() -> None:
    configuration = load(DOCUMENTED)
    assert load(write_config(configuration), own_namespace="elsewhere") == configuration


@pytest.mark.parametrize("name", ["y", "N", "1e1", "0o17", "08", "5", "yes", "~"])
def test_names_that_look_like_something_else_are_written_so_that_they_can_be_loaded_again(name: str) -> None:
    configuration = load(f"{HEADER}profiles: [{{schedulerName: '{name}'}}]\n")
    text = write_config(configuration)
    assert load(text).kube.profiles[0].scheduler_name == name


def test_a_high_rate_of_requests_is_written_so_that_it_can_be_loaded_again() -> None:
    configuration = load(f"{HEADER}clientConnection: {{qps: 3.0e+38}}\n")
    assert load(write_config(configuration)).kube.client_connection.qps == 3e38


def test_a_page_for_others_holds_no_private_keys() -> None:
    document = configuration_document(load(DOCUMENTED).kube, with_keys=False)
    assert document["extenders"][0]["tlsConfig"]["certData"] == "Y2VydA=="
    assert "keyData" not in document["extenders"][0]["tlsConfig"]


NAMES = st.sampled_from(["NodeName", "TaintToleration", "NodeResourcesFit", "Mine", "Other"])
# The same plugin twice is refused when the profile is built; until then it is merged as kube-scheduler merges it.
ENTRIES = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"weight": st.integers(0, 100)}),
    max_size=3,
    unique_by=lambda entry: str(entry["name"]),
)
SETS = st.fixed_dictionaries(
    {},
    optional={
        "enabled": ENTRIES,
        "disabled": st.lists(st.fixed_dictionaries({"name": NAMES | st.just("*")}), max_size=2),
    },
)
PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "percentageOfNodesToScore": st.integers(0, 100),
        "plugins": st.fixed_dictionaries({}, optional={"multiPoint": SETS, "score": SETS, "filter": SETS}),
        "pluginConfig": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES}, optional={"args": st.dictionaries(st.text(max_size=3), st.integers() | st.text())}
            ),
            max_size=2,
            unique_by=lambda config: str(config["name"]),
        ),
    },
)
FILES = st.fixed_dictionaries(
    {
        "apiVersion": st.just("kubescheduler.config.k8s.io/v1"),
        "kind": st.just("KubeSchedulerConfiguration"),
    },
    optional={
        "parallelism": st.integers(1, 100),
        "percentageOfNodesToScore": st.integers(0, 100),
        "enableProfiling": st.booleans(),
        "enableContentionProfiling": st.booleans(),
        "podInitialBackoffSeconds": st.integers(1, 10),
        "clientConnection": st.fixed_dictionaries(
            {}, optional={"qps": st.integers(-1, 99), "burst": st.integers(0, 9)}
        ),
        "profiles": st.lists(PROFILES, max_size=1),
        "delayCacheUntilActive": st.booleans(),
    },
)


@settings(max_examples=60)
@given(FILES)
def test_what_is_written_reads_back_as_the_same(file: dict[str, object]) -> None:
    configuration = load(yaml.safe_dump(file, allow_unicode=True))
    written = write_config(configuration)
    assert load(written, own_namespace="elsewhere") == configuration
    assert write_config(load(written)) == written
