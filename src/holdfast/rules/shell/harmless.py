"""Programs, options and variables that run nothing, so that asking and denying rules can ignore them.

The tables are allow-lists: an option that is missing or abbreviated may run a command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rules.shell.parts import word_set
from holdfast.rules.shell.programs import DATA_PROGRAMS

UNKNOWN_PIECE: Final = "\0"
"""Marks an unknown piece of a word."""
FROM_ENVIRONMENT: Final = "\1"
"""Marks a value from the environment in a word; it may be empty."""


class UnknownWord(Enum):
    """What is known about a word with an unknown value."""

    OPERAND = "operand"
    """Any number of words, none of which starts with a dash."""
    ONE = "one"
    """Exactly one word, which may be an option."""
    MANY = "many"
    """Any number of words, some of which may be options."""


ResolvedWord = str | UnknownWord


class Options(Struct, frozen=True, kw_only=True):
    """The options of a program that run nothing."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with a value, attached or in the next word."""
    attached: str = ""
    """Short options with an optional, attached value."""
    long: frozenset[str] = frozenset()
    """Long options without a value, or with one after `=`."""
    long_valued: frozenset[str] = frozenset()
    """Long options with a value after `=` or in the next word."""
    numbers: bool = False
    """Whether `-5` is an option."""
    bundled: bool = False
    """Whether the first word may be a bundle of options without a dash: `tar cf x`."""
    operands: bool = True
    """Whether operands are data."""


def _options(
    flags: str = "", valued: str = "", long: str = "", long_valued: str = "", *, attached: str = "", **marks: bool
) -> Options:
    names, valued_names = (frozenset(f"--{name}" for name in text.split()) for text in (long, long_valued))
    return Options(flags=flags, valued=valued, attached=attached, long=names, long_valued=valued_names, **marks)


_PACKAGES: Final = _options("yqdfVmsu", "t", """
    yes assume-yes quiet no-install-recommends install-recommends reinstall fix-broken fix-missing download-only
    simulate dry-run auto-remove autoremove purge only-upgrade allow-downgrades upgradable installed
    all-versions list names-only full help version no-upgrade show-upgraded verbose-versions
    allow-unauthenticated force-yes assume-no allow-change-held-packages no-remove trivial-only""",
    "target-release default-release")  # fmt: skip
_YUM: Final = _options("yqvbC", "de", """
    assumeyes assumeno quiet verbose best nogpgcheck refresh skip-broken allowerasing cacheonly showduplicates
    installed available security help version""", "enablerepo disablerepo exclude releasever")  # fmt: skip
_PIP: Final = _options("UqvIeVhyuol", "rctidf", """
    upgrade quiet verbose user no-deps no-cache-dir pre force-reinstall ignore-installed no-build-isolation
    system yes outdated uptodate local files help version disable-pip-version-check no-index isolated no-input
    require-virtualenv break-system-packages prefer-binary require-hashes no-binary= dry-run editable no-compile
    no-warn-script-location no-clean include-deps force all suffix""", """
    requirement constraint target index-url extra-index-url find-links proxy timeout retries trusted-host cert
    cache-dir format only-binary no-binary python-version platform upgrade-strategy root prefix dest wheel-dir
    progress-bar report exclude src log editable editable abi implementation python""")  # fmt: skip
OPTION_TABLES: Final = {
    "apt": _PACKAGES,
    "apt-get": _PACKAGES,
    "apt-cache": _PACKAGES,
    "dnf": _YUM,
    "yum": _YUM,
    "pip": _PIP,
    "pip3": _PIP,
    "pipx": _PIP,
    "gpg": _options("aesdcvqkKbztn", "ruoN", """
        armor encrypt sign decrypt symmetric verify verbose quiet list-keys list-secret-keys list-public-keys
        detach-sign clearsign clear-sign import export export-secret-keys fingerprint batch yes no dearmor
        enarmor version help gen-key generate-key full-generate-key delete-key delete-keys no-tty store
        delete-secret-keys keyid-format with-colons multifile list-packets no-default-keyring print-md
        gen-random check-sigs list-sigs sign-key edit-key always-trust no-symkey-cache textmode throw-keyids
        passphrase-fd=""", """
        recipient local-user output default-key trust-model cipher-algo digest-algo compress-algo passphrase
        keyring passphrase-file passphrase-fd status-fd pinentry-mode hidden-recipient comment compress-level"""),
    "install": _options("bcCdDpTv", "gmotS", """
        backup compare directory preserve-timestamps no-target-directory verbose help version""", """
        group mode owner suffix target-directory""", attached="Z"),
    "man": _options("fkKlwWiIadDuc7t", "LmMSsepEr", """
        all apropos whatis local-file where location path where-cat regex wildcard names-only default help
        version usage debug global-apropos ignore-case match-case no-subpages ascii catman nh nj no-hyphenation
        no-justification update""", "locale manpath sections extension systems prompt encoding recode", numbers=True),
    "rg": _options("abcFhHiIlLnNopPqsSUuvVwxz.0", "ABCdefgjmMrtTE", """
        count count-matches files files-with-matches ignore-case files-without-match fixed-strings follow hidden
        heading no-heading invert-match json line-number case-sensitive no-line-number multiline no-ignore
        no-ignore-vcs no-messages only-matching pcre2 pretty quiet smart-case stats text trim unrestricted
        vimgrep with-filename no-filename word-regexp line-regexp null type-list version help passthru column
        no-config crlf no-hidden max-columns-preview multiline-dotall null-data one-file-system search-zip
        sort-files byte-offset debug trace no-pcre2-unicode binary include-zero glob-case-insensitive color""", """
        after-context before-context context color colors encoding engine regexp file glob iglob max-columns
        max-count max-depth max-filesize path-separator replace sort sortr threads type type-not type-add
        ignore-file""", numbers=True),
    "sort": _options("bdfgiMhnRrVcCmsuz", "koStT", """
        check debug dictionary-order general-numeric-sort help human-numeric-sort unique ignore-case
        ignore-leading-blanks ignore-nonprinting merge month-sort numeric-sort random-sort reverse stable
        version version-sort zero-terminated""", """
        batch-size buffer-size field-separator files0-from key output parallel random-source sort
        temporary-directory""", numbers=True),
    "split": _options("dxeu", "abClnt", """
        elide-empty-files unbuffered verbose help version hex-suffixes numeric-suffixes""", """
        additional-suffix bytes line-bytes lines number separator suffix-length""", numbers=True),
    "tar": _options("AcdrtuxGnSkUWOmpsMBiajJzZhPlRvwo", "gCXfLbHVKN", """
        absolute-names acls anchored append auto-compress backup block-number bzip2 catenate check-device
        check-links checkpoint clamp-mtime compare compress diff concatenate confirmation create
        delay-directory-restore delete dereference exclude-backups exclude-caches exclude-caches-all
        exclude-caches-under exclude-vcs exclude-vcs-ignores extract force-local full-time get gunzip gzip
        hard-dereference help ignore-case ignore-command-error ignore-failed-read ignore-zeros incremental
        interactive keep-directory-symlink keep-newer-files keep-old-files list lzip lzma lzop multi-volume
        no-acls no-anchored no-auto-compress no-check-device no-delay-directory-restore no-ignore-case no-null
        no-overwrite-dir no-ignore-command-error no-recursion no-same-owner no-same-permissions no-seek
        no-selinux no-unquote no-verbatim-files-from no-wildcards no-wildcards-match-slash no-xattrs null
        numeric-owner occurrence old-archive one-file-system one-top-level overwrite overwrite-dir portability
        posix preserve-order preserve-permissions read-full-records recursion recursive-unlink remove-files
        same-order same-owner same-permissions seek selinux show-defaults show-omitted-dirs show-stored-names
        show-transformed-names skip-old-files sparse test-label to-stdout totals touch uncompress ungzip
        unlink-first unquote update usage utc verbatim-files-from verbose verify version wildcards
        wildcards-match-slash xattrs xz zstd atime-preserve""", """
        add-file after-date blocking-factor directory exclude-from exclude-ignore-recursive exclude-ignore
        exclude-tag-all exclude-tag-under exclude-tag exclude file format group-map group hole-detection
        index-file label level listed-incremental mode mtime newer-mtime newer no-quote-chars owner-map owner
        pax-option quote-chars quoting-style record-size sort starting-file strip-components suffix tape-length
        transform volno-file warning xattrs-exclude xattrs-include xform""", bundled=True),
    "wget": _options("VhbdqvFcNSxErkKmpHL46", "oaiBtOTwQPUlARDIXn", """
        adjust-extension ask-password background backup-converted content-disposition content-on-error continue
        convert-links debug delete-after follow-ftp force-directories force-html help https-only ignore-case
        ignore-length inet4-only inet6-only keep-session-cookies mirror no-cache no-check-certificate no-clobber
        no-cookies no-directories no-dns-cache no-glob no-host-directories no-hsts no-http-keep-alive no-parent
        no-passive-ftp no-proxy no-remove-listing no-verbose no-netrc page-requisites quiet random-wait
        recursive relative retr-symlinks retry-connrefused save-headers server-response show-progress span-hosts
        spider timestamping trust-server-names unlink verbose version auth-no-challenge no-use-server-timestamps""", """
        accept-regex accept append-output base bind-address body-data body-file ca-certificate ca-directory
        certificate ciphers compression connect-timeout cut-dirs default-page directory-prefix dns-timeout
        domains exclude-domains exclude-directories follow-tags ftp-password ftp-user header http-password
        http-user ignore-tags input-file include-directories level limit-rate load-cookies local-encoding
        max-redirect method output-document output-file password post-data post-file prefer-family private-key
        progress proxy-password proxy-user quota read-timeout referer reject-regex reject regex-type
        save-cookies secure-protocol start-pos timeout tries user-agent user wait waitretry"""),
    "zip": _options("rjqv9012345678yumdfgXDloeFSAzcT@", "xinbtsPZ", """
        recurse-paths junk-paths quiet verbose symlinks update move delete freshen encrypt no-dir-entries grow
        test-only help version""", "exclude include password split-size temp-path"),
    "rsync": _options("avzrlptgoDHAXnhPumxckSWLRbdqisIKOyC", "fTB", """
        archive verbose compress recursive delete progress dry-run human-readable partial update checksum links
        perms times group owner devices specials hard-links stats delete-after quiet delete-before delete-during
        delete-excluded ignore-existing existing inplace itemize-changes relative no-relative numeric-ids
        one-file-system sparse whole-file copy-links safe-links size-only backup force remove-source-files
        prune-empty-dirs omit-dir-times no-owner no-group no-perms protect-args acls xattrs append append-verify
        iconv blocking-io remove-sent-files copy-unsafe-links keep-dirlinks no-implied-dirs version help fuzzy
        ignore-times dirs""", """
        exclude include exclude-from include-from files-from bwlimit max-size min-size timeout port
        password-file chmod chown log-file backup-dir suffix info out-format compare-dest copy-dest link-dest
        temp-dir partial-dir modify-window block-size max-delete filter contimeout compress-level"""),
    "make": _options("BbdeiknpqRrSstvw", "CfIoW", """
        always-make keep-going silent quiet dry-run just-print no-print-directory debug print-data-base question
        no-builtin-rules no-builtin-variables stop touch version help ignore-errors print-directory
        warn-undefined-variables trace jobs load-average output-sync""", """
        directory file makefile include-dir old-file new-file assume-new what-if assume-old""", attached="jlO"),
}  # fmt: skip
"""Harmless options of programs that also have options that run commands, or name files with commands."""

_GIT_FLAGS: Final = (
    "all append dry-run force keep prune prune-tags progress quiet tags no-tags verbose unshallow update-shallow ipv4 "
    "ipv6 atomic multiple set-upstream follow-tags no-verify verify delete mirror force-with-lease no-force-with-lease "
    "thin no-thin signed porcelain recurse-submodules no-recurse-submodules rebase no-rebase ff-only no-ff ff squash "
    "no-squash commit no-commit edit no-edit autostash no-autostash stat no-stat signoff allow-unrelated-histories "
    "branches force-if-includes update-head-ok write-fetch-head"
)
_GIT_VALUED: Final = (
    "depth deepen shallow-since shallow-exclude jobs strategy strategy-option refmap filter push-option negotiation-tip"
)
GIT_OPTION_TABLES: Final = {
    "archive": _options("vl0123456789", "o", "verbose list", "format prefix output"),
    "bisect": _options("", "", "no-checkout first-parent", "term-old term-new term-good term-bad"),
    "clone": _options("qvnls46", "boj", """
        quiet verbose progress no-checkout bare mirror local no-local no-hardlinks shared recursive
        recurse-submodules single-branch no-single-branch no-tags shallow-submodules dissociate sparse
        remote-submodules""", """
        branch depth origin jobs reference reference-if-able filter shallow-since shallow-exclude
        separate-git-dir"""),
    "fetch": _options("apkfqtvnmu46P", "jo", _GIT_FLAGS, _GIT_VALUED),
    "grep": _options("EFGPachHiIlLnovwWpzqr", "emfABC", """
        count cached untracked heading no-index ignore-case word-regexp invert-match line-number
        files-with-matches name-only files-without-match fixed-strings extended-regexp perl-regexp break
        show-function function-context quiet and or not all-match recurse-submodules text only-matching column
        color no-color textconv recursive no-recursive exclude-standard basic-regexp null full-name""", """
        max-depth max-count threads context after-context before-context""", numbers=True),
    "init": _options("q", "b", "quiet bare shared", "initial-branch object-format separate-git-dir"),
    "ls-remote": _options("hbtqo", "", "heads branches tags refs quiet exit-code get-url symref", "sort"),
    "pull": _options("apkfqtvnrS46e", "jsX", _GIT_FLAGS, _GIT_VALUED),
    "push": _options("fqnvud46", "o", _GIT_FLAGS, _GIT_VALUED),
    "rebase": _options("iqvfmSkp", "sXCr", """
        continue abort skip quit interactive root autosquash no-autosquash autostash no-autostash quiet verbose
        no-verify verify force-rebase no-ff keep-empty merge edit-todo show-current-patch stat no-stat
        rebase-merges no-rebase-merges fork-point no-fork-point signoff preserve-merges keep-base update-refs
        apply reapply-cherry-picks committer-date-is-author-date reset-author-date no-keep-empty""",
        "onto strategy empty"),
    "submodule": _options("qfbN", "", """
        quiet init recursive remote force merge rebase checkout no-fetch cached all progress
        no-recommend-shallow recommend-shallow single-branch default files summary""", """
        depth branch name jobs reference summary-limit"""),
}  # fmt: skip
"""Harmless options of git subcommands that also have options that run commands or install hooks."""
GIT_HARMLESS: Final = word_set("""
    add am annotate apply blame branch cat-file check-attr check-ignore checkout cherry cherry-pick clean commit
    commit-tree config count-objects describe diff diff-files diff-index diff-tree for-each-ref format-patch fsck gc
    get-tar-commit-id hash-object log ls-files ls-tree merge merge-base mktree mv name-rev notes prune range-diff
    read-tree reflog remote repack reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash
    status switch symbolic-ref tag update-index update-ref verify-commit version whatchanged worktree write-tree
""")
"""Git subcommands that treat every word as data. What the repository's configuration runs is not visible in the
text."""
_CONTAINER: Final = word_set("""
    attach commit cp diff events export history images import info inspect kill load login logout logs ls pause port
    prune ps pull push rename restart rm rmi save search start stats stop tag top unpause update version wait list
""")
_NPM: Final = word_set("""
    access audit bin bugs cache ci completion dedupe deprecate dist-tag doctor find-dupes fund help-search ll la link
    list login logout ls org outdated owner pack ping prefix profile prune publish query rebuild remove r repo rm root
    search shrinkwrap star team token un uninstall unlink unpublish up update upgrade version view info show v whoami
    why i install add in import licenses store
""")
_KUBECTL: Final = word_set("""
    annotate api-resources api-versions apply auth autoscale certificate cluster-info cordon cp create delete describe
    diff drain explain expose get label logs patch port-forward replace rollout scale set taint top uncordon version
    wait
""")
HARMLESS_SUBCOMMANDS: Final = {
    "brew": word_set("install uninstall list update upgrade search info cleanup outdated"),
    "conda": word_set("activate deactivate install list remove info search update create"),
    "docker": _CONTAINER,
    "flatpak": word_set("install list remote-add search uninstall update info"),
    "kubectl": _KUBECTL,
    "nerdctl": _CONTAINER,
    "npm": _NPM,
    "pnpm": _NPM,
    "podman": _CONTAINER,
    "snap": frozenset({"install", "list", "remove", "find", "info", "refresh"}),
    "systemctl": word_set("""
        start stop restart reload status enable disable is-active is-enabled mask unmask list-units list-unit-files
        daemon-reload show cat kill is-failed
    """),
    "yarn": _NPM - {"help-search"},
}
"""Subcommands that treat the following words as data."""
HARMLESS_SUBCOMMAND_OPTIONS: Final = _options("gDSEfsyqhvaldpitnwkocAP", "", """
    global save-dev save save-exact save-optional no-save legacy-peer-deps force silent production json long
    parseable yes ignore-scripts no-audit no-fund verbose quiet dry-run all help version force-rm no-trunc size
    digests tail follow timestamps time volumes rm interactive tty detach workspaces no-optional recursive
    all-namespaces watch show-labels previous dev frozen-lockfile no-git-tag-version no-cache latest include-dir
    no-headers wait grace-period omit depth registry loglevel access tag otp filter format last since until
    prefix workspace output namespace selector filename context container replicas field-selector sort-by
    dest""", """
    omit depth registry loglevel access tag otp filter format last since until prefix workspace output namespace
    selector filename context container replicas field-selector sort-by signal timeout message author
    change""")  # fmt: skip
"""Harmless options of the programs in `HARMLESS_SUBCOMMANDS`."""
HARMLESS_PROGRAMS: Final = (DATA_PROGRAMS - set(OPTION_TABLES) - set(HARMLESS_SUBCOMMANDS) - {"find"}) | word_set("""
    . alias arp awk bg blkid builtin bzcat bzgrep caller chattr chcon command compgen complete compress coproc csplit
    dircolors dirs disown eval exec fdisk ffmpeg ffprobe fg findmnt fuser gawk groupadd gzcat hash hostnamectl iostat
    journalctl lame localectl loginctl lp lpr lpstat lsattr lsmod lspci lsusb lz4 lzma mapfile mawk md5deep more
    mountpoint mpstat mtr nawk notify-send objdump pathchk pbpaste pigz pmap pv qpdf rar readarray readelf recode
    renice sar say scp sdiff sed sensors setfacl sftp sha224sum sha384sum b2sum showmount size source ss ssh strings
    suspend swapoff swapon sysctl timedatectl top tracepath trap umount uncompress unexpand unix2dos unrar unzstd
    updatedb uudecode uuencode uuidgen wall whois write xclip xmllint xsel xzcat zdiff zegrep zfgrep zgrep zstd zstdcat
""")
"""Programs whose words run nothing, or whose nested commands `wrappers` finds."""
FIND_VALUE_WORDS: Final = word_set("""
    -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex
    -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype
    -samefile -size -type -uid -used -user -wholename -xtype -fprint -fprint0 -fls -files0-from -newermt -newerct
    -newerat -newerBt -D
""")
"""Words of find that always take the next word as their value."""
HARMLESS_VARIABLES: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|CI|DEBUG|NODE_ENV|RAILS_ENV"
    r"|RACK_ENV|APP_ENV|FLASK_ENV|ENVIRONMENT|VERBOSE|PORT|HOST|HOSTNAME|USER|LOGNAME|TMPDIR|TMP|TEMP|DISPLAY|IFS"
    r"|DEBIAN_FRONTEND|RUST_BACKTRACE|RUST_LOG|LOG_LEVEL|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED"
    r"|PYTHONIOENCODING|GOOS|GOARCH|CGO_ENABLED|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT"
    r"|GIT_PAGER_IN_USE|GIT_MERGE_AUTOEDIT|POSIXLY_CORRECT|TIMEFORMAT|OLDPWD|PWD|REPLY|OPTARG|AWS_(REGION|PROFILE)"
    r"|DJANGO_SETTINGS_MODULE|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS|SOURCE_DATE_EPOCH|[A-Za-z_]*_(URL|TOKEN|KEY|VERSION)"
)
"""Variables that do not make any program run something."""


def unsafe_option_reason(table: Options, words: Sequence[ResolvedWord], commands: Sequence[str] = ()) -> str:
    """Why one of the words may be an option that runs a command; empty if none may.

    `commands`: options whose value is a command; a literal one is judged as a nested command.
    """
    at, resolved = 0, list(words)
    if table.bundled and "--null" in resolved:
        table = replace(table, valued=f"{table.valued}T", long_valued=table.long_valued | {"--files-from"})
    if table.bundled and resolved and isinstance(resolved[0], str) and not resolved[0].startswith("-"):
        if reason := _unsafe_bundle_reason(table, resolved):
            return reason
        at = 1 + sum(letter in table.valued for letter in str(resolved[0]))
    while at < len(resolved):
        word = resolved[at]
        at += 1
        if word == "--":
            return ""
        if isinstance(word, UnknownWord):
            if word is not UnknownWord.OPERAND:
                return "a word that may be an option is only known at run time"
        elif word.startswith(UNKNOWN_PIECE):
            return "a word that may be an option is only known at run time"
        elif word.startswith("-") and word != "-":
            taken = _values_taken(table, word)
            if taken is None and _is_literal_command(table, word, resolved[at : at + 1], commands):
                taken = int("=" not in word)
            if taken is None:
                return f"the option '{word.replace(UNKNOWN_PIECE, '…')}' may run a program"
            if UnknownWord.MANY in resolved[at : at + taken]:
                return "the value of an option is only known at run time"
            at += taken
    return ""


def _unsafe_bundle_reason(table: Options, words: Sequence[ResolvedWord]) -> str:
    first = str(words[0])
    letters = first if first.isalnum() else ""
    odd = [letter for letter in letters if letter not in table.flags + table.valued]
    if odd or not letters or UnknownWord.MANY in words[1 : 1 + sum(letter in table.valued for letter in letters)]:
        return f"the options '{first.replace(UNKNOWN_PIECE, '…')}' may run a program"
    return ""


def _values_taken(table: Options, word: str) -> int | None:
    """How many of the next words are values of an option; None if the option is unknown."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        if name in table.long_valued:
            return 0 if equals or name in table.long else 1
        return 0 if name in table.long else None
    if table.numbers and word[1:].isdigit():
        return 0
    for at, letter in enumerate(word[1:], 2):
        if letter in table.valued:
            return int(at == len(word))
        if letter in table.attached:
            return 0
        if letter not in table.flags:
            return None
    return 0


def _is_literal_command(table: Options, word: str, after: Sequence[ResolvedWord], commands: Sequence[str]) -> bool:
    """Whether an option that takes a command, and its command, are literal and complete."""
    name, equals, value = word.partition("=")
    if not word.startswith("--"):
        name, equals = f"-{word[-1]}", ""
        if any(letter not in table.flags for letter in word[1:-1]):
            return False
    resolved = value if equals else next(iter(after), None)
    return (
        name in commands
        and isinstance(resolved, str)
        and UNKNOWN_PIECE not in resolved
        and not resolved.startswith("-")
    )
