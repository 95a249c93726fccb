"""What travels between the engine and its shell: stimuli, commands, references, statuses and the time."""
