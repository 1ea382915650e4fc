"""Reading values of a rule file: each question has one answer or one finding.

Every method gives None (or leaves an element out) where the value is not what is expected, after
it has reported so; callers go on, so that one run reports everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kbind.errors import RuleFileError, RuleUnreachable, UnknownWord
from kbind.rulebook.expressions import BadExpression, Expression
from kbind.rulebook.source import Entries, Items, Place, Scalar, Value, suggestion


class Reader:
    """Collects the findings of all files."""

    def __init__(self) -> None:
        self.findings: list[RuleFileError] = []

    def report(
        self,
        place: Place,
        message: str,
        *,
        hint: str | None = None,
        kind: type[RuleFileError] = RuleFileError,
    ) -> None:
        """One finding at *place*."""
        self.findings.append(place.finding(message, hint=hint, kind=kind))

    def missing(self, path: str, message: str, *, hint: str | None = None) -> None:
        """One finding about a file or directory as a whole."""
        self.findings.append(RuleFileError(message, path=path, hint=hint))

    def unknown(self, place: Place, what: str, word: str, known: Iterable[str]) -> None:
        """A word that is not of the closed list *known*."""
        message = f'{what} "{word}" is not a known word'
        self.report(place, message, hint=suggestion(word, list(known)), kind=UnknownWord)

    def entries(
        self, value: Value, what: str, *, required: Sequence[str] = (), optional: Sequence[str] = ()
    ) -> Mapping[str, Value] | None:
        """A mapping with these keys and no others."""
        if not isinstance(value, Entries):
            self.report(value.place, f"{what} has to be a mapping")
            return None
        known = [*required, *optional]
        for key, place in value.keys.items():
            if key not in known:
                self.report(
                    place,
                    f'"{key}" is not a key of {what}',
                    hint=suggestion(key, known),
                    kind=UnknownWord,
                )
        for key in required:
            if key not in value.values:
                self.report(value.place, f'{what} lacks "{key}"')
        return value.values

    def mapping(self, value: Value, what: str) -> Sequence[tuple[str, Place, Value]]:
        """The keys of a mapping, where each stands, and its value; the caller knows the keys."""
        if isinstance(value, Entries):
            return [(key, value.keys[key], child) for key, child in value.values.items()]
        self.report(value.place, f"{what} has to be a mapping")
        return ()

    def items(self, value: Value, what: str) -> Sequence[Value]:
        """A list, which may be empty."""
        if isinstance(value, Items):
            return value.values
        self.report(value.place, f"{what} has to be a list")
        return ()

    def text(self, value: Value, what: str) -> str | None:
        """Text that is not blank."""
        if not isinstance(value, Scalar):
            self.report(value.place, f"{what} has to be text")
        elif not value.text.strip():
            self.report(value.place, f"{what} is empty")
        elif not value.word:
            self.report(value.place, f"{what} has to be text", hint=f'quote it: "{value.text}"')
        else:
            return value.text.strip()
        return None

    def word(self, value: Value, what: str, known: Iterable[str]) -> str | None:
        """One word of a closed list."""
        text = self.text(value, what)
        if text is None:
            return None
        listed = list(known)
        if text in listed:
            return text
        self.unknown(value.place, what, text, listed)
        return None

    def words(self, value: Value, what: str, known: Iterable[str]) -> tuple[str, ...] | None:
        """A word, or a list of different words, of a closed list."""
        listed = list(known)
        if isinstance(value, Scalar):
            single = self.word(value, what, listed)
            return None if single is None else (single,)
        return self._distinct(value, what, listed)

    def texts(self, value: Value, what: str) -> tuple[str, ...] | None:
        """A list of different texts."""
        return self._distinct(value, what, None)

    def _distinct(
        self, value: Value, what: str, known: Sequence[str] | None
    ) -> tuple[str, ...] | None:
        if not isinstance(value, Items):
            self.report(value.place, f"{what} has to be a list")
            return None
        found: list[str] = []
        complete = True
        for item in value.values:
            text = self.text(item, what) if known is None else self.word(item, what, known)
            if text is None:
                complete = False
            elif text in found:
                self.report(item.place, f'{what} names "{text}" twice')
                complete = False
            else:
                found.append(text)
        return tuple(found) if complete else None

    def any_of(self, value: Value, fact: str, known: Iterable[str]) -> tuple[str, ...] | None:
        """The words of one fact in ``when``; a list without any would never be met."""
        words = self.words(value, fact, known)
        if words == ():
            self.report(
                value.place,
                f"no situation meets an empty list for {fact}",
                hint=f"name words of {fact}, or leave it out to mean any",
                kind=RuleUnreachable,
            )
            return None
        return words

    def expression(self, value: Value, what: str) -> Expression | None:
        """A JMESPath expression that compiles."""
        text = self.text(value, what)
        if text is None:
            return None
        try:
            return Expression(text)
        except BadExpression as error:
            self.report(value.place, f"{what} is not a JMESPath expression: {error}")
            return None

    def boolean(self, value: Value, what: str) -> bool | None:
        """true or false."""
        if isinstance(value, Scalar) and value.boolean:
            return value.text.lower() == "true"
        self.report(value.place, f"{what} has to be true or false")
        return None
