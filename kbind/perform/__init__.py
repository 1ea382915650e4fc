"""From a call to its outcome, behind the guards. Writes only."""

from kbind.perform.batch import SPEC_STEPS, Batch, perform
from kbind.perform.sending import Writer, send

__all__ = ["SPEC_STEPS", "Batch", "Writer", "perform", "send"]
