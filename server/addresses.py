"""Addresses as users write them: host and port, and the servers of a ZooKeeper with the root of the cluster's znodes."""

_ZOOKEEPER_PORT = 2181


def host_and_port(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Split "127.0.0.1:9092" or "[::1]:9092" into host and port; the host has no brackets.

    Without a port the default, if there is one. Raises ValueError, with a sentence, if `text` is not of this form.
    """
    host, colon, port = text.rpartition(":")
    if default_port is not None and (not colon or text.endswith("]")):
        host = text
        port = str(default_port)
    bare = host.removeprefix("[").removesuffix("]")
    is_whole = bool(bare) and (":" in bare) == (host == f"[{bare}]") and not set(bare) & set("[]/ ,")
    if not is_whole or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        form = "host:port" if default_port is None else "host or host:port"
        raise ValueError(f"an address must be {form}, not {text!r}")
    return bare, int(port)


def zookeeper_servers(text: str) -> str:
    """The same servers and root with every port: "a/kafka" is "a:2181/kafka", as in Kafka's zookeeper.connect.

    Raises ValueError, with a sentence.
    """
    servers, slash, root = text.partition("/")
    parsed = (host_and_port(server, _ZOOKEEPER_PORT) for server in servers.split(","))
    if slash and not all(root.split("/")):
        raise ValueError(f"the path behind the servers of ZooKeeper must be like /kafka or /a/b, not {slash}{root}")
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in parsed) + slash + root
