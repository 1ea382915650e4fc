"""The promises, as far as a model of them goes: what may be written when, and how it has to end.

The model knows what people asked for and what stands on both clusters, and nothing of how the
konnector decides. docs/unbinding.md and docs/api.md are what it was written from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kbind import keeping, words
from kbind.apis import Key
from kbind.pausing import is_paused
from kbind.testing.handles import Object, condition, find_condition, key
from tests.model.stage import Seen
from tests.model.tap import Write

LAG: Final = 2.0  # seconds after which news has reached the konnector, where it runs
RELEASED: Final = "an instance is let go only when its copy is gone, or need not be"
UNTOUCHED: Final = "what is not the instance's copy is not written on the provider"
COPIES: Final = "no copy is deleted while its instance lives and is bound"
HELD: Final = "nothing is written on the provider for an instance that is not held"
COVERED: Final = "nothing is written on the provider for what no binding covers"
ORPHANS: Final = "under Orphan the copy stays"
PAUSED: Final = "for what is paused nothing is written"
INSTANCES: Final = "instances are the consumer's own"
DEFINITIONS: Final = "a definition goes with the last ClusterBinding only, once nothing is held"
OWN: Final = "what people made is theirs to delete"
KEPT: Final = "bindings, Connections and their Secrets are held while they are used"
SYNCED: Final = "what is bound is synced"
ENDED: Final = "what was deleted goes"
UNDONE: Final = "what no binding covers is let go"
NAMED: Final = "copies that are given up are named in an Event"
STRAY: Final = "no copy is left without an instance"
REST: Final = "at rest nothing is written"
BUG: Final = "the konnector reports no bug of its own"


@dataclass(frozen=True, slots=True)
class Complaint:
    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"


class Broken(AssertionError):
    """A promise was broken."""

    def __init__(self, complaints: list[Complaint]) -> None:
        super().__init__("; ".join(str(complaint) for complaint in complaints))
        self.promise = complaints[0].promise


@dataclass(frozen=True, slots=True)
class World:
    """What people may know at one time. unreadable: whether the provider could not be asked;
    bare: whether there was nothing to ask it with."""

    seen: Seen
    unreadable: bool
    bare: bool


@dataclass(slots=True)
class Model:
    """patience, interval: seconds of silence until a provider counts as gone, and until the
    konnector has noticed that one is back. complaints: what was broken so far.

    remains: UIDs of instances whose copies may stay for ever; skipped: namespaces where a binding
    went while another one listed the API, so that nothing was undone. doomed: UIDs of definitions
    that have to go.
    """

    patience: float
    interval: float
    complaints: list[Complaint] = field(default_factory=list)
    remains: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    doomed: set[str] = field(default_factory=set)
    _overlapped: set[str] = field(default_factory=set)  # bindings that went beside a live one
    _past: list[World] = field(default_factory=list)
    _named: list[str] = field(default_factory=list)  # what Events say of copies that are left
    _unreadable: float | None = None  # since when
    _readable: float = 0.0  # since when, while it is

    def note(self, world: World) -> None:
        """After each move."""
        now = world.seen.time
        if world.unreadable or world.bare:
            if self._unreadable is None:
                self._unreadable = now
            self._readable = 0.0
        else:
            self._readable = self._readable or now
            if now - self._readable > self.interval + LAG:
                self._unreadable = None
        self._undone(world.seen)
        self._past = [*self._recent(now), world]

    def _undone(self, seen: Seen) -> None:
        before = self._past[-1].seen if self._past else seen
        standing = {uid(b) for b in seen.bindings}
        ended = [b for b in before.bindings if uid(b) not in standing]
        for ending in [*ended, *(b for b in seen.bindings if is_going(b))]:
            both = [*before.bindings, *seen.bindings]
            if any(uid(b) != uid(ending) and not is_going(b) for b in both):
                self.skipped.add(_scope(ending))
                self._overlapped.add(uid(ending))
        # Where nothing is left, nothing has to be excused.
        self.skipped = {s for s in self.skipped if any(_is_left(seen, s)) or _ends(seen, s)}
        for each in ended:
            if not _scope(each) and is_going(each) and uid(each) not in self._overlapped:
                self.doomed |= {uid(crd) for crd in before.crds}

    def _recent(self, now: float) -> list[World]:
        """What may be the newest that the konnector knows."""
        late = [world for world in self._past if world.seen.time >= now - LAG]
        older = [world for world in self._past if world.seen.time < now - LAG]
        return older[-1:] + late

    # --- one write -----------------------------------------------------------------------------

    def wrote(self, write: Write) -> None:
        for promise, what in self._judge(write):
            self.complaints.append(Complaint(promise, f"{write}: {what}"))

    def _judge(self, write: Write) -> Iterator[tuple[str, str]]:
        known = self._recent(write.time)
        if write.resource == "events":
            if write.after is not None and write.after["reason"] == words.Reason.COPIES_LEFT:
                self._named.append(write.after["message"])
            return
        if write.resource == "widgets":
            yield from self._paused(write, known)
            if write.side == "provider":
                yield from self._on_copy(write, known)
            else:
                yield from self._on_instance(write, known)
        elif write.method == "DELETE" and write.resource == "customresourcedefinitions":
            yield from self._on_definition(write, known)
        elif write.method == "DELETE" and write.resource != "leases":
            yield OWN, "the konnector deleted it"
        elif write.side == "provider" and write.resource not in ("namespaces", "leases"):
            yield UNTOUCHED, "it is no business of kbind's"

    def _paused(self, write: Write, known: list[World]) -> Iterator[tuple[str, str]]:
        def paused(world: World) -> bool:
            covering = cover(world.seen, write.key.namespace)
            instance = world.seen.instances.get(write.key)
            connections = world.seen.connections
            return any(is_paused(each) for each in (covering, instance, *connections) if each)

        if all(paused(world) for world in known):
            yield PAUSED, "it is paused"

    def _on_copy(self, write: Write, known: list[World]) -> Iterator[tuple[str, str]]:
        instance, copy, namespace = write.instance, write.copy, write.key.namespace
        markers = owner(copy)
        theirs = copy is not None and (instance is None or markers[1] != uid(instance))
        if write.method == "DELETE":
            if instance is None or theirs:
                yield UNTOUCHED, f"the object there is marked {markers}"
                return
            if not is_going(instance) and not any(undoing(w.seen, namespace) for w in known):
                yield COPIES, "the instance lives, and no binding of it is being undone"
            if all(is_orphan(w.seen.instances.get(write.key)) for w in known):
                yield ORPHANS, "the instance says Orphan"
            return
        if instance is None or words.SYNCER not in finalizers(instance):
            yield HELD, "the instance is not held"
            return
        if theirs:
            adopts = any(
                (cover(w.seen, namespace) or {"spec": {}})["spec"].get("conflictPolicy") == "Adopt"
                for w in known
            )
            if markers != ("", "") or not adopts:
                yield UNTOUCHED, f"the object there is marked {markers}"
        if all(is_going(w.seen.instances.get(write.key)) for w in known):
            yield COVERED, "the instance is being deleted"
        if all(cover(w.seen, namespace) is None for w in known):
            yield COVERED, "no binding covers it"

    def _on_instance(self, write: Write, known: list[World]) -> Iterator[tuple[str, str]]:
        before, after = write.instance, write.after
        if write.method == "DELETE":
            yield INSTANCES, "the konnector deleted it"
            return
        if before is None or after is None:
            yield INSTANCES, "the konnector made it"
            return
        if write.subresource:
            return
        if before.get("spec") != after.get("spec"):
            yield INSTANCES, "its spec was changed"
        ours = {words.SYNCER}
        if set(finalizers(before)) - ours != set(finalizers(after)) - ours:
            yield INSTANCES, "finalizers of others were changed"
        if words.SYNCER in finalizers(before) and words.SYNCER not in finalizers(after):
            yield from self._on_release(write, before, known)
        elif is_going(before) and words.SYNCER in set(finalizers(after)) - set(finalizers(before)):
            yield INSTANCES, "it was held though it is being deleted"

    def _on_release(
        self, write: Write, instance: Object, known: list[World]
    ) -> Iterator[tuple[str, str]]:
        copy = write.copy
        if copy is None or owner(copy)[1] != uid(instance):
            return
        unbound = any(undoing(w.seen, write.key.namespace) for w in known)
        if is_going(copy) and unbound and not is_going(instance):
            return
        orphan = any(is_orphan(w.seen.instances.get(write.key)) for w in known)
        if orphan or self._abandoned(write, known):
            self.remains.add(uid(instance))
            silenced = any(is_going(n) for w in known for n in w.seen.namespaces)
            if not (orphan or silenced or any(str(write.key) in text for text in self._named)):
                yield NAMED, "no Event names it"
            return
        yield RELEASED, f"its copy stands there, {'going' if is_going(copy) else 'untouched'}"

    def _abandoned(self, write: Write, known: list[World]) -> bool:
        """Whether a binding may give up its instances: nothing to ask with, or long silence."""
        if not any(undoing(w.seen, write.key.namespace) for w in known):
            return False
        silent = self._unreadable is not None
        lasting = silent and write.time - (self._unreadable or 0.0) >= self.patience - LAG
        return lasting or any(w.bare for w in known)

    def _on_definition(self, write: Write, known: list[World]) -> Iterator[tuple[str, str]]:
        def meant(seen: Seen) -> bool:
            going = [b for b in seen.bindings if is_going(b)]
            lives = [b for b in seen.bindings if not is_going(b)]
            return not lives and any(b["kind"] == "ClusterBinding" for b in going)

        if not any(meant(world.seen) for world in known):
            yield DEFINITIONS, "no last ClusterBinding is being deleted"

    # --- the end -------------------------------------------------------------------------------

    def wrong(self, seen: Seen) -> list[Complaint]:
        """What is not as it has to be once all is well and everything had its time."""
        return [Complaint(promise, what) for promise, what in self._wrong(seen)]

    def _wrong(self, seen: Seen) -> Iterator[tuple[str, str]]:
        connected = bool(seen.connections)
        lives = [b for b in seen.bindings if not is_going(b)]
        # One that a binding left held waits for a Connection, and what it is in waits for it.
        waits = not connected and any(
            is_going(i) and self._excused(place.namespace) for place, i in seen.instances.items()
        )
        for each in [*seen.bindings, *([] if waits else [*seen.namespaces, *seen.crds])]:
            if is_going(each):
                yield ENDED, f"{each.get('kind')} {key(each)} is still there: {_says(each)}"
        for each in seen.crds:
            if uid(each) in self.doomed:
                yield DEFINITIONS, "the last ClusterBinding went, and its definition did not"
        for each in seen.connections:
            if is_going(each) and not lives:
                yield ENDED, f"Connection {key(each)} is still there: {_says(each)}"
        for each in seen.secrets:
            if is_going(each) and not connected:
                yield ENDED, f"Secret {key(each)} is still there"
        if any(not is_going(each) for each in seen.connections):
            for each in [*seen.connections, *seen.secrets, *lives]:
                if words.CLEANUP not in finalizers(each):
                    yield KEPT, f"{each.get('kind')} {key(each)} is not held"
        for binding in lives:
            # Through a Connection that is being deleted nothing new is begun.
            serves = any(not is_going(each) for each in seen.connections)
            if serves and not condition(binding, "Ready"):
                yield SYNCED, f"{binding['kind']} {key(binding)} is not Ready: {_says(binding)}"
        for place, instance in seen.instances.items():
            copy = seen.copies.get(place)
            if is_going(instance):
                if connected or not self._excused(place.namespace):
                    yield ENDED, f"widget {place} is still there: {_says(instance, 'Synced')}"
            elif cover(seen, place.namespace) is not None:
                if connected:
                    yield from self._bound(seen, place, instance, copy)
            else:
                yield from self._unbound(place, instance, copy)
        yield from self._strays(seen)

    def _bound(
        self, seen: Seen, place: Key, instance: Object, copy: Object | None
    ) -> Iterator[tuple[str, str]]:
        covering = cover(seen, place.namespace) or {}
        marked = _annotations(instance).get(words.CONFLICT)
        if copy is None:
            yield SYNCED, f"widget {place} has no copy"
        elif owner(copy)[1] == uid(instance):
            if copy.get("spec") != instance.get("spec"):
                yield SYNCED, f"widget {place} and its copy differ: {instance['spec']}"
            told = copy.get("status")
            if told and instance.get("status") != told:
                yield SYNCED, f"widget {place} does not show {told}: {instance.get('status')}"
            if words.SYNCER not in finalizers(instance):
                yield HELD, f"widget {place} has a copy and is not held"
            if marked:
                yield SYNCED, f"widget {place} is marked though its copy is its own: {marked}"
        elif owner(copy) == ("", "") and covering["spec"].get("conflictPolicy") == "Adopt":
            yield SYNCED, f"widget {place} did not adopt what is there"
        elif not marked:
            yield SYNCED, f"widget {place} is not marked, and another object is there"

    def _unbound(
        self, place: Key, instance: Object, copy: Object | None
    ) -> Iterator[tuple[str, str]]:
        if self._excused(place.namespace):
            return
        if words.SYNCER in finalizers(instance):
            yield UNDONE, f"widget {place} is held"
        if words.CONFLICT in _annotations(instance):
            yield UNDONE, f"widget {place} is still marked"
        if condition(instance, "Synced", "False"):
            yield UNDONE, f"widget {place} still says {_says(instance, 'Synced')}"

    def _strays(self, seen: Seen) -> Iterator[tuple[str, str]]:
        held = {uid(i) for i in seen.instances.values() if words.SYNCER in finalizers(i)}
        for place, copy in seen.copies.items():
            of = "" if is_going(copy) else owner(copy)[1]
            if of and of not in held | self.remains:
                yield STRAY, f"the copy {place} of {of} is left"

    def _excused(self, namespace: str) -> bool:
        return bool({"", namespace} & self.skipped)


# --- what objects say ----------------------------------------------------------------------------


def cover(seen: Seen, namespace: str) -> Object | None:
    """The live binding that covers a namespace."""
    found = [b for b in seen.bindings if not is_going(b) and _scope(b) in ("", namespace)]
    return min(
        found,
        key=lambda b: (_scope(b) != "", b["metadata"]["creationTimestamp"], b["metadata"]["name"]),
        default=None,
    )


def undoing(seen: Seen, namespace: str) -> bool:
    """Whether a binding of that namespace is being deleted, and no other lists the API. Bindings in
    a namespace that is being deleted are, sooner or later."""
    lost = {n["metadata"]["name"] for n in seen.namespaces if is_going(n)}
    if any(not is_going(b) and _scope(b) not in lost for b in seen.bindings):
        return False
    return any(_scope(b) in ("", namespace) for b in seen.bindings)


def _ends(seen: Seen, scope: str) -> bool:
    return any(is_going(b) and _scope(b) == scope for b in seen.bindings)


def _is_left(seen: Seen, scope: str) -> Iterator[bool]:
    """For each instance of a scope, whether it shows that it was bound."""
    for place, instance in seen.instances.items():
        if scope in ("", place.namespace):
            yield words.SYNCER in finalizers(instance) or words.CONFLICT in _annotations(instance)


def _scope(binding: Mapping[str, object]) -> str:
    return key(binding).namespace


def is_going(obj: Object | None) -> bool:
    return obj is not None and keeping.is_going(obj)


def is_orphan(instance: Object | None) -> bool:
    return instance is not None and _annotations(instance).get(words.DELETION_POLICY) == "Orphan"


def owner(copy: Object | None) -> tuple[str, str]:
    """The two markers; "" for one that is missing."""
    found = {} if copy is None else _annotations(copy)
    return found.get(words.CLUSTER_UID, ""), found.get(words.OBJECT_UID, "")


def uid(obj: Object) -> str:
    value: str = obj["metadata"]["uid"]
    return value


def finalizers(obj: Object) -> list[str]:
    found: list[str] = obj["metadata"].get("finalizers") or []
    return found


def _annotations(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


def _says(obj: Object, type_: str = "Ready") -> str:
    found = find_condition(obj, type_) or {}
    return f"{found.get('reason')}: {found.get('message')}"
