"""The machines of `reference` as real processes: asyncio, TCP, files, a real ZooKeeper. Nothing here decides for the protocol."""
