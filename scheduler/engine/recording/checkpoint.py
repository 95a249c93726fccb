"""A checkpoint: an engine's whole state as bytes, from which an engine goes on to the very same decisions.

It is the engine's graph of objects, pickled. So a part that is added to the engine is in the checkpoint without
further code, and nothing that feeds a decision can be forgotten. API objects are in it by number, and are encoded
afterwards (``packed.py``). Left out is what is given to an engine, or only makes it quick:

- profiles, plugins and extenders are made from the configuration, and stand in the checkpoint by their place in it;
- the stopwatch feeds no decision; cached answers of classes and of preemption are worked out again;
- forks are dropped.

Pickle calls what it names. Only classes and functions of the packages of the core are admitted, which are pure (no
I/O), numpy's arrays and a few of Python's containers: a checkpoint from an untrusted source can't run code.
"""

from __future__ import annotations

import io
import itertools
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final
from weakref import ref

import numpy as np

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.recording.packed import Packed, Unpacked
from scheduler.errors import SchedulerError
from scheduler.extenders.extender import Extender
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.plugin import Plugin
from scheduler.framework.post_filter import Kept
from scheduler.framework.profile import Profile
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject, ApiStruct

PROTOCOL: Final = 5
CORE: Final = tuple(
    f"scheduler.{name}."
    for name in (
        "cluster",
        "config",
        "engine",
        "extenders",
        "framework",
        "messages",
        "objects",
        "plugins",
        "preemption",
        "queue",
    )
)
"""Prefixes of the modules whose classes and functions a checkpoint may name."""
CONTAINERS: Final = (Counter, OrderedDict, defaultdict, deque, dict, list, set)
_OUTSIDE: Final = frozenset(
    {
        ("_codecs", "encode"),
        ("array", "array"),
        ("array", "_array_reconstructor"),
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("builtins", "dict"),
        ("builtins", "frozenset"),
        ("builtins", "list"),
        ("builtins", "object"),
        ("builtins", "range"),
        ("builtins", "set"),
        ("builtins", "slice"),
        ("builtins", "tuple"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("fractions", "Fraction"),
        ("itertools", "count"),
        ("msgspec._utils", "rebuild"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy.core.numeric", "_frombuffer"),
        ("random", "Random"),
    }
)
"""Classes and functions outside of the core that a checkpoint may name: containers, numbers, arrays."""


class CheckpointError(SchedulerError):
    """A checkpoint can't be made or read; the text says why."""


class Generation:
    """What an engine was given by one configuration: its profiles' plugins by place, and its extenders.

    A binding that was begun before a reload ends by the profile of its time, so a checkpoint may name several
    generations.
    """

    __slots__ = ("extenders", "number", "profiles")

    def __init__(self, number: int, profiles: Mapping[str, Profile], extenders: Sequence[Extender] = ()) -> None:
        self.number = number
        self.profiles = profiles
        self.extenders = tuple(extenders)

    def places(self) -> Iterator[tuple[tuple[Any, ...], object]]:
        """Each object that the configuration gives, with the place that stands for it in a checkpoint."""
        yield ("profiles", self.number), self.profiles
        for name, profile in self.profiles.items():
            yield ("profile", self.number, name), profile
            for place, plugin in enumerate(profile.plugins):
                yield ("plugin", self.number, name, place), plugin
        for place, extender in enumerate(self.extenders):
            yield ("extender", self.number, place), extender


def pack(engine: Engine, generations: Sequence[Generation]) -> Packed:
    """The engine's state. Take it between two steps, when neither a cycle nor a wake is paused (``engine.is_paused``).

    Raises CheckpointError for what can't be written, such as a user plugin's state with an open file.
    """
    if engine.is_paused:
        raise CheckpointError("a cycle or a wake is paused, which can't be written")
    file = io.BytesIO()
    pickler = _ThoroughPickler if isinstance(engine.stopwatch, FunctionType) else _Pickler
    try:
        made = pickler(file, engine, generations)
        made.dump(engine)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError, NotImplementedError) as error:
        raise CheckpointError(f"the engine's state can't be written: {error}") from error
    return Packed(file.getvalue(), made.objects, made.infos)


def unpack(
    data: bytes,
    generations: Sequence[Generation],
    stopwatch: Callable[[], float],
    user_modules: frozenset[str] = frozenset(),
) -> Engine:
    """The engine. ``data``: encoded. ``user_modules``: names of modules of user plugins, whose classes may be in it.

    Raises CheckpointError for bytes that are no checkpoint of this version, or name what is not admitted.
    """
    try:
        engine = _Unpickler(Unpacked(data), generations, stopwatch, user_modules).load()
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"the engine's state can't be read: {type(error).__name__}: {error}") from error
    if not isinstance(engine, Engine):
        raise CheckpointError("the engine's state can't be read: it holds something else")
    return engine


class _Pickler(pickle.Pickler):
    """Its ``dispatch_table`` says how objects of some types are written; all others are left to pickle, in C."""

    def __init__(self, file: io.BytesIO, engine: Engine, generations: Sequence[Generation]) -> None:
        super().__init__(file, PROTOCOL)
        self.objects: list[ApiObject] = []
        self.infos: list[PodInfo] = []
        self._table = engine.cache.table
        self._stopwatch = engine.stopwatch
        self._places = {id(thing): place for each in generations for place, thing in each.places()}
        given = [thing for each in generations for _, thing in each.places()]
        given += [plugin for profile in engine.profiles.values() for plugin in (profile, *profile.plugins)]
        self._constants = {id(value): place for place, value in _constants()}
        own: dict[type, Callable[[Any], Any]] = dict.fromkeys(
            [*{type(thing) for thing in given}, *{type(value) for _, value in _constants()}, type(self._stopwatch)],
            self._named,
        )
        self.dispatch_table = (
            dict.fromkeys(_enums(Enum), _enum_member)
            | own
            | dict.fromkeys((kind.entry.type for kind in Kind), self._object)
            | {
                np.ndarray: self._array,
                MethodType: self._method,
                BuiltinMethodType: self._method,
                MethodWrapperType: self._method,
                ref: self._weak,
                itertools.count: _count,
                ClassCache: _fresh_classes,
                Kept: _fresh_kept,
                ForkableDict: _without_forks,
                PodInfo: self._info,
            }
        )

    def _named(self, obj: Any) -> Any:
        """How an object is written: by its place if a configuration gives it, by its module's name for it if it is a
        constant, else as pickle does."""
        if obj is self._stopwatch:
            return _stopwatch_of, ()
        place = self._places.get(id(obj))
        if place is not None:
            return _given, place
        if isinstance(obj, Plugin | Profile | Extender):
            raise pickle.PicklingError(f"{type(obj).__name__} belongs to no configuration that is known")
        constant = self._constants.get(id(obj))
        return obj.__reduce_ex__(PROTOCOL) if constant is None else (_constant, constant)

    def _object(self, obj: ApiObject) -> tuple[Callable[[int], ApiObject], tuple[int]]:
        self.objects.append(obj)
        return _object_at, (len(self.objects) - 1,)

    def _info(self, info: PodInfo) -> tuple[Callable[[int], PodInfo], tuple[int]]:
        self.infos.append(info)
        return _info_at, (len(self.infos) - 1,)

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        """A part of a larger array stays a part of it: what is written to one is seen in the other."""
        base = array.base
        if not isinstance(base, np.ndarray) or array.dtype.hasobject:
            return self._named(array)
        start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return _part_of, (base, start, array.shape, array.strides, array.dtype)

    def _method(self, method: Any) -> Any:
        owner = method.__self__
        if method is self._stopwatch:
            return _stopwatch_of, ()
        if owner is None or isinstance(owner, type | ModuleType):
            return method.__reduce__()
        return _method, (owner, method.__name__)

    def _weak(self, reference: ref[Any]) -> Any:
        """Only the live table is referred to; whatever else it may be is a fork, which is dropped."""
        target = reference()
        return (ref, (target,)) if target is self._table else (_gone, ())


class _ThoroughPickler(_Pickler):
    """For a stopwatch that is written in Python, which pickle would write by its name. Asked about every object, so
    several times as slow; the scheduler's stopwatch is a function in C."""

    def reducer_override(self, obj: Any) -> Any:
        return (_stopwatch_of, ()) if obj is self._stopwatch else NotImplemented


def _fresh_classes(cache: ClassCache) -> Any:
    return ClassCache, (cache.limit_bytes, cache.limit_classes, cache.bytes_a_node)


def _fresh_kept(_kept: Kept) -> Any:
    return Kept, ()


def _without_forks(mapping: ForkableDict[Any, Any]) -> Any:
    return ForkableDict, (), None, None, iter(mapping.items())


def _stopwatch_of() -> Any:
    """Stands for the stopwatch; the reader puts its own in its place."""
    raise NotImplementedError


def _given(*place: Any) -> Any:
    """Stands for what a configuration gives; the reader looks it up."""
    raise NotImplementedError


def _object_at(place: int) -> ApiObject:
    """Stands for an API object; the reader looks it up."""
    raise NotImplementedError


def _info_at(place: int) -> PodInfo:
    """Stands for a PodInfo; the reader looks it up."""
    raise NotImplementedError


def _constant(module: str, name: str) -> Any:
    """Stands for a constant of a module, which is compared by identity; the reader looks it up."""
    raise NotImplementedError


def _part_of(base: Any, start: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    return np.ndarray(shape, dtype, base, start, strides)


def _method(owner: Any, name: str) -> Any:
    """A bound method. Raises CheckpointError for one that is not of the core or of a container."""
    module = type(owner).__module__
    is_known = module.startswith(CORE) or isinstance(owner, (*CONTAINERS, Plugin))
    if not is_known or (name.startswith("__") and name not in ("__getitem__", "__contains__", "__len__")):
        raise CheckpointError(f"it names the method {name} of a {module}.{type(owner).__qualname__}")
    return getattr(owner, name)


class _Gone:
    __slots__ = ("__weakref__",)


def _gone() -> ref[Any]:
    """A weak reference to something that is no more."""
    return ref(_Gone())


def _enums(base: type[Enum]) -> Iterator[type[Enum]]:
    """Every class of enumerations that is loaded."""
    for kind in base.__subclasses__():
        yield kind
        yield from _enums(kind)


def _enum_member(member: Enum) -> tuple[type[Enum], tuple[object]]:
    """The member by its value. Python 3.11.2 (Debian 12) writes a call of getattr, which no checkpoint may name."""
    return type(member), (member.value,)


def _count(counter: Any) -> Any:
    """From Python 3.14 on it can't be pickled; its text says where it stands."""
    return itertools.count, (int(repr(counter)[len("count(") : -1]),)


def _constants() -> Iterator[tuple[tuple[str, str], object]]:
    """Module-level constants of the core, some of which are compared by identity. Parts of objects are not."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(CORE):
            continue
        for name, value in vars(module).items():
            kind = type(value)
            is_ours = kind is object or kind is np.ndarray or kind.__module__.startswith(CORE)
            if is_ours and not isinstance(value, type | Enum | ApiStruct) and name.strip("_").isupper():
                yield (module_name, name), value


_OWN: Final[Mapping[str, Any]] = {"_part_of": _part_of, "_method": _method, "_gone": _gone}


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        packed: Unpacked,
        generations: Sequence[Generation],
        stopwatch: Callable[[], float],
        user_modules: frozenset[str],
    ) -> None:
        super().__init__(io.BytesIO(packed.graph))
        self._things = {place: thing for each in generations for place, thing in each.places()}
        self._stopwatch = stopwatch
        self._user_modules = user_modules
        self._constants: dict[tuple[str, str], object] = dict(_constants())
        self._own = {
            "_stopwatch_of": self._the_stopwatch,
            "_given": self._thing,
            "_constant": self._the_constant,
            "_object_at": packed.object_at,
            "_info_at": packed.info_at,
            **_OWN,
        }

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__:
            found = self._own.get(name)
            if found is not None:
                return found
        if (module, name) in _OUTSIDE:
            return super().find_class(module, name)
        if (module, name) == ("weakref", "ref") or (module, name) == ("weakref", "ReferenceType"):
            return ref
        if module.startswith(CORE) or module in self._user_modules:
            found = super().find_class(module, name)
            is_own = getattr(found, "__module__", "") == module and (isinstance(found, type) or callable(found))
            if is_own:
                return found
        if module.startswith("numpy.dtypes") and name.endswith("DType"):
            return super().find_class(module, name)
        raise CheckpointError(f"it names {module}.{name}, which has no place in a checkpoint")

    def _the_stopwatch(self) -> Callable[[], float]:
        return self._stopwatch

    def _thing(self, *place: Any) -> object:
        found = self._things.get(place)
        if found is None:
            raise CheckpointError(f"the configuration has no {' '.join(map(str, place))}")
        return found

    def _the_constant(self, module: str, name: str) -> object:
        found = self._constants.get((module, name))
        if found is None:
            raise CheckpointError(f"this version has no constant {module}.{name}")
        return found
