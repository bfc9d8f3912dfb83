"""HTTP and addresses, bounded: what every connection of ours uses."""
