// What all producers and consumers of one client are given.
package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	callTime        = 5 * time.Second // for each request of a transaction, and beyond the request timeout of a produce
	closeTime       = time.Second     // to abort what is given up
	memberTime      = 6 * time.Second // the least session timeout that brokers allow by default
	heartbeatTime   = 500 * time.Millisecond
	transactionTime = 6 * time.Second // after which the coordinator aborts a transaction that nobody ends
	fetchTime       = 50 * time.Millisecond
	batchTime       = 5 * time.Millisecond // the values of one produce travel as one batch
	polledMax       = 500
)

type settings struct {
	request
	timeout time.Duration
}

func newSettings(first request) *settings {
	return &settings{request: first, timeout: time.Duration(first.TimeoutMs) * time.Millisecond}
}

// transactionalID is that of an id that clients share.
func (s *settings) transactionalID(shared string) string { return "highwater-" + shared + s.Run }

// link is a client of the library with the connections that it dialed.
type link struct {
	*kgo.Client
	dialed *dialed
}

func (s *settings) connect(own ...kgo.Opt) (*link, error) {
	dialed := newDialed(s.timeout)
	client, err := kgo.NewClient(append(s.common(dialed), own...)...)
	if err != nil {
		return nil, err
	}
	return &link{client, dialed}, nil
}

func (s *settings) common(dialed *dialed) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.Brokers, ",")...),
		kgo.ClientID(s.Client),
		kgo.Dialer(dialed.dial),
		kgo.RequestTimeoutOverhead(max(100*time.Millisecond, s.timeout)), // the least that the library takes
		kgo.ProduceRequestTimeout(max(100*time.Millisecond, s.timeout)),
		kgo.RetryBackoffFn(backoff),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(fetchTime),
	}
}

// backoff doubles from 50 to 500 ms.
func backoff(fails int) time.Duration {
	return min(50*time.Millisecond<<min(max(fails-1, 0), 4), 500*time.Millisecond)
}

// reading is given to consumers that choose their partitions and offsets. With control records a consumer knows where it is: the
// library does not tell its position behind the last record.
func (s *settings) reading(level kgo.IsolationLevel) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords()}
}

// producing is given to transactional producers. A second is the least time for deliveries that the library takes.
func (s *settings) producing(id string) []kgo.Opt {
	return []kgo.Opt{
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(max(transactionTime, s.timeout)),
		kgo.RecordDeliveryTimeout(max(time.Second, s.timeout)),
		kgo.ProducerLinger(0),
	}
}

// joining is given to members of a group.
func (s *settings) joining(group string, reads []partition, level kgo.IsolationLevel) []kgo.Opt {
	own := []kgo.Opt{
		kgo.ConsumerGroup(group + s.Run),
		kgo.ConsumeTopics(topics(reads)...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(),
		kgo.SessionTimeout(memberTime),
		kgo.HeartbeatInterval(heartbeatTime),
	}
	switch s.Membership {
	case "cooperative":
		return append(own, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "static":
		return append(own, kgo.Balancers(kgo.RangeBalancer()), kgo.InstanceID(s.Client))
	case "consumer":
		return append(own, coordinatorAssigns()...) // KIP-848: the coordinator says how long a session lasts
	default:
		return append(own, kgo.Balancers(kgo.RangeBalancer()))
	}
}

// shut closes a client, which may take so long; then its connections are closed.
func (l *link) shut(limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		l.CloseAllowingRebalance()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(limit):
		l.dialed.sever()
	}
}

// abort ends the client's transaction, as far as it can: the next client has the same transactional id anyway.
func (l *link) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if l.AbortBufferedRecords(ctx) == nil {
		_ = l.EndTransaction(ctx, kgo.TryAbort)
	}
}

// drop lets a client die without a word: what it would say when it is closed reaches nobody.
func (l *link) drop() {
	l.dialed.sever()
	go l.CloseAllowingRebalance()
}

var errSevered = errors.New("the client was dropped")

// dialed has the connections of one client.
type dialed struct {
	dialer  net.Dialer
	lock    sync.Mutex
	open    map[net.Conn]struct{}
	severed bool
}

func newDialed(timeout time.Duration) *dialed {
	return &dialed{dialer: net.Dialer{Timeout: max(timeout, time.Second)}, open: map[net.Conn]struct{}{}}
}

func (d *dialed) dial(ctx context.Context, _, host string) (net.Conn, error) {
	connection, err := d.dialer.DialContext(ctx, "tcp4", host)
	if err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.severed {
		connection.Close()
		return nil, errSevered
	}
	d.open[connection] = struct{}{}
	return &noted{connection, d}, nil
}

func (d *dialed) sever() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.severed = true
	for connection := range d.open {
		connection.Close()
	}
}

// noted is a connection that is forgotten when it is closed.
type noted struct {
	net.Conn
	by *dialed
}

func (n *noted) Close() error {
	n.by.lock.Lock()
	delete(n.by.open, n.Conn)
	n.by.lock.Unlock()
	return n.Conn.Close()
}
