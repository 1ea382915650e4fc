"""The story, chapter by chapter: what is done, and what is promised to follow.

Reads like the manifests and commands that it stands for. Nothing here waits or prints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kbind import words
from kbind.apis import CRDS
from kbind.demo.stage import Promise, Stage, every, one
from kbind.manifests import documents
from kbind.steps import Side
from kbind.testing.handles import Object, condition, find_condition, new
from kbind.testing.running import binding, connection, connection_secret

DATABASES: Final = "databases.example.org"
API_VERSION: Final = "example.org/v1"
NAMESPACE: Final = "team-a"
RESTING: Final = 1.0  # seconds that the last chapter listens for writes

CONSUMER, PROVIDER = Side.CONSUMER, Side.PROVIDER


@dataclass(frozen=True, slots=True)
class Chapter:
    """acts: what people do; promises: what has to follow, in the order in which it is shown."""

    title: str
    about: str
    acts: Callable[[Stage], Awaitable[None]]
    promises: tuple[Promise, ...]


def database(name: str, **spec: Any) -> Object:
    """A Database, or a reference to one."""
    return new(API_VERSION, "Database", name, NAMESPACE, spec=spec)


def database_crd() -> Object:
    """What the provider offers."""
    file = Path(__file__).with_name("databases.yaml")
    crd: Object = next(documents(file.read_text(), file.name))
    return crd


def crd(name: str) -> Object:
    return new("apiextensions.k8s.io/v1", CRDS.kind, name)


ORDERS: Final = database("orders", engine="postgres", storage="20Gi")
REPORTS: Final = database("reports", engine="postgres")
FOREIGN: Final = database("reports", engine="mysql", storage="500Gi")
CONNECTION: Final = connection()
BINDING: Final = binding([DATABASES], NAMESPACE, name="databases")


# --- what is looked for --------------------------------------------------------------------


def annotation(obj: Object | None, name: str) -> str | None:
    """An annotation of an object that has to be there. Raises TypeError where it is not."""
    if obj is None:
        raise TypeError("nothing is there")
    value: str | None = obj["metadata"].get("annotations", {}).get(name)
    return value


def is_copy(obj: Object) -> bool:
    """Whether an object on the provider carries both markers."""
    return bool(annotation(obj, words.CLUSTER_UID) and annotation(obj, words.OBJECT_UID))


def has_spec(**spec: Any) -> Callable[[Object], bool]:
    return lambda obj: spec.items() <= obj["spec"].items()


def is_ready(obj: Object) -> bool:
    """Whether the operator's status is there, and of the spec as it is now."""
    status = obj["status"]
    return bool(status["phase"] == "Ready" and status["endpoint"] and condition(obj, "Ready"))


def untouched(obj: Object) -> bool:
    """Whether the foreign object is as its people made it: no marker, nothing of our manager."""
    managers = {entry["manager"] for entry in obj["metadata"]["managedFields"]}
    return not is_copy(obj) and words.MANAGER not in managers and has_spec(**FOREIGN["spec"])(obj)


def says_unsynced(obj: Object) -> bool:
    synced = find_condition(obj, words.Condition.SYNCED)
    return synced is not None and synced["status"] == "False"


def told(reason: str, type_: str) -> Callable[[list[Object]], bool]:
    """Whether an Event about REPORTS has that reason."""
    name = REPORTS["metadata"]["name"]
    return lambda events: any(
        (event["reason"], event["type"], event["involvedObject"]["name"]) == (reason, type_, name)
        for event in events
    )


def conflicts(count: int) -> Callable[[Object], bool]:
    """Whether the binding counts so many conflicts and says whether there are any."""

    def met(obj: Object) -> bool:
        (api,) = obj["status"]["boundAPIs"]
        status = "True" if count else "False"
        return api["conflictCount"] == count and condition(obj, words.Condition.CONFLICTS, status)

    return met


def gone(obj: Object | None) -> bool:
    return obj is None


# --- what is done --------------------------------------------------------------------------


async def offer(stage: Stage) -> None:
    hands = stage.you(PROVIDER, f'create CRD {DATABASES} with label {words.EXPORTED}: "true"')
    await hands.install_crd(database_crd())
    await stage.start_operator()


async def connect(stage: Stage) -> None:
    hands = stage.you(CONSUMER, "kbind crds | kubectl apply -f -")
    await hands.install_core()
    stage.you(CONSUMER, "start the konnector")
    await stage.start_konnector()
    hands = stage.you(CONSUMER, "create Secret kbind/provider-kubeconfig and Connection provider")
    await hands.namespace("kbind")
    await hands.create(connection_secret(stage.provider.cluster))
    await hands.create(CONNECTION)


async def bind(stage: Stage) -> None:
    hands = stage.you(CONSUMER, f"create Binding {NAMESPACE}/databases to {DATABASES}")
    await hands.namespace(NAMESPACE)
    await hands.create(BINDING)


async def create(stage: Stage) -> None:
    hands = stage.you(CONSUMER, f"create Database {NAMESPACE}/orders: postgres, 20Gi")
    await hands.create(ORDERS)


async def grow(stage: Stage) -> None:
    hands = stage.you(CONSUMER, f"set storage of Database {NAMESPACE}/orders to 50Gi")
    await hands.merge(ORDERS, {"spec": {"storage": "50Gi"}})


async def drift(stage: Stage) -> None:
    hands = stage.you(PROVIDER, f"set replicas of the copy {NAMESPACE}/orders to 3, by hand")
    await hands.merge(ORDERS, {"spec": {"replicas": 3}})


async def collide(stage: Stage) -> None:
    hands = stage.you(PROVIDER, f"create Database {NAMESPACE}/reports: mysql, 500Gi, nobody's copy")
    await hands.create(FOREIGN)
    hands = stage.you(CONSUMER, f"create Database {NAMESPACE}/reports: postgres")
    await hands.create(REPORTS)


async def yield_(stage: Stage) -> None:
    hands = stage.you(PROVIDER, f"delete the foreign Database {NAMESPACE}/reports")
    await hands.delete(FOREIGN)


async def delete(stage: Stage) -> None:
    hands = stage.you(CONSUMER, f"delete Database {NAMESPACE}/orders")
    await hands.delete(ORDERS)


# --- the chapters --------------------------------------------------------------------------


class Rest:
    """Listens for writes while nobody does anything."""

    def __init__(self) -> None:
        self._before = 0
        self._stage: Stage | None = None

    async def acts(self, stage: Stage) -> None:
        stage.screen.act("you", CONSUMER, "do nothing for a second")
        self._stage, self._before = stage, stage.writes()
        await asyncio.sleep(RESTING)

    async def look(self, _: object) -> str:
        assert self._stage is not None
        return f"{self._stage.writes() - self._before} writes"


def chapters() -> tuple[Chapter, ...]:
    """The whole story. Told anew each time: the last chapter remembers."""
    rest = Rest()
    return (
        Chapter(
            "The provider offers an API",
            "Any CRD will do. One label on it is the whole offer.",
            offer,
            (
                Promise(
                    PROVIDER,
                    f"serves {DATABASES}, labelled for export",
                    one(crd(DATABASES)),
                    lambda obj: (
                        condition(obj, "Established")
                        and obj["metadata"]["labels"][words.EXPORTED] == words.TRUE
                    ),
                ),
            ),
        ),
        Chapter(
            "The consumer connects",
            "A Secret holds a kubeconfig for the provider, a Connection names the Secret. The "
            "konnector runs beside the consumer; the provider needs to know nothing of it.",
            connect,
            (
                Promise(
                    CONSUMER,
                    "Connection provider is Ready",
                    one(CONNECTION),
                    lambda obj: condition(obj, words.Condition.READY),
                ),
                Promise(
                    CONSUMER,
                    f"Connection provider lists {DATABASES} among what is exported",
                    one(CONNECTION),
                    lambda obj: DATABASES in [api["name"] for api in obj["status"]["exportedAPIs"]],
                ),
            ),
        ),
        Chapter(
            "A binding brings the API",
            "A Binding selects what is synced in one namespace, a ClusterBinding everywhere.",
            bind,
            (
                Promise(
                    CONSUMER,
                    f"serves {DATABASES}, marked as delivered through the Connection",
                    one(crd(DATABASES)),
                    lambda obj: (
                        condition(obj, "Established")
                        and annotation(obj, words.CONNECTION) == "provider"
                    ),
                ),
                Promise(
                    CONSUMER,
                    f"Binding {NAMESPACE}/databases is Ready and Synced",
                    one(BINDING),
                    lambda obj: (
                        condition(obj, words.Condition.READY)
                        and condition(obj, words.Condition.SYNCED)
                    ),
                ),
            ),
        ),
        Chapter(
            "An instance goes up, its status comes down",
            "The spec is the consumer's to say, the status the provider's.",
            create,
            (
                Promise(
                    PROVIDER,
                    f"Database {NAMESPACE}/orders has the instance's spec and both markers",
                    one(ORDERS),
                    lambda obj: is_copy(obj) and has_spec(**ORDERS["spec"])(obj),
                ),
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/orders has phase, endpoint and conditions",
                    one(ORDERS),
                    is_ready,
                ),
            ),
        ),
        Chapter(
            "A change goes up",
            "Only what differs is written, and only where it differs.",
            grow,
            (
                Promise(
                    PROVIDER,
                    f"Database {NAMESPACE}/orders has 50Gi",
                    one(ORDERS),
                    has_spec(storage="50Gi"),
                ),
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/orders is Ready again, with its new generation observed",
                    one(ORDERS),
                    lambda obj: is_ready(obj) and obj["status"]["observedGeneration"] > 1,
                ),
            ),
        ),
        Chapter(
            "Drift on the provider is repaired",
            "Somebody changes the copy by hand; the instance says otherwise, and it wins.",
            drift,
            (
                Promise(
                    PROVIDER,
                    f"Database {NAMESPACE}/orders has 1 replica again",
                    one(ORDERS),
                    has_spec(replicas=1, storage="50Gi"),
                ),
            ),
        ),
        Chapter(
            "A foreign object is refused",
            "The provider has an object of the same name that nobody marked. The binding does not "
            "ask to adopt it, so it is left alone, and the instance says so in three places.",
            collide,
            (
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/reports carries the annotation {words.CONFLICT}",
                    one(REPORTS),
                    lambda obj: annotation(obj, words.CONFLICT),
                ),
                Promise(
                    CONSUMER,
                    f"a Warning Event says {words.Reason.FOREIGN_OBJECT_EXISTS}",
                    every("v1", "Event"),
                    told(words.Reason.FOREIGN_OBJECT_EXISTS, "Warning"),
                ),
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/reports has the condition Synced=False",
                    one(REPORTS),
                    says_unsynced,
                ),
                Promise(
                    CONSUMER,
                    f"Binding {NAMESPACE}/databases counts 1 conflict",
                    one(BINDING),
                    conflicts(1),
                ),
                Promise(
                    PROVIDER,
                    f"the foreign Database {NAMESPACE}/reports is untouched",
                    one(FOREIGN),
                    untouched,
                ),
            ),
        ),
        Chapter(
            "The refusal heals",
            "A refused name is looked at again every 30 seconds; here every second, so that nobody "
            "has to wait.",
            yield_,
            (
                Promise(
                    PROVIDER,
                    f"Database {NAMESPACE}/reports is now the instance's copy",
                    one(REPORTS),
                    lambda obj: is_copy(obj) and has_spec(**REPORTS["spec"])(obj),
                ),
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/reports is Ready, without annotation and Synced=False",
                    one(REPORTS),
                    lambda obj: (
                        is_ready(obj)
                        and not annotation(obj, words.CONFLICT)
                        and not says_unsynced(obj)
                    ),
                ),
                Promise(
                    CONSUMER,
                    f"an Event says {words.Reason.CONFLICT_RESOLVED}",
                    every("v1", "Event"),
                    told(words.Reason.CONFLICT_RESOLVED, "Normal"),
                ),
                Promise(
                    CONSUMER,
                    f"Binding {NAMESPACE}/databases counts 0 conflicts",
                    one(BINDING),
                    conflicts(0),
                ),
            ),
        ),
        Chapter(
            "Deletion drains",
            "The instance is held until its copy is gone; the operator's own finalizer holds the "
            "copy for a moment.",
            delete,
            (
                Promise(PROVIDER, f"Database {NAMESPACE}/orders is gone", one(ORDERS), gone),
                Promise(CONSUMER, f"Database {NAMESPACE}/orders is gone", one(ORDERS), gone),
                Promise(
                    CONSUMER,
                    f"Database {NAMESPACE}/reports is still Ready",
                    one(REPORTS),
                    is_ready,
                ),
            ),
        ),
        Chapter(
            "At rest nothing is written",
            "The watches stay open; what is already so is not written again.",
            rest.acts,
            (
                Promise(
                    CONSUMER,
                    "the konnector wrote to neither cluster, but for its heartbeat",
                    rest.look,
                    lambda seen: seen == "0 writes",
                ),
            ),
        ),
    )


def promised(story: Iterable[Chapter]) -> int:
    """How many outcomes a story has."""
    return sum(len(chapter.promises) for chapter in story)
