// The transactional producer of one client, made and initialized on first use; after an error it is given up.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// placed is a record that was sent: its offset once it is delivered, and its value.
type placed [2]any

// sending is what sends records: a producer, or a session of a group.
type sending interface {
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
}

// sent are the records of one transaction.
type sent struct {
	lock  sync.Mutex
	first error // of a record that was not delivered
	open  sync.WaitGroup
}

// send sends a record, and enters its offset into `at` when it is delivered.
func (s *sent) send(by sending, to partition, value string, at *placed) {
	at[1] = value
	s.open.Add(1)
	by.Produce(context.Background(), &kgo.Record{Topic: to.topic, Partition: to.number, Value: []byte(value)}, func(record *kgo.Record, err error) {
		s.lock.Lock()
		defer s.lock.Unlock()
		defer s.open.Done()
		if err == nil {
			at[0] = record.Offset
		} else if s.first == nil {
			s.first = err
		}
	})
}

// flush waits until each record is delivered or failed, at most so long.
func (s *sent) flush(client *kgo.Client, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return err
	}
	s.open.Wait() // nothing is buffered, so each result is on its way
	return s.failure()
}

func (s *sent) failure() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.first
}

// copied is what is known of the offsets now: a producer that was given up may still enter some.
func (s *sent) copied(of []*placed) [][2]any {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := make([][2]any, len(of))
	for at, one := range of {
		found[at] = *one
	}
	return found
}

type producer struct {
	settings *settings
	id       string
	client   *link
}

func (p *producer) ready() (*link, error) {
	if p.client != nil {
		return p.client, nil
	}
	client, err := p.settings.connect(p.settings.producing(p.id)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.drop()
		return nil, err
	}
	p.client = client
	return client, nil
}

// end commits or aborts.
func (p *producer) end(how kgo.TransactionEndTry, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return p.client.EndTransaction(ctx, how)
}

// giveUp aborts and drops the producer: the next transaction gets a new one, which fences it by the same id.
func (p *producer) giveUp() {
	if p.client == nil {
		return
	}
	p.client.abort()
	p.client.shut(closeTime)
	p.client = nil
}
