"""The konnector's figures, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kbind.konnector.passes import Report
from kbind.konnector.syncer import Syncer


class Metrics(Collector):
    """Counts writes and failed steps as passes report them, and reads sizes when it is scraped."""

    def __init__(self, syncers: Callable[[], Mapping[str, Syncer]]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._writes = Counter(
            "kbind_writes",
            "Writes to either cluster, by API, side and step",
            ("api", "side", "step"),
            registry=self.registry,
        )
        self._failures = Counter(
            "kbind_failed_steps",
            "Steps that ended a pass",
            ("api", "step"),
            registry=self.registry,
        )
        self._syncers = syncers
        self.registry.register(self)

    def count(self, report: Report) -> None:
        """Takes in what one pass wrote, and the step that ended it."""
        api = report.scope.api.name
        for call in report.batch.calls:
            self._writes.labels(api, call.side, call.step).inc()
        if report.batch.failed is not None:
            self._failures.labels(api, report.batch.failed[0]).inc()

    def collect(self) -> list[GaugeMetricFamily]:
        """The gauges of the running syncers."""
        instances = GaugeMetricFamily(
            "kbind_instances", "Instances on the consumer, bound or not", labels=("api",)
        )
        conflicts = GaugeMetricFamily(
            "kbind_conflicts", "Instances that are refused", labels=("api",)
        )
        for name, syncer in self._syncers().items():
            instances.add_metric((name,), len(syncer.instances))
            conflicts.add_metric((name,), len(syncer.conflicts))
        return [instances, conflicts]
