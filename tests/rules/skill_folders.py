"""`write_skill`: a skill folder; `Trusted`: a trust store in memory."""

from __future__ import annotations

from pathlib import Path

from holdfast.rules.skills import SkillCatalog, read_content

BODY = "Read the file.\nThen say what it is.\n"


def write_skill(
    folder: Path, *more: str, name: str = "", description: str = "Reads files.", body: str = BODY, manifest: str = ""
) -> Path:
    """Write a skill into a folder that may not exist yet; `more` are lines of its front matter."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ("---", f"name: {name or folder.name}", f"description: {description}", *more, "---", "", body)
    (folder / "SKILL.md").write_text("\n".join(lines))
    if manifest:
        (folder / "manifest.json").write_text(manifest)
    return folder


class Trusted:
    def __init__(self) -> None:
        self.digests: dict[Path, str] = {}

    def trust(self, folder: Path) -> None:
        content = read_content(folder)
        self.digests[content.trusted_file] = content.digest

    def catalog(self, root: Path | None, user: Path, **configured: Path) -> SkillCatalog:
        return SkillCatalog(
            {name: str(folder) for name, folder in configured.items()},
            root=root,
            is_trusted=lambda path, digest: self.digests.get(path) == digest,
            is_known=lambda path: path in self.digests,
            user_folder=user,
        )
