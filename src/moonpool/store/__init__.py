"""What Moonpool keeps on disk: the audit journal and cached manifests. See each module for its seam."""
