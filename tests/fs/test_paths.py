from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.errors import PathRefused
from holdfast.fs.paths import confine, resolve
from tests.soak import rounds


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


BOTH = pytest.mark.parametrize("mutating", [False, True])


def refused(path: str, root: Path, *, mutating: bool, base: Path | None = None) -> str:
    with pytest.raises(PathRefused) as raised:
        confine(path, root=root, base=base or root, mutating=mutating)
    message = str(raised.value)
    assert message.isprintable() and len(message) < 500
    return message


@pytest.mark.spec("N5")
@BOTH
def test_a_relative_path_starts_at_the_base(root: Path, mutating: bool) -> None:
    base = root / "notes"
    base.mkdir()
    assert confine("a/b.txt", root=root, base=base, mutating=mutating) == root / "notes/a/b.txt"
    assert confine(".", root=root, base=base, mutating=mutating) == base


@pytest.mark.spec("N5")
@BOTH
def test_an_absolute_path_must_be_inside_the_root(root: Path, mutating: bool) -> None:
    assert confine(str(root / "x"), root=root, base=root, mutating=mutating) == root / "x"
    for path in ("/etc/passwd", str(root.parent), f"{root}-evil/x", "/proc/self/root/etc/passwd", "/dev/fd/3"):
        assert "outside the project root" in refused(path, root, mutating=mutating)


@pytest.mark.spec("N5")
def test_a_root_reached_through_a_symlink_is_the_same_root(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    for mutating in (False, True):
        assert confine(str(link / "x"), root=root, base=root, mutating=mutating) == root / "x"
        assert confine("x", root=link, base=link, mutating=mutating) == root / "x"


@pytest.mark.spec("N3")
def test_dot_dot_is_resolved_for_reading_and_refused_for_mutating(root: Path) -> None:
    (root / "sub").mkdir()
    assert confine("sub/../x", root=root, base=root, mutating=False) == root / "x"
    assert "outside" in refused("../x", root, mutating=False)
    assert "outside" in refused("sub/../../x", root, mutating=False)
    for path in ("sub/../x", "..", "a/..", f"{root}/sub/../x", "sub\\..\\x"):
        assert "contains '..'" in refused(path, root, mutating=True)
    assert confine("a..b/...", root=root, base=root, mutating=True) == root / "a..b/..."


@pytest.mark.spec("N3")
def test_a_symlink_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to("/etc/hostname")
    for path in ("out/x", "out", "file"):
        assert "outside" in refused(path, root, mutating=False)
        assert "symlink" in refused(path, root, mutating=True)


@pytest.mark.spec("N3")
def test_a_symlink_inside_the_root_is_followed_for_reading_and_refused_for_mutating(root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    (root / "self").symlink_to(root)
    assert confine("link/x", root=root, base=root, mutating=False) == root / "real/x"
    for path in ("link/x", "link", "self/real/x", f"{root}/self/x"):
        assert "goes through the symlink" in refused(path, root, mutating=True)


@pytest.mark.spec("N3")
def test_a_symlink_is_resolved_before_dot_dot(root: Path, tmp_path: Path) -> None:
    deep = tmp_path / "elsewhere" / "deep"
    deep.mkdir(parents=True)
    (root / "link").symlink_to(deep)
    assert "outside" in refused("link/../secret", root, mutating=False)


@pytest.mark.spec("N3")
def test_symlink_loops_do_not_leave_the_root(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert confine("a/x", root=root, base=root, mutating=False).is_relative_to(root)
    assert "symlink" in refused("a/x", root, mutating=True)


@pytest.mark.spec("N3")
@BOTH
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "is empty"),
        ("a\0b", "NUL"),
        ("a" * 5000, "5,000 bytes long"),
        ("é" * 3000, "6,000 bytes long"),
        ("~root/x", "another user's home"),
        ("~nobody", "another user's home"),
        ("%2e%2e/x", "percent"),
        ("a/%2E./x", "percent"),
        ("..%2fetc", "percent"),
        ("%252e%252e/x", "percent"),
        ("\ud800", "invalid Unicode"),
    ],
)
def test_an_unusable_path_is_refused_with_the_reason(root: Path, path: str, says: str, mutating: bool) -> None:
    assert says in refused(path, root, mutating=mutating)


@pytest.mark.spec("N3")
def test_a_path_through_a_file_or_with_an_impossible_name_is_refused_for_mutating(root: Path) -> None:
    (root / "file").touch()
    assert "cannot be used" in refused("file/x", root, mutating=True)
    assert "cannot be used" in refused("n" * 300, root, mutating=True)


@pytest.mark.spec("N5")
def test_a_tilde_means_the_home_folder(own_home: Path, root: Path) -> None:
    assert resolve("~/x", root) == own_home / "x" and resolve("~", root) == own_home
    assert resolve("~//etc/x", root) == own_home / "etc/x"
    assert confine("~/x", root=own_home, base=root, mutating=True) == own_home / "x"
    assert "outside" in refused("~/x", root, mutating=False)
    assert confine("./~root", root=root, base=root, mutating=True) == root / "~root"


@pytest.mark.spec("N5")
def test_resolve_returns_a_real_absolute_path(root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    assert resolve("link/../link/x", root) == root / "real/x"
    assert resolve("/etc/../etc/hosts", root) == Path("/etc/hosts")


@pytest.mark.spec("N5")
def test_the_file_system_root_can_be_the_root() -> None:
    assert confine("/x-not-there/y", root=Path("/"), base=Path("/"), mutating=True) == Path("/x-not-there/y")


_part = st.sampled_from(["..", ".", "a", "link", "out", "self", "~", "", "é", "%2e%2e", "a\\..\\b", "/etc", "\0"])


@pytest.mark.spec("N3", "N5")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(parts=st.lists(_part, max_size=6), absolute=st.booleans(), mutating=st.booleans())
def test_any_path_is_inside_the_root_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], absolute: bool, mutating: bool
) -> None:
    top = tmp_path_factory.getbasetemp() / f"confine-{os.getpid()}"
    root = top / "root"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (top / "outside").mkdir()
        (root / "link").symlink_to("a")
        (root / "out").symlink_to(top / "outside")
        (root / "self").symlink_to(root)
    path = ("/" if absolute else "") + "/".join(parts)
    try:
        found = confine(path, root=root, base=root / "a", mutating=mutating)
    except PathRefused:
        return
    assert found.is_absolute() and Path(os.path.realpath(found)).is_relative_to(os.path.realpath(root))
    if mutating:
        assert found == Path(os.path.realpath(found))
