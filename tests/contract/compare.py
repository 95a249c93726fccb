"""Plays the conversation of `requests.py` against a server and reports where two recordings differ.

What may differ between two servers, or two runs, is normalised first; `LEFT_OUT` lists what the embedded server does
not do on purpose, each with its reason.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from scheduler.simulate.apiserver.kinds import BY_GROUP_VERSION
from tests.contract.requests import CHAPTERS
from tests.contract.steps import Step

LEFT_OUT: dict[str, str] = {
    "metadata.managedFields": "field ownership is only for server-side apply, which the embedded server does not offer",
    "status.daemonEndpoints": "an empty Go struct that is always printed; nothing reads it",
    "status.nodeInfo": "an empty Go struct that is always printed; nodes made by hand have none",
    "metadata.finalizers=kubernetes.io/pv-protection": "needs a protection controller to be removed again",
    "metadata.finalizers=kubernetes.io/pvc-protection": "needs a protection controller to be removed again",
    "status.lastPhaseTransitionTime": "only shown to people, by `kubectl describe pv`",
    "spec.clusterIP, spec.clusterIPs": "which address a service gets is the server's choice",
    "columnDefinitions[].description, format": "texts of `kubectl explain`",
    "storageVersionHash, resources and groups not served": "discovery lists what a server has; both are compared",
    "spec and status of a bookmark": "empty Go structs; a bookmark says nothing but its version",
    "verbs of customresourcedefinitions": "there are none to be had; operators only look whether there are any",
    "conditions[].lastProbeTime, lastTransitionTime = null": "Go prints unset times of conditions",
}

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_AGE = re.compile(r"\d+[smhd](\d+[smh])?")
_PROTECTION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection")
_MAX_TRIES = 100
_TOO_EARLY = ((429, "initializing"), (403, "no PriorityClass with name"))
_CONDITION_TIMES = frozenset({"lastProbeTime", "lastTransitionTime", "lastHeartbeatTime"})
_DROPPED_ANYWHERE = frozenset({"managedFields", "storageVersionHash", "serverAddressByClientCIDRs"})
_DROPPED_IN_STATUS = frozenset({"daemonEndpoints", "nodeInfo", "lastPhaseTransitionTime"})


@dataclass(frozen=True)
class Answer:
    """One answer, normalised: the code, and the body or the events of a watch."""

    step: str
    code: int
    body: Any


@dataclass
class Recording:
    """All answers of one run, in order."""

    answers: list[Answer] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps([[one.step, one.code, one.body] for one in self.answers], indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str) -> Recording:
        return Recording([Answer(step, code, body) for step, code, body in json.loads(text)])


async def play(base_url: str, token: str | None = None) -> Recording:
    """Have the whole conversation with the server at `base_url` (TLS certificates are not verified)."""
    run = "contract-" + secrets.token_hex(4)
    normaliser = Normaliser(run)
    variables = {"run": run, "ns": run}
    recording = Recording()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
        for chapter, steps in CHAPTERS.items():
            for step in steps:
                code, body = await _answer(session, base_url, step, variables)
                for variable, path in step.capture.items():
                    try:
                        variables[variable] = _dig(body, path)
                    except KeyError:
                        raise ValueError(f"{chapter}: {step.name}: no {path} in the answer: {code} {body}") from None
                shown = _reason(body) if step.only_code else normaliser.normal(body)
                recording.answers.append(Answer(f"{chapter}: {step.name}", code, shown))
    return recording


def differences(expected: Recording, actual: Recording) -> list[str]:
    """Each difference as one line: which request, where in the answer, what was expected, what came."""
    found: list[str] = []
    if len(expected.answers) != len(actual.answers):
        found.append(f"{len(expected.answers)} answers expected, {len(actual.answers)} came: record again")
    for one, other in zip(expected.answers, actual.answers, strict=False):
        if one.step != other.step:
            return [*found, f"expected `{one.step}`, came `{other.step}`: record again"]
        if one.code != other.code:
            found.append(f"{one.step}: code {one.code} expected, {other.code} came: {other.body}")
        else:
            found += [f"{one.step}: {line}" for line in _unequal("", one.body, other.body)]
    return found


async def _answer(
    session: aiohttp.ClientSession, base_url: str, step: Step, variables: dict[str, str]
) -> tuple[int, Any]:
    """The answer to one request, as soon as the server has filled its cache of the kind, and its admission has heard of
    the PriorityClass that was created just before."""
    for _ in range(_MAX_TRIES):
        code, body = await _request(session, base_url, step, variables)
        if not any(code == early and words in str(body) for early, words in _TOO_EARLY):
            break
        await asyncio.sleep(0.1)
    return code, body


async def _request(
    session: aiohttp.ClientSession, base_url: str, step: Step, variables: dict[str, str]
) -> tuple[int, Any]:
    path, text = _filled(step.path, variables), _filled(step.text() or "", variables)
    headers = {"Accept": step.accept, "Content-Type": step.content_type}
    url = URL(base_url.rstrip("/") + path, encoded=True)
    async with session.request(step.method, url, data=text or None, headers=headers) as response:
        if step.events and response.status == 200:
            return 200, await _events(response, step.events)
        raw = await response.read()
        if "json" not in response.headers.get("Content-Type", ""):
            return response.status, raw.decode()
        return response.status, json.loads(raw)


async def _events(response: aiohttp.ClientResponse, wanted: int) -> list[Any]:
    events: list[Any] = []
    async for line in response.content:
        events.append(json.loads(line))
        if len(events) == wanted:
            break
    response.close()
    return events


def _filled(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: variables[found[1]], text)


def _dig(body: Any, path: str) -> str:
    for step in path.split("."):
        body = body[step]
    return str(body)


def _reason(body: Any) -> Any:
    return body.get("reason", "") if isinstance(body, dict) else ""


class Normaliser:
    """Replaces what differs between runs by what it stands for; the same thing gets the same name."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._uids: dict[str, str] = {}
        self._versions: dict[str, dict[str, str]] = {}

    def normal(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.normal(one) for one in value]
        if isinstance(value, dict):
            return self._object(value)
        return self._text(value) if isinstance(value, str) else value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        value = {key: one for key, one in value.items() if key not in _DROPPED_ANYWHERE}
        if value.get("type") == "BOOKMARK":
            known = ("kind", "apiVersion", "metadata")
            value["object"] = {key: one for key, one in value["object"].items() if key in known}
        if value.get("kind") in ("APIResourceList", "APIGroupList"):
            value = _served(value)
        if "columnDefinitions" in value:
            value["columnDefinitions"] = [
                {key: one[key] for key in ("name", "type", "priority")} for one in value["columnDefinitions"] or ()
            ]
            rows = value["rows"]
            value["rows"] = [{**row, "cells": [_ageless(cell) for cell in row["cells"]]} for row in rows]
        shown: dict[str, Any] = {}
        for key, one in value.items():
            if key == "metadata" and isinstance(one, dict):
                shown[key] = self._metadata(one)
            elif key == "status" and isinstance(one, dict):
                shown[key] = self.normal({name: part for name, part in one.items() if name not in _DROPPED_IN_STATUS})
            elif key in _CONDITION_TIMES and one is None:
                continue
            elif key == "clusterIP":
                shown[key] = "<address>"
            elif key == "clusterIPs":
                shown[key] = ["<address>"]
            elif key == "causes":
                shown[key] = _distinct(self.normal(one))
            else:
                shown[key] = self.normal(one)
        return shown

    def _metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        shown = dict(metadata)
        if version is not None:
            known = self._versions.setdefault(uid, {}) if uid else {}
            shown["resourceVersion"] = known.setdefault(version, f"version {len(known) + 1}") if uid else "<version>"
        if "continue" in metadata:
            shown["continue"] = "<token>"
        if metadata.get("generateName") and metadata.get("name"):
            shown["name"] = metadata["generateName"] + "<random>"
        if metadata.get("finalizers"):
            shown["finalizers"] = [one for one in metadata["finalizers"] if one not in _PROTECTION]
            if not shown["finalizers"]:
                del shown["finalizers"]
        shown.pop("managedFields", None)
        return {key: self.normal(one) for key, one in shown.items()}

    def _text(self, text: str) -> str:
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid {len(self._uids) + 1}>"), text)
        text = _TIME.sub("<time>", text).replace(self._run, "<run>")
        text = re.sub(r"record \(\d+\)", "record (<version>)", text)
        return text.partition("\n@@")[0]


def _ageless(cell: Any) -> Any:
    return "<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell


def _distinct(causes: list[Any]) -> list[Any]:
    return [one for index, one in enumerate(causes) if one not in causes[:index]]


def _served(document: dict[str, Any]) -> dict[str, Any]:
    """A discovery document without what the embedded server does not serve, in an order of its own."""
    group, _, version = document.get("groupVersion", "").rpartition("/")
    kinds = BY_GROUP_VERSION.get((group, version), {})
    names = set(kinds) | {f"{kind.plural}/{one}" for kind in kinds.values() for one in kind.subresources}
    listed = [one for one in document.get("resources", []) if one["name"] in names]
    return {**document, "resources": sorted(listed, key=lambda one: str(one["name"]))}


def _unequal(path: str, expected: Any, actual: Any) -> list[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        lines: list[str] = []
        for key in sorted(expected.keys() | actual.keys()):
            if key not in actual:
                lines.append(f"{path}.{key}: {_short(expected[key])} expected, nothing came")
            elif key not in expected:
                lines.append(f"{path}.{key}: nothing expected, {_short(actual[key])} came")
            else:
                lines += _unequal(f"{path}.{key}", expected[key], actual[key])
        return lines
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for index, (one, other) in pairs for line in _unequal(f"{path}[{index}]", one, other)]
    return [] if expected == actual else [f"{path}: {_short(expected)} expected, {_short(actual)} came"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 400 else text[:400] + "..."
