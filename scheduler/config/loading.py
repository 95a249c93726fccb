"""READ THIS FIRST: loads a configuration file, from text to checked values.

decode (``decoding.py``) → fill in defaults (``defaults.py``) → apply the flags → check
(``validation.py``, ``tandem.py``). All faults of a file are collected and shown together.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler.config import rendering, tandem, validation
from scheduler.config.decoding import Stated, decode
from scheduler.config.default_plugins import BUILT_IN_NAMES
from scheduler.config.defaults import complete
from scheduler.config.feature_gates import FeatureGates
from scheduler.config.names import OWN_NAMESPACE
from scheduler.config.tandem import TandemConfiguration
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.wire import StatedConfiguration
from scheduler.errors import ConfigurationError, Fault


class Configuration(msgspec.Struct, frozen=True):
    """A loaded configuration: kube-scheduler's part, ours, and warnings for the log."""

    kube: KubeSchedulerConfiguration
    tandem: TandemConfiguration
    warnings: tuple[str, ...] = ()
    gates: FeatureGates = FeatureGates()

    @property
    def plugin_gates(self) -> FeatureGates:
        """The gates that decide which plugins there are."""
        return plugin_gates(self.gates, self.tandem)


def plugin_gates(gates: FeatureGates, own: TandemConfiguration) -> FeatureGates:
    """The gates as plugins see them: groups of scheduler-plugins need the plugin GangScheduling, too."""
    return gates.having("GangScheduling") if own.groups.coscheduling.enabled else gates


def load(
    text: str | bytes | None = None,
    *,
    own_namespace: str = OWN_NAMESPACE,
    gates: FeatureGates | None = None,
    adjust: Callable[[Configuration], Configuration] | None = None,
) -> Configuration:
    """The configuration that ``text`` states (None: nothing stated, all defaults).

    ``own_namespace`` is the Lease's default namespace. ``adjust`` applies flags that override the file; its result is
    checked. Raises ConfigurationError with all faults.
    """
    configuration, faults = examine(text, own_namespace=own_namespace, gates=gates, adjust=adjust)
    if faults:
        raise ConfigurationError(faults)
    return configuration


def examine(
    text: str | bytes | None,
    *,
    own_namespace: str = OWN_NAMESPACE,
    gates: FeatureGates | None = None,
    adjust: Callable[[Configuration], Configuration] | None = None,
) -> tuple[Configuration, tuple[Fault, ...]]:
    """As ``load``, with the faults beside the configuration, which has defaults in the place of what can't be decoded.

    Raises ConfigurationError for a text that can't be read at all.
    """
    gates = gates or FeatureGates()
    stated = Stated(StatedConfiguration(), TandemConfiguration(), ()) if text is None else decode(text)
    kube = complete(stated.kube, own_namespace, plugin_gates(gates, stated.tandem))
    configuration = Configuration(kube, stated.tandem, stated.warnings, gates)
    if adjust is not None:
        configuration = adjust(configuration)
    names = [profile.scheduler_name for profile in configuration.kube.profiles]
    found = validation.validate(configuration.kube) + tandem.validate(configuration.tandem, BUILT_IN_NAMES, names)
    faults = stated.faults + without_followers(found, stated.faults)
    if not faults:
        warnings = configuration.warnings + validation.warnings(configuration.kube, configuration.plugin_gates)
        configuration = msgspec.structs.replace(configuration, warnings=warnings)
    return configuration, faults


def write_config(configuration: Configuration) -> str:
    """The completed configuration as a YAML file that loads as the same configuration."""
    return rendering.write_yaml(
        rendering.configuration_document(configuration.kube),
        tandem.configuration_document(configuration.tandem),
    )


def without_followers(faults: tuple[Fault, ...], earlier: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """The faults without those about a value that an earlier fault is about: one message is enough."""
    return tuple(fault for fault in faults if not _follows(fault, earlier))


def _follows(fault: Fault, earlier: tuple[Fault, ...]) -> bool:
    """Whether a fault is about a value that could not be decoded: one message is enough."""
    return any(
        before.path and (fault.path == before.path or fault.path.startswith((f"{before.path}.", f"{before.path}[")))
        for before in earlier
    )
