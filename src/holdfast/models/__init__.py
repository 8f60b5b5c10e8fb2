"""Language models: the `Model` protocol, remote providers, the text protocol and the embedded operator."""
