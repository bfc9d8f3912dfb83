"""The command `moonpool` inside a sandbox. Started by `bin/moonpool`, outside the package, so that it starts fast."""
