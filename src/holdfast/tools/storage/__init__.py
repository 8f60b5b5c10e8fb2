"""`minio.share`, `minio.ingest` and `minio.sync`: files to, and texts from, any S3 server."""
