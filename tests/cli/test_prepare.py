"""From flags and a file to the settings of the shell."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import Prepared, own_namespace, prepare, write_configuration
from scheduler.controller.rights import rights_needed
from scheduler.errors import ConfigurationError
from scheduler.objects.kinds import Kind

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def prepared(*arguments: str) -> Prepared:
    return prepare(read_flags(arguments))


@pytest.fixture
def config(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str) -> str:
        file = tmp_path / "config.yaml"
        file.write_text(HEAD + text)
        return f"--config={file}"

    return write


def faults_of(*arguments: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        prepared(*arguments)
    return [str(fault) for fault in caught.value.faults]


def test_without_flags_the_defaults_hold() -> None:
    settings = prepared().settings
    assert (settings.serving.port, settings.serving.bind_address) == (10259, "0.0.0.0")
    assert settings.leader_election.leader_elect is True
    assert settings.leader_election.resource_name == "tandem-scheduler"
    assert settings.connection.requests_per_second is None
    assert settings.logs.verbosity == 2
    assert settings.journal is None


@pytest.mark.parametrize(
    ("stated", "is_read", "keeps"),
    [("", False, False), ("{enabled: true}", True, True), ("{enabled: true, writesStatus: false}", True, False)],
)
def test_the_status_of_scheduler_plugins_groups_is_kept_unless_the_file_says_otherwise(
    tmp_path: Path, stated: str, is_read: bool, keeps: bool
) -> None:
    own = "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
    file = tmp_path / "config.yaml"
    file.write_text(f"{HEAD}{own}groups: {{coscheduling: {stated or '{}'}}}\n")
    settings = prepared(f"--config={file}").settings
    assert (Kind.COSCHEDULING_POD_GROUP in settings.kinds) is is_read
    assert settings.keeps_group_counts is keeps
    rights = [right for right in rights_needed(settings) if right.group == "scheduling.x-k8s.io"]
    assert any(right.resource == "podgroups/status" for right in rights) is keeps


def test_leader_election_flags_win_over_the_file(config) -> None:  # type: ignore[no-untyped-def]
    file = config("leaderElection: {leaderElect: true, leaseDuration: 30s, resourceName: ours}")
    election = prepared(file, "--leader-elect=false", "--leader-elect-lease-duration=40s").settings.leader_election
    assert (election.leader_elect, election.lease_duration, election.resource_name) == (False, 40.0, "ours")


def test_what_the_flags_make_of_a_file_is_checked(config) -> None:  # type: ignore[no-untyped-def]
    file = config("leaderElection: {leaseDuration: 30s}")
    found = faults_of(file, "--leader-elect-renew-deadline=31s")
    assert any("leaderElection.leaseDuration" in fault for fault in found)


def test_request_limits_are_the_files_where_there_is_one(config) -> None:  # type: ignore[no-untyped-def]
    flags = ["--kube-api-qps=5", "--kube-api-burst=6"]
    alone = prepared(*flags).settings.connection
    assert (alone.requests_per_second, alone.burst) == (5.0, 6)
    with_file = prepared(config("clientConnection: {qps: 7, burst: 8}"), *flags).settings.connection
    assert (with_file.requests_per_second, with_file.burst) == (7.0, 8)


def test_the_files_kubeconfig_wins_and_the_flag_fills_in_where_it_says_nothing(config) -> None:  # type: ignore[no-untyped-def]
    flag = "--kubeconfig=flag"
    assert prepared(config("clientConnection: {kubeconfig: file}"), flag).settings.connection.kubeconfig == "file"
    assert prepared(config(""), flag).settings.connection.kubeconfig == "flag"


def test_the_time_in_the_pool_is_set_by_its_flag_also_with_a_file(config) -> None:  # type: ignore[no-untyped-def]
    tandem = prepared(config(""), "--pod-max-in-unschedulable-pods-duration=90s").configuration.tandem
    assert tandem.pod_max_in_unschedulable_pods_duration.seconds == 90


def test_faults_of_flags_file_and_gates_are_reported_together(config) -> None:  # type: ignore[no-untyped-def]
    file = config("parallelism: 0\nfoo: 1")
    found = faults_of(file, "--feature-gates=Nope=true", "--secure-port=70000", "--logging-format=xml")
    for part in ("parallelism", 'unknown field "foo"', "Nope", "70000", "xml"):
        assert any(part in fault for fault in found), part


def test_faults_of_plugin_args_are_found_before_anything_starts(config) -> None:  # type: ignore[no-untyped-def]
    args = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 101}}]}]"
    assert any("minCandidateNodesPercentage" in fault for fault in faults_of(config(args)))


def test_the_arguments_of_each_plugin_are_shown_as_kube_scheduler_shows_them(config) -> None:  # type: ignore[no-untyped-def]
    stated = """profiles:
- pluginConfig:
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 60}}
  plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}
"""
    (profile,) = prepared(config(stated)).settings.component_config["profiles"]
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    expected: dict[str, dict[str, object]] = {
        "VolumeBinding": {"bindTimeoutSeconds": 60},
        "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
        "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
        "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
        "NodeResourcesBalancedAllocation": {"resources": resources},
        "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}},
        "PodTopologySpread": {"defaultingType": "System"},
    }
    version = "kubescheduler.config.k8s.io/v1"
    assert profile["pluginConfig"] == [
        {"name": name, "args": {"kind": f"{name}Args", "apiVersion": version, **args}}
        for name, args in expected.items()
    ]


def test_the_written_configuration_decides_as_the_one_that_it_was_written_from(config, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    stated = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]"
    first, target = prepared(config(stated)), tmp_path / "complete.yaml"
    write_configuration(first.configuration, target)
    again = prepared(f"--config={target}")
    for name, profile in first.profiles.items():
        of_both = zip(profile.plugins, again.profiles[name].plugins, strict=True)
        assert all(type(one) is type(other) and one.args == other.args for one, other in of_both)


def test_the_lease_of_kube_scheduler_is_refused() -> None:
    flags = ["--leader-elect-resource-name=kube-scheduler", "--leader-elect-resource-namespace=kube-system"]
    assert any("kube-scheduler's own" in fault for fault in faults_of(*flags))


def test_a_file_that_is_not_there_is_one_line() -> None:
    assert faults_of("--config=/nope/config.yaml") == ["open /nope/config.yaml: No such file or directory"]


def test_a_certificate_needs_its_key() -> None:
    assert faults_of("--tls-cert-file=x") == ["--tls-cert-file and --tls-private-key-file must be specified together"]


def test_https_to_an_extender_without_an_authority_is_warned_of(config) -> None:  # type: ignore[no-untyped-def]
    extender = "extenders: [{urlPrefix: 'https://e', filterVerb: f, enableHTTPS: true}]"
    found = prepared(config(extender))
    assert 0 in found.extender_ssl
    assert any("is not verified" in warning for warning in found.warnings)


def test_the_lease_goes_to_the_namespace_of_the_service_account(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("scheduling\n")
    assert own_namespace(file) == "scheduling"
    assert own_namespace(tmp_path / "absent") == "tandem-system"


def test_traces_and_the_shadow_are_off_unless_they_are_asked_for() -> None:
    assert (prepared().settings.is_tracing, prepared().settings.is_shadow) == (False, False)
    settings = prepared("--tracing", "--shadow").settings
    assert (settings.is_tracing, settings.is_shadow) == (True, True)


def test_who_takes_kube_scheduler_s_pods_is_warned_unless_it_only_watches(config) -> None:  # type: ignore[no-untyped-def]
    file = config("profiles: [{schedulerName: default-scheduler}]")
    assert any("both schedule the same pods" in warning for warning in prepared(file).warnings)
    assert prepared(file, "--shadow").warnings == ()


def test_faults_that_only_building_shows_are_reported_beside_those_of_the_fields(config) -> None:  # type: ignore[no-untyped-def]
    text = """parallelism: x
leaderElection: {leaseDuration: 1s}
profiles:
- schedulerName: a
  plugins: {score: {enabled: [{name: NodeResourceFit, wieght: 3}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAlocated}}}
- schedulerName: a
"""
    found = faults_of(config(text))
    for part in ('unknown field "profiles[0].plugins', 'parallelism: Invalid value: "x"', "profiles[1].schedulerName"):
        assert sum(part in fault for fault in found) == 1, found
    for part in (
        '"NodeResourceFit" does not exist',
        'Unsupported value: "LeastAlocated"',
        "leaderElection.leaseDuration",
    ):
        assert sum(part in fault for fault in found) == 1, found
    assert all(":" in fault.rpartition("(")[2] for fault in found), found


def test_arguments_for_plugins_that_do_not_exist_and_such_that_are_disabled_are_warned_of(
    tmp_path: Path, config: Callable[[str], str]
) -> None:
    own = "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "prepared_rack.py").write_text(
        "from scheduler.plugin import PerNodeFilter\n"
        "class Rack(PerNodeFilter):\n"
        "    def filter_one(self, state, pod, node, node_view):\n"
        "        return None\n"
    )
    text = (
        "profiles:\n- schedulerName: a\n"
        "  pluginConfig: [{name: NodeResourcesFitt}, {name: Rack}, {name: GangScheduling}, {name: Xyzzy}]\n"
        "  plugins:\n    multiPoint: {disabled: [{name: ImageLocalty}, {name: Rack}]}\n"
        '    score: {disabled: [{name: "*"}, {name: Rak}], enabled: [{name: NodeResourcesFit}]}\n'
    )
    own += "plugins: [{name: Rack, path: 'prepared_rack:Rack'}]\n"
    ignored = [
        ("pluginConfig[0]", "NodeResourcesFitt", ' (did you mean "NodeResourcesFit"?)'),
        ("pluginConfig[3]", "Xyzzy", ""),
        ("plugins.multiPoint.disabled[0]", "ImageLocalty", ' (did you mean "ImageLocality"?)'),
        ("plugins.score.disabled[1]", "Rak", ' (did you mean "Rack"?)'),
    ]
    assert prepared(config(text + own), f"--plugin-folder={plugins}").warnings == tuple(
        f'profiles[0].{path}: ignored: plugin "{name}" does not exist{meant}' for path, name, meant in ignored
    )


def test_args_for_a_plugin_whose_class_takes_none_are_warned_of(tmp_path: Path, config: Callable[[str], str]) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "forgetful_rack.py").write_text(
        "from scheduler.plugin import PerNodeFilter\n"
        "class Rack(PerNodeFilter):\n"
        "    def filter_one(self, state, pod, node, node_view):\n"
        "        return None\n"
    )
    text = (
        "profiles:\n- schedulerName: a\n"
        "  pluginConfig: [{name: Rack, args: {label: rack}}]\n"
        "  plugins: {filter: {enabled: [{name: Rack}]}}\n"
        "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
        "plugins: [{name: Rack, path: 'forgetful_rack:Rack'}]\n"
    )
    assert prepared(config(text), f"--plugin-folder={plugins}").warnings == (
        'profiles[0].pluginConfig[0].args: ignored: plugin "Rack" takes none, as its class has no Args',
    )


@pytest.mark.parametrize("stated", ["name", "/name", "namespace/", "namespace/name/folder/key"])
def test_a_config_map_that_is_not_a_namespace_a_name_and_perhaps_a_key_is_refused(stated: str) -> None:
    (fault,) = faults_of(f"--config-map={stated}")
    assert fault == f'--config-map "{stated}": must be NAMESPACE/NAME or NAMESPACE/NAME/KEY'
