from __future__ import annotations

import base64
import copy
import datetime
import time
from io import BytesIO
from typing import Any

import orjson
import pytest
import trustme
from ruamel.yaml import YAML

from kbind.cluster.kubeconfig import SIZE_LIMIT, Credentials, parse
from kbind.errors import KubeconfigInvalid

AUTHORITY = trustme.CA()
CA = AUTHORITY.cert_pem.bytes()
LEAF = AUTHORITY.issue_cert("client.example")
CERTIFICATE = LEAF.cert_chain_pems[0].bytes()
KEY = LEAF.private_key_pem.bytes()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(**changes: Any) -> dict[str, Any]:
    """Three contexts, the middle one current. changes: of its cluster, user and context, fields
    with ``_`` for ``-``; None takes a field away."""
    cluster = {
        "server": "https://p.example:6443/clusters/x/",
        "certificate-authority-data": b64(CA),
    }
    user = {"token": "s3cret"}
    context = {"cluster": "c1", "user": "u1", "namespace": "ours"}
    whole: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "one",
        "clusters": [
            {"name": "c0", "cluster": {"server": "http://ignored", "certificate-authority": "/x"}},
            {"name": "c1", "cluster": cluster},
        ],
        "users": [
            {"name": "u0", "user": {"exec": {"command": "rm"}}},
            {"name": "u1", "user": user},
        ],
        "contexts": [
            {"name": "zero", "context": {"cluster": "c0", "user": "u0", "namespace": "other"}},
            {"name": "one", "context": context},
            {"name": "two", "context": {"cluster": "c0", "user": "u0"}},
        ],
    }
    parts = {"cluster": cluster, "user": user, "context": context, "top": whole}
    for part, fields in changes.items():
        for name, value in fields.items():
            if value is None:
                parts[part].pop(name.replace("_", "-"), None)
            else:
                parts[part][name.replace("_", "-")] = value
    return whole


def dumped(whole: object) -> bytes:
    return orjson.dumps(whole)


def test_the_current_context_is_used_with_its_namespace() -> None:  # B04
    assert parse(dumped(config())) == Credentials(
        server="https://p.example:6443/clusters/x",
        ca=CA,
        server_name=None,
        insecure=False,
        proxy=None,
        token="s3cret",
        client_certificate=None,
        client_key=None,
        namespace="ours",
    )


def test_yaml_and_json_say_the_same() -> None:
    out = BytesIO()
    YAML().dump(config(), out)
    assert parse(out.getvalue()) == parse(dumped(config()))


def test_everything_that_is_accepted() -> None:
    whole = config(
        cluster={
            "certificate_authority_data": None,
            "tls_server_name": "api.internal",
            "insecure_skip_tls_verify": True,
            "proxy_url": "http://user:pw@proxy:3128",
            "extensions": [{"name": "x"}],
        },
        user={
            "token": " s3cret\n",
            "client_certificate_data": b64(CERTIFICATE),
            "client_key_data": b64(KEY),
            "username": "",
            "exec": None,
        },
    )
    found = parse(dumped(whole))
    assert found.ca is None
    assert (found.insecure, found.server_name) == (True, "api.internal")
    assert found.proxy == "http://user:pw@proxy:3128"
    assert (found.token, found.client_certificate, found.client_key) == ("s3cret", CERTIFICATE, KEY)


def test_a_context_without_a_user_is_anonymous() -> None:  # B04
    found = parse(dumped(config(context={"user": None})))
    assert (found.token, found.client_certificate) == (None, None)


def test_credentials_are_equal_where_they_amount_to_the_same() -> None:
    other = config(top={"preferences": {"colors": True}})
    assert parse(dumped(config())) == parse(dumped(other))
    assert hash(parse(dumped(config()))) == hash(parse(dumped(other)))
    assert parse(dumped(config())) != parse(dumped(config(user={"token": "new"})))


def test_no_secret_is_shown() -> None:
    whole = config(
        cluster={"proxy_url": "http://user:pw@proxy:3128"},
        user={"client_certificate_data": b64(CERTIFICATE), "client_key_data": b64(KEY)},
    )
    assert repr(parse(dumped(whole))) == (
        "<Credentials for https://p.example:6443/clusters/x: "
        "token, client certificate, proxy, own CA>"
    )


SERVER = "clusters[1].cluster.server"
SKIP = "clusters[1].cluster.insecure-skip-tls-verify"
DATA = "users[1].user.client-certificate-data"
KEY_DATA = "users[1].user.client-key-data"
CA_DATA = "clusters[1].cluster.certificate-authority-data"
ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        # B04
        ({"top": {"current_context": None}}, "current-context"),
        ({"top": {"current_context": ""}}, "current-context"),
        ({"top": {"current_context": "dangling"}}, "current-context"),
        ({"top": {"current_context": 7}}, "current-context"),
        ({"top": {"contexts": None}}, "current-context"),
        ({"top": {"kind": "Pod"}}, "kind"),
        ({"top": {"apiVersion": "v2"}}, "apiVersion"),
        ({"context": {"cluster": "dangling"}}, "contexts[1].context.cluster"),
        ({"context": {"cluster": None}}, "contexts[1].context.cluster"),
        ({"context": {"user": "dangling"}}, "contexts[1].context.user"),
        ({"context": {"namespace": 7}}, "contexts[1].context.namespace"),
        ({"context": {"namespaces": "x"}}, "contexts[1].context.namespaces"),
        ({"top": {"contexts": [{"name": "one", "context": "x"}]}}, "contexts[0].context"),
        ({"top": {"contexts": [{"name": "one", "context": {}}] * 2}}, "contexts"),
        # The server
        ({"cluster": {"server": None}}, SERVER),
        ({"cluster": {"server": "http://p.example"}}, SERVER),
        ({"cluster": {"server": "p.example:6443"}}, SERVER),
        ({"cluster": {"server": "https://"}}, SERVER),
        ({"cluster": {"server": "https://p.example:99999"}}, SERVER),
        ({"cluster": {"server": "https://p.example\n"}}, SERVER),
        ({"cluster": {"server": "https://u:s3cret@p.example"}}, SERVER),
        ({"cluster": {"server": "https://p.example?x=y"}}, SERVER),
        ({"cluster": {"proxy_url": "socks5://proxy"}}, "clusters[1].cluster.proxy-url"),
        ({"cluster": {"tls_server_name": 7}}, "clusters[1].cluster.tls-server-name"),
        # B02 c
        ({"cluster": {"insecure_skip_tls_verify": True}}, SKIP),
        ({"cluster": {"insecure_skip_tls_verify": "false"}}, SKIP),
        ({"cluster": {"insecure_skip_tls_verify": 0}}, SKIP),
        ({"cluster": {"certificate_authority_data": "%%%"}}, CA_DATA),
        ({"cluster": {"certificate_authority_data": b64(b"s3cret")}}, CA_DATA),
        ({"cluster": {"certificate_authority_data": b64(CA[:300])}}, CA_DATA),
        ({"cluster": {"certificate_authority_data": b64(b"\xff\xfe")}}, CA_DATA),
        (
            {"cluster": {"certificate_authority": "/ca"}},
            "clusters[1].cluster.certificate-authority",
        ),
        ({"cluster": {"disable_compression": True}}, "clusters[1].cluster.disable-compression"),
        # The user
        ({"user": {"exec": {"command": "s3cret"}}}, "users[1].user.exec"),
        ({"user": {"auth_provider": {"name": "gcp"}}}, "users[1].user.auth-provider"),
        ({"user": {"tokenFile": "/token"}}, "users[1].user.tokenFile"),
        ({"user": {"client_certificate": "/c"}}, "users[1].user.client-certificate"),
        ({"user": {"client_key": "/k"}}, "users[1].user.client-key"),
        ({"user": {"username": "u"}}, "users[1].user.username"),
        ({"user": {"password": "s3cret"}}, "users[1].user.password"),
        ({"user": {"as": "admin"}}, "users[1].user.as"),
        ({"user": {"as_groups": ["admins"]}}, "users[1].user.as-groups"),
        ({"user": {"token": 12345}}, "users[1].user.token"),
        ({"user": {"token": "s3cret\r\nX: y"}}, "users[1].user.token"),
        ({"user": {"client_certificate_data": b64(CERTIFICATE)}}, KEY_DATA),
        ({"user": {"client_key_data": b64(KEY)}}, DATA),
        ({"user": {"client_certificate_data": 5, "client_key_data": b64(KEY)}}, DATA),
        (
            {"user": {"client_certificate_data": b64(CERTIFICATE), "client_key_data": b64(CA)}},
            KEY_DATA,
        ),
        (
            {
                "user": {
                    "client_certificate_data": b64(CERTIFICATE),
                    "client_key_data": b64(ENCRYPTED),
                }
            },
            KEY_DATA,
        ),
    ],
)
def test_what_is_not_accepted_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(KubeconfigInvalid) as caught:
        parse(dumped(config(**copy.deepcopy(changes))))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"just words",
        b"a: b: c",
        b"\xff\xfe\x00",
        b"a: *x",
        b"a: =",
        b"{a: s3cret, a: s3cret}",
        b"!!python/object:os.system {}",
        b"a: 1\n---\nb: 2\n",
        b"[" * 1_000,
        b'"\\UFFFFFFFF"',
        b"a: !!bool x",
        b"- " * 5_000,
        b" " * (SIZE_LIMIT + 1),
    ],
    ids=range(15),
)
def test_what_cannot_be_read_is_said_without_quoting_it(data: bytes) -> None:
    with pytest.raises(KubeconfigInvalid) as caught:
        parse(data)
    assert caught.value.field == "kubeconfig"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("text", [b"[", b"{", b"- ", b"? ", b'{"a":'])
def test_what_is_nested_too_deep_is_refused_at_once(text: bytes) -> None:
    began = time.perf_counter()
    with pytest.raises(KubeconfigInvalid, match="nested too deep"):
        parse(text * 50_000)
    assert time.perf_counter() - began < 0.5


def test_brackets_that_are_closed_are_no_depth() -> None:
    extensions = [{"name": "a", "extension": {"x": "[{" * 40}}]
    many = [{"name": "b", "extension": [{"x": [[]]}] * 500}]
    out = BytesIO()
    YAML(typ="safe").dump(config(top={"extensions": [*extensions, *many]}), out)
    assert parse(out.getvalue()).token == "s3cret"


def test_yaml_values_that_json_does_not_know_are_no_strings() -> None:
    out = BytesIO()
    YAML().dump(config(user={"token": datetime.date(2030, 1, 1)}), out)
    with pytest.raises(KubeconfigInvalid, match="must be a string"):
        parse(out.getvalue())
