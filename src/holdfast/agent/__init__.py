"""The loop between a model and the path. It works on a `Conversation`; where that is kept is not its business."""
