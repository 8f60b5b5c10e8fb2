"""Other names of subcommands: `npm pub` is `npm publish`, `docker container run` is `docker run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell.verdicts import Word

_NPM: Final = (
    "i,in,ins,inst,insta,instal,isnt,isnta,isntal,isntall,add,install t,tst,test rum,urn,run-script,run "
    "un,rm,r,remove,unlink,uninstall up,upgrade,udpate,update x,exec c,config ls,la,ll,list s,se,find,search "
    "v,info,show,view ln,link ddp,dedupe author,owner create,innit,init dist-tags,dist-tag hlep,help issues,bugs "
    "home,docs why,explain clean-install,ic,install-clean,isntall-clean,ci rb,rebuild verison,version "
    "cit,clean-install-test,sit,install-ci-test it,install-test adduser,add-user,login"
)
_ALIASES: Final = {
    "brew": "rm,remove,uninstall ls,list up,update",
    "cargo": "b,build c,check d,doc t,test r,run rm,remove",
    "gem": "i,install",
    "npm": _NPM,
    "pnpm": _NPM,
}
"""Names joined by commas are one subcommand."""
_SHORTENED: Final = frozenset({"bundle", "gem", "hg", "ip", "nmcli", "npm", "tmux"})
"""Programs that take the beginning of a subcommand for the whole."""
_MANAGING: Final = frozenset(
    {"builder", "buildx", "compose", "container", "context", "image", "network", "plugin", "system", "volume"}
)
_CONTAINERS: Final = frozenset({"docker", "nerdctl", "podman"})
_OF_IMAGES: Final = {"rm": "rmi", "remove": "rmi", "ls": "images", "list": "images"}


def is_same(program: str, wanted: str, word: str) -> bool:
    """Whether a word is another name of the subcommand that is wanted."""
    groups = (group.split(",") for group in _ALIASES.get(program, "").split())
    if any(wanted in group and word in group for group in groups):
        return True
    return program in _SHORTENED and len(word) > 1 and wanted.startswith(word) and not word.startswith("-")


def without_management(program: str, wanted: Sequence[str], words: Sequence[Word]) -> Sequence[Word]:
    """The words of a container program without the kind of thing that a subcommand is about."""
    if program not in _CONTAINERS or not wanted or wanted[0] in _MANAGING:
        return words
    for at, word in enumerate(words):
        if word in _MANAGING and not any(word in ("run", "exec") for word in words[:at]):
            after = list(words[at + 1 :])
            if word == "image" and after and (name := _OF_IMAGES.get(after[0] or "")) is not None:
                after[0] = name
            return [*words[:at], *after]
    return words
