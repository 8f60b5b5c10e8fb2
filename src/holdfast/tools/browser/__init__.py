"""`browser.*`: a Chromium that reads pages as accessibility snapshots and acts on elements by reference or name.

`worker` runs Playwright in a process of its own; `browsers` starts it, one for each session; `navigation`, `page_text`
and `actions` are the tools.
"""
