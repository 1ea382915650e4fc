"""One Connection: from its Secret to a line to the provider, what that offers, and the schemas.

Every Connection has a task of its own, so that a slow or dead provider holds up no other.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from kbind.apis import CONNECTIONS, SECRETS, Key
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.cluster.identity import identity
from kbind.cluster.kubeconfig import Credentials, parse
from kbind.cluster.reflector import Reflector
from kbind.conditions import Judgement, Status, judged
from kbind.cover import Coverage
from kbind.errors import (
    ClusterError,
    Forbidden,
    KbindError,
    KubeconfigInvalid,
    SchemaSourceError,
    ServerFailed,
    Throttled,
    Unauthorized,
)
from kbind.facts import Asked, Listing, PullPolicy, Source, UpdatePolicy, Wanted
from kbind.hooks import ExportedApi, SchemaSource
from kbind.konnector import status as statuses
from kbind.konnector.delivery import Delivery
from kbind.konnector.link import Delivered, Link, Policies
from kbind.konnector.reader import Reader
from kbind.konnector.shared import Shared
from kbind.words import DEFAULT_KEY, Condition, Reason

log = structlog.get_logger(__name__)

SOON = 0.1  # seconds that wakes are gathered for
LARGE = 65536  # bytes of a kubeconfig from which on it is read off the loop
FIRST_LOOK = 2.0  # seconds that a pass waits for the first sight of its Secret


class Stop(Exception):
    """The pass ends here: what its condition says of the Connection."""

    def __init__(self, condition: Condition, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.reason = reason
        self.message = message


class ConnectionRunner:
    """Runs passes over one Connection: when woken, and at every discovery interval."""

    def __init__(self, name: str, shared: Shared, on_change: Callable[[str], None]) -> None:
        self.name = name
        self._shared = shared
        self._on_change = on_change
        self._wake = asyncio.Event()
        self._delivery = Delivery(shared.consumer, shared.caches.crds, shared.book)
        self._secrets = Cache()
        self._secret_watch: Reflector | None = None
        self._secret_task: asyncio.Task[None] | None = None
        self._lost = False

    @property
    def link(self) -> Link | None:
        return self._shared.links.get(self.name)

    def wake(self) -> None:
        """Another pass is due; it discovers anew only when that is due as well."""
        self._wake.set()

    def lost(self) -> None:
        """The provider does not answer as it did when it was engaged."""
        self._lost = True
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                self._wake.clear()
                try:
                    await self._pass()
                except ClusterError as error:
                    log.warning("a pass over a connection failed", name=self.name, error=str(error))
                except Exception:
                    log.exception(
                        "a pass over a connection broke; please report it", name=self.name
                    )
                try:
                    async with asyncio.timeout(self._shared.settings.discovery_interval):
                        await self._wake.wait()
                    await asyncio.sleep(SOON)
                except TimeoutError:
                    pass
        finally:
            if self._secret_task is not None:
                self._secret_task.cancel()
            self._give_up()

    async def _pass(self) -> None:
        entry = self._shared.caches.connections.get(Key("", self.name))
        if entry is None:
            return
        connection = orjson.loads(entry.raw)
        stop: Stop | None = None
        try:
            await self._engage(connection)
        except Stop as met:
            stop = met
            if self.link is not None:
                self.link.ready = False
        self._on_change(self.name)
        await self._write(connection, judge(stop, self.link))

    async def _engage(self, connection: Mapping[str, Any]) -> None:
        """Raises Stop where the Connection cannot be Ready."""
        credentials = await self._credentials(connection["spec"]["kubeconfigSecretRef"])
        link = await self._line(credentials)
        policies = _policies(connection)
        now = asyncio.get_running_loop().time()
        interval = self._shared.settings.discovery_interval
        age = None if link.discovered_at is None else now - link.discovered_at
        if self._lost or link.asked != policies.source or age is None or age >= interval - SOON:
            self._lost = False
            link.discovered_at = None  # until it has answered, every pass asks again
            await self._identify(link, connection)
            await self._discover(link, policies)
            link.discovered_at = now
        link.ready = True
        await self._deliver(link, policies)

    # --- the Secret, and the line it opens ---------------------------------------------------

    async def _credentials(self, reference: Mapping[str, str]) -> Credentials:
        key = Key(reference["namespace"], reference["name"])
        watch = self._watch_secret(key)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK):
                await watch.synced.wait()
        if not watch.synced.is_set():
            reason = Reason.FORBIDDEN if isinstance(watch.error, Forbidden) else Reason.PENDING
            message = str(watch.error or f"Secret {key} is being looked up")
            raise Stop(Condition.SECRET_VALID, reason, message)
        entry = self._secrets.get(key)
        if entry is None:
            message = f"Secret {key} does not exist"
            raise Stop(Condition.SECRET_VALID, Reason.SECRET_NOT_FOUND, message)
        name = reference.get("key") or DEFAULT_KEY
        data = orjson.loads(entry.raw).get("data") or {}
        if name not in data:
            message = f"Secret {key} has no key {name!r}"
            raise Stop(Condition.SECRET_VALID, Reason.SECRET_INVALID, message)
        try:
            kubeconfig = base64.b64decode(data[name], validate=True)
            # Reading YAML takes long where there is much of it.
            if len(kubeconfig) > LARGE:
                return await asyncio.to_thread(parse, kubeconfig)
            return parse(kubeconfig)
        except (KubeconfigInvalid, binascii.Error) as error:
            message = f"Secret {key}, key {name!r}: {error}"
            raise Stop(Condition.SECRET_VALID, Reason.SECRET_INVALID, message) from error

    def _watch_secret(self, key: Key) -> Reflector:
        # The reference is immutable, so that one watch serves for the Connection's life.
        if self._secret_watch is None:
            self._secret_watch = Reflector(
                self._shared.consumer,
                SECRETS.collection(key.namespace),
                self._secrets,
                field_selector=f"metadata.name={key.name}",
                on_change=lambda _: self.wake(),
                on_state=self.wake,
            )
            self._secret_task = asyncio.create_task(self._secret_watch.run())
        return self._secret_watch

    async def _line(self, credentials: Credentials) -> Link:
        link = self.link
        if link is not None and link.credentials == credentials:
            return link
        self._give_up()
        try:
            transport = await self._shared.connect(credentials)
        except KbindError as error:
            raise Stop(Condition.SECRET_VALID, Reason.SECRET_INVALID, str(error)) from error
        link = Link(self.name, credentials, Client(transport, side="provider"))
        self._shared.links[self.name] = link
        return link

    def _give_up(self) -> None:
        link = self._shared.links.pop(self.name, None)
        if link is not None:
            link.ready = False
            self._shared.retired.append(link.client)
            self._on_change(self.name)

    async def _identify(self, link: Link, connection: Mapping[str, Any]) -> None:
        try:
            link.remote = await identity(link.client)
        except Forbidden as error:
            raise Stop(Condition.PERMISSION_DENIED, Reason.FORBIDDEN, str(error)) from error
        except ClusterError as error:
            reason = Reason.UNAUTHORIZED if isinstance(error, Unauthorized) else Reason.UNREACHABLE
            raise Stop(Condition.CONNECTED, reason, str(error)) from error
        if link.remote == self._shared.cluster:
            raise Stop(
                Condition.READY,
                Reason.SAME_CLUSTER,
                "the kubeconfig leads back to this very cluster; name a provider's instead",
            )
        status = connection.get("status") or {}
        for side, field, seen in (
            ("provider", "remoteClusterUID", link.remote),
            ("consumer", "localClusterUID", self._shared.cluster),
        ):
            pinned = status.get(field)
            if pinned and pinned != seen:
                raise Stop(
                    Condition.READY,
                    Reason.CLUSTER_IDENTITY_CHANGED,
                    f"the {side} cluster is {seen}, this Connection was made with {pinned}; "
                    "create another Connection for another cluster",
                )

    # --- what the provider offers ------------------------------------------------------------

    async def _discover(self, link: Link, policies: Policies) -> None:
        """Sets ``link.source`` and ``link.exports``. What cannot be read shrinks nothing."""
        asked = Asked(policies.source) if policies.source in set(Asked) else Asked.OTHER
        facts = {"asked": str(asked), "listing": str(Listing.UNREAD)}
        decision = self._shared.book.decide("source", facts)
        error: ClusterError | SchemaSourceError | None = None
        exports: list[ExportedApi] = []
        name = policies.source
        if decision.verdict == Source.LIST:
            name = str(Asked.CRD)
            source = self._source(link, policies, name)
            exports, listing, error = await _list(source)
            decision = self._shared.book.decide("source", facts | {"listing": str(listing)})
        if decision.verdict == Source.AS_ASKED:
            source = self._source(link, policies, name)
            exports, _, error = await _list(source)
        link.note = ""
        if isinstance(error, ServerFailed | Throttled | SchemaSourceError) and link.exports:
            link.note = f"discovery failed, what was known stands: {error}"
            return
        if error is not None:
            denied = isinstance(error, Forbidden)
            raise Stop(
                Condition.PERMISSION_DENIED if denied else Condition.READY,
                Reason.FORBIDDEN if denied else Reason.SCHEMA_SOURCE_FAILED,
                f"schema source {name}: {error}",
            )
        link.asked, link.source, link.source_name = policies.source, source, name
        link.exports = {api.name: api for api in exports}

    def _source(self, link: Link, policies: Policies, name: str) -> SchemaSource:
        if link.source is not None and link.source_name == name:
            return link.source
        factory = self._shared.sources.get(name)
        if factory is None:
            known = ", ".join(sorted({*self._shared.sources, Asked.AUTO}))
            message = f"there is no schema source {name!r}; known here: {known}"
            raise Stop(Condition.READY, Reason.UNKNOWN_SCHEMA_SOURCE, message)
        return factory(Reader(link.client))

    async def _deliver(self, link: Link, policies: Policies) -> None:
        exports = link.exports or {}
        coverage = self._shared.coverage()
        for api in sorted(coverage.apis(self.name) | exports.keys()):
            export = exports.get(api)
            if export is None:
                message = f"the provider does not export {api}"
                link.delivered[api] = Delivered(Reason.API_NOT_EXPORTED, message)
                continue
            wanted = _wanted(coverage, self.name, export)
            if wanted is Wanted.EXPORTED and policies.pull is not PullPolicy.ALL:
                link.delivered.pop(api, None)
                link.memo.pop(api, None)
                continue
            try:
                link.delivered[api] = await self._delivery.deliver(link, export, policies, wanted)
            except (ClusterError, SchemaSourceError) as error:
                link.delivered[api] = Delivered(Reason.SCHEMA_SOURCE_FAILED, str(error))
            if link.delivered[api].reason == Reason.PENDING:
                self.wake()

    # --- what the Connection says of itself --------------------------------------------------

    async def _write(self, connection: Mapping[str, Any], judgements: list[Judgement]) -> None:
        standing = connection.get("status") or {}
        status = dict(standing)
        link = self.link
        status.setdefault("localClusterUID", self._shared.cluster)
        if link is not None and link.ready:
            status.setdefault("remoteClusterUID", link.remote)
            status["activeSchemaSource"] = link.source_name
            status["exportedAPIs"] = [api.as_json() for api in (link.exports or {}).values()]
        generation = connection["metadata"].get("generation", 1)
        status["observedGeneration"] = generation
        status["conditions"] = judged(
            judgements,
            standing.get("conditions") or (),
            generation=generation,
            now=self._shared.timestamp(),
        )
        await statuses.write(
            self._shared.consumer,
            CONNECTIONS,
            self._shared.caches.connections,
            connection,
            status,
        )
        self._on_change(self.name)


def _policies(connection: Mapping[str, Any]) -> Policies:
    schema = connection["spec"].get("schema") or {}
    return Policies(
        schema.get("source", str(Asked.AUTO)),
        PullPolicy(schema.get("pullPolicy", PullPolicy.BOUND)),
        UpdatePolicy(schema.get("updatePolicy", UpdatePolicy.ALWAYS)),
    )


def _wanted(coverage: Coverage, connection: str, export: ExportedApi) -> Wanted:
    for bound in coverage.listing(export.name):
        # A Binding cannot bind a cluster-scoped API.
        fits = export.scope == "Namespaced" or bound.ref.kind == "ClusterBinding"
        if fits and bound.connection == connection:
            return Wanted.BOUND
    return Wanted.EXPORTED


async def _list(
    source: SchemaSource,
) -> tuple[list[ExportedApi], Listing, ClusterError | SchemaSourceError | None]:
    try:
        exports = list(await source.exports())
    except Forbidden as error:
        return [], Listing.FORBIDDEN, error
    except (ClusterError, SchemaSourceError) as error:
        return [], Listing.FAILED, error
    return exports, Listing.EXPORTS if exports else Listing.EMPTY, None


def _source_note(link: Link) -> str:
    if link.note:
        return link.note
    if link.asked == Asked.AUTO:
        return f"schema source Auto uses {link.source_name}"
    return ""


_ORDER = (
    Condition.SECRET_VALID,
    Condition.CONNECTED,
    Condition.PERMISSION_DENIED,
    Condition.READY,
)


def judge(stop: Stop | None, link: Link | None) -> list[Judgement]:
    """The conditions of a Connection. Those before the one that stopped the pass are well,
    those behind it unknown; Ready repeats why."""
    met = len(_ORDER) if stop is None else _ORDER.index(stop.condition)
    judgements = []
    for place, condition in enumerate(_ORDER[:-1]):
        well: Status = "False" if condition is Condition.PERMISSION_DENIED else "True"
        if stop is not None and place == met:
            ill: Status = "True" if condition is Condition.PERMISSION_DENIED else "False"
            judgements.append(Judgement(condition, ill, stop.reason, stop.message))
        elif place < met:
            judgements.append(Judgement(condition, well, Reason.AS_EXPECTED))
        else:
            judgements.append(Judgement(condition, "Unknown", Reason.PENDING))
    if stop is not None:
        ready = Judgement(Condition.READY, "False", stop.reason, stop.message)
    else:
        note = "" if link is None else _source_note(link)
        ready = Judgement(Condition.READY, "True", Reason.AS_EXPECTED, note)
    return [*judgements, ready]
