"""One server process: its output goes to a file, it is stopped for certain, it outlives nobody.

Knows nothing of Kubernetes. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from kbind.testing.errors import ControlPlaneError

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

# Loaded before any fork: between fork and exec nothing may take a lock.
_libc = ctypes.CDLL(None)


class Server:
    """A running process.

    It dies with the thread that started it, so start it where the event loop runs for long:
    in the main thread, as asyncio.run and pytest do.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @classmethod
    async def start(cls, program: Path, arguments: Sequence[str], log: Path) -> Self:
        """Run *program*; its stdout and stderr go to *log*.

        Raises: ControlPlaneError when the program cannot be run.
        """
        with log.open("wb") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    program,
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # Empty: etcd refuses to start when a variable contradicts a flag.
                    env={},
                    # Control-C in a terminal must reach only us, who stop servers in order.
                    start_new_session=True,
                    preexec_fn=partial(_die_with, os.getpid()),
                )
            except OSError as error:
                raise ControlPlaneError(f"cannot run {program}: {error.strerror}") from error
        return cls(program.name, process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def tail(self, lines: int = 20) -> str:
        """Return the last *lines* of the output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    async def stop(self, deadline: float) -> None:
        """Ask the process to end, and kill it when it has not after *deadline* seconds."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), deadline)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Kill the process if it still runs, without waiting for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before that call.
    if os.getppid() != parent:
        os._exit(1)
