"""What every cluster test is given."""

from __future__ import annotations

from dataclasses import dataclass

from kbind.testing.handles import Handle


@dataclass(frozen=True, slots=True)
class World:
    """A provider and two consumers, seen by an administrator. kind: memory or real."""

    kind: str
    provider: Handle
    consumer: Handle
    second: Handle

    @property
    def handles(self) -> tuple[Handle, ...]:
        return (self.provider, self.consumer, self.second)
