"""One Connection: from its Secret to a line to the provider, what that offers, and the schemas.

Every Connection has a task of its own, so that a slow or dead provider holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from kbind import keeping
from kbind.apis import CONNECTIONS, Key
from kbind.cluster.client import Client
from kbind.cluster.identity import identifier, uid_of
from kbind.cluster.kubeconfig import Credentials
from kbind.conditions import Judgement, judged
from kbind.cover import Coverage
from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    KbindError,
    SchemaSourceError,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kbind.facts import PullPolicy, Wanted
from kbind.hooks import ExportedApi
from kbind.keeping import is_going, is_kept
from kbind.konnector import status as statuses
from kbind.konnector.autobind import auto_bind
from kbind.konnector.delivery import Delivery
from kbind.konnector.discovery import discover, policies
from kbind.konnector.heartbeat import Heartbeat
from kbind.konnector.holding import hold
from kbind.konnector.judging import Stop, judge_ready, judge_stopped
from kbind.konnector.link import Link, Outcome, Policies
from kbind.konnector.secret import SecretWatch
from kbind.konnector.shared import Shared
from kbind.perform import send
from kbind.words import Condition, Reason

log = structlog.get_logger(__name__)

SOON = 0.1  # seconds that wakes are gathered for
BUDGET = 30.0  # seconds after which a pass begins no further delivery

# That the Secret cannot be read is another matter.
_NO_CREDENTIALS = (Reason.SECRET_NOT_FOUND, Reason.SECRET_INVALID)


class ConnectionRunner:
    """Runs passes over one Connection: when woken, and at every discovery interval."""

    def __init__(self, name: str, shared: Shared, on_change: Callable[[str], None]) -> None:
        self.name = name
        self._shared = shared
        self._on_change = on_change
        self._wake = asyncio.Event()
        self._delivery = Delivery(shared.consumer, shared.caches.crds, shared.book)
        self._secret: SecretWatch | None = None
        self._link: Link | None = None
        self._lost = False

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
                    log.warning("a connection's status was not written", error=str(error))
                except Exception:
                    log.exception("a pass over a connection broke; please report it")
                try:
                    async with asyncio.timeout(self._shared.settings.discovery_interval):
                        await self._wake.wait()
                    await asyncio.sleep(SOON)
                except TimeoutError:
                    pass
        finally:
            if self._secret is not None:
                self._secret.close()
            self._give_up()
            self._shared.bare.discard(self.name)

    async def _pass(self) -> None:
        entry = self._shared.caches.connections.get(Key("", self.name))
        if entry is None:
            return
        connection = orjson.loads(entry.raw)
        going = is_going(connection)
        held = Outcome(None)
        try:
            wanted = policies(connection)
            held = await self._hold(connection)
            if going and held.reason is None:
                return  # it is free to go
            link = await self._engage(connection, wanted, going=going)
            self._on_change(self.name)
            await link.heartbeat.passed()
            await self._ask(connection, link)
            judgements = judge_ready(link, wanted, paused=self._shared.holds(self.name))
        except Stop as stop:
            judgements = self._stopped(stop)
        except Exception as error:
            log.exception("a pass over a connection broke; please report it", name=self.name)
            message = f"{type(error).__name__}; the konnector's log has more"
            judgements = self._stopped(Stop(Condition.READY, Reason.INTERNAL_ERROR, message))
        if held.reason is not None:
            judgements[-1] = Judgement(Condition.READY, "False", held.reason, held.message)
        if judgements[-1].status == "Unknown" and (connection.get("status") or {}).get(
            "conditions"
        ):
            return  # still being found out, after a start: what stands is not a guess
        await self._write(connection, judgements)

    async def _ask(self, connection: Mapping[str, Any], link: Link) -> None:
        """One Event for each brake that holds something, however much that is by now."""
        link.told &= link.questions.keys()
        for api, text in link.questions.items():
            if api in link.told:
                continue
            call = keeping.braked(connection, text, self._shared.timestamp())
            try:
                await send(call, self._shared.consumer)
            except Conflict:
                pass  # said already
            except ClusterError as error:
                log.warning("an Event was not written", error=str(error))
                continue
            link.told.add(api)

    def _stopped(self, stop: Stop) -> list[Judgement]:
        self._shared.failed[self.name] = asyncio.get_running_loop().time()
        if self._link is not None:
            self._link.ready = False
            self._link.heartbeat.stop()
        if stop.condition is Condition.SECRET_VALID and stop.reason in _NO_CREDENTIALS:
            self._shared.bare.add(self.name)
        self._on_change(self.name)
        return judge_stopped(stop)

    async def _hold(self, connection: Mapping[str, Any]) -> Outcome:
        """Nothing is done before the Connection and its Secret are held. Raises Stop."""
        try:
            return await hold(self._shared, connection, await self._watched(connection).seen())
        except Forbidden as error:
            raise Stop(Condition.PERMISSION_DENIED, Reason.FORBIDDEN, str(error)) from error
        except ClusterError as error:
            if not is_kept(connection):
                raise Stop(Condition.READY, Reason.PENDING, str(error)) from error
            log.warning("a connection's finalizers were not written", error=str(error))
            return Outcome(Reason.PENDING, str(error)) if is_going(connection) else Outcome(None)

    def _watched(self, connection: Mapping[str, Any]) -> SecretWatch:
        if self._secret is None:
            reference = connection["spec"]["kubeconfigSecretRef"]
            self._secret = SecretWatch(self._shared.consumer, reference, self.wake)
        return self._secret

    async def _engage(
        self, connection: Mapping[str, Any], wanted: Policies, *, going: bool
    ) -> Link:
        """going: the line is kept in service and nothing new is begun. Raises Stop where the
        Connection cannot be Ready."""
        watched = self._watched(connection)
        link = await self._line(await watched.credentials())
        self._shared.bare.discard(self.name)
        link.parting = watched.parting
        now = asyncio.get_running_loop().time()
        interval = self._shared.settings.discovery_interval
        age = None if link.discovered_at is None else now - link.discovered_at
        just_seen = False
        if self._lost or link.asked != wanted.source or age is None or age >= interval - SOON:
            self._lost = False
            link.discovered_at = None  # until it has answered, every pass asks again
            await self._identify(link, connection)
            await discover(link, wanted.source, self._shared.book, self._shared.sources, now)
            link.discovered_at = now
            just_seen = True
        link.ready = True
        if going:
            return link
        link.auto_bound = await auto_bind(self._shared, connection, wanted.auto_bind, link)
        await self._deliver(link, wanted, just_seen=just_seen)
        return link

    # --- the line to the provider ------------------------------------------------------------

    async def _line(self, credentials: Credentials) -> Link:
        link = self._link
        if link is not None and link.credentials == credentials:
            return link
        self._give_up()
        try:
            transport = await self._shared.connect(credentials)
        except KbindError as error:
            raise Stop(Condition.SECRET_VALID, Reason.SECRET_INVALID, str(error)) from error
        client = Client(transport, side="provider")
        heartbeat = Heartbeat(
            client,
            self.name,
            self._shared.cluster,
            credentials.namespace,
            interval=self._shared.settings.heartbeat,
            now=self._shared.now,
            on_change=self.wake,
        )
        link = Link(self.name, credentials, client, heartbeat)
        self._link = self._shared.links[self.name] = link
        return link

    def _give_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.ready = False
            link.heartbeat.stop()
            if self._shared.links.get(self.name) is link:
                del self._shared.links[self.name]
            self._shared.retired.append(link.client)
            self._on_change(self.name)

    async def _identify(self, link: Link, connection: Mapping[str, Any]) -> None:
        try:
            link.identifier = await _identifier(link)
            link.remote = await uid_of(link.client, link.identifier)
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

    async def _deliver(self, link: Link, policy: Policies, *, just_seen: bool) -> None:
        """just_seen: the provider has answered in this very pass, so that a definition which does
        not come over is a matter of its own."""
        exports = link.exports or {}
        coverage = self._shared.coverage()
        names = coverage.apis(self.name) | exports.keys()
        failed = {
            name: turn
            for turn, (name, last) in enumerate(link.delivered.items())
            if last.reason == Reason.SCHEMA_SOURCE_FAILED
        }

        def place(name: str) -> tuple[int, tuple[str, ...]]:
            # What failed goes last, first what failed longest ago. By group, so that a source may
            # read what one has in common once.
            return failed.get(name, -1), name.partition(".")[::-1]

        loop = asyncio.get_running_loop()
        end = loop.time() + BUDGET
        for name in sorted(names, key=place):
            if loop.time() > end:
                if name not in failed:
                    self.wake()  # what else there is to do must not wait for slow definitions
                break
            wanted = self._wanted(coverage, name, exports.get(name))
            if wanted is Wanted.UNBOUND and policy.pull is not PullPolicy.ALL:
                link.delivered.pop(name, None)
                link.memo.pop(name, None)
                continue
            held = self._shared.holds(self.name)
            try:
                outcome = await self._delivery.deliver(link, name, policy, wanted, held)
            except (ClusterError, SchemaSourceError) as error:
                link.memo.pop(name, None)
                outcome = Outcome(Reason.SCHEMA_SOURCE_FAILED, f"{name}: {error}")
                link.delivered.pop(name, None)  # the last in line
                cut_off = isinstance(error, Unreachable | Unauthorized) and error.side == "provider"
                if cut_off and not just_seen:
                    link.delivered[name] = outcome
                    self.lost()  # it may be true of all the others too
                    break
            if outcome is None:
                outcome = Outcome(Reason.PENDING, f"CRD {name} changed meanwhile; trying again")
                self.wake()
            link.delivered[name] = outcome
        for gone in link.delivered.keys() - names:
            del link.delivered[gone]
            link.memo.pop(gone, None)

    def _wanted(self, coverage: Coverage, name: str, export: ExportedApi | None) -> Wanted:
        for bound in coverage.listing(name):
            # A Binding cannot bind a cluster-scoped API.
            fits = (
                export is None or export.scope == "Namespaced" or bound.ref.kind == "ClusterBinding"
            )
            # While a Connection is paused its bindings are not kept, and nothing is written.
            kept = bound.kept or self._shared.holds(self.name)
            suits = fits and bound.connection == self.name
            if kept and suits and not self._shared.holds_binding(bound):
                return Wanted.BOUND
        return Wanted.UNBOUND

    # --- what the Connection says of itself --------------------------------------------------

    async def _write(self, connection: Mapping[str, Any], judgements: list[Judgement]) -> None:
        standing = connection.get("status") or {}
        status = dict(standing)
        link = self._link
        status.setdefault("localClusterUID", self._shared.cluster)
        if link is not None and link.ready:
            status.setdefault("remoteClusterUID", link.remote)
            status["activeSchemaSource"] = link.source_name
            status["exportedAPIs"] = link.shown
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


async def _identifier(link: Link) -> str:
    """Where discovery is out of order, what the cluster is known by need not be."""
    try:
        return await identifier(link.client)
    except (ServerFailed, Throttled):
        if not link.identifier:
            raise
        return link.identifier
