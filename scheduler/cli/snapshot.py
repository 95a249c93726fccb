"""``tandem snapshot``: the state of a running scheduler, or of a cluster without one, in a file for questions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, ClassVar, Final

import msgspec

from scheduler.cli.anonymise import write_anonymous
from scheduler.cli.asking import Reaching
from scheduler.cli.complaint import complain, warn
from scheduler.cli.config_warnings import warnings_about_decisions
from scheduler.cli.connection import Access, Unanswered, fetch
from scheduler.cli.leader import fetch_from_leader
from scheduler.cli.options import argument, option, switch
from scheduler.cli.prepare import read_configuration
from scheduler.cli.recorded import Maker, about_of, classes_of, stated_of
from scheduler.cli.shell_settings import kinds_read
from scheduler.compose import build_engine
from scheduler.config.loading import Configuration, load
from scheduler.controller.loop import read_clock
from scheduler.controller.record.recorder import FRAME_BYTES
from scheduler.controller.record.segments import MAGIC, About, SegmentWriter, new_file, segment_head
from scheduler.controller.serve.snapshot_page import PATH
from scheduler.controller.watch.pages import LIST_TIMEOUT_SECONDS, Pages
from scheduler.controller.watch.reflector import PAGE_SIZE
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.recording.door import Beginning, Entry, History, RecordedEngine
from scheduler.engine.recording.entries import encode_entry
from scheduler.errors import ApiError
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.wire import ListPage, decode_list
from scheduler.user_plugins.loading import PluginClasses

MAX_OBJECTS: Final = 2_000_000
"""Objects of all kinds: a cluster of the largest size that Kubernetes supports has a quarter of them."""
MAX_SECONDS: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions(Reaching):
    """The options of ``tandem snapshot``."""

    SECTION: ClassVar[str] = "Options"
    file: Path = argument("FILE", "A new file, for its owner alone.", reads=Path)
    api: bool = switch("--api", help="Read the objects from the API server: no Tandem needs to run there.")
    config: str = option("--config", metavar="FILE", help="With --api: decide as configured here.")
    anonymise: bool = switch("--anonymise", help="Write it under other names, for others.")
    plugin_folder: str = option(
        "--plugin-folder", metavar="FOLDER", help="With --anonymise: the code of plugins, as for [bold]run[/bold]."
    )
    as_scheduler: str = option(
        "--as",
        metavar="NAME",
        help="With --api: pods of this scheduler are the ones that wait.",
        default="default-scheduler",
        shows=True,
    )


def snapshot(options: SnapshotOptions) -> int:
    """Write the state of a running scheduler, or with --api of any cluster, into a file.

    [bold]--from FILE[/bold] of why, queue, what-if and capacity asks it. A snapshot holds what scheduling reads
    of each object: names, labels, annotations, requests, but no commands and no environment.
    """
    file = options.file
    try:
        if not options.anonymise:
            _write(options, file)
        else:
            with TemporaryDirectory() as folder:
                _write(options, Path(folder) / file.name)
                code = write_anonymous(Path(folder) / file.name, file, classes_of(options.plugin_folder))
            if code:
                return code
    except (Unanswered, ApiError, TimeoutError) as error:
        complain(str(error) or f"the API server took more than {MAX_SECONDS:g} s")
        return 1
    except OSError as error:
        complain(f"{file}: {error.strerror or error}")
        return 1
    print(f"{file}: {file.stat().st_size} bytes")
    return 0


def _write(options: SnapshotOptions, file: Path) -> None:
    """Raises Unanswered, ApiError, TimeoutError, ConfigurationError and OSError."""
    access = options.access()
    if options.api:
        _from_api(file, access, _configuration(options.config, options.as_scheduler))
        return
    body = fetch(PATH, access) if access.server else fetch_from_leader(PATH, access, os.environ)
    if not body.startswith(MAGIC):
        raise Unanswered(f"{PATH}: the answer is no snapshot")
    with _whole(file) as target:
        target.write(body)


@contextmanager
def _whole(file: Path) -> Iterator[BinaryIO]:
    """A new file, of which nothing is left where the block fails: the next try would find it in its way. Raises
    OSError."""
    with new_file(file) as target:
        try:
            yield target
        except BaseException:
            file.unlink(missing_ok=True)
            raise


def _configuration(file: str, name: str) -> Configuration:
    """Raises ConfigurationError."""
    text = read_configuration(file)
    if text is not None:
        stated = load(text)
        for warning in warnings_about_decisions(stated):
            warn(warning)
        return stated
    configuration = load()
    profiles = tuple(msgspec.structs.replace(one, scheduler_name=name) for one in configuration.kube.profiles)
    return msgspec.structs.replace(configuration, kube=msgspec.structs.replace(configuration.kube, profiles=profiles))


def _from_api(file: Path, access: Access, configuration: Configuration) -> None:
    """Raises ApiError, TimeoutError, ConfigurationError and OSError."""
    made = Maker(PluginClasses()).made_of(configuration)
    engine = build_engine(configuration, started=read_clock(), profiles=made.profiles)
    with _whole(file) as target:
        tape = _FileTape(target, about_of(made.profiles))
        door = RecordedEngine(engine, History(engine, stated_of(configuration)), tape)
        asyncio.run(_list_into(door, access, kinds_read(configuration.gates, configuration.tandem)))
        door.handle(Synced(), read_clock())
        tape.end()


async def _list_into(door: RecordedEngine, access: Access, kinds: tuple[Kind, ...]) -> None:
    """Lists every kind that decisions read, page by page; each page is applied and let go of."""
    settings = ConnectionSettings(kubeconfig=access.kubeconfig, context=access.context)
    client = ApiClient(CredentialSource(settings, os.environ), timeout_seconds=LIST_TIMEOUT_SECONDS)
    count = 0
    try:
        async with asyncio.timeout(MAX_SECONDS):
            await client.connect()
            for kind in kinds:
                async for page in _pages(client, kind):
                    count += len(page.objects)
                    if count > MAX_OBJECTS:
                        raise ApiError(0, "TooLarge", f"the cluster has more than {MAX_OBJECTS} objects")
                    for fault in page.faults:
                        warn(f"left out: {fault}")
                    for obj in page.objects:
                        door.handle(ObjectObserved(kind, obj), read_clock())
    finally:
        await client.close()


async def _pages(client: ApiClient, kind: Kind) -> AsyncIterator[ListPage]:
    """The pages of a kind's list. A kind that the API server does not have has no objects."""
    token = ""
    pages = Pages(client, kind.entry.collection_path(), {}, PAGE_SIZE)
    while True:
        try:
            answer = await pages.request(token)
        except ApiError as error:
            if error.status == 404 and kind.entry.is_optional:
                return
            raise
        page = decode_list(kind, answer.body)
        yield page
        token = page.continue_token
        if not token:
            return


class _FileTape:
    """One segment, written as it comes."""

    def __init__(self, file: BinaryIO, about: About) -> None:
        self._file = file
        self._about = about
        self._entries: list[bytes] = []
        self._size = 0
        self._segment: SegmentWriter

    @property
    def wants_checkpoint(self) -> bool:
        return False

    def begin(self, beginning: Beginning) -> None:
        self._segment = SegmentWriter(self._file, segment_head(self._about, beginning))

    def put(self, entry: Entry) -> None:
        data = encode_entry(entry)
        self._entries.append(data)
        self._size += len(data)
        if self._size >= FRAME_BYTES:
            self._flush()

    def failed(self, problem: str) -> None:
        raise AssertionError(problem)

    def end(self) -> None:
        self._flush()
        self._segment.end()

    def _flush(self) -> None:
        if self._entries:
            self._segment.write(self._entries)
            self._entries, self._size = [], 0
