"""What an organisation's keys run code with: environment, limits, variables, network, storage."""
