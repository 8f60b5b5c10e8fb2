"""What every registration and subscription gives back: the one way to undo it."""

from __future__ import annotations

from collections.abc import Callable


class Handle:
    """Undoes one registration, once."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], object] | None = None) -> None:
        self._undo = undo

    def remove(self) -> bool:
        """True the first time, False ever after."""
        undo, self._undo = self._undo, None
        if undo is None:
            return False
        undo()
        return True

    @staticmethod
    def compose(*handles: Handle | None) -> Handle:
        """One handle for several, removed in the order given; None is skipped."""

        def undo() -> None:
            for handle in handles:
                if handle is not None:
                    handle.remove()

        return Handle(undo)
