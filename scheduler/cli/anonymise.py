"""``tandem replay --anonymise``: a recording under other names, which replays to the same decisions.

Every word (letters, digits, dots, hyphens) of a name, label, annotation, image or selector is replaced, the same word
by the same one everywhere, in messages too. The new words sort as the old ones do, since names decide some ties. Kept
are numbers, which ``Gt`` and ``Lt`` compare, words of the configuration, keys of Kubernetes' own domains, UIDs, and
every word that the deciding code itself mentions, such as ``cpu`` or ``NoSchedule``.

The recording is decided again under the new names while it is written, and each decision is compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.cli.recorded import Maker, code_files, stretches
from scheduler.controller.record.segments import SegmentWriter, new_file, segment_head
from scheduler.engine.recording.door import Beginning, Checkpoint, Input, NewConfiguration, NextPod
from scheduler.engine.recording.entries import encode_recorded
from scheduler.engine.recording.replay import RecordedInput, Replay
from scheduler.errors import ConfigurationError, Fault
from scheduler.user_plugins.loading import PluginClasses

_WORD: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_WORDS: Final = re.compile(_WORD)
_PARTS: Final = re.compile(rf"(?:[a-z0-9-]+\.)*(?:kubernetes|k8s)\.io/{_WORD}|{_WORD}")
"""A key of Kubernetes' own domains as a whole, or a word."""
_NUMBER: Final = re.compile(r"[0-9.]+[A-Za-z]{0,2}")
NAMING: Final = frozenset(
    {
        "annotations", "claim_name", "host_ip", "image", "key", "labels", "match_label_keys", "match_labels",
        "mismatch_label_keys", "name", "names", "namespace", "namespaces", "node_name", "node_selector",
        "nominated_node_name", "pool", "priority_class_name", "reference", "resource_claim_name",
        "resource_claim_template_name", "storage_class_name", "topology_key", "value", "values", "volume_name",
    }
)  # fmt: skip
"""Fields whose texts are names, or labels, or compared with them."""
FRAME_ENTRIES: Final = 500


class Names:
    """Collects words with ``see``, then renames with ``rename``."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = frozenset(kept)
        self._namespaces: set[str] = set()
        self._words: set[str] = set()
        self._new: dict[str, str] = {}

    def see(self, value: Any, field: str = "") -> None:
        """All names in a stimulus or a part of one; ``field``: where the value is."""
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                self.see(getattr(value, name), name)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.see(key, field)
                self.see(item, field)
        elif isinstance(value, tuple | list):
            for item in value:
                self.see(item, field)
        elif isinstance(value, str) and field in NAMING:
            found = self._namespaces if field in ("namespace", "namespaces") else self._words
            found.update(word for word in _PARTS.findall(value) if self._is_name(word))

    def settle(self) -> None:
        """Chooses the new words. Namespaces come before a slash wherever they are compared, other words do not."""
        places = sorted(self._namespaces, key=lambda word: f"{word}/")
        others = sorted(self._words - self._namespaces)
        self._new = {word: f"n{number:07}" for number, word in enumerate(places)}
        self._new |= {word: f"x{number:07}" for number, word in enumerate(others)}

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

    def _is_name(self, word: str) -> bool:
        return word not in self._kept and "/" not in word and _NUMBER.fullmatch(word) is None


def words_of_the_code() -> Iterator[str]:
    """Every word in the texts of the deciding code: what names could be compared with."""
    for path in code_files():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                yield from _WORDS.findall(node.value)
            elif isinstance(node, ast.arg | ast.AnnAssign):
                yield from _WORDS.findall(msgspec_name(node))


def msgspec_name(node: ast.arg | ast.AnnAssign) -> str:
    """A field's name as JSON has it: an extender's answers hold such words."""
    name = node.arg if isinstance(node, ast.arg) else node.target.id if isinstance(node.target, ast.Name) else ""
    first, *others = name.split("_") or [""]
    return first + "".join(map(str.title, others))


def anonymise(place: Path, target: Path, classes: PluginClasses) -> int:
    """Writes the recording again, anonymised; returns the number of inputs.

    Raises ConfigurationError for a recording whose start is gone, one that can't be replayed, and one that is decided
    otherwise under new names; OSError.
    """
    maker = Maker(classes)
    beginnings: list[Beginning] = []
    inputs: list[RecordedInput] = []
    about = None
    for stretch in stretches(place, maker, None, lambda _, recorded: inputs.append(recorded), beginnings.append):
        if stretch.difference is not None or stretch.problem:
            raise _fault(place, stretch.problem or f"input {stretch.difference and stretch.difference.number} differs")
        about = about or stretch.about
    if about is None or len(beginnings) != 1 or isinstance(beginnings[0].base, Checkpoint):
        text = "a checkpoint can't be given other names, only one run from its start on or a snapshot made with --api"
        raise _fault(place, text)
    (beginning,) = beginnings
    configured = [one.text for one in beginning.configurations]
    configured += [one.input.stated.text for one in inputs if isinstance(one.input, NewConfiguration)]
    names = Names([*words_of_the_code(), *(word for text in configured for word in _WORDS.findall(text))])
    for recorded in inputs:
        names.see(recorded.input)
    names.settle()
    replay = Replay(maker)
    replay.begin(beginning)
    with new_file(target) as file:
        writer = SegmentWriter(file, segment_head(msgspec.structs.replace(about, is_anonymous=True), beginning))
        lines: list[bytes] = []
        for recorded in inputs:
            renamed = msgspec.structs.replace(recorded, input=_renamed(recorded.input, names))
            replay.apply(renamed)
            if not _is_same(names, recorded.outcome, replay.outcome):
                raise _fault(place, f"input {recorded.number} is decided otherwise under other names")
            lines.append(encode_recorded(renamed, replay.outcome))
            if len(lines) >= FRAME_ENTRIES:
                writer.write(lines)
                lines = []
        writer.write(lines)
        writer.end()
    return len(inputs)


def _renamed(input_: Input, names: Names) -> Input:
    if isinstance(input_, NextPod | NewConfiguration):
        return input_
    renamed: Input = names.rename(input_)
    return renamed


def _is_same(names: Names, recorded: bytes, got: bytes) -> bool:
    """Whether the outcome is the recorded one under the new names. Digests of large ones compare by their kinds."""
    before, after = msgspec.msgpack.decode(recorded), msgspec.msgpack.decode(got)
    if isinstance(before, list) and before[:1] == ["sha256"]:
        return isinstance(after, list) and before[2:] == after[2:]
    is_same: bool = names.rename(before) == after
    return is_same


def _fault(place: Path, text: str) -> ConfigurationError:
    return ConfigurationError([Fault("", f"{place}: {text}")])
