"""What every package uses: errors, rules, foreign text, printing, consoles, files, processes, progress, memory."""
