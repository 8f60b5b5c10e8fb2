"""`.chat` documents: lossless parser and writer, frontmatter, templates, and the conversation on a file."""
