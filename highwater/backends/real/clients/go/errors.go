// The names of errors: Kafka's where the broker gave one, else names of our own, which begin with "_".
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const nameMax = 80 // of an error that has no name of its own: so much of its text

var (
	errState    = errors.New("_STATE")     // a step of no producer, or a commit of no member
	errNoReport = errors.New("_NO_REPORT") // no result came in time
	errRevoked  = errors.New("REVOKED")    // a transaction that the session aborted, because the group rebalanced
	errAborted  = errors.New("ABORTED")    // the client aborted as it was asked to
)

func (h *heard) fail(err error) {
	if broker, ok := brokerError(err); ok {
		h.Error, h.Code = broker.Message, &broker.Code
		return
	}
	h.Error = nameOf(err)
}

// brokerError is Kafka's error in this one, if it has one; no answer in time is one, as for the other libraries.
func brokerError(err error) (*kerr.Error, bool) {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return broker, true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, kgo.ErrRecordTimeout) {
		return kerr.RequestTimedOut, true
	}
	return nil, false
}

func nameOf(err error) string {
	var network net.Error
	var lost *kgo.ErrDataLoss
	switch {
	case errors.Is(err, errState), errors.Is(err, errNoReport), errors.Is(err, errRevoked), errors.Is(err, errAborted):
		return err.Error()
	case errors.Is(err, kgo.ErrRecordRetries):
		return "_RECORD_RETRIES"
	case errors.Is(err, kgo.ErrClientClosed):
		return "_CLIENT_CLOSED"
	case errors.Is(err, kgo.ErrAborting):
		return "_ABORTING"
	case errors.As(err, &lost):
		return "_DATA_LOSS"
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "_TRANSPORT"
	}
	text := err.Error()
	return "_" + text[:min(len(text), nameMax)]
}

// passes says whether the client goes on by itself after this error of a poll.
func passes(err error) bool {
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, context.DeadlineExceeded)
}
