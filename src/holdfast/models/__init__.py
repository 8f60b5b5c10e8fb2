"""Language models: the `Model` protocol, the remote providers behind it, the text protocol and the embedded operator."""
