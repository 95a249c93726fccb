"""The flags of ``tandem run``: kube-scheduler's own, read by kube-scheduler's rules, and a few of ours.

One table gives each flag's meaning, or the reason why it has none here; a flag without meaning is accepted with a
warning, so that a command line written for kube-scheduler works unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from msgspec import Struct, field

from scheduler.config.durations import parse_duration
from scheduler.config.suggestions import did_you_mean
from scheduler.errors import ConfigurationError, Fault

TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Type(Enum):
    """The type of a flag's value; the enum's value is how ``--help`` shows it."""

    TEXT = "text"
    FILE = "file"
    SWITCH = ""
    INTEGER = "int"
    COUNT = "uint"
    NUMBER = "float"
    DURATION = "duration"
    LIST = "list"


class Flag(Struct, frozen=True):
    """One flag. ``no_meaning`` gives the reason why it has no effect; "" for a flag that works.

    ``is_superseded``: ignored if a configuration file is given, whose settings then apply.
    """

    name: str
    type: Type
    help: str = ""
    default: str = ""
    section: str = ""
    short: str = ""
    no_meaning: str = ""
    is_superseded: bool = False

    @property
    def spelling(self) -> str:
        """The flag's name in messages."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"


_GENERAL, _LEADER, _SERVING, _LOGS, _OURS = (
    "Cluster and configuration",
    "Leader election",
    "Health, metrics and debug pages",
    "Logs",
    "Tandem's own",
)
_OWN_RIGHTS = "the API server is asked with the scheduler's own credentials"
_NO_PROXY = "proxies in front of the pages are not believed"
_OWN_METRICS = "all metrics are shown, under their stable names"

FLAGS: Final[tuple[Flag, ...]] = (
    Flag(
        "config",
        Type.FILE,
        "KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), YAML or JSON, with an optional further document "
        "of kind TandemConfiguration. Where it is given, it replaces --kube-api-*; --leader-elect* flags that "
        "are stated still win over it.",
        section=_GENERAL,
    ),
    Flag(
        "kubeconfig",
        Type.FILE,
        "How to reach the cluster, unless the configuration file says so in clientConnection.kubeconfig. Neither: "
        "in-cluster, then $KUBECONFIG, then ~/.kube/config.",
        section=_GENERAL,
    ),
    Flag("master", Type.TEXT, "URL of the API server, in place of the kubeconfig's.", section=_GENERAL),
    Flag(
        "write-config-to",
        Type.FILE,
        "Write the configuration with all defaults filled in to this file, and exit.",
        section=_GENERAL,
    ),
    Flag(
        "feature-gates",
        Type.LIST,
        "Name=true|false,… of kube-scheduler 1.36; may be repeated.",
        section=_GENERAL,
    ),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        Type.DURATION,
        "Time after which a pod that no event has moved is tried again.",
        "5m0s",
        _GENERAL,
    ),
    Flag(
        "kube-api-qps",
        Type.NUMBER,
        "Maximum requests a second to the API server; 0 or less for no limit here.",
        "no limit",
        _GENERAL,
        is_superseded=True,
    ),
    Flag("kube-api-burst", Type.INTEGER, "Maximum burst above that rate.", "100", _GENERAL, is_superseded=True),
    Flag(
        "leader-elect",
        Type.SWITCH,
        "Schedule only while holding the Lease, so that several copies may run.",
        "true",
        _LEADER,
    ),
    Flag("leader-elect-lease-duration", Type.DURATION, "Life of the Lease without a renewal.", "15s", _LEADER),
    Flag("leader-elect-renew-deadline", Type.DURATION, "Time to renew before the holder gives up.", "10s", _LEADER),
    Flag("leader-elect-retry-period", Type.DURATION, "Time between tries to take or renew it.", "2s", _LEADER),
    Flag("leader-elect-resource-lock", Type.TEXT, "Only leases.", "leases", _LEADER),
    Flag(
        "leader-elect-resource-name",
        Type.TEXT,
        "Name of the Lease; never kube-scheduler's.",
        "tandem-scheduler",
        _LEADER,
    ),
    Flag(
        "leader-elect-resource-namespace",
        Type.TEXT,
        "Its namespace.",
        "the pod's own, else tandem-system",
        _LEADER,
    ),
    Flag("bind-address", Type.TEXT, "Address to listen on.", "0.0.0.0", _SERVING),
    Flag(
        "secure-port",
        Type.INTEGER,
        "Port of /healthz, /livez, /readyz, /metrics, /configz, /debug; 0 for off.",
        "10259",
        _SERVING,
    ),
    Flag(
        "serving-http",
        Type.SWITCH,
        "Plain HTTP in place of HTTPS; on a loopback address every page is then open to everyone.",
        "false",
        _SERVING,
    ),
    Flag(
        "tls-cert-file",
        Type.FILE,
        "Serving certificate (and its chain), reloaded when it changes; by default a self-signed one is made.",
        section=_SERVING,
    ),
    Flag("tls-private-key-file", Type.FILE, "The certificate's key.", section=_SERVING),
    Flag("cert-dir", Type.FILE, "Folder in which the self-signed certificate is kept.", section=_SERVING),
    Flag("tls-min-version", Type.TEXT, "VersionTLS12 or VersionTLS13.", "VersionTLS12", _SERVING),
    Flag("tls-cipher-suites", Type.LIST, "Cipher suites for TLS 1.2, comma-separated.", "the TLS library's", _SERVING),
    Flag(
        "client-ca-file",
        Type.FILE,
        "Authority (PEM) whose client certificates are accepted.",
        "the cluster's own authority",
        _SERVING,
    ),
    Flag(
        "authentication-skip-lookup",
        Type.SWITCH,
        "Don't look up the cluster's authority for client certificates.",
        "false",
        _SERVING,
    ),
    Flag(
        "authentication-token-webhook-cache-ttl",
        Type.DURATION,
        "How long the check of a token is cached.",
        "10s",
        _SERVING,
    ),
    Flag(
        "authorization-always-allow-paths",
        Type.LIST,
        "Pages open to everyone, comma-separated; * at the end makes a prefix.",
        "/healthz,/readyz,/livez",
        _SERVING,
    ),
    Flag("authorization-webhook-cache-authorized-ttl", Type.DURATION, "Cache time of permissions.", "10s", _SERVING),
    Flag("authorization-webhook-cache-unauthorized-ttl", Type.DURATION, "Cache time of refusals.", "10s", _SERVING),
    Flag(
        "v",
        Type.COUNT,
        "0: errors and milestones, 2: a line for each attempt, 4: everything.",
        "2",
        _LOGS,
        short="v",
    ),
    Flag("logging-format", Type.TEXT, "json or text.", "json unless stderr is a terminal", _LOGS),
    Flag(
        "config-map",
        Type.TEXT,
        "NAMESPACE/NAME[/KEY] of a ConfigMap with a configuration; it is watched, and taken up when it changes, in "
        "the place of --config, which is read at the start only.",
        section=_OURS,
    ),
    Flag(
        "plugin-folder",
        Type.FILE,
        "Folder with the modules of plugins that are not installed as packages; it can't hold the configuration file.",
        section=_OURS,
    ),
    Flag(
        "shadow",
        Type.SWITCH,
        "Decide and record but write nothing (the Lease apart), and compare with where the other scheduler puts the "
        "pods; a profile may then have its name.",
        "false",
        _OURS,
    ),
    Flag(
        "cache-reconcile-period",
        Type.DURATION,
        "How often the cache is compared with the API server; 0 for never.",
        "5m0s",
        _OURS,
    ),
    Flag(
        "tracing",
        Type.SWITCH,
        "Export an OpenTelemetry trace of each pod by OTLP over HTTP, as the OTEL_ variables say (extra: tracing).",
        "false",
        _OURS,
    ),
    Flag("journal", Type.FILE, "Append every decision to this file, a JSON line each.", section=_OURS),
    Flag(
        "record",
        Type.FILE,
        "Record every input of the scheduler in this folder, for tandem replay; its files are for their owner alone.",
        section=_OURS,
    ),
    Flag("record-limit", Type.TEXT, "Maximum bytes of the recording; the oldest part goes first.", "256Mi", _OURS),
    Flag("seed", Type.INTEGER, "Seed of ties and offsets: the same inputs give the same decisions.", "drawn", _OURS),
    Flag("help", Type.SWITCH, "Show this and exit.", section=_OURS, short="h"),
    Flag("version", Type.SWITCH, "Show the version and exit.", section=_OURS),
    Flag("kube-api-content-type", Type.TEXT, no_meaning="the API server is spoken to in JSON"),
    Flag("profiling", Type.SWITCH, no_meaning="there are no profiling pages"),
    Flag("contention-profiling", Type.SWITCH, no_meaning="there are no profiling pages"),
    Flag("tls-curve-preferences", Type.LIST, no_meaning="the choice is left to the TLS library"),
    Flag("tls-sni-cert-key", Type.LIST, no_meaning="there is one certificate, --tls-cert-file"),
    Flag("disable-http2-serving", Type.SWITCH, no_meaning="the pages are served over HTTP/1.1"),
    Flag("http2-max-streams-per-connection", Type.INTEGER, no_meaning="the pages are served over HTTP/1.1"),
    Flag("permit-port-sharing", Type.SWITCH, no_meaning="a port belongs to one process"),
    Flag("permit-address-sharing", Type.SWITCH, no_meaning="an address belongs to one process"),
    Flag("authentication-kubeconfig", Type.FILE, no_meaning=_OWN_RIGHTS),
    Flag("authentication-tolerate-lookup-failure", Type.SWITCH, no_meaning="a failed look-up is always tolerated"),
    Flag("authorization-kubeconfig", Type.FILE, no_meaning=_OWN_RIGHTS),
    Flag("requestheader-allowed-names", Type.LIST, no_meaning=_NO_PROXY),
    Flag("requestheader-client-ca-file", Type.FILE, no_meaning=_NO_PROXY),
    Flag("requestheader-extra-headers-prefix", Type.LIST, no_meaning=_NO_PROXY),
    Flag("requestheader-group-headers", Type.LIST, no_meaning=_NO_PROXY),
    Flag("requestheader-uid-headers", Type.LIST, no_meaning=_NO_PROXY),
    Flag("requestheader-username-headers", Type.LIST, no_meaning=_NO_PROXY),
    Flag("emulated-version", Type.LIST, no_meaning="1.36 is the one version that Tandem decides like"),
    Flag("emulation-forward-compatible", Type.SWITCH, no_meaning="1.36 is the one version that Tandem decides like"),
    Flag("min-compatibility-version", Type.LIST, no_meaning="1.36 is the one version that Tandem decides like"),
    Flag("show-hidden-metrics-for-version", Type.TEXT, no_meaning=_OWN_METRICS),
    Flag("disabled-metrics", Type.LIST, no_meaning=_OWN_METRICS),
    Flag("allow-metric-labels", Type.LIST, no_meaning=_OWN_METRICS),
    Flag("allow-metric-labels-manifest", Type.FILE, no_meaning=_OWN_METRICS),
    Flag("vmodule", Type.LIST, no_meaning="verbosity is one number for all, -v"),
    Flag("log-flush-frequency", Type.DURATION, no_meaning="log lines are written at once"),
    Flag("log-text-info-buffer-size", Type.TEXT, no_meaning="log lines are written at once"),
    Flag("log-text-split-stream", Type.SWITCH, no_meaning="all log lines go to standard error"),
    Flag("log-json-info-buffer-size", Type.TEXT, no_meaning="log lines are written at once"),
    Flag("log-json-split-stream", Type.SWITCH, no_meaning="all log lines go to standard error"),
)

_BY_NAME: Final = {flag.name: flag for flag in FLAGS}
_BY_SHORT: Final = {flag.short: flag for flag in FLAGS if flag.short}


class StatedFlags(Struct, frozen=True):
    """What a command line says, each value of its flag's type. Flags that are not stated are not in it."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """A LIST flag's value is a tuple of texts, one for each time it is stated; for other flags the last one counts."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value stated. Raises KeyError for a flag that is not in the table."""
        return self.values.get(_BY_NAME[name].name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for each stated flag without effect."""
        is_with_file = bool(self.values.get("config"))
        found = []
        for name in self.values:
            flag = _BY_NAME[name]
            if flag.no_meaning:
                found.append(f"--{name} has no effect: {flag.no_meaning}")
            elif flag.is_superseded and is_with_file:
                found.append(f"--{name} has no effect: the configuration file speaks in its place")
        return tuple(found)


def read_flags(arguments: Sequence[str]) -> StatedFlags:
    """The flags of a command line, by kube-scheduler's rules: ``--flag=value`` or ``--flag value``, ``--switch`` or
    ``--switch=false``, ``_`` for ``-`` in names; also, one dash works like two.

    Raises ConfigurationError with every fault.
    """
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if not argument.startswith("-") or argument == "-":
            faults.append(Fault("", f'"tandem run" does not take any arguments, got {argument!r}'))
            continue
        flag, text, fault = _recognized(argument)
        if flag is not None and text is None:
            if flag.type is Type.SWITCH:
                text = "true"
            elif left:
                text = left.pop(0)
            else:
                fault = f"flag needs an argument: {argument}"
        if flag is None or text is None:
            faults.append(Fault("", fault))
            continue
        try:
            value = _READERS[flag.type](text)
        except ValueError as error:
            faults.append(Fault("", f'invalid argument "{text}" for "{flag.spelling}" flag: {error}'))
            continue
        values[flag.name] = (*values.get(flag.name, ()), value) if flag.type is Type.LIST else value
    if faults:
        raise ConfigurationError(faults)
    return StatedFlags(values)


def _recognized(argument: str) -> tuple[Flag | None, str | None, str]:
    """The flag, its value if it is in the same word, and an error if there is no such flag."""
    bare, equals, stated = argument.lstrip("-").partition("=")
    text = stated if equals else None
    name = bare.replace("_", "-")
    if flag := _BY_NAME.get(name) or (_BY_SHORT.get(name) if not argument.startswith("--") else None):
        return flag, text, ""
    # -v4
    if not argument.startswith("--") and (flag := _BY_SHORT.get(bare[:1])) and bare[1:].isdecimal():
        return flag, bare[1:], ""
    word = argument.partition("=")[0]
    return None, None, f"unknown flag: {word}{did_you_mean(word, [f'--{known}' for known in _BY_NAME])}"


def _switch(text: str) -> bool:
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _integer(text: str) -> int:
    try:
        return int(text, 10)
    except ValueError:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _count(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


_READERS: Final[Mapping[Type, Callable[[str], Any]]] = {
    Type.TEXT: str,
    Type.FILE: str,
    Type.SWITCH: _switch,
    Type.INTEGER: _integer,
    Type.COUNT: _count,
    Type.NUMBER: _number,
    Type.DURATION: parse_duration,
    Type.LIST: str,
}
