"""Loads user plugins: from ``plugins`` of the TandemConfiguration, and from installed packages.

A package offers plugins in the entry-point group ``tandem.plugins``, one entry ``Name = "module:Class"`` for each. An
entry is loaded only if a profile enables its name, so that an unused package can't stop the scheduler. The
configuration takes precedence over installed packages; neither can use the name of a built-in plugin.

Modules are imported only at the start: a later configuration chooses among the loaded classes.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from scheduler.config.field_faults import invalid
from scheduler.config.points import Plugins
from scheduler.config.tandem import UserPlugin
from scheduler.errors import ConfigurationError, Fault, type_and_message
from scheduler.framework.plugin import Plugin
from scheduler.user_plugins.checked import checked
from scheduler.user_plugins.shape import Unloadable, faults_of
from scheduler.user_plugins.sources import PluginSources

ENTRY_POINT_GROUP: Final = "tandem.plugins"


class PluginClasses:
    """The plugin classes by ``module:Class``: imported on first use, until ``seal`` is called."""

    def __init__(self, sources: PluginSources | None = None) -> None:
        self._sources = sources or PluginSources()
        self._loaded: dict[str, type[Plugin]] = {}
        self._is_sealed = False

    def seal(self) -> None:
        """Ends importing: from now on only loaded classes are returned."""
        self._is_sealed = True

    def at(self, path: str) -> type[Plugin]:
        """The class at ``module:Class``, imported on first use. Raises Unloadable."""
        known = self._loaded.get(path)
        if known is not None:
            return known
        if self._is_sealed:
            raise Unloadable("was not loaded at the start: a new plugin needs a restart")
        self._sources.check(path.partition(":")[0])
        loaded = self._loaded[path] = class_at(path)
        return loaded


def load_user_plugins(
    configured: Sequence[UserPlugin],
    enabled: Iterable[Plugins],
    built_in: Collection[str],
    classes: PluginClasses,
    installed: Iterable[EntryPoint] | None = None,
) -> dict[str, type[Plugin]]:
    """Plugin name → its class of ``classes``, wrapped so that every answer is checked (``checked.py``).

    ``enabled`` are the plugin sets of all profiles. ``installed`` None: the entry points of this Python environment,
    which are read only if a profile enables an otherwise unknown name. Raises ConfigurationError with all faults.
    """
    found: dict[str, type[Plugin]] = {}
    faults: list[Fault] = []
    for index, entry in enumerate(configured):
        path = f"plugins[{index}]"
        try:
            found[entry.name] = _wrapped(classes.at(entry.path), entry.name, path)
        except Unloadable as error:
            faults.append(invalid(f"{path}.path", entry.path, str(error)))
    named = (name for plugins in enabled for name in _names(plugins))
    missing = dict.fromkeys(
        name for name in named if name not in built_in and all(name != entry.name for entry in configured)
    )
    if missing:
        offers = entry_points(group=ENTRY_POINT_GROUP) if installed is None else installed
        _load_installed(missing, tuple(offers), classes, found, faults)
    if faults:
        raise ConfigurationError(faults)
    return found


def installed_names() -> frozenset[str]:
    """The names of the plugins that installed packages offer."""
    return frozenset({offer.name for offer in entry_points(group=ENTRY_POINT_GROUP)})


def class_at(path: str) -> type[Plugin]:
    """The plugin class at ``module:Class``. Imports the module; raises Unloadable."""
    module_name, _, qualified_name = path.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise Unloadable(f"there is no module {error.name}") from error
        raise Unloadable(f"importing {module_name} failed: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Unloadable(f"importing {module_name} failed: {type_and_message(error)}") from error
    for name in qualified_name.split("."):
        try:
            value = getattr(value, name)
        except AttributeError as error:
            raise Unloadable(f"module {module_name} has no {qualified_name}") from error
        except Exception as error:
            raise Unloadable(
                f"{qualified_name} of {module_name} is not to be had: {type_and_message(error)}"
            ) from error
    if not (isinstance(value, type) and issubclass(value, Plugin)):
        text = "is not a plugin: its class must derive from one of scheduler.plugin, such as PerNodeFilter"
        raise Unloadable(f"{qualified_name} {text}")
    wrong = faults_of(value)
    if wrong:
        raise Unloadable(f"{qualified_name} is not a complete plugin: {'; '.join(wrong)}")
    return value


def _load_installed(
    names: Iterable[str],
    offers: Sequence[EntryPoint],
    classes: PluginClasses,
    found: dict[str, type[Plugin]],
    faults: list[Fault],
) -> None:
    """Loads enabled plugins from entry points. Unknown names are skipped: building the profile reports them."""
    for name in names:
        matching = [offer for offer in offers if offer.name == name]
        if not matching:
            continue
        path = f"entry point {ENTRY_POINT_GROUP} {name}"
        if len({offer.value for offer in matching}) > 1:
            packages = " and ".join(sorted(_package(offer) for offer in matching))
            faults.append(Fault(path, f"is offered by {packages}; name one of them under plugins of the configuration"))
            continue
        offer = matching[0]
        try:
            found[name] = _wrapped(classes.at(offer.value), name, path)
        except Unloadable as error:
            faults.append(Fault(f"{path} of {_package(offer)}", f"{offer.value}: {error}"))


def _wrapped(plugin_type: type[Plugin], name: str, path: str) -> type[Plugin]:
    """The checked class. Raises Unloadable where the class allows no subclass: as a Struct, or in a registry of its
    author's that knows it already."""
    try:
        return checked(plugin_type, name, path)
    except Exception as error:
        raise Unloadable(f"deriving from {plugin_type.__name__} failed: {type_and_message(error)}") from error


def _package(offer: EntryPoint) -> str:
    return offer.dist.name if offer.dist is not None else offer.value


def _names(plugins: Plugins) -> Iterable[str]:
    for field in Plugins.__struct_fields__:
        for entry in getattr(plugins, field).enabled:
            yield entry.name
