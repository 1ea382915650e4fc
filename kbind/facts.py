"""The closed words that rules compare: one enumeration a fact.

Code in ``observe`` computes facts from objects; tables name them in ``when``. A fact is never
free text and never null: what is open in the world is closed by a word here (``other``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Life(StrEnum):
    """Whether the instance, binding or Connection is being deleted."""

    ALIVE = "alive"
    DELETING = "deleting"


class Cover(StrEnum):
    """Whether a binding selects the instance."""

    BOUND = "bound"  # the first binding in covering order names the schema's Connection
    UNCOVERED = "uncovered"  # no live binding selects it
    ELSEWHERE = "elsewhere"  # that binding names another Connection than the schema's
    UNBINDING = "unbinding"  # none does so any longer, and the one that did is being undone
    ABANDONED = "abandoned"  # the same, while the provider cannot be reached


class Hold(StrEnum):
    """Whether our finalizer is on the consumer instance."""

    NONE = "none"
    OURS = "ours"


class DeletionPolicy(StrEnum):
    """What becomes of the copy when the instance is deleted."""

    DELETE = "Delete"
    ORPHAN = "Orphan"  # exactly that annotation value; everything else is Delete


class Pause(StrEnum):
    """What is paused that the instance depends on; of several the widest, so that rules which let
    one of them not count take nothing from those above it."""

    NONE = "none"
    INSTANCE = "instance"  # the instance itself
    BINDING = "binding"  # the one that covers it, for its schema's Connection
    CONNECTION = "connection"  # its schema's


class Copy(StrEnum):
    """What stands on the provider under the copy's key, and whose it is."""

    ABSENT = "absent"  # nothing
    OURS = "ours"  # both markers, this cluster and this instance
    MARKERLESS = "markerless"  # neither marker, whatever its labels say
    PARTIAL = "partial"  # one marker alone
    ANOTHER_OBJECT = "another-object"  # this cluster, another object's UID
    ANOTHER_CLUSTER = "another-cluster"
    GOING = "going"  # ours, and being deleted
    UNREADABLE = "unreadable"  # the provider did not let us look
    OUT_OF_REACH = "out-of-reach"  # the Connection is not Ready, so the provider was not asked


class ConflictPolicy(StrEnum):
    """The covering binding's ``spec.conflictPolicy``."""

    FAIL = "Fail"
    ADOPT = "Adopt"
    UNSET = "unset"  # no binding covers the instance


class Duty(StrEnum):
    """What a pass owes a consumer instance once the provider has been looked at."""

    SERVE = "serve"
    DRAIN = "drain"
    UNBIND = "unbind"


class Verdict(StrEnum):
    """What may be done with the object under the copy's key."""

    CREATE = "create"
    MAINTAIN = "maintain"
    ADOPT = "adopt"
    AWAIT = "await"
    REFUSE = "refuse"
    BLIND = "blind"
    DEFER = "defer"


class Asked(StrEnum):
    """A Connection's ``spec.schema.source``."""

    CRD = "CRD"
    OPENAPI = "OpenAPI"
    AUTO = "Auto"
    OTHER = "other"  # a plugin's name


class Listing(StrEnum):
    """What the list of labelled CRDs on the provider gave."""

    UNREAD = "unread"  # not asked for yet in this pass
    EXPORTS = "exports"
    EMPTY = "empty"
    FORBIDDEN = "forbidden"
    FAILED = "failed"


class Source(StrEnum):
    """What the pass does about the schema source."""

    LIST = "list"  # list the labelled CRDs, then decide again
    CRD = "CRD"
    OPENAPI = "OpenAPI"
    AS_ASKED = "as-asked"  # the plugin of that name
    REPORT = "report"  # say why there is no answer; nothing is taken away


class Definition(StrEnum):
    """What the schema source gives as an API's definition."""

    ORIGINAL = "original"  # a CRD of the provider
    SYNTHESIZED = "synthesized"  # put together from other documents
    NONE = "none"  # the provider does not offer the API, or serves no version of it


class PullPolicy(StrEnum):
    """A Connection's ``spec.schema.pullPolicy``."""

    BOUND = "Bound"
    ALL = "All"
    NONE = "None"


class UpdatePolicy(StrEnum):
    """A Connection's ``spec.schema.updatePolicy``."""

    ALWAYS = "Always"
    ONCE = "Once"


class Wanted(StrEnum):
    """Whether a live binding lists the API."""

    BOUND = "bound"
    UNBOUND = "unbound"


class Local(StrEnum):
    """What stands on the consumer under the CRD's name."""

    ABSENT = "absent"
    HERE_SAME = "here-same"  # ours through this Connection, and as offered
    HERE_DIFFERS = "here-differs"  # ours through this Connection, but not as offered
    ELSEWHERE = "elsewhere"  # pinned to another Connection
    UNMANAGED = "unmanaged"  # without our markers
    GOING = "going"  # being deleted


class AutoBind(StrEnum):
    """A Connection's ``spec.autoBind``."""

    ON = "on"
    OFF = "off"


class Exported(StrEnum):
    """Whether the provider exports any API."""

    SOME = "some"
    NONE = "none"  # two successful discoveries, 30 s apart, found none
    UNKNOWN = "unknown"  # discovery failed, answered in part, or found none for the first time


class OwnBinding(StrEnum):
    """What stands under the name that autoBind's ClusterBinding has: the Connection's."""

    ABSENT = "absent"
    OURS = "ours"  # owned by this very Connection
    FOREIGN = "foreign"
    GOING = "going"  # ours, and being deleted


class Some(StrEnum):
    """Whether there is any."""

    NONE = "none"
    SOME = "some"


class BindingKind(StrEnum):
    """Which kind of binding is undone."""

    BINDING = "Binding"
    CLUSTER_BINDING = "ClusterBinding"


class Provider(StrEnum):
    """Whether the provider of a binding that is undone can be asked."""

    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"  # no credentials, or no answer for 60 s and three tries


class Standing(StrEnum):
    """What stands on the consumer under the CRD's name of an API that is undone."""

    HERE = "here"  # with our markers, through the binding's Connection
    ELSEWHERE = "elsewhere"  # pinned to another Connection
    UNMANAGED = "unmanaged"  # without our markers
    ABSENT = "absent"
    GOING = "going"  # ours, and being deleted


class Undoing(StrEnum):
    """What is done about one API of a binding that is undone."""

    UNBIND = "unbind"  # instances are let go one by one, as duty and ownership say
    ABANDON = "abandon"  # instances are let go without a look at their copies
    DONE = "done"  # nothing (more) is to be done


FACTS: Final[dict[str, type[StrEnum]]] = {
    "life": Life,
    "cover": Cover,
    "hold": Hold,
    "policy": DeletionPolicy,
    "pause": Pause,
    "copy": Copy,
    "conflictPolicy": ConflictPolicy,
    "duty": Duty,
    "verdict": Verdict,
    "asked": Asked,
    "listing": Listing,
    "definition": Definition,
    "pullPolicy": PullPolicy,
    "updatePolicy": UpdatePolicy,
    "wanted": Wanted,
    "local": Local,
    "autoBind": AutoBind,
    "exports": Exported,
    "binding": OwnBinding,
    "kind": BindingKind,
    "others": Some,
    "provider": Provider,
    "standing": Standing,
    "instances": Some,
    "left": Some,
    "bindings": Some,
    "sharing": Some,
}
"""Every fact by the name that tables use for it."""
