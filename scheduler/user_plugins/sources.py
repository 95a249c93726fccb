"""The permitted sources of a plugin's module: a folder configured at the start, or installed packages.

A configuration can be changed by more people than those who may run code as the scheduler. So it chooses among the
code that is there, and the folder is no part of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from scheduler.errors import ConfigurationError, Fault
from scheduler.user_plugins.shape import Unloadable


class PluginSources(Struct, frozen=True):
    """The places that plugins are taken from besides installed packages. ``folder``: absolute, None for none."""

    folder: Path | None = None

    def check(self, module: str) -> None:
        """Check that the module is in one of these places; nothing is imported. Raises Unloadable for one from anywhere
        else."""
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names:
            raise Unloadable(f"{top} is a module of Python's own library")
        try:
            spec = find_spec(top)
        except (ImportError, ValueError) as error:
            raise Unloadable(f"there is no module {top}") from error
        if spec is None:
            raise Unloadable(f"there is no module {top}{self._hint()}")
        for place in _places(spec):
            if place != self.folder and place in _open_places(os.environ):
                text = f"module {top} is in {place}, which is neither the plugin folder nor an installed package"
                raise Unloadable(f"{text}{self._hint()}")

    def _hint(self) -> str:
        return "" if self.folder is not None else "; plugins that are not installed need --plugin-folder"


def plugin_folder(stated: str, configuration_file: str) -> Path | None:
    """The folder that a flag states, ready to be imported from; None for "".

    Raises ConfigurationError where there is no such folder, and where the configuration's file is in it: then those who
    may write the one could write the other.
    """
    if not stated:
        return None
    folder = Path(stated).resolve()
    if not folder.is_dir():
        raise ConfigurationError([Fault("", f"--plugin-folder {stated}: there is no such folder")])
    if configuration_file and folder in (Path(os.path.abspath(configuration_file)).resolve().parents):
        text = f"--plugin-folder {stated}: must not hold the configuration file, which would then bring code with it"
        raise ConfigurationError([Fault("", text)])
    # Last on the path, so that nothing in it replaces an installed module.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return folder


def _places(spec: ModuleSpec) -> list[Path]:
    """The folders in which a module was found. A package's files may be in several."""
    if spec.submodule_search_locations is not None:
        return [Path(location).resolve().parent for location in spec.submodule_search_locations]
    return [Path(spec.origin).resolve().parent] if spec.origin is not None and spec.has_location else []


def _open_places(environment: Mapping[str, str]) -> set[Path]:
    """Where Python looks although nothing was installed there: the working folder, PYTHONPATH. None with ``-I``."""
    places = [] if sys.flags.safe_path else [sys.path[0] or os.getcwd()]
    if not sys.flags.ignore_environment:
        places += [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {Path(place).resolve() for place in places}
