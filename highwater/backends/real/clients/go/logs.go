// Produces to partitions, and reads of them, as clients/kafka.py makes them with librdkafka.
//
// One operation is one send. RecordRetries(0) does not keep the library from every resend: a batch whose partition moved to another
// leader while its request was under way is sent again. `writes` counts the requests.
package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const openTime = 30 * time.Second

type produceKey struct {
	acks       int16
	retries    int
	idempotent bool
}

type plainProducer struct {
	*link
	writes *writes
}

// writes counts the produce requests that a client wrote, or began to write.
type writes struct{ count atomic.Int64 }

func (w *writes) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == 0 {
		w.count.Add(1)
	}
}

type logs struct {
	settings  *settings
	asking    *asking
	producers map[produceKey]*plainProducer
	reader    *link
}

// open reaches the cluster once.
func (l *logs) open() error {
	client, err := l.asking.ready()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return client.Ping(ctx)
}

func (l *logs) close() {
	for _, producer := range l.producers {
		producer.drop()
	}
	if l.reader != nil {
		l.reader.shut(closeTime)
	}
	l.asking.close()
}

func (l *logs) newProducer(key produceKey) (*plainProducer, error) {
	writes := &writes{}
	own := []kgo.Opt{kgo.WithHooks(writes), kgo.ProducerLinger(batchTime)}
	if key.idempotent {
		own = append(own, kgo.RecordDeliveryTimeout(max(time.Second, l.settings.timeout))) // the least that the library takes
	} else {
		own = append(own, kgo.DisableIdempotentWrite(), kgo.RecordRetries(key.retries))
	}
	switch key.acks {
	case 0:
		own = append(own, kgo.RequiredAcks(kgo.NoAck()))
	case 1:
		own = append(own, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	client, err := l.settings.connect(own...)
	if err != nil {
		return nil, err
	}
	return &plainProducer{client, writes}, nil
}

type delivery struct {
	at     int
	offset int64
	err    error
}

func (l *logs) produce(call *call, heard *heard) error {
	key := produceKey{call.Acks, call.Retries, call.Idempotent}
	producer := l.producers[key]
	if producer == nil {
		made, err := l.newProducer(key)
		if err != nil {
			heard.Attempts = 0
			return err
		}
		l.producers[key], producer = made, made
	}
	before := producer.writes.count.Load()
	ctx := context.Background()
	if !call.Idempotent { // an idempotent producer cannot forget what it sent: its sequence would have a gap
		timed, cancel := context.WithTimeout(ctx, l.settings.timeout+batchTime)
		defer cancel()
		ctx = timed
	}
	offsets, failures, delivered := l.deliver(ctx, producer, call)
	if !call.Idempotent {
		heard.Attempts = max(1, call.Retries+1, int(producer.writes.count.Load()-before))
	}
	if len(failures) == 0 {
		if call.Acks != 0 { // else there are no offsets
			heard.Offsets = offsets
		}
		return nil
	}
	// Earlier attempts, and other values of the operation, may have had another result. An unknown topic may be what the metadata say,
	// with a request under way.
	unknown := errors.Is(failures[0], kerr.UnknownTopicOrPartition)
	if call.Idempotent || heard.Attempts > 1 || delivered > 0 || !alike(failures) || unknown {
		heard.Earlier = []string{"_RETRIED"}
	}
	// An idempotent producer may have had a fatal error, or still send what it was given; so may one that tells nothing.
	if call.Idempotent || errors.Is(failures[len(failures)-1], errNoReport) {
		delete(l.producers, key)
		producer.drop()
	}
	return failures[0]
}

// deliver sends the values of a call, and waits until each is delivered or failed: their offsets in order, the errors, and how many
// were delivered.
func (l *logs) deliver(ctx context.Context, producer *plainProducer, call *call) ([]int64, []error, int) {
	of := named(call.TP)
	results := make(chan delivery, len(call.Values))
	for at, value := range call.Values {
		record := &kgo.Record{Topic: of.topic, Partition: of.number, Value: []byte(value)}
		if l.settings.Keyed {
			own, _, _ := strings.Cut(value, "=")
			record.Key = []byte(own)
		}
		producer.Produce(ctx, record, func(record *kgo.Record, err error) { results <- delivery{at, record.Offset, err} })
	}
	offsets, failures, delivered := make([]int64, len(call.Values)), []error(nil), 0
	limit := time.After(l.settings.timeout + callTime)
	for range call.Values {
		select {
		case result := <-results:
			if result.err != nil {
				failures = append(failures, result.err)
				continue
			}
			offsets[result.at] = result.offset
			delivered++
		case <-limit:
			return nil, append(failures, errNoReport), delivered
		}
	}
	return offsets, failures, delivered
}

func alike(failures []error) bool {
	for _, failure := range failures {
		if failure.Error() != failures[0].Error() {
			return false
		}
	}
	return true
}

func (l *logs) bound(call *call, end int64, heard *heard) error {
	of := named(call.TP)
	ctx, cancel := context.WithTimeout(context.Background(), l.settings.timeout)
	defer cancel()
	found, err := l.asking.bounds(ctx, []partition{of}, end, uncommitted)
	if err != nil {
		return err
	}
	offset := found[of]
	if offset < 0 {
		return kerr.OffsetNotAvailable
	}
	heard.Offset = &offset
	return nil
}

// poll returns records that were fetched after the call began: the partition is added anew. A consumer does not tell that a partition
// has no more, so its end is asked for first.
func (l *logs) poll(call *call, heard *heard) error {
	of := named(call.TP)
	ctx, cancel := context.WithTimeout(context.Background(), l.settings.timeout)
	defer cancel()
	ends, err := l.asking.bounds(ctx, []partition{of}, latest, uncommitted)
	if err != nil {
		return err
	}
	if ends[of] <= call.Offset {
		if ends[of] < call.Offset {
			return kerr.OffsetOutOfRange
		}
		return nil
	}
	if l.reader == nil {
		reader, err := l.settings.connect(l.settings.reading(kgo.ReadUncommitted())...)
		if err != nil {
			return err
		}
		l.reader = reader
	}
	l.reader.AddConsumePartitions(map[string]map[int32]kgo.Offset{of.topic: {of.number: kgo.NewOffset().At(call.Offset)}})
	defer l.reader.RemoveConsumePartitions(map[string][]int32{of.topic: {of.number}})
	for at := call.Offset; at < ends[of] && len(heard.Records) == 0; {
		fetches := l.reader.PollRecords(ctx, call.MaxRecords)
		fetches.EachRecord(func(record *kgo.Record) {
			if (partition{record.Topic, record.Partition}) != of {
				return
			}
			at = record.Offset + 1
			if !record.Attrs.IsControl() {
				heard.Records = append(heard.Records, []any{record.Offset, string(record.Value), record.LeaderEpoch})
			}
		})
		for _, failed := range fetches.Errors() {
			ours := failed.Partition < 0 || (partition{failed.Topic, failed.Partition}) == of // it may be of the poll before
			if ours && !passes(failed.Err) && len(heard.Records) == 0 {
				return failed.Err
			}
		}
		if ctx.Err() != nil && at < ends[of] && len(heard.Records) == 0 {
			return ctx.Err()
		}
	}
	return nil
}
