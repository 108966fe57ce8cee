"""What a run does in words of the protocol, and how runs of two commits differ (docs/decisions/0054-behaviour-snapshot.md)."""
