"""Who asks: the port every model is reached through, the providers behind it, and the embedded operator."""
