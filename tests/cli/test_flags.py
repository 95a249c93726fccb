"""Parsing of flags, and the table of their meanings."""

import pytest

from scheduler.cli.flags import FLAGS, Type, read_flags
from scheduler.config.durations import SECOND
from scheduler.errors import ConfigurationError

# fmt: off
KUBE_SCHEDULER_FLAGS = [
    "allow-metric-labels", "allow-metric-labels-manifest", "authentication-kubeconfig",
    "authentication-skip-lookup", "authentication-token-webhook-cache-ttl",
    "authentication-tolerate-lookup-failure", "authorization-always-allow-paths", "authorization-kubeconfig",
    "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
    "bind-address", "cert-dir", "client-ca-file", "config", "contention-profiling", "disable-http2-serving",
    "disabled-metrics", "emulated-version", "feature-gates", "help", "http2-max-streams-per-connection",
    "kube-api-burst", "kube-api-content-type", "kube-api-qps", "kubeconfig", "leader-elect",
    "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-resource-lock",
    "leader-elect-resource-name", "leader-elect-resource-namespace", "leader-elect-retry-period",
    "log-flush-frequency", "logging-format", "master", "permit-address-sharing", "permit-port-sharing",
    "pod-max-in-unschedulable-pods-duration", "profiling", "requestheader-allowed-names",
    "requestheader-client-ca-file", "requestheader-extra-headers-prefix", "requestheader-group-headers",
    "requestheader-username-headers", "secure-port", "show-hidden-metrics-for-version", "tls-cert-file",
    "tls-cipher-suites", "tls-min-version", "tls-private-key-file", "tls-sni-cert-key", "v", "version",
    "vmodule", "write-config-to",
]
# fmt: on


def faults_of(*arguments: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read_flags(arguments)
    return [str(fault) for fault in caught.value.faults]


def test_every_flag_of_kube_scheduler_is_in_the_table() -> None:
    assert set(KUBE_SCHEDULER_FLAGS) <= {flag.name for flag in FLAGS}


def test_a_flag_either_works_and_is_explained_or_says_why_it_does_not() -> None:
    for flag in FLAGS:
        assert bool(flag.no_meaning) != bool(flag.help and flag.section), flag.name


@pytest.mark.parametrize("words", [["--config=f"], ["--config", "f"], ["-config", "f"], ["-config=f"]])
def test_a_value_comes_behind_an_equals_sign_or_as_the_next_word(words: list[str]) -> None:
    assert read_flags(words).get("config") == "f"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--leader-elect", True),
        ("-leader-elect", True),
        ("--leader-elect=true", True),
        ("--leader-elect=false", False),
        ("--leader-elect=0", False),
        ("--leader_elect=F", False),
    ],
)
def test_a_switch_stands_alone_or_has_a_value_behind_an_equals_sign(word: str, expected: bool) -> None:
    assert read_flags([word]).get("leader-elect") is expected


def test_the_word_after_a_switch_is_not_its_value() -> None:
    assert faults_of("--leader-elect", "false") == ["\"tandem run\" does not take any arguments, got 'false'"]


@pytest.mark.parametrize("words", [["-v=4"], ["-v", "4"], ["-v4"], ["--v=4"], ["--v", "4"]])
def test_verbosity_may_be_written_in_every_usual_way(words: list[str]) -> None:
    assert read_flags(words).get("v") == 4


def test_there_is_no_verbosity_below_zero() -> None:
    assert faults_of("--v=-1") == [
        'invalid argument "-1" for "-v, --v" flag: strconv.ParseUint: parsing "-1": invalid syntax'
    ]


def test_values_have_the_type_of_their_flag() -> None:
    flags = read_flags(["--leader-elect-lease-duration=20s", "--kube-api-qps", "7.5", "--secure-port=0"])
    assert flags.get("leader-elect-lease-duration") == 20 * SECOND
    assert flags.get("kube-api-qps") == 7.5
    assert flags.get("secure-port") == 0


def test_the_last_of_several_values_holds_and_lists_add_up() -> None:
    flags = read_flags(["--config=a", "--feature-gates=A=true", "--config=b", "--feature-gates", "B=false"])
    assert flags.get("config") == "b"
    assert flags.get("feature-gates") == ("A=true", "B=false")


def test_every_fault_of_a_command_line_is_reported_at_once() -> None:
    assert faults_of("--leader-elect=maybe", "--nope", "--secure-port=x", "-v=y", "stray", "--config") == [
        'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        "unknown flag: --nope",
        'invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax',
        'invalid argument "y" for "-v, --v" flag: strconv.ParseUint: parsing "y": invalid syntax',
        "\"tandem run\" does not take any arguments, got 'stray'",
        "flag needs an argument: --config",
    ]


def test_a_misspelt_flag_is_named_with_what_may_have_been_meant() -> None:
    assert faults_of("--leader-elct=true") == ['unknown flag: --leader-elct (did you mean "--leader-elect"?)']


def test_a_wrong_duration_is_refused_in_the_words_of_go() -> None:
    assert faults_of("--leader-elect-retry-period=5") == [
        'invalid argument "5" for "--leader-elect-retry-period" flag: time: missing unit in duration "5"'
    ]


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.no_meaning], ids=lambda flag: flag.name)
def test_a_flag_without_meaning_is_accepted_with_a_warning_that_says_why(flag) -> None:  # type: ignore[no-untyped-def]
    value = {Type.SWITCH: "true", Type.INTEGER: "1", Type.NUMBER: "1", Type.DURATION: "1s"}.get(flag.type, "x")
    assert read_flags([f"--{flag.name}={value}"]).warnings == (f"--{flag.name} has no effect: {flag.no_meaning}",)


def test_flags_that_the_file_replaces_are_warned_of_only_with_a_file() -> None:
    assert read_flags(["--kube-api-qps=5"]).warnings == ()
    assert read_flags(["--kube-api-qps=5", "--config=f"]).warnings == (
        "--kube-api-qps has no effect: the configuration file speaks in its place",
    )
