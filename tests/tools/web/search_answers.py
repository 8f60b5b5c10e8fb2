"""Answers in the formats of the search engines, written by hand."""

from __future__ import annotations

from typing import Any

DUCKDUCKGO = """<!DOCTYPE html><html><head><title>python at DuckDuckGo</title></head><body class="body--html">
<div id="links" class="results">
  <div class="result results_links results_links_deep result--ad ">
    <div class="links_main links_deep result__body"><h2 class="result__title">
      <a rel="nofollow" class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x">An advertisement</a></h2></div>
  </div>
  <div class="result results_links results_links_deep web-result ">
    <div class="links_main links_deep result__body"><h2 class="result__title">
      <a rel="nofollow" class="result__a"
         href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.python.org%2F&amp;rut=0a1b">Welcome to Python.org</a></h2>
      <div class="result__extras"><div class="result__extras__url">
        <a class="result__url" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.python.org%2F">www.python.org</a></div>
      </div>
      <a class="result__snippet" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.python.org%2F">The official home of
        the <b>Python</b> Programming Language &amp; more.</a></div>
  </div>
  <div class="result results_links results_links_deep web-result ">
    <div class="links_main links_deep result__body"><h2 class="result__title">
      <a rel="nofollow" class="result__a"
         href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fdocs.python.org%2F3%2Ftutorial%2F%3Fa%3Db">The Tutorial</a></h2>
    </div>
  </div>
</div></body></html>"""
DUCKDUCKGO_NOTHING = '<html><body><div class="no-results">No results found for <b>xyzzy</b></div></body></html>'
DUCKDUCKGO_CHALLENGE = """<html><body><form id="challenge-form" action="//duckduckgo.com/anomaly.js" method="POST">
<div class="anomaly-modal__modal"><div class="anomaly-modal__title">Please complete the following challenge.</div></div>
</form></body></html>"""
SEARXNG: dict[str, Any] = {
    "query": "searxng",
    "number_of_results": 2,
    "results": [
        {"url": "https://docs.searxng.org/", "title": "SearXNG", "content": "A metasearch engine.", "engine": "bing",
         "engines": ["bing", "brave"], "positions": [1, 2], "score": 3.0, "category": "general", "template": "default"},
        {"url": "https://github.com/searxng", "title": "searxng", "content": None, "category": "general"},
        "not a result",
    ],
    "answers": [], "corrections": [], "infoboxes": [], "suggestions": [],
    "unresponsive_engines": [["google", "timeout"]],
}  # fmt: skip
BRAVE: dict[str, Any] = {
    "type": "search",
    "query": {"original": "brave", "more_results_available": False},
    "web": {
        "type": "search",
        "results": [
            {"title": "Brave &amp; fast", "url": "https://brave.com/", "is_source_local": False, "language": "en",
             "description": "A <strong>browser</strong> that is fast.", "type": "search_result"},
        ],
    },
}  # fmt: skip
