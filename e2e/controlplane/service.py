"""A server of ours as a process beside the test, up within a block."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self

from e2e.controlplane.processes import Process


class Service(abc.ABC):
    """A context manager: inside the block the process runs and answers; after it, it is gone."""

    process: Process

    @abc.abstractmethod
    def ask(self) -> None:
        """Ask it anything. Raises OSError while it does not answer."""

    def _is_up(self) -> bool:
        try:
            self.ask()
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        self.process.start().wait_until(self._is_up, 30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.process.tail())
        self.process.kill()
