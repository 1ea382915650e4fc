"""How every command reports what went wrong: a message for people, never a traceback."""

from __future__ import annotations

from typing import Any

import click

from kbind.errors import KbindError, RulesInvalid


class Commands(click.Group):
    """A group under which a KbindError goes to stderr and ends the command with code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RulesInvalid as error:
            for finding in error.findings:
                click.echo(str(finding), err=True)
            count = len(error.findings)
            click.echo(f"error: {count} finding{'' if count == 1 else 's'}", err=True)
        except KbindError as error:
            click.echo(f"error: {error}", err=True)
        raise click.exceptions.Exit(1)
