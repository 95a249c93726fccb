"""Validation of files, with kube-scheduler's texts."""

from __future__ import annotations

import pytest

from scheduler.config.loading import load
from scheduler.errors import ConfigurationError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
REMOVED = (
    'was invalid in version "kubescheduler.config.k8s.io/v1" '
    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
)

BAD = {
    "parallelism: 0": ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
    "percentageOfNodesToScore: 101": ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
    "podInitialBackoffSeconds: 0": ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
    "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4": [
        "podMaxBackoffSeconds: Invalid value: 4: must be greater than or equal to PodInitialBackoffSeconds"
    ],
    "clientConnection: {burst: -1}": ["clientConnection.burst: Invalid value: -1: must be non-negative"],
    "leaderElection: {leaseDuration: 10s}": [
        "leaderElection.leaseDuration: Invalid value: 10s: must be greater than `RenewDeadline`"
    ],
    "leaderElection: {renewDeadline: 2.4s}": [
        "leaderElection.renewDeadline: Invalid value: 2.4s: must be greater than retryPeriod*JitterFactor"
    ],
    "leaderElection: {retryPeriod: -1s}": [
        "leaderElection.retryPeriod: Invalid value: -1s: must be greater than zero"
    ],
    "leaderElection: {resourceLock: endpoints}": [
        'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'
    ],
    "leaderElection: {resourceNamespace: kube-system, resourceName: kube-scheduler}": [
        'leaderElection.resourceName: Invalid value: "kube-scheduler": the Lease kube-system/kube-scheduler is '
        "kube-scheduler's own: with it only one of the two would run"
    ],
    f"profiles: [{', '.join(f'{{schedulerName: s{number}}}' for number in range(101))}]": [
        "profiles: Too many: 101: must have at most 100 items"
    ],
    "profiles: [{schedulerName: ''}]": ["profiles[0].schedulerName: Required value"],
    "profiles: [{}, {}]": [
        "profiles[0].schedulerName: Required value",
        "profiles[1].schedulerName: Required value",
    ],
    "profiles: [{schedulerName: a}, {schedulerName: a}]": ['profiles[1].schedulerName: Duplicate value: "a"'],
    "profiles: [{percentageOfNodesToScore: -1}]": [
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"
    ],
    "profiles: [{pluginConfig: [{name: X}, {name: X}]}]": ['profiles[0].pluginConfig[1]: Duplicate value: "X"'],
    "profiles: [{plugins: {filter: {enabled: [{name: A}, {name: EBSLimits}]}},"
    " pluginConfig: [{name: CinderLimits}]}]": [
        f'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": {REMOVED}',
        f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}',
    ],
    "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}, {schedulerName: b}]": [
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        "profiles[1].plugins.queueSort: Invalid value: {}: must be the same for all profiles",
    ],
    "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: A}]}}},"
    " {schedulerName: b, plugins: {queueSort: {enabled: [{name: A}]}}, pluginConfig: [{name: A, args: {x: 1}}]}]": [
        'profiles[1].pluginConfig.args: Invalid value: {"x":1}: queueSort must be the same for all profiles'
    ],
    "extenders: [{urlPrefix: u, prioritizeVerb: p}]": [
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"
    ],
    "extenders: [{urlPrefix: u, bindVerb: b}, {urlPrefix: v, bindVerb: b}]": [
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'
    ],
    "extenders: [{urlPrefix: u, managedResources: [{name: cpu}]}]": [
        'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name'
    ],
    "extenders: [{urlPrefix: u, managedResources: [{name: a.b/c}]},"
    " {urlPrefix: v, managedResources: [{name: a.b/c}]}]": [
        'extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name'
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_bad_setting_is_refused_in_kube_schedulers_words(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(HEADER + text)
    assert [str(fault) for fault in caught.value.faults] == BAD[text]


@pytest.mark.parametrize(
    "text",
    [
        "profiles: []",
        "profiles: [{pluginConfig: [{name: X, args: null}]}]",
        "extenders: [{urlPrefix: u, filterVerb: f, weight: -1}]",
        "leaderElection: {leaderElect: false, retryPeriod: -1s, resourceLock: x}",
        "leaderElection: {leaderElect: false, resourceNamespace: kube-system, resourceName: kube-scheduler}",
        "clientConnection: {qps: -1}",
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}], disabled: [{name: ImageLocality, weight: 3}]}}}]",
    ],
)
def test_what_kube_scheduler_allows_is_allowed(text: str) -> None:
    assert load(HEADER + text).warnings == ()


def test_several_faults_are_shown_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(HEADER + "parallelism: -1\npodInitialBackoffSeconds: -2\n")
    assert str(caught.value) == (
        "[parallelism: Invalid value: -1: should be an integer value greater than zero, "
        "podInitialBackoffSeconds: Invalid value: -2: must be greater than 0]"
    )


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("profiles: [{schedulerName: default-scheduler}]", "profiles[0].schedulerName: "),
        ("leaderElection: {leaderElect: false}\ndelayCacheUntilActive: true", "delayCacheUntilActive: "),
        (
            "profiles: [{plugins: {placementScore: {enabled: [{name: X}]}}}]",
            "profiles[0].plugins.placementScore.enabled: ",
        ),
    ],
)
def test_what_is_most_likely_a_mistake_is_warned_of(text: str, beginning: str) -> None:
    (warning,) = load(HEADER + text).warnings
    assert warning.startswith(beginning)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("extenders: [{urlPrefix: '', filterVerb: f}]", "extenders[0].urlPrefix: Required value"),
        (
            "extenders: [{urlPrefix: 'http://e', filterVerb: f, httpTimeout: -1s}]",
            "extenders[0].httpTimeout: Invalid value: -1s: must be non-negative",
        ),
        (
            "profiles: [{pluginConfig: [{name: Unknown, args: hello}]}]",
            'profiles[0].pluginConfig[0].args: Invalid value: "hello": expected a mapping, got a string',
        ),
    ],
)
def test_settings_that_can_not_work_are_refused_although_kube_scheduler_takes_them(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(HEADER + text)
    assert fault in str(caught.value)
