"""Undo: what a call changed on disk is recorded before it counts, and can be put back."""

from holdfast.runtime.undo.recorder import Recorder

__all__ = ["Recorder"]
