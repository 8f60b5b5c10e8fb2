"""The one reader of requests in English: literals, names, sentences and the notation of phrases."""
