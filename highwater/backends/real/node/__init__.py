"""What a broker has in a process as in a container: its folder, its log directories and its faked clock."""
