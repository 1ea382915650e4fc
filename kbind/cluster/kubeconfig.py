"""Kubeconfigs from Secrets: what is accepted of them, and nothing else.

The loaders of client libraries run programs and read files that a kubeconfig names. One that
somebody put into a Secret may do neither here, so it is read against a list of what is allowed.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from kbind import yamls
from kbind.errors import KubeconfigInvalid

SIZE_LIMIT: Final = 1 << 20
"""Bytes: what a Secret holds at most."""

_CLUSTER: Final = frozenset(
    {
        "server",
        "certificate-authority-data",
        "tls-server-name",
        "proxy-url",
        "insecure-skip-tls-verify",
        "extensions",
    }
)
_USER: Final = frozenset({"token", "client-certificate-data", "client-key-data", "extensions"})
_CONTEXT: Final = frozenset({"cluster", "user", "namespace", "extensions"})

_EMBED: Final = "embed the content instead: kubectl config view --raw --flatten --minify"
_HINTS: Final = {
    "certificate-authority": _EMBED,
    "client-certificate": _EMBED,
    "client-key": _EMBED,
    "tokenFile": "put the token itself under token",
    "exec": "no program is run for a kubeconfig from a Secret; use a token or a client certificate",
    "auth-provider": "use a token or a client certificate",
    "username": "API servers no longer take passwords; use a token or a client certificate",
    "password": "API servers no longer take passwords; use a token or a client certificate",
}
_OTHERWISE: Final = "remove it; it is not among what a kubeconfig from a Secret may say"

_KEY: Final = re.compile(r"-----BEGIN (?:RSA |EC )?PRIVATE KEY-----\s")


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a kubeconfig's current context amounts to; equal where that is the same.

    server: https URL without a slash at the end; ca, client_certificate, client_key: PEM;
    ca None: the system's; server_name: the name to demand of the server's certificate instead of
    the one in the URL; proxy: its URL, maybe with a password; namespace: of the context.
    """

    server: str
    ca: bytes | None
    server_name: str | None
    insecure: bool
    proxy: str | None
    token: str | None
    client_certificate: bytes | None
    client_key: bytes | None
    namespace: str | None

    def __repr__(self) -> str:
        has = [
            word
            for word, value in (
                ("token", self.token),
                ("client certificate", self.client_certificate),
                ("proxy", self.proxy),
                ("own CA", self.ca),
                ("no verification", self.insecure),
            )
            if value
        ]
        return f"<Credentials for {self.server}: {', '.join(has) or 'anonymous'}>"


def parse(data: bytes) -> Credentials:
    """The current context of a kubeconfig in YAML or JSON.

    Only that context with its cluster and user counts: other entries are ignored, whatever they
    hold. A context without a user connects anonymously. Raises KubeconfigInvalid, whose message
    quotes no value that may be secret. Pure, but YAML of the greatest size takes seconds: call
    it off the loop.
    """
    config = load(data)
    for field, wanted in (("apiVersion", "v1"), ("kind", "Config")):
        if config.get(field) not in (None, "", wanted):
            raise KubeconfigInvalid(f"must be {wanted}", field=field)
    current = _text(config, "current-context", "current-context")
    if current is None:
        raise KubeconfigInvalid(
            "is absent or empty", field="current-context", hint="name one of the contexts"
        )
    at, context = _entry(config, "context", current, "current-context")
    _allow(context, _CONTEXT, at)
    cluster_name = _text(context, "cluster", f"{at}.cluster")
    if cluster_name is None:
        raise KubeconfigInvalid("is absent or empty", field=f"{at}.cluster")
    cluster_at, cluster = _entry(config, "cluster", cluster_name, f"{at}.cluster")
    _allow(cluster, _CLUSTER, cluster_at)
    user_name = _text(context, "user", f"{at}.user")
    user_at, user = "users", dict[str, Any]()
    if user_name is not None:
        user_at, user = _entry(config, "user", user_name, f"{at}.user")
    _allow(user, _USER, user_at)
    ca = _certificates(cluster, "certificate-authority-data", cluster_at)
    certificate, key = _pair(user, user_at)
    return Credentials(
        server=_server(cluster, cluster_at),
        ca=ca,
        server_name=_text(cluster, "tls-server-name", f"{cluster_at}.tls-server-name"),
        insecure=_insecure(cluster, cluster_at, ca),
        proxy=_proxy(cluster, cluster_at),
        token=_token(user, user_at),
        client_certificate=certificate,
        client_key=key,
        namespace=_text(context, "namespace", f"{at}.namespace"),
    )


def load(data: bytes) -> dict[str, Any]:
    """A kubeconfig's YAML or JSON. Raises KubeconfigInvalid."""
    if len(data) > SIZE_LIMIT:
        raise KubeconfigInvalid(f"is longer than {SIZE_LIMIT} bytes", field="kubeconfig")
    if not data.strip():
        raise KubeconfigInvalid("is empty", field="kubeconfig")
    config: Any
    try:
        config = orjson.loads(data)
    except orjson.JSONDecodeError:
        config = _load_yaml(data)
    if not isinstance(config, dict):
        raise KubeconfigInvalid("is empty or no mapping", field="kubeconfig")
    return config


def _load_yaml(data: bytes) -> Any:
    """YAML may still yield dates, numbers or sets; whoever takes a value checks its type."""
    if yamls.too_deep(data.decode("latin-1")):
        raise KubeconfigInvalid(f"is {yamls.MESSAGE}", field="kubeconfig")
    try:
        return YAML(typ="safe", pure=True).load(data)
    except MarkedYAMLError as error:
        # The library's own words quote the text around the fault, tokens and all.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        message = f"cannot be read as YAML{where}"
    except RecursionError:
        message = f"is {yamls.MESSAGE}"
    except Exception:
        # The library raises whatever its parts do: OverflowError, KeyError, ValueError.
        message = "cannot be read as YAML"
    raise KubeconfigInvalid(message, field="kubeconfig")


def _entry(config: dict[str, Any], kind: str, name: str, named_by: str) -> tuple[str, Any]:
    """The body of the entry *name* and its path. named_by: the field to blame if it is absent."""
    plural = f"{kind}s"
    entries = config.get(plural)
    found = [
        (f"{plural}[{index}].{kind}", entry.get(kind))
        for index, entry in enumerate(entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("name") == name
    ]
    if not found:
        raise KubeconfigInvalid(f"names {name!r}, which is not among {plural}", field=named_by)
    if len(found) > 1:
        raise KubeconfigInvalid(f"{name!r} is there {len(found)} times", field=plural)
    at, body = found[0]
    if body is None and kind == "user":
        body = {}
    if not isinstance(body, dict):
        raise KubeconfigInvalid("is absent or no mapping", field=at)
    return at, body


def _allow(body: dict[str, Any], allowed: frozenset[str], at: str) -> None:
    for field, value in body.items():
        if field not in allowed and value not in (None, ""):
            raise KubeconfigInvalid(
                "is not accepted", field=f"{at}.{field}", hint=_HINTS.get(field, _OTHERWISE)
            )


def _text(body: dict[str, Any], name: str, at: str) -> str | None:
    """A string; None where it is absent or empty."""
    value = body.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise KubeconfigInvalid("must be a string", field=at, hint="put it in quotes")
    return value


def _server(cluster: dict[str, Any], at: str) -> str:
    field = f"{at}.server"
    server = _text(cluster, "server", field)
    if server is None:
        raise KubeconfigInvalid("is absent or empty", field=field)
    _url(server, ("https",), field)
    parts = urlsplit(server)
    if parts.username is not None or parts.query or parts.fragment:
        raise KubeconfigInvalid("must hold no user, query or fragment", field=field)
    return server.rstrip("/")


def _proxy(cluster: dict[str, Any], at: str) -> str | None:
    proxy = _text(cluster, "proxy-url", f"{at}.proxy-url")
    if proxy is not None:
        _url(proxy, ("http", "https"), f"{at}.proxy-url")
    return proxy


def _url(text: str, schemes: tuple[str, ...], field: str) -> None:
    try:
        parts = urlsplit(text)
        good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isprintable() or " " in text:
        wanted = " or ".join(f"{scheme}://" for scheme in schemes)
        raise KubeconfigInvalid(f"must be a URL that begins with {wanted}", field=field)


def _insecure(cluster: dict[str, Any], at: str, ca: bytes | None) -> bool:
    field = f"{at}.insecure-skip-tls-verify"
    value = cluster.get("insecure-skip-tls-verify")
    if value is None:
        return False
    if not isinstance(value, bool):
        raise KubeconfigInvalid("must be true or false, without quotes", field=field)
    if value and ca is not None:
        raise KubeconfigInvalid(
            "cannot stand beside certificate-authority-data",
            field=field,
            hint="remove one: either the server is verified or it is not",
        )
    return value


def _token(user: dict[str, Any], at: str) -> str | None:
    token = (_text(user, "token", f"{at}.token") or "").strip()
    if not all("!" <= letter <= "~" for letter in token):
        raise KubeconfigInvalid("holds characters that no token has", field=f"{at}.token")
    return token or None


def _pair(user: dict[str, Any], at: str) -> tuple[bytes | None, bytes | None]:
    certificate = _certificates(user, "client-certificate-data", at)
    field = f"{at}.client-key-data"
    key = _base64(user, "client-key-data", at)
    if (certificate is None) is not (key is None):
        missing = "client-certificate-data" if certificate is None else "client-key-data"
        raise KubeconfigInvalid("is absent, but its other half is there", field=f"{at}.{missing}")
    if key is not None:
        text = key.decode("ascii", "replace")
        if "ENCRYPTED" in text:  # OpenSSL would ask for the password, on a terminal.
            raise KubeconfigInvalid("is encrypted", field=field, hint="store it without a password")
        if not _KEY.search(text):
            raise KubeconfigInvalid("is no private key in PEM", field=field)
    return certificate, key


def _certificates(body: dict[str, Any], name: str, at: str) -> bytes | None:
    pem = _base64(body, name, at)
    if pem is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
                cadata=pem.decode("ascii")
            )
        except (ssl.SSLError, ValueError):
            raise KubeconfigInvalid("is no certificate in PEM", field=f"{at}.{name}") from None
    return pem


def _base64(body: dict[str, Any], name: str, at: str) -> bytes | None:
    text = _text(body, name, f"{at}.{name}")
    if text is None:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigInvalid("is not base64", field=f"{at}.{name}") from None
