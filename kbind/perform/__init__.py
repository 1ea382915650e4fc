"""From a call to its outcome, behind the guards. Writes only."""

from kbind.perform.batch import Batch, perform
from kbind.perform.sending import Writer, send

__all__ = ["Batch", "Writer", "perform", "send"]
