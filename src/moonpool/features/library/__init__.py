"""The library: saved actions and skills, which a person keeps and code uses."""
