// The version of franz-go is entered when this is compiled (clients/franz_go.py).
module highwater-clients

go 1.24.0
