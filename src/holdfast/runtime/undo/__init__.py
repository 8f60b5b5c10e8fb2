"""Undo: the changes of a call on disk are recorded before they count, and can be restored."""

from holdfast.runtime.undo.recorder import Recorder

__all__ = ["Recorder"]
