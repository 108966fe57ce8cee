"""What a broker's process and a broker's container share: its folder, its log directories and its faked clock."""
