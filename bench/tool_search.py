"""Run the benchmark of searching many tools: `python bench/tool_search.py [--quick]`."""

from __future__ import annotations

import parts
from targets import Target, times

MS = 1e3

TARGETS: tuple[Target, ...] = (
    Target("10 000 tools: make the index", "ms", times("finding.ours.build", MS), 500),
    Target("three words of a name", "ms", times("finding.ours.words", MS), 10),
    Target("a whole sentence", "ms", times("finding.ours.sentence", MS), 10),
    Target("a word that nearly every tool has", "ms", times("finding.ours.common", MS), 10),
    Target("nine such words", "ms", times("finding.ours.worst", MS), 10),
    Target("an exact name", "ms", times("finding.ours.name", MS), 10),
    Target("`tool.search` through the whole path", "ms", times("finding.ours.call", MS), 10),
    Target("for scale: rank_bm25 makes its index", "ms", times("finding.rank_bm25.build", MS), None),
    Target("for scale: rank_bm25, a whole sentence", "ms", times("finding.rank_bm25.sentence", MS), None),
    Target("for scale: bm25s makes its index", "ms", times("finding.bm25s.build", MS), None),
    Target("for scale: bm25s, a whole sentence", "ms", times("finding.bm25s.sentence", MS), None),
)


if __name__ == "__main__":
    parts.main("Measure what finding a tool among many costs.", "tool_search", ("finding",), TARGETS)
