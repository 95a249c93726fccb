"""Whatever a configuration file holds, it is read or refused with its faults: no other exception, and soon."""

from __future__ import annotations

import contextlib
import json
import tempfile
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import prepare
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError, PluginError
from tests.fuzz.documents import VALUES, mutated, with_field
from tests.fuzz.frame import fuzz

GOOD: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "percentageOfNodesToScore": 50,
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 10,
    "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "resourceName": "tandem-scheduler"},
    "clientConnection": {"qps": 50, "burst": 100, "kubeconfig": ""},
    "extenders": [
        {
            "urlPrefix": "https://extender.test/api",
            "filterVerb": "filter",
            "weight": 3,
            "httpTimeout": "5s",
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
            "tlsConfig": {"insecure": True},
        }
    ],
    "profiles": [
        {
            "schedulerName": "tandem-scheduler",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 2}]},
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 1}],
                            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]},
                        }
                    },
                },
                {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}},
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
                {"name": "DynamicResources", "args": {"filterTimeout": "10s"}},
            ],
        }
    ],
}
TANDEM: Final[dict[str, Any]] = {
    "apiVersion": "tandem.scheduling/v1alpha1",
    "kind": "TandemConfiguration",
    "preemption": {"pdbPolicy": "strict"},
    "limits": {"cachedClasses": 100},
    "podMaxInUnschedulablePodsDuration": "5m",
}
YAML: Final = yaml.safe_dump_all([GOOD, TANDEM]).encode()
ODD: Final = (
    b"!!python/object/apply:os.system [x]",
    b"!!float abc",
    b"!!int 0x",
    b"!!binary ////",
    b"!!timestamp 2026-99-99",
    b"!!set {a}",
    b"&a [*a, *a]",
    b"*nothing",
    b"? [a]\n: b",
    b"<<: *x",
    b"9" * 5_000,
    b"1e999999999",
    b".inf",
    b"12:30:45",
    b"0b" + b"1" * 300,
    b"[" * 30_000,
    b"\xff\xfe",
    b"\x00",
    b"",
)


def is_read_or_refused(text: bytes) -> None:
    """What a reload does with it: the profiles are built too. Plugins' arguments that can't be read are refused.

    What ``tandem check-config`` does with it: of a file with faults, too, to report all of them.
    """
    with contextlib.suppress(ConfigurationError, PluginError):
        build_profiles(load(text))
    with tempfile.NamedTemporaryFile() as file, contextlib.suppress(ConfigurationError, PluginError):
        file.write(text)
        file.flush()
        prepare(read_flags([f"--config={file.name}"]))


def test_the_file_that_is_damaged_here_is_a_good_one() -> None:
    assert build_profiles(load(YAML)).keys() == {"tandem-scheduler"}


@fuzz(text=mutated(YAML))
def test_a_damaged_file_is_read_or_refused(text: bytes) -> None:
    is_read_or_refused(text)


@fuzz(text=st.one_of(with_field(GOOD), with_field(TANDEM)))
def test_any_value_in_any_field_is_read_or_refused(text: bytes) -> None:
    is_read_or_refused(text)


@st.composite
def with_odd_yaml(draw: st.DrawFn) -> bytes:
    """The good file, with something odd in place of the value of one of its lines."""
    lines = YAML.splitlines()
    number = draw(st.integers(0, len(lines) - 1))
    key, colon, _ = lines[number].partition(b":")
    lines[number] = (key + colon if colon else b"") + b" " + draw(st.sampled_from(ODD))
    return b"\n".join(lines)


@fuzz(text=with_odd_yaml())
def test_odd_tags_anchors_and_numbers_are_read_or_refused(text: bytes) -> None:
    is_read_or_refused(text)


@fuzz(text=st.one_of(st.binary(max_size=200), VALUES.map(lambda one: json.dumps(one).encode())))
def test_a_file_of_anything_is_read_or_refused(text: bytes) -> None:
    is_read_or_refused(text)
