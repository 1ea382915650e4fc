"""kbind: offer and consume Kubernetes APIs across clusters."""

__version__ = "0.1.0"
