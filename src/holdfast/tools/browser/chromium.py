"""Finds Chromium, and gives the arguments and the environment that it is started with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.helper_process import system_program
from holdfast.tools.schemas import needs_extra

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL: Final = "apt-get install chromium"
_DISPLAY: Final = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY")

_OFF: Final = (
    "AsyncDns", "AutofillServerCommunication", "BackForwardCache", "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider", "DnsOverHttps", "DnsOverHttpsUpgrade", "HttpsUpgrades",
    "LoadingPredictorUseOptimizationGuide",
    "MediaRouter", "NetworkTimeServiceQuerying", "NoStatePrefetch", "OptimizationGuideModelDownloading",
    "OptimizationHints", "OptimizationHintsFetching", "Prerender2", "PreconnectToSearch", "Reporting",
    "SpeculationRulesPrefetchFuture", "Translate", "WebBluetooth", "WebUSB",
)  # fmt: skip
ARGUMENTS: Final = (
    # Every connection goes through the proxy: no UDP, and no name is resolved here.
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    f"--disable-features={','.join(_OFF)}",
    # Nothing that is not part of a page.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-file-system",
    "--disable-notifications",
    "--disable-search-engine-choice-screen",
    "--disable-speech-api",
    "--disable-sync",
    "--deny-permission-prompts",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--disable-dev-shm-usage",
    "--mute-audio",
)


def find_chromium(configured: str | None = None) -> str | None:
    """Return the program that `browser.executable` names, or the system's; None if there is none."""
    if configured is not None:
        return configured if os.access(configured, os.X_OK) else None
    return next((path for name in NAMES if (path := system_program(name)) is not None), None)


def missing(configured: str | None = None) -> str | None:
    """Return why the browser tools cannot be used here, or None."""
    reason = needs_extra("browser", "playwright")()
    return reason or (None if find_chromium(configured) is not None else no_chromium(configured))


def no_chromium(configured: str | None) -> str:
    """The message if no Chromium was found."""
    if configured is not None:
        return f"there is no program {configured}. Correct browser.executable."
    return f"it needs Chromium. Install it ({INSTALL}), or set browser.executable to its path."


def environment(folder: Path, *, headless: bool) -> dict[str, str]:
    """The environment of the browser: nothing of ours but the language, and the display if it has a window."""
    home = str(folder)
    display = {} if headless else {name: os.environ[name] for name in _DISPLAY if name in os.environ}
    return {
        **display,
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "XDG_CONFIG_HOME": home,
        "XDG_CACHE_HOME": home,
        "XDG_RUNTIME_DIR": home,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PLAYWRIGHT_BROWSERS_PATH": home,
        "PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS": "1",
        # No desktop session, key ring or message bus of the user.
        "DBUS_SESSION_BUS_ADDRESS": "disabled:",
    }
