"""Tools at one moment: snapshots, wrapper trees on disk, and servers' change notifications."""
