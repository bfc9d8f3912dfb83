"""Files that outlive a sandbox: threads and volumes as stored trees."""
