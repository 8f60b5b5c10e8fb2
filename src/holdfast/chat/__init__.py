"""The `.chat` document as a conversation: lossless parser and renderer, frontmatter, file session."""
