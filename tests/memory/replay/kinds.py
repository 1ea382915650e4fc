"""Built-in kinds and CRDs."""

from __future__ import annotations

from tests.memory.replay.player import (
    AGGREGATED,
    CRDS,
    JSON_PATCH,
    MERGE_PATCH,
    WIDGET_SCHEMA,
    Json,
    Player,
    crd,
)


async def definitions(player: Player, group: str) -> str:
    send = player.send
    widgets = f"/apis/{group}/v1/namespaces/{player.run}/widgets"
    await send("api not served", "GET", widgets)
    definition = crd(group, "widgets", "Widget", WIDGET_SCHEMA)
    await send("crd created", "POST", CRDS, definition)
    await send("crd twice", "POST", CRDS, definition)
    await player.until_served(widgets)
    await player.settle()
    await send("crd established", "GET", f"{CRDS}/widgets.{group}")
    await send("group", "GET", f"/apis/{group}")
    await send("group version", "GET", f"/apis/{group}/v1")
    await _discovery(player, group)
    await send("other version", "GET", f"/apis/{group}/v2")
    await send("no such path", "GET", "/nowhere")
    await send("no such subresource", "GET", f"{widgets}/a/scale")
    return widgets


async def _discovery(player: Player, group: str) -> None:
    """Of the whole only what both kinds of cluster serve is compared."""
    whole = await player.send("", "GET", "/apis", accept=f"{AGGREGATED},application/json")
    named = {item["metadata"]["name"]: item for item in whole["items"]}
    for name in (group, "apiextensions.k8s.io"):
        title = "own" if name == group else name
        player.answers.append((f"aggregated {title}", named[name]))
    core = await player.send("", "GET", "/api", accept=AGGREGATED)
    item = core["items"][0]
    resources = item["versions"][0].pop("resources")
    player.answers.append(("aggregated core", {**core, "items": [item]}))
    for resource in resources:
        if resource["resource"] in ("secrets", "configmaps", "events"):
            player.answers.append((f"aggregated {resource['resource']}", resource))
    plain = await player.send("", "GET", "/apis")
    groups = [entry for entry in plain["groups"] if entry["name"] == group]
    player.answers.append(("plain groups", groups))
    listed = await player.send("", "GET", "/api/v1")
    for entry in listed["resources"]:
        if entry["name"] in ("secrets", "configmaps", "events", "namespaces", "namespaces/status"):
            player.answers.append((f"listed {entry['name']}", entry))


async def builtins(player: Player) -> None:
    send, apply = player.send, player.apply
    secrets = f"/api/v1/namespaces/{player.run}/secrets"
    maps = f"/api/v1/namespaces/{player.run}/configmaps"
    secret: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await send(
        "secret", "POST", secrets, {**secret, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    )
    await send(
        "secret merge",
        "PATCH",
        f"{secrets}/s",
        {"stringData": {"a": "z"}, "data": {"c": None}},
        MERGE_PATCH,
    )
    await send("secret type", "PATCH", f"{secrets}/s", {"type": "kubernetes.io/tls"}, MERGE_PATCH)
    await send(
        "secret not base64", "PATCH", f"{secrets}/s", {"data": {"c": "?"}}, MERGE_PATCH, words=False
    )
    await apply(
        "secret apply",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "data": {"a": "ZA=="}},
        "one",
    )
    await apply(
        "secret apply text",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "stringData": {"b": "x"}},
        "one",
    )
    await apply(
        "secret apply unknown",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "bogus": 1},
        "one",
    )
    await apply(
        "tls without keys",
        f"{secrets}/u",
        {**secret, "metadata": {"name": "u"}, "type": "kubernetes.io/tls"},
        "one",
    )
    await send(
        "secret empty",
        "PATCH",
        f"{secrets}/s",
        [{"op": "replace", "path": "/data", "value": {}}],
        JSON_PATCH,
    )
    await send("secrets", "GET", secrets, fieldSelector="metadata.name=s")
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await send("config", "POST", maps, {**config, "data": {"a": "b"}, "immutable": True, "odd": 1})
    await send("config immutable", "PATCH", f"{maps}/c", {"data": {"a": "c"}}, MERGE_PATCH)
    await send("config mutable", "PATCH", f"{maps}/c", {"immutable": False}, MERGE_PATCH)
    await send(
        "config labels", "PATCH", f"{maps}/c", {"metadata": {"labels": {"x": "y"}}}, MERGE_PATCH
    )
    await send(
        "config wrong",
        "POST",
        maps,
        {**config, "metadata": {"name": "d"}, "data": {"a": 1}},
        words=False,
    )
    await send(
        "config bad key", "POST", maps, {**config, "metadata": {"name": "d"}, "data": {"a b": "1"}}
    )
    bare = {"metadata": {"name": "bare"}, "data": {"x": ""}}
    made = await send("config without type", "POST", maps, bare)
    del made["metadata"]["resourceVersion"]
    await send("config put", "PUT", f"{maps}/bare", {**made, "data": {"x": "2"}})
    await send("config empty", "PUT", f"{maps}/bare", {**made, "data": {}})
    await send("delete config", "DELETE", f"{maps}/c")
    await send(
        "event",
        "POST",
        f"/api/v1/namespaces/{player.run}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "reason": "R",
            "message": "m",
            "type": "Warning",
            "count": 1,
            "involvedObject": {"kind": "Widget", "name": "a", "namespace": player.run},
            "source": {"component": "k"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    await send(
        "event elsewhere",
        "POST",
        f"/api/v1/namespaces/{player.run}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "f"},
            "involvedObject": {"kind": "Widget", "name": "a", "namespace": "other"},
        },
    )
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{player.run}/leases"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    made = await send("lease", "POST", leases, lease)
    other = {**lease, "metadata": {"name": "applied"}}
    await apply("lease applied", f"{leases}/applied", other, "one")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{player.run}-a"}}
    await apply("namespace applied", f"/api/v1/namespaces/{player.run}-a", space, "one")
    await send(
        "namespace labels",
        "PATCH",
        f"/api/v1/namespaces/{player.run}-a",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE_PATCH,
    )
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "message": "m",
        "involvedObject": {"kind": "Widget", "namespace": player.run},
    }
    await apply("event applied", f"/api/v1/namespaces/{player.run}/events/a", event, "one")
    held = {**config, "metadata": {"name": "held", "finalizers": ["x.io/y"]}}
    await send("", "POST", maps, held)
    await send("config going", "DELETE", f"{maps}/held")
    await send(
        "config let go", "PATCH", f"{maps}/held", {"metadata": {"finalizers": None}}, MERGE_PATCH
    )
    await send("", "POST", leases, {**lease, "metadata": {"name": "h", "finalizers": ["x.io/y"]}})
    await send("lease going", "DELETE", f"{leases}/h")
    await send("", "PATCH", f"{leases}/h", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    times = ("soon", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "", None)
    for number, time in enumerate((*times, "2026-01-01T02:00:00.123456+02:00")):
        body = {**lease, "metadata": {"name": f"t{number}"}, "spec": {"renewTime": time}}
        await send(f"lease at {time!r}", "POST", leases, body)
    made["spec"]["holderIdentity"] = "you"
    await send("lease put", "PUT", f"{leases}/l", made)
    await send("lease put stale", "PUT", f"{leases}/l", made)
    await send(
        "namespace",
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Bad_"}},
    )
    await send("immortal", "DELETE", "/api/v1/namespaces/kube-system")


async def more_definitions(player: Player, group: str) -> None:
    send = player.send
    plain = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = crd(group, "plains", "Plain", plain, status=False)
    plains_crd = f"{CRDS}/plains.{group}"
    await player.apply("crd applied", plains_crd, definition, "one")
    await player.settle()
    await player.settle()
    await player.apply("crd applied again", plains_crd, definition, "one")
    await player.apply(
        "crd conflict",
        plains_crd,
        {
            **definition,
            "spec": {
                **definition["spec"],
                "names": {
                    **definition["spec"]["names"],
                    "categories": ["all"],
                    "shortNames": ["pl"],
                },
            },
        },
        "two",
    )
    for _ in range(200):  # the names are accepted a moment after the answer
        seen = await send("", "GET", plains_crd)
        if seen["status"].get("acceptedNames", {}).get("categories") == ["all"]:
            break
        await player.settle()
    await send(
        "crd status by main", "PATCH", plains_crd, {"status": {"storedVersions": []}}, MERGE_PATCH
    )
    plains = f"/apis/{group}/v1/namespaces/{player.run}/plains"
    await player.until_served(plains)
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Plain",
        "metadata": {"name": "p"},
        "status": {"a": 1},
        "data": [1],
    }
    await send("without status subresource", "POST", plains, body)
    await send("status is a field", "PATCH", f"{plains}/p", {"status": {"b": 2}}, MERGE_PATCH)
    await send(
        "labels do not count",
        "PATCH",
        f"{plains}/p",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE_PATCH,
    )
    await send(
        "no status endpoint", "PATCH", f"{plains}/p/status", {"status": {"b": 2}}, MERGE_PATCH
    )
    await player.apply("apply free root", f"{plains}/p", {**body, "status": {"a": 2}}, "one")
    await player.apply(
        "apply free root forced", f"{plains}/p", {**body, "status": {"a": 2}}, "one", force="true"
    )
    taken = crd(group, "others", "Widget", plain)
    await send("", "POST", CRDS, taken)
    await player.settle()
    other = await send("", "GET", f"{CRDS}/others.{group}")
    player.answers.append(("kind taken", other["status"]))
    await send("", "DELETE", f"{CRDS}/others.{group}")
    protected = crd(f"{player.run}.k8s.io", "prots", "Prot", plain)
    await send("not approved", "POST", CRDS, protected)
    protected["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await send("", "POST", CRDS, protected)
    await player.settle()
    prot = await send("", "GET", f"{CRDS}/prots.{player.run}.k8s.io")
    player.answers.append(("unapproved", prot["status"]))
    await send("", "DELETE", f"{CRDS}/prots.{player.run}.k8s.io")
    await send(
        "crd bad name",
        "POST",
        CRDS,
        {**crd(group, "bads", "Bad", plain), "metadata": {"name": "x"}},
    )
    await send(
        "crd no type",
        "POST",
        CRDS,
        crd(group, "bads", "Bad", {"type": "object", "properties": {"spec": {}}}),
    )
    await send(
        "crd webhook left",
        "POST",
        CRDS,
        crd(
            group,
            "bads",
            "Bad",
            plain,
            conversion={
                "strategy": "None",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://x.y/z"},
                },
            },
        ),
    )
    await versions_of(player, group, plain)
    await crd_going(player, group, plains)


async def versions_of(player: Player, group: str, plain: Json) -> None:
    send = player.send
    old = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": plain},
    }
    new = {"name": "v1", "served": True, "storage": False, "schema": {"openAPIV3Schema": plain}}
    path = f"{CRDS}/moves.{group}"
    definition = crd(group, "moves", "Move", plain, versions=[old, new])
    await send("", "POST", CRDS, definition)
    moves = f"/apis/{group}/%s/namespaces/{player.run}/moves"
    await player.until_served(moves % "v1")
    body = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Move",
        "metadata": {"name": "m"},
        "spec": {"a": 1},
    }
    await send("created at alpha", "POST", moves % "v1alpha1", body)
    await send("read at v1", "GET", moves % "v1" + "/m")
    await player.apply(
        "applied at v1",
        moves % "v1" + "/m",
        {**body, "apiVersion": f"{group}/v1", "spec": {"b": 2}},
        "k",
    )
    await player.apply(
        "applied at alpha", moves % "v1alpha1" + "/m", {**body, "spec": {"c": 3}}, "k"
    )
    await send("group with two", "GET", f"/apis/{group}")
    await send("crd scope", "PATCH", path, {"spec": {"scope": "Cluster"}}, MERGE_PATCH)
    await send("crd kind", "PATCH", path, {"spec": {"names": {"kind": "Moved"}}}, MERGE_PATCH)
    await send(
        "crd stored dropped",
        "PATCH",
        path,
        {"spec": {"versions": [{**new, "storage": True}]}},
        MERGE_PATCH,
    )
    moved = [{**old, "storage": False, "served": False}, {**new, "storage": True}]
    patched = await send("", "PATCH", path, {"spec": {"versions": moved}}, MERGE_PATCH)
    player.answers.append(("stored versions", patched["status"]["storedVersions"]))
    await player.settle()
    await player.settle()
    await send("alpha not served", "GET", moves % "v1alpha1" + "/m")
    await send("v1 still there", "GET", moves % "v1" + "/m")
    await player.apply(
        "applied after move",
        moves % "v1" + "/m",
        {**body, "apiVersion": f"{group}/v1", "spec": {"d": 4}},
        "k",
    )


async def crd_going(player: Player, group: str, plains: str) -> None:
    send = player.send
    path = f"{CRDS}/plains.{group}"
    await send("", "PATCH", f"{plains}/p", {"metadata": {"finalizers": ["x.io/y"]}}, MERGE_PATCH)
    await send("crd deleted", "DELETE", path)
    await player.settle()
    await player.settle()
    held = await send("instance going", "GET", f"{plains}/p")
    assert held["metadata"].get("deletionTimestamp")
    body = {"apiVersion": f"{group}/v1", "kind": "Plain", "metadata": {"name": "q"}}
    await send("create while crd goes", "POST", plains, body)
    await send("release", "PATCH", f"{plains}/p", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    for _ in range(100):
        answer = await send("", "GET", path)
        if answer.get("code") == 404:
            break
        await player.settle()
    await send("crd gone", "GET", path)
    await player.settle()
    await send("api gone", "GET", plains)
