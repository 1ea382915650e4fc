"""What is raised when there is no real control plane to test on."""

from __future__ import annotations

from kbind.errors import KbindError


class ControlPlaneError(KbindError):
    """A control plane could not be built or started.

    output: the last lines of the program that failed, "" where it said nothing.
    """

    def __init__(self, message: str, *, hint: str | None = None, output: str = "") -> None:
        super().__init__(message, hint=hint)
        self.output = output

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.output}" if self.output else super().__str__()
