"""Who owns which fields: managedFields, and the two operations that change it.

A port in spirit of the server's field manager: an update moves ownership of what changed to
its manager, an apply merges, prunes what its manager states no longer, and meets conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbind.testing.memory import typed
from kbind.testing.memory.atoms import Atom
from kbind.testing.memory.fields import (
    OWN,
    FieldSet,
    decode,
    difference,
    encode,
    insert,
    intersection,
    paths,
    text,
    union,
    without,
)
from kbind.testing.memory.status import Refusal, internal

Json = dict[str, Any]

# The server keeps ten managers of updates at most and merges the oldest beyond that.
_MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"
_BEFORE_APPLY = "before-first-apply"


class Manager(NamedTuple):
    """version: "" for appliers, who keep their entry when they change the API version."""

    name: str
    operation: str
    version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Owned:
    version: str
    fields: FieldSet
    time: str | None


Managed = dict[Manager, Owned]


@dataclass(frozen=True, slots=True)
class Context:
    """What both operations need to know.

    atom_of: the type by apiVersion, None for versions that are not known (any more);
    empty: an object without content; reset: fields that this endpoint does not write;
    custom: defined by a CRD; now: the time to stamp.
    """

    kind: str
    group: str
    version: str
    subresource: str
    atom_of: Callable[[str], Atom | None]
    empty: Json
    reset: FieldSet
    custom: bool
    now: str

    @property
    def title(self) -> str:
        """Version and kind as the server's messages have them."""
        version = self.version if self.group else f"/{self.version}"
        return f"{version}, Kind={self.kind}"

    @property
    def atom(self) -> Atom:
        atom = self.atom_of(self.version)
        assert atom is not None
        return atom


def _stripped() -> FieldSet:
    fields: FieldSet = {}
    for path in ("apiVersion", "kind", "metadata"):
        insert(fields, (f"f:{path}",))
    for name in (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ):
        insert(fields, ("f:metadata", f"f:{name}"))
    return fields


_STRIPPED = _stripped()


def read(entries: list[Json] | None) -> Managed | None:
    """metadata.managedFields as a map, None where it is malformed."""
    managed: Managed = {}
    for entry in entries or ():
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in ("Apply", "Update") or not version:
            return None
        if entry.get("fieldsType") != "FieldsV1":
            return None
        manager = Manager(
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else version,
            entry.get("subresource", ""),
        )
        managed[manager] = Owned(version, decode(entry.get("fieldsV1") or {}), entry.get("time"))
    return managed


def write(managed: Managed) -> list[Json]:
    """As metadata.managedFields: appliers first, then by time and name."""
    entries = []
    for manager, owned in managed.items():
        entry: Json = {"manager": manager.name, "operation": manager.operation}
        entry["apiVersion"] = owned.version
        if owned.time is not None:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = encode(owned.fields)
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return sorted(
        entries,
        key=lambda entry: (
            entry["operation"],
            entry.get("time", ""),
            entry["manager"],
            entry["apiVersion"],
            entry.get("subresource", ""),
        ),
    )


def bare(obj: Json) -> Json:
    """*obj* without metadata.managedFields."""
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": rest}


def _with(obj: Json, managed: Managed) -> Json:
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = write(managed)
    return {**obj, "metadata": metadata}


def update(live: Json, new: Json, name: str, context: Context) -> Json:
    """*new* with the managedFields that a create or update by manager *name* leaves.

    live: {} when creating. Never fails: what cannot be typed keeps the former entries.
    """
    given = (new.get("metadata") or {}).get("managedFields")
    former = (live.get("metadata") or {}).get("managedFields")
    managed: Managed | None
    if context.subresource:
        managed = read(former) or {}
    elif given is not None and (not given or given == [{}]):
        managed = {}
    else:
        managed = read(given) or read(former) or {}
    new_bare, live_bare = bare(new), bare(live)
    if not managed and (live.get("metadata") or {}).get("uid"):
        # Somebody took managedFields away; it stays away until the next apply.
        return new_bare
    try:
        managed = _update(live_bare, new_bare, managed, name, context)
    except typed.Untypable:
        managed = read(former) or {}
    return _with(new, managed)


def _update(live: Json, new: Json, managed: Managed, name: str, context: Context) -> Managed:
    manager = Manager(name or "unknown", "Update", context.version, context.subresource)
    compared = typed.compare(context.atom, live, new)
    managed = _transfer(managed, None, live, new, compared, context)
    mine = union(compared.modified, compared.added)
    mine = difference(without(mine, context.reset), _STRIPPED)
    if mine:
        before = managed.get(manager)
        if before is not None:
            mine = union(mine, before.fields)
        managed[manager] = Owned(context.version, mine, context.now)
    return _capped(managed)


def _transfer(
    managed: Managed,
    acting: Manager | None,
    live: Json,
    new: Json,
    compared: typed.Comparison,
    context: Context,
    *,
    force: bool = True,
) -> Managed:
    """Takes what changed from every other manager. Raises Refusal on conflicts without force."""
    by_version = {context.version: compared}
    kept: Managed = {}
    conflicts: dict[Manager, FieldSet] = {}
    for manager, owned in managed.items():
        if manager == acting:
            kept[manager] = owned
            continue
        theirs = by_version.get(owned.version)
        if theirs is None:
            atom = context.atom_of(owned.version)
            if atom is None:
                if context.custom:
                    raise UnknownVersion(owned.version)
                continue
            theirs = by_version[owned.version] = typed.compare(atom, live, new)
        changed = without(union(theirs.modified, theirs.added), context.reset)
        lost = intersection(owned.fields, changed)
        if lost:
            conflicts[manager] = lost
        rest = difference(owned.fields, lost) if lost else owned.fields
        rest = difference(rest, without(theirs.removed, context.reset))
        if rest:
            kept[manager] = (
                owned if rest is owned.fields else Owned(owned.version, rest, owned.time)
            )
    if conflicts and not force:
        raise _conflict(conflicts, managed)
    return kept


def _capped(managed: Managed) -> Managed:
    updaters = [manager for manager in managed if manager.operation == "Update"]
    if len(updaters) <= _MOST_UPDATERS:
        return managed
    updaters.sort(key=lambda manager: (managed[manager].time or "", manager))
    capped = dict(managed)
    firsts: dict[str, Manager] = {}
    for manager in updaters:
        if sum(1 for entry in capped if entry.operation == "Update") <= _MOST_UPDATERS:
            break
        owned = capped[manager]
        bucket = Manager(_ANCIENT, "Update", owned.version, "")
        if owned.version in firsts:
            first = firsts[owned.version]
            if bucket not in capped:
                capped[bucket] = capped.pop(first)
            merged = union(owned.fields, capped[bucket].fields)
            del capped[manager]
            capped[bucket] = Owned(owned.version, merged, owned.time)
        else:
            firsts[owned.version] = manager
    return capped


def apply(live: Json, patch: Json, name: str, context: Context, *, force: bool) -> Json:
    """The object after an apply by manager *name*, with its managedFields.

    live: an object, or nothing but apiVersion and kind. Raises Refusal: 409 with the conflicts,
    500 for what cannot be merged.
    """
    former = (live.get("metadata") or {}).get("managedFields")
    managed = read(former) or {}
    live = bare(live)
    metadata = patch.get("metadata") or {}
    where = f"({metadata.get('namespace', '')}/{metadata.get('name', '')}; {context.title})"
    if not managed:
        empty = {**context.empty, "apiVersion": live["apiVersion"], "kind": live["kind"]}
        try:
            managed = _update(empty, live, {}, _BEFORE_APPLY, context)
        except typed.Untypable:
            there = live["metadata"]
            what = f"({there.get('namespace', '<unknown>')}/{there['name']}; {context.title})"
            what = f"failed to convert new object {what} to smd typed"
            what = f"failed to create manager for existing fields: {what}"
            _typed(context.atom, live, what, duplicates=True)
    _typed(context.atom, patch, f"failed to create typed patch object {where}", duplicates=False)
    managed = _reconciled(managed, context)
    try:
        return _apply(
            live, patch, managed, Manager(name, "Apply", "", context.subresource), context, force
        )
    except typed.Untypable as reason:
        # Of what is sent all has been checked, so it is what stands there.
        what = f"failed to create typed live object {where}"
        _typed(context.atom, live, what, duplicates=True)
        raise internal(f"{what}: {reason}") from None


def _apply(
    live: Json, patch: Json, managed: Managed, manager: Manager, context: Context, force: bool
) -> Json:
    merged = typed.merge(context.atom, live, patch)
    last = managed.get(manager)
    mine = without(typed.to_set(context.atom, patch), context.reset)
    managed[manager] = Owned(context.version, mine, last.time if last else None)
    if last is not None and difference(last.fields, mine):
        merged = _pruned(merged, managed, last, context)
    compared = typed.compare(context.atom, live, merged)
    managed = _transfer(managed, manager, live, merged, compared, context, force=force)
    changed = not typed.same(live, merged)
    mine = difference(mine, _STRIPPED)
    time = context.now if changed else managed[manager].time
    managed[manager] = Owned(context.version, mine, time)
    if not mine:
        del managed[manager]
    return _with(merged if changed else live, managed)


def _typed(atom: Atom, value: Json, what: str, *, duplicates: bool) -> None:
    complaints = typed.validate(atom, value, duplicates=duplicates)
    if complaints:
        listed = complaints[0]
        if len(complaints) > 1:
            listed = "\n".join(["errors:", *(f"  {complaint}" for complaint in complaints)])
        raise internal(f"{what}: {listed}")


class UnknownVersion(typed.Untypable):
    """managedFields of a custom resource name a version that its CRD does not have any more."""

    def __init__(self, version: str) -> None:
        super().__init__(f"request to convert CR to an invalid group/version: {version}")


def _reconciled(managed: Managed, context: Context) -> Managed:
    """Entries of versions that are not known any more are dropped from built-in kinds; a custom
    resource can then not be applied at all until they are taken away."""
    if context.custom:
        for owned in managed.values():
            if context.atom_of(owned.version) is None:
                raise internal(str(UnknownVersion(owned.version)))
    return {
        manager: owned
        for manager, owned in managed.items()
        if context.atom_of(owned.version) is not None
    }


def _pruned(merged: Json, managed: Managed, last: Owned, context: Context) -> Json:
    """Without what the applier stated last time, states no longer, and nobody else owns."""
    atom = context.atom_of(last.version)
    if atom is None:
        return merged
    stated = typed.with_named(atom, last.fields)
    pruned: Json = typed.remove(atom, merged, stated) or {}
    all_fields = typed.with_named(atom, typed.to_set(atom, merged))
    claimed: dict[str, FieldSet] = {}
    for owned in managed.values():
        claimed[owned.version] = union(claimed.get(owned.version, {}), owned.fields)
    ordered = sorted(claimed, key=lambda version: version != last.version)
    for version in ordered:
        there = context.atom_of(version)
        if there is None:
            continue
        every = typed.with_named(there, typed.to_set(there, merged))
        left = typed.with_named(there, typed.to_set(there, pruned))
        keep = union(left, typed.with_named(there, claimed[version]))
        pruned = typed.remove(there, merged, difference(every, keep)) or {}
    left = typed.with_named(atom, typed.to_set(atom, pruned))
    dangling = intersection(difference(all_fields, left), stated)
    return typed.remove(atom, merged, dangling) or {}


def _conflict(conflicts: dict[Manager, FieldSet], managed: Managed) -> Refusal:
    found = sorted(
        ((manager, text(path)) for manager, fields in conflicts.items() for path in paths(fields)),
        key=lambda pair: (pair[0], pair[1]),
    )

    def titled(manager: Manager) -> str:
        title = f'"{manager.name}"'
        if manager.subresource:
            title += f' with subresource "{manager.subresource}"'
        if manager.operation == "Update":
            title += f" using {manager.version}"
        return title

    if len(found) == 1:
        manager, path = found[0]
        listed = f"Apply failed with 1 conflict: conflict with {titled(manager)}: {path}"
    else:
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in found):
            lines.append(f"conflicts with {titled(manager)}:")
            lines += [f"- {path}" for other, path in found if other == manager]
        listed = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {titled(manager)}",
            "field": path,
        }
        for manager, path in found
    ]
    return Refusal(409, "Conflict", listed, {"causes": causes})


RESET_STATUS: FieldSet = {"f:status": {OWN: {}}}
RESET_ALL_BUT_STATUS: FieldSet = {"f:metadata": {OWN: {}}, "f:spec": {OWN: {}}}
