"""Who may do what: everybody everything, but for what a test denies."""

from __future__ import annotations

from typing import NamedTuple

from kbind.apis import qualified
from kbind.testing.memory.status import forbidden


class Rule(NamedTuple):
    """ "*" stands for any. resource: ``<plural>.<group>``, a subresource after a slash."""

    user: str
    verb: str
    resource: str
    namespace: str
    denied: bool


class Access:
    """The rule given last wins."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def deny(self, user: str, verb: str, resource: str, namespace: str = "*") -> None:
        self._rules.append(Rule(user, verb, resource, namespace, denied=True))

    def allow(self, user: str, verb: str, resource: str, namespace: str = "*") -> None:
        self._rules.append(Rule(user, verb, resource, namespace, denied=False))

    def check(
        self,
        user: str,
        verb: str,
        group: str,
        plural: str,
        namespace: str,
        name: str,
        subresource: str,
    ) -> None:
        """Raises Refusal (403) in the words of RBAC."""
        resource = qualified(group, plural)
        full = f"{resource}/{subresource}" if subresource else resource
        for rule in reversed(self._rules):
            asked = ((rule.user, user), (rule.verb, verb), (rule.namespace, namespace))
            if rule.resource in ("*", full) and all(word in ("*", given) for word, given in asked):
                if not rule.denied:
                    return
                shown = f"{plural}/{subresource}" if subresource else plural
                scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
                why = (
                    f'User "{user}" cannot {verb} resource "{shown}" in API group "{group}" {scope}'
                )
                raise forbidden(group, plural, name, why)
