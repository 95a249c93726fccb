"""A provisioner of the tests' own: makes the volume a scheduler asked for by naming a node, or refuses to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from types import TracebackType
from typing import Self

from e2e import storage
from e2e.client import NotInTime, Object, State
from e2e.room import Room

_MADE_BY = "volume.kubernetes.io/storage-provisioner"


class Provisioner:
    """Serves the claims of a room while inside the block, as external provisioners do.

    The first `refusals` answers are refusals: the selected node is removed again, so that the scheduler chooses
    again. `only` names the claims it looks at, if not all. What goes wrong in its thread is raised at the block's end.
    """

    def __init__(self, room: Room, refusals: int = 0, only: Collection[str] = ()) -> None:
        self._room = room
        self._refusals_left = refusals
        self._only = frozenset(only)
        self._answered: set[tuple[str, str]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="provisioner", daemon=True)
        self._problem: BaseException | None = None
        self.refused: list[str] = []
        """Nodes that were refused, in order."""

    def __enter__(self) -> Self:
        self._claims = self._room.client.watch("PersistentVolumeClaim", self._room.name).__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(10)
        self._claims.__exit__(kind, error, traceback)
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with contextlib.suppress(NotInTime):
                    self._answer(self._claims.wait_until(self._asked_for, 0.2))
        except Exception as problem:  # noqa: BLE001 - raised again in the test's own thread
            self._problem = problem

    def _asked_for(self, state: State) -> Object | None:
        for claim in state.values():
            metadata = claim["metadata"]
            if self._only and metadata["name"] not in self._only:
                continue
            is_ours = metadata.get("annotations", {}).get(_MADE_BY) == storage.PROVISIONER
            is_open = storage.selected_node(claim) and not claim["spec"].get("volumeName")
            if is_ours and is_open and _version(claim) not in self._answered:
                return claim
        return None

    def _answer(self, claim: Object) -> None:
        self._answered.add(_version(claim))
        node = storage.selected_node(claim)
        assert node is not None
        metadata = claim["metadata"]
        if self._refusals_left:
            self._refusals_left -= 1
            self.refused.append(node)
            nothing = {"metadata": {"annotations": {storage.SELECTED_NODE: None}}}
            self._room.client.patch("PersistentVolumeClaim", metadata["name"], metadata["namespace"], nothing)
            return
        spec = claim["spec"]
        size = spec["resources"]["requests"]["storage"]
        name = f"pvc-{metadata['uid']}"
        if name in {volume["metadata"]["name"] for volume in self._room.client.list("PersistentVolume")}:
            return
        (mode,) = spec["accessModes"]
        made = storage.volume(name, self._room.name, spec["storageClassName"], node, size, mode)
        made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": storage.PROVISIONER}
        made["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        }
        self._room.client.create(made)


def _version(claim: Object) -> tuple[str, str]:
    return claim["metadata"]["uid"], claim["metadata"]["resourceVersion"]
