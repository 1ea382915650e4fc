"""The one tree of exceptions: fields for programs, a message for people.

``str(error)`` is what a user reads: it names the file, field or object, and the hint says what
to do. Nothing here knows how an error came about.
"""

from __future__ import annotations

from collections.abc import Sequence


class KbindError(Exception):
    """Anything that kbind reports. hint: what to do about it, or None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class RuleFileError(KbindError):
    """One finding in a rule file. line and column count from 1; source is the line itself."""

    def __init__(
        self,
        message: str,
        *,
        path: str,
        line: int | None = None,
        column: int | None = None,
        source: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        text = f"{place}: {self.message}"
        if self.source is not None:
            text += f"\n{self.line:>5} | {self.source}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class UnknownWord(RuleFileError):
    """A word that is not of the closed list that stands there."""


class TableGap(RuleFileError):
    """Situations that no rule meets."""


class TableOverlap(RuleFileError):
    """Situations that more than one rule meets."""


class RuleUnreachable(RuleFileError):
    """A rule that no situation can meet."""


class RulesInvalid(KbindError):
    """All findings of a rule set at once."""

    def __init__(self, findings: Sequence[RuleFileError]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


class ExpressionFailed(KbindError):
    """An expression of the rules that does not fit the object it was applied to."""

    def __init__(self, message: str, *, expression: str) -> None:
        super().__init__(message)
        self.expression = expression


class KubeconfigInvalid(KbindError):
    """A kubeconfig that is not accepted. field: the path of what is wrong, such as
    ``users[0].user.exec``."""

    def __init__(self, message: str, *, field: str, hint: str | None = None) -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class PluginError(KbindError):
    """A plugin that cannot be loaded or broke its contract."""

    def __init__(self, message: str, *, plugin: str, hint: str | None = None) -> None:
        super().__init__(f"plugin {plugin}: {message}", hint=hint)
        self.plugin = plugin


class SchemaSourceError(KbindError):
    """A schema source has no answer; shown on the Connection as it stands."""


class SpecInvalid(KbindError):
    """A spec of one of kbind's own objects that this version cannot read."""


class GuardViolation(KbindError):
    """A step that no rule may lead to: a bug. The object is stopped and nothing is retried."""


class ClusterError(KbindError):
    """A call that did not succeed.

    side: consumer, provider, or what the client was named; verb and path: the call;
    status: the HTTP status, or None where there was no answer; body: the server's Status
    object, {} where there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        side: str,
        verb: str,
        path: str,
        status: int | None = None,
        body: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.side = side
        self.verb = verb
        self.path = path
        self.status = status
        self.body = body or {}


class Unreachable(ClusterError):
    """No answer: refused, reset, timed out, TLS not trusted."""


class Disengaged(ClusterError):
    """Not sent: the Connection cannot be used now."""


class Unauthorized(ClusterError):
    """401: the credential is not accepted (any longer)."""


class Forbidden(ClusterError):
    """403: RBAC or an admission says no."""


class NotFound(ClusterError):
    """404 of an object, by its name."""


class NotServed(ClusterError):
    """404 of an endpoint: says nothing about any object."""


class Conflict(ClusterError):
    """409, or 422 on metadata.uid: what the call was based on is no longer so."""


class Gone(ClusterError):
    """410: the resourceVersion or continue token is too old."""


class Invalid(ClusterError):
    """400, 413, 422: the server does not accept what was sent."""


class Throttled(ClusterError):
    """429. retry_after: seconds, where the server named them."""

    retry_after: float | None = None


class ServerFailed(ClusterError):
    """5xx, or an answer that is none: too long, or no JSON. retry_after: seconds, where the server
    named them."""

    retry_after: float | None = None
