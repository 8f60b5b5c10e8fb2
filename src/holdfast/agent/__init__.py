"""The agent loop between a model and the pipeline, on a `Conversation` that may be kept anywhere."""
