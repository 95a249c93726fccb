"""Objects in a file, as kubectl writes them, and an engine that has seen them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from scheduler.compose import build_engine
from scheduler.config.documents import read_values
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.errors import ConfigurationError, Fault, InvalidObject
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import READ_KINDS, Kind, decode, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS, reason_of

MAX_FILE_BYTES: Final = 2**30
MAX_PROFILES: Final = 20
MAX_REASON: Final = 300
"""Characters of a message about a file, which may quote from it."""
MAX_KINDS: Final = 5
"""Kinds that a message names."""
_KINDS: Final = {(kind.entry.api_version, kind.entry.name): kind for kind in READ_KINDS}


class _Item(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


def read_objects(path: str) -> list[ApiObject]:
    """The objects of a file that decisions read, in the order of first lists; others are left out.

    The file is what ``kubectl get -o json`` or ``-o yaml`` writes: Lists, or objects one by one. Raises
    ConfigurationError, also for a file without any: an answer about no cluster at all would look like one about yours.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _fault(f"open {path}: {error.strerror or error}") from error
    if len(text) > MAX_FILE_BYTES:
        raise _fault(f"{path} has more than {MAX_FILE_BYTES} bytes")
    found: dict[Kind, list[ApiObject]] = {kind: [] for kind in READ_KINDS}
    others: dict[str, None] = {}
    try:
        for raw in _raw_objects(text):
            item = _ITEM.decode(raw)
            kind = _KINDS.get((item.api_version, item.kind))
            if kind is not None:
                found[kind].append(decode(kind, raw))
            else:
                others[f"{item.kind or '(no kind)'} of {item.api_version or '(no apiVersion)'}"] = None
    except (InvalidObject, ConfigurationError, *DECODER_ERRORS) as error:
        raise _fault(f"{path}: {' '.join(reason_of(error).split())[:MAX_REASON]}") from error
    objects = [obj for each in found.values() for obj in each]
    if not objects:
        raise _fault(f"{path}: {_why_none(list(others))}")
    return objects


def _why_none(others: list[str]) -> str:
    """The message about a file without an object that decisions read: what is in it."""
    if not others:
        return "there is no object in it"
    more = f" and {len(others) - MAX_KINDS} more" if len(others) > MAX_KINDS else ""
    listed = ", ".join(name[:MAX_REASON] for name in others[:MAX_KINDS])
    return f"there is no object in it that decisions read, such as a Pod or a Node of v1, but {listed}{more}"


def _raw_objects(text: bytes) -> Iterator[bytes | msgspec.Raw]:
    if text.lstrip().startswith(b"{"):
        documents: Iterable[bytes] = (text,)
    else:
        documents = map(msgspec.json.encode, read_values(text))
    for document in documents:
        read = _LIST.decode(document)
        if read.kind.endswith("List") and read.items is not None:
            yield from read.items
        else:
            yield document


def engine_of(objects: Iterable[ApiObject]) -> tuple[Engine, Now]:
    """An engine that has seen the objects, and its time.

    Each scheduler that a waiting pod names decides as kube-scheduler does by default. Raises ConfigurationError for a
    quantity that is none: quantities are read only here.
    """
    seen = list(objects)
    now = Now(time.monotonic(), time.time_ns())
    engine = build_engine(load(_default_configuration(seen)), started=now)
    for obj in seen:
        try:
            engine.handle(ObjectObserved(kind_of(obj), obj), now)
        except InvalidQuantity as error:
            raise _fault(f"{kind_of(obj).entry.name} {obj.key}: {error}") from error
    engine.handle(Synced(), now)
    return engine, now


def _default_configuration(objects: Iterable[ApiObject]) -> bytes:
    waiting = (one.scheduler_name for one in objects if isinstance(one, Pod) and not one.node_name)
    names = [name for name in dict.fromkeys(waiting) if name][:MAX_PROFILES] or ["tandem-scheduler"]
    return msgspec.json.encode(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": name} for name in names],
        }
    )


def _fault(text: str) -> ConfigurationError:
    return ConfigurationError([Fault("--from", text)])


_ITEM: Final = msgspec.json.Decoder(_Item)
_LIST: Final = msgspec.json.Decoder(_List)
