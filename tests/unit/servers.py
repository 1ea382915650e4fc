"""Servers that answer as the test says, and note what they were sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kbind.errors import ClusterError
from kbind.steps import Side
from tests.unit.build import Object, copy, instance

Answer = Object | ClusterError | Callable[[Any], Object]


def failed(kind: type[ClusterError]) -> ClusterError:
    return kind("no", side="provider", verb="apply", path="/")


class Server:
    """Answers with what it was given, in turn; else with an object that has what was sent."""

    def __init__(self, side: Side, object: Object, *answers: Answer) -> None:
        self.side = side
        self.object = object
        self.answers = list(answers)
        self.seen: list[tuple[str, str, Any]] = []
        self.how: list[Any] = []

    def _answer(self, verb: str, path: str, sent: Any) -> bytes:
        self.seen.append((verb, path, sent))
        answer = self.answers.pop(0) if self.answers else self.object
        if isinstance(answer, ClusterError):
            raise answer
        return orjson.dumps(answer(sent) if callable(answer) else answer)

    async def get(self, path: str, **_: object) -> bytes:
        return self._answer("get", path, None)

    async def create(self, path: str, body: bytes) -> bytes:
        return self._answer("create", path, orjson.loads(body))

    async def replace(self, path: str, body: bytes) -> bytes:
        return self._answer("replace", path, orjson.loads(body))

    async def apply(self, path: str, body: bytes, *, manager: str, force: bool) -> bytes:
        self.how.append((manager, force))
        return self._answer("apply", path, orjson.loads(body))

    async def merge(self, path: str, body: bytes, *, manager: str) -> bytes:
        self.how.append(manager)
        return self._answer("merge", path, orjson.loads(body))

    async def patch(self, path: str, body: bytes, *, manager: str) -> bytes:
        self.how.append(manager)
        return self._answer("patch", path, orjson.loads(body))

    async def delete(self, path: str, *, uid: str | None) -> bytes:
        return self._answer("delete", path, uid)


def consumer(*answers: Answer) -> Server:
    return Server(Side.CONSUMER, instance(), *answers)


def provider(*answers: Answer) -> Server:
    return Server(Side.PROVIDER, copy(), *answers)
