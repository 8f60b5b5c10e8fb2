"""The work behind `holdfast chat`: finding a document, driving it, showing what happens, asking about what waits."""
