"""What the benches of the log and of the server measure with: an emulated AWS, fresh processes, counters, clients."""
