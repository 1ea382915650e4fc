"""What is said while bindings are undone, in virtual time."""

from __future__ import annotations

import re
from itertools import pairwise

from kbind.cluster.transport import Request
from kbind.konnector.lane import FEW
from kbind.testing.running import USER
from tests.clusters.widgets import widget
from tests.stories.telling import Story, tell
from tests.stories.unbinding_tales import deletes

COUNT = 300
SLOW = 0.5  # seconds that the provider takes for a deletion
LINE = re.compile(
    r"(?P<at>[\d.]+) bindings bound: False, Unbinding: "
    r"widgets\.example\.org: (?P<left>\d+) of (?P<most>\d+) instances left"
)


def test_the_progress_of_a_long_unbinding_is_written_every_5_seconds_at_most() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        made = [widget(f"w{number:03}", size=number) for number in range(COUNT)]
        for each in made:
            await story.consumer.create(each)
        await story.provider.until(made[-1], bool)
        await story.wait(60)
        consumer, provider = story.clusters
        provider.faults.delay(deletes, SLOW)
        start = len(consumer.audit(USER))
        with story.chapter("The Binding is deleted.", ready=True):
            await story.consumer.delete(bound)
            await story.consumer.gone(bound, 120)

        found = [LINE.fullmatch(line) for line in story.told[-1]["ready"]]
        told = [match for match in found if match is not None]
        assert len(told) == len(found) >= 5, story.told[-1]["ready"]
        written = [e for e in consumer.audit(USER)[start:] if e.resource == "bindings"]
        assert [e.subresource for e in written if e.writes] == ["status"] * len(told) + [""]
        times = [float(match["at"]) for match in told]
        assert all(later - before >= 4.9 for before, later in pairwise(times))
        counts = [int(match["left"]) for match in told]
        assert counts[0] == COUNT
        assert counts == sorted(set(counts), reverse=True)
        assert {match["most"] for match in told} == {str(COUNT)}

    tell(main)


def test_a_restart_counts_on_from_what_is_left() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        made = [widget(f"w{number:03}", size=number) for number in range(100)]
        for each in made:
            await story.consumer.create(each)
        await story.provider.until(made[-1], bool)
        await story.wait(60)
        story.clusters[1].faults.delay(deletes, SLOW)
        await story.consumer.delete(bound)
        await story.wait(3)
        with story.chapter("The konnector is started anew.", ready=True):
            await story.konnector.restart()
            await story.consumer.gone(bound, 120)
        found = [LINE.fullmatch(line) for line in story.told[-1]["ready"]]
        told = [match for match in found if match is not None]
        assert told, story.told[-1]["ready"]
        assert all(int(match["left"]) <= int(match["most"]) < 100 for match in told)
        assert await story.provider.list("example.org/v1", "Widget") == []

    tell(main)


def test_an_unbinding_asks_for_few_deletions_at_a_time() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        made = [widget(f"w{number:03}", size=number) for number in range(40)]
        for each in made:
            await story.consumer.create(each)
        await story.provider.until(made[-1], bool)
        await story.wait(60)
        under_way, most = 0, 0

        async def watched(_: Request) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await story.wait(SLOW)
            under_way -= 1

        story.clusters[1].faults.add(deletes, watched)
        await story.consumer.delete(bound)
        await story.consumer.gone(bound, 60)
        assert most == FEW

    tell(main)
