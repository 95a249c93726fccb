"""``--anonymise``: a recording or a snapshot under other names, which replays to the same decisions.

Every word (letters, digits, dots, hyphens) of a name, label, annotation, image or selector is replaced, the same word
by the same one everywhere, in messages too. The new words sort as the old ones do, since names decide some ties. Kept
are numbers, which ``Gt`` and ``Lt`` compare, words of the configuration, keys of Kubernetes' own domains, UIDs, and
every word that the deciding code itself mentions, such as ``cpu`` or ``NoSchedule``.

It is decided again under the new names while it is written, and each decision is compared; at its end, both engines
are given ten minutes and the pods that wait then, and what they decide is compared, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np

from scheduler.cli.complaint import complain
from scheduler.cli.recorded import Maker, Stretch, Until, code_files, stretches, stretches_of
from scheduler.controller.record.segments import (
    FOLDER_MODE,
    SUFFIX,
    About,
    SegmentWriter,
    appears_whole,
    segment_head,
)
from scheduler.engine.recording.checkpoint import pack
from scheduler.engine.recording.door import Beginning, Checkpoint, Input, NewConfiguration, NextPod
from scheduler.engine.recording.entries import encode_recorded
from scheduler.engine.recording.outcome import encode_outcome, is_digest, plain_outcome, shown
from scheduler.engine.recording.packed import encoded
from scheduler.engine.recording.renamed import texts_in, with_texts
from scheduler.engine.recording.replay import RecordedInput, Replay
from scheduler.errors import ConfigurationError, Fault
from scheduler.framework.events import Action, ClusterEvent, Resource
from scheduler.messages.now import Now
from scheduler.messages.stimuli import Tick
from scheduler.objects.pod import Pod
from scheduler.user_plugins.loading import PluginClasses

_WORD: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_WORDS: Final = re.compile(_WORD)
_PARTS: Final = re.compile(rf"(?:[a-z0-9-]+\.)*(?:kubernetes|k8s)\.io/{_WORD}|{_WORD}")
"""Pattern of a word, or of a key of Kubernetes' own domains as a whole."""
_NUMBER: Final = re.compile(r"[0-9.]+[A-Za-z]{0,2}")
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOUR: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d")
"""Pattern of the first word of a time, as conditions have it. The clock's own times are not renamed."""
NAMING: Final = frozenset(
    {
        "annotations", "claim_name", "description", "device", "disk_uri", "finalizers", "holder_identity", "host_ip",
        "image", "iqn", "key", "labels", "match_label_keys", "match_labels", "message", "monitors", "name", "names",
        "namespace", "namespaces", "node_name", "node_selector", "nominated_node_name", "pd_name",
        "persistent_volume_name", "pod_group_name", "pool", "priority_class_name", "reference", "request",
        "request_name", "resource_claim_name", "resource_claim_template_name", "scheduler_name", "selector",
        "storage_class_name", "topology_key", "value", "values", "volume_attributes_class_name", "volume_handle",
        "volume_id", "volume_name",
    }
)  # fmt: skip
"""Fields whose texts are names, or labels, or compared with them."""
FRAME_ENTRIES: Final = 500
LATER_SECONDS: Final = 600
"""Seconds after which every pod that waits has been tried once more, whether or not anything has happened (after 300 s
by default)."""
MAX_TRIED: Final = 500
"""Pods that are tried at the end."""


class Names:
    """Collects words with ``see``, then renames with ``rename``."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = set(kept)
        self._namespaces: set[str] = set()
        self._words: set[str] = set()
        self._new: dict[str, str] = {}
        self._joined: dict[str, tuple[str, str]] = {}
        """Names that are made of two others with a hyphen between them, which the deciding code does, too."""

    def keep(self, text: str) -> None:
        """Leave the words of this text as they are."""
        self._kept.update(_WORDS.findall(text))

    def see_text(self, text: str | bytes) -> None:
        """Collect all words in a text of which nothing more is known."""
        found = text.decode() if isinstance(text, bytes) else text
        self._words.update(word for word in _PARTS.findall(found) if _is_name(word))

    def see(self, value: Any, field: str = "") -> None:
        """Collect all names in a stimulus or a part of one; ``field``: where the value is."""
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                self.see(getattr(value, name), name)
            if isinstance(value, Pod):
                volumes = [volume.name for volume in value.spec.volumes if volume.ephemeral is not None]
                self._joined |= {f"{value.name}-{volume}": (value.name, volume) for volume in volumes}
        elif isinstance(value, dict):
            for key, item in value.items():
                self.see(key, field)
                self.see(item, field)
        elif isinstance(value, tuple | list):
            for item in value:
                self.see(item, field)
        elif isinstance(value, str) and field in NAMING:
            found = self._namespaces if field in ("namespace", "namespaces") else self._words
            found.update(word for word in _PARTS.findall(value) if _is_name(word))

    def settle(self) -> None:
        """Choose the new words. Namespaces come before a slash wherever they are compared, other words do not."""
        places = sorted(self._namespaces - self._kept, key=lambda word: f"{word}/")
        others = sorted(self._words - self._namespaces - self._kept)
        self._new = {word: f"n{number:07}" for number, word in enumerate(places)}
        self._new |= {word: f"x{number:07}" for number, word in enumerate(others)}
        self._new |= {word: "-".join(map(self.rename, parts)) for word, parts in self._joined.items()}

    def rename(self, value: Any) -> Any:
        """The same value under the new names."""
        if isinstance(value, str):
            return _PARTS.sub(self._instead, value) if type(value) is str else value
        if isinstance(value, bytes):
            return self.rename(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if isinstance(value, msgspec.Struct):
            fields = {name: self.rename(getattr(value, name)) for name in value.__struct_fields__}
            return type(value)(**fields)
        if isinstance(value, dict):
            return {self.rename(key): self.rename(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)([self.rename(item) for item in value])
        return value

    def _instead(self, match: re.Match[str]) -> str:
        return self._new.get(match[0], match[0])


def _is_name(word: str) -> bool:
    is_number = any(kind.fullmatch(word) is not None for kind in (_NUMBER, _UID, _HOUR))
    return not is_number and "/" not in word


def words_of_the_code() -> Iterator[str]:
    """Every word in the texts of the deciding code, which names could be compared with, and its own names, which stand
    in checkpoints and, as JSON has them, in answers of extenders."""
    for path in code_files():
        module = module_of(path)
        yield module
        # The compiled code that Python has cached: parsing all sources would take seconds.
        code = SourceFileLoader(module, str(path)).get_code(module)
        assert code is not None
        for text in texts_of(code):
            yield from _WORDS.findall(text)
            if text.isidentifier():
                yield json_name(text)
    for number_type in np.typecodes["All"]:
        yield from _WORDS.findall(np.dtype(number_type).str)
    for resource in Resource:
        yield from (ClusterEvent(resource, action).label for action in (*Action, Action.UPDATE, Action.ALL))


def texts_of(code: CodeType) -> Iterator[str]:
    """The names and the texts of one line in a module, a class or a function, and in what is defined there."""
    yield code.co_name
    yield from code.co_names
    yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    constants = list(code.co_consts)
    while constants:
        constant = constants.pop()
        if isinstance(constant, CodeType):
            yield from texts_of(constant)
        elif isinstance(constant, tuple | frozenset):
            constants += constant
        elif isinstance(constant, str) and "\n" not in constant:
            yield constant


def json_name(name: str) -> str:
    """A field's name in JSON."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def module_of(path: Path) -> str:
    """The module that is in a file of the package."""
    names = path.with_suffix("").parts
    return ".".join(names[len(names) - names[::-1].index("scheduler") - 1 :])


def write_anonymous(place: Path, target: Path, classes: PluginClasses, until: Until | None = None) -> int:
    """The command: ``anonymise`` with a line about what was done; returns the exit code. Raises ConfigurationError."""
    try:
        inputs = anonymise(place, target, classes, until)
    except OSError as error:
        complain(f"{target}: {error.strerror or error}")
        return 1
    print(f"{target}: {inputs} inputs under other names, decided the same")
    return 0


def anonymise(place: Path, target: Path, classes: PluginClasses, until: Until | None = None) -> int:
    """Writes a recording or a snapshot again, anonymised; returns the number of inputs.

    What ran in several runs, or has gaps, becomes a folder with a file for each part. Raises ConfigurationError for one
    that can't be replayed, and one that is decided otherwise under new names; OSError.
    """
    if target.exists():
        raise FileExistsError(0, "there is such a file", str(target))
    maker = Maker(classes)
    parts, names = _seen(place, maker, until)
    if len(parts) > 1:
        target.mkdir(mode=FOLDER_MODE)
    count = 0
    for number, part in enumerate(parts):
        path = target / f"{number:06}{SUFFIX}" if len(parts) > 1 else target
        with appears_whole(path) as file, file:
            copy = _Copy(part.about, file, names, maker, place)
            for again in stretches_of(part.paths, maker, until, copy.take, copy.begin):
                count += copy.end(again)
                break
    return count


def _seen(place: Path, maker: Maker, until: Until | None) -> tuple[list[Stretch], Names]:
    """The parts of a recording and the names in them."""
    names = Names(words_of_the_code())

    def begin(replay: Replay, beginning: Beginning) -> None:
        for each in beginning.configurations:
            names.keep(each.text)
        for made in replay.made:
            for module in made.user_modules:
                names.keep(module)
        if isinstance(beginning.base, Checkpoint):
            state = pack(replay.engine, replay.generations)
            objects, pods = state.parts()
            names.see(objects)
            for text in (*texts_in(state.graph), *[node for _, node in pods]):
                names.see_text(text)

    def watch(_replay: Replay, recorded: RecordedInput) -> None:
        if isinstance(recorded.input, NewConfiguration):
            names.keep(recorded.input.stated.text)
        names.see(recorded.input)

    parts = []
    for stretch in stretches(place, maker, until, watch, begin):
        if stretch.difference is not None or stretch.problem:
            raise _fault(place, stretch.problem or f"input {stretch.difference and stretch.difference.number} differs")
        parts.append(stretch)
    names.settle()
    return parts, names


class _Copy:
    """One part under other names: decided again, and compared with the original, while it is written."""

    def __init__(self, about: About, file: BinaryIO, names: Names, maker: Maker, place: Path) -> None:
        self._about = msgspec.structs.replace(about, is_anonymous=True)
        self._file = file
        self._names = names
        self._place = place
        self._replay = Replay(maker)
        self._lines: list[bytes] = []
        self._writer: SegmentWriter

    def begin(self, original: Replay, beginning: Beginning) -> None:
        if isinstance(beginning.base, Checkpoint):
            rename = self._names.rename
            state = pack(original.engine, original.generations)
            base = Checkpoint(encoded(with_texts(state.graph, rename), *rename(state.parts())))
            beginning = msgspec.structs.replace(beginning, base=base)
        self._replay.begin(beginning)
        self._writer = SegmentWriter(self._file, segment_head(self._about, beginning))

    def take(self, original: Replay, recorded: RecordedInput) -> None:
        renamed = self._applied(original, recorded)
        self._lines.append(encode_recorded(renamed, self._replay.outcome))
        if len(self._lines) >= FRAME_ENTRIES:
            self._writer.write(self._lines)
            self._lines = []

    def end(self, part: Stretch) -> int:
        """End the copy; returns the number of inputs that were written."""
        self._writer.write(self._lines)
        self._writer.end()
        inputs = part.replay.applied
        self._try_waiting(part.replay)
        return inputs

    def _try_waiting(self, original: Replay) -> None:
        """Let both decide what comes next, and compare it; nothing of it is written."""
        if original.last is None:
            return
        later = Now(original.last.monotonic + LATER_SECONDS, original.last.wall + LATER_SECONDS * 10**9)
        inputs: list[Input] = [Tick(), *[NextPod()] * MAX_TRIED]
        for input_ in inputs:
            asked = RecordedInput(original.number + 1, input_, later, encode_outcome(None))
            original.apply(asked)
            self._applied(original, asked)
            if isinstance(input_, NextPod) and shown(original.outcome) is None:
                return

    def _applied(self, original: Replay, recorded: RecordedInput) -> RecordedInput:
        """The input applied under the new names. Raises ConfigurationError if it is decided otherwise."""
        renamed = msgspec.structs.replace(recorded, input=self._renamed(recorded.input))
        self._replay.apply(renamed)
        if self._names.rename(_said(original)) != _said(self._replay):
            raise _fault(self._place, f"input {recorded.number} is decided otherwise under other names")
        return renamed

    def _renamed(self, input_: Input) -> Input:
        if isinstance(input_, NextPod | NewConfiguration):
            return input_
        renamed: Input = self._names.rename(input_)
        return renamed


def _said(replay: Replay) -> Any:
    """What the last input led to, as plain values."""
    if is_digest(replay.outcome):
        return plain_outcome(replay.commands)
    return shown(replay.outcome)


def _fault(place: Path, text: str) -> ConfigurationError:
    return ConfigurationError([Fault("", f"{place}: {text}")])
