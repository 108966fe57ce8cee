"""What only a harness switches on in a node. A broker whose settings ask for none of it does none of it."""
