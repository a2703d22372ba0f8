"""What every package uses: errors, files, processes, the allocator, progress."""
