"""The closed word lists of the grammar."""

from __future__ import annotations

from typing import Final

from holdfast.models.requests.words import EXTENSIONLESS, words_of
from holdfast.models.requests.words import FOLDERS as _FOLDERS

PROGRAMS: Final = words_of(
    "bash bun cargo cat cmake composer curl deno df docker dotnet du echo gcc git gradle java javac jest jq kubectl ls "
    "make mkdir mvn mypy node nox npm npx perl php pip pip3 pnpm poetry pre-commit printf pwd pyright pytest python "
    "python3 rg ruby ruff rustc sh tox uname uniq uv uvx wc whoami yarn"
)
"""A command that begins with one of these needs no backticks, if the rest of it is as plain."""
TARGETS: Final = words_of(
    "add analyze app audit bench benchmark branch build bundle check checkout clean commit compile compose config "
    "coverage deploy dev develop diff dist doc docs e2e fetch fmt format freeze generate images init install "
    "integration lib lint log login main master migrate origin outdated pack package preview prune ps publish "
    "pull push release remote render report restore run serve setup show smoke src stash status sync tag test "
    "tests tree typecheck types unit update upgrade vendor venv verify version vet web"
)
"""Words that may stand in such a command as they are: what is built, done or named with these programs everywhere."""
TEXT_OPTIONS: Final = words_of("-m -k -c -e -am --message --grep --title --body")
"""Options after which such a command may hold a text in quotes."""
ENGLISH: Final = words_of(
    "a about after again all also an and any are as at away be because before but by can carefully don't don’t "
    "every everything except first for from he her here him his how i if in instead into is it its later me my "
    "never no not now of off on once only or otherwise our over please quickly safely she should so soon sure "
    "than that the them then there these they this those till time times to too twice unless until up us was what "
    "when whenever where whether while why with without would yes you your"
)
"""Words that are part of a sentence, and no names."""
UNSURE: Final = words_of(
    # taken back
    "abbrechen abort aborted actually aldri aldrig annule annuleer annuler annulla anuluj aspetta attends avbryt "
    "avoid can't cancel cancela cancelar cancele canceled cancelled cannot cant czekaj dont espera fake forget "
    "haha halt hayır hold ignore ikke inte iptal jamais jamás jk joking just kein keine kidding lol "
    "mai mistake n/a nada nah nao nay nee nei nein neither nej nevermind nicht nie niemals niente niet nm nobody "
    "non none nooit nope nor nothing nunca nvm não oops pas pause prank quit refrain rien scratch sike skip sorry "
    "stop stopp undo w/o wacht wait warte whatever whoops won't wont wrong не нет никогда отмена подожди стоп いいえ "
    "だめ やめて 不 不要 别 取消 "
    # put off
    "afternoon afterwards amanha amanhã anytime april august bald bientôt dawn december demain depois domani dopo "
    "dusk evening eventually february friday gleich heute hoje hour hours hoy imorgon january july june jutro "
    "luego manana march may mañana midnight minute minutes moment monday month months morgen morning night noon "
    "november october oggi później saturday second seconds senare september someday sometime sonra spaeter später "
    "straks sunday thursday today tomorrow tonight tuesday wednesday week weekend weeks yarın year years "
    "yesterday yet завтра потом сегодня 以后 後で 明天 明日 "
    # left open
    "belki else eventuell ever falls forse hopefully hypothetically ideally idk kanske kanskje kinda likely maybe "
    "mayhaps misschien moze może perchance perhaps peut-être peutetre possibly presumably probably quizas quizá "
    "quizás somehow sometimes sorta supposedly talvez theoretically theory vielleicht wenn womöglich если может "
    "也许 可能 多分 "
    # nobody's name
    "anybody anyone anything both cons each everybody everyone pros some somebody someone "
    "something"
)
"""Words that take back, put off or leave open what is said, or stand for everything: never the name of anything."""
FILES: Final = EXTENSIONLESS | words_of("README LICENSE LICENCE COPYING CHANGELOG CONTRIBUTING")
"""Files that are known as such without a dot or a slash in their name."""
FOLDERS: Final = _FOLDERS | words_of(
    "api apps assets backend bench build client config dist examples frontend libs packages server spec specs static "
    "templates tools vendor web www"
)
"""Folders that are known as such without a dot or a slash in their name."""
NO_FOLDERS: Final = words_of(
    "a all an and any background bash case commands debug detail docker everything files folders foreground full here "
    "it me my nothing of off on order out parallel processes production python quiet reverse secret series sh silence "
    "some that the them these this those time to tools turn up us verbose your"
)
"""Words that stand where a folder would, and are none."""
