"""Why a provider is not asked for copies, in a user's words."""

from __future__ import annotations

from kbind import words
from kbind.errors import ClusterError, Disengaged, NotServed
from kbind.situation import Scope
from kbind.steps import Side


def away(scope: Scope) -> ClusterError:
    """The Connection is not Ready."""
    return Disengaged(
        "the copy on the provider goes first, and that waits for Connection "
        f"{scope.connection} to be there and Ready; annotation {words.DELETION_POLICY}: "
        f"{words.ORPHAN} lets the instance go and leaves the copy",
        side=Side.PROVIDER,
        verb="list",
        path=scope.api.path(),
    )


def unserved(scope: Scope) -> ClusterError:
    """It does not serve the API; in words that stay the same, whichever request was answered so
    last."""
    return NotServed(
        f"the provider does not serve {scope.api.name} at {scope.api.version} now (404), which "
        "says nothing about the copy; the instance is held until it does",
        side=Side.PROVIDER,
        verb="list",
        path=scope.api.path(),
    )


def misfit(scope: Scope) -> ClusterError | None:
    """It has the API in another scope; None where it has not."""
    if scope.fits:
        return None
    here, there = ("Namespaced", "Cluster") if scope.api.namespaced else ("Cluster", "Namespaced")
    return NotServed(
        f"the provider has it in scope {there}, the CRD here has scope {here}, and a scope cannot "
        "be changed; delete the CRD here, with its instances, to have it brought over anew",
        side=Side.PROVIDER,
        verb="list",
        path=scope.api.path(),
    )
