"""Immutable blobs of at most 8 MiB: in a folder, in S3, or in memory, behind one `BlobStore`."""
