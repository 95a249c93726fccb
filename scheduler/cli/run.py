"""``tandem run``: from flags and a configuration file to a running scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import structlog

from scheduler.cli.config_warnings import warnings_about_decisions
from scheduler.cli.flags import StatedFlags, read_flags
from scheduler.cli.prepare import Prepared, checked_parts, load_with_flags, prepare, warnings_of, write_configuration
from scheduler.cli.recorded import about_of, stated_of
from scheduler.cli.reload import new_configuration
from scheduler.cli.version import version
from scheduler.compose import all_plugins, build_engine, build_profiles
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import Configuration
from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.record.recorder import Recorder
from scheduler.controller.reload import Build, NewConfiguration
from scheduler.controller.report.decisions import Decisions
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.report.logs import configure_logs
from scheduler.controller.run import run_blocking
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.binding import BindingState
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.explain import PreemptionMemory
from scheduler.engine.questions.trial import Basis
from scheduler.engine.recording.door import History, RecordedEngine
from scheduler.errors import ConfigurationError, Fault
from scheduler.extenders.documents import kinds_sent_whole
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.plugins.devices.candidates import load_selectors
from scheduler.user_plugins.calls import background_calls, plugin_calls


def run(words: list[str]) -> int:
    """``tandem run`` with these flags; returns the exit code. Raises ConfigurationError with every fault."""
    flags = read_flags(words)
    if flags.get("help"):
        # rich, which nothing else here needs.
        from scheduler.cli.help import show_run_help

        show_run_help()
        return 0
    if flags.get("version"):
        return version()
    return run_scheduler(flags)


def run_scheduler(flags: StatedFlags) -> int:
    """Schedule until stopped; returns the exit code. Raises ConfigurationError with every fault."""
    prepared = prepare(flags)
    target = flags.get("write-config-to")
    if target:
        write_configuration(prepared.configuration, Path(target))
        return 0
    configure_logs(prepared.settings.logs)
    log = structlog.get_logger()
    for warning in prepared.warnings:
        log.warning(warning)
    seed = flags.get("seed")

    def factory() -> Parts:
        engine = build_engine(
            prepared.configuration,
            started=read_clock(),
            seed=seed,
            profiles=prepared.profiles,
        )
        return parts_of(engine, prepared, flags)

    return run_blocking(prepared.settings, factory, os.environ)


def parts_of(engine: Engine, prepared: Prepared, flags: StatedFlags) -> Parts:
    """What the shell runs: the engine, recorded if that is asked for, and what else only this module can connect."""
    connection = prepared.settings.connection
    prepared.plugin_classes.seal()

    def client_for_plugins() -> ApiClient:
        return ApiClient(CredentialSource(connection, os.environ), timeout_seconds=connection.timeout_seconds)

    history = History(engine, stated_of(prepared.configuration))
    # Computed only if it is asked for: it reads the source of all modules that decide.
    about = cache(lambda: about_of(prepared.profiles))
    recorder, recorded = None, None
    if prepared.settings.record is not None:
        recorder = Recorder(prepared.settings.record, about())
        recorded = RecordedEngine(engine, history, recorder)
    reconfiguring = _Reconfiguring(engine, prepared, flags, history, recorded, client_for_plugins)
    memory = PreemptionMemory()
    decisions = Decisions()
    between_cycles = BetweenCycles()

    def routes(is_leading: Callable[[], bool]) -> tuple[Any, ...]:
        # With aiohttp and the questions, which nothing before the first decision needs.
        from scheduler.controller.serve import pages
        from scheduler.controller.serve.live import live_routes
        from scheduler.controller.serve.page_files import page_routes
        from scheduler.controller.serve.questions import Questions
        from scheduler.controller.serve.snapshot_page import snapshot_route

        return (
            *pages.routes(engine, read_clock, memory, is_leading),
            *Questions(engine, read_clock, reconfiguring.basis_of, prepared.settings.hostname).routes(),
            snapshot_route(engine, history, about, read_clock, between_cycles),
            *live_routes(engine, decisions, is_leading=is_leading),
            *page_routes(),
        )

    return Parts(
        engine=recorded or engine,
        recorder=recorder,
        between_cycles=between_cycles,
        prepare=reconfiguring.prepare,
        gauges=GaugesOfEngine(engine),
        plugin_calls=plugin_calls(prepared.profiles, client_for_plugins),
        background=background_calls(prepared.profiles, client_for_plugins),
        extender_ssl=prepared.extender_ssl,
        has_extenders=bool(prepared.configuration.kube.extenders),
        kinds_sent_whole=kinds_sent_whole(prepared.configuration.kube.extenders),
        routes=routes,
        observers=(memory.observe, decisions.observe),
        unknown_binds=lambda: sum(one.state is BindingState.UNKNOWN for one in engine.bindings.under_way),
        culprit=lambda: _culprit(engine),
        load_selectors=load_selectors,
    )


class _Reconfiguring:
    """Makes another configuration for a running scheduler from a text: for a reload, or as the basis of a question."""

    def __init__(
        self,
        engine: Engine,
        prepared: Prepared,
        flags: StatedFlags,
        history: History,
        recorded: RecordedEngine | None,
        client_for_plugins: Callable[[], ApiClient],
    ) -> None:
        self._engine = engine
        self._prepared = prepared
        self._flags = flags
        self._history = history
        self._recorded = recorded
        self._client_for_plugins = client_for_plugins

    def prepare(self, text: bytes) -> Build:
        """Read the text, in a thread; what this returns makes the profiles, on the event loop. Both raise
        ConfigurationError."""
        return partial(self._build, self._read(text))

    def basis_of(self, text: bytes) -> Callable[[], Basis]:
        """As ``prepare``, for a question."""
        configuration = self._read(text)
        # In the question's thread: they may search all packages of this Python.
        return partial(self._basis, configuration, warnings_about_decisions(configuration))

    def _read(self, text: bytes) -> Configuration:
        return load_with_flags(text, self._flags, parse_feature_gates(self._flags.get("feature-gates", ())))

    def _build(self, configuration: Configuration) -> NewConfiguration:
        faults: list[Fault] = []
        profiles, _ = checked_parts(configuration, self._prepared.plugin_classes, faults)
        if faults:
            raise ConfigurationError(faults)
        return new_configuration(
            self._engine,
            self._prepared.configuration,
            configuration,
            profiles,
            self._client_for_plugins,
            warnings_of(configuration, profiles),
            self._replace,
        )

    def _replace(
        self, configuration: Configuration, profiles: Mapping[str, Profile], settings: EngineSettings, now: Now
    ) -> bool:
        stated = stated_of(configuration)
        if self._recorded is not None:
            return self._recorded.replace_profiles(stated, profiles, settings, now)
        is_replaced = self._engine.replace_profiles(profiles, settings, now)
        if is_replaced:
            self._history.add(stated, profiles)
        return is_replaced

    def _basis(self, configuration: Configuration, warnings: tuple[str, ...]) -> Basis:
        profiles = build_profiles(configuration, all_plugins(configuration, self._prepared.plugin_classes))
        return Basis(profiles, configuration.kube.percentage_of_nodes_to_score, warnings)


def _culprit(engine: Engine) -> dict[str, object]:
    """The pod of the last decision, and its extension points with their milliseconds, longest first."""
    attempt = engine.tries.last_attempt
    if attempt is None:
        return {}
    points = sorted(attempt.durations.items(), key=lambda point: -point[1])
    return {"pod": attempt.pod, "milliseconds": {name: round(seconds * 1000, 1) for name, seconds in points}}
