"""`media.send`, `image.analyze` and `audio.transcribe`."""
