// Transactions of sends and polls, as clients/transactions.py makes them with librdkafka: a call counts as sent once its commit was
// asked for. After an error the producer is given up. The consumer goes back to where it was then, or to the beginning after a commit of
// unknown outcome.
package main

import (
	"context"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type transactions struct {
	settings *settings
	asking   *asking
	producer *producer
	consumer *link
	at       positions // behind the records that were given
	read     positions // and behind the marks of transactions
	pending  error     // came with records, and is still to be told: these would never be given again
}

func newTransactions(settings *settings, asking *asking) *transactions {
	return &transactions{settings: settings, asking: asking, producer: &producer{settings: settings, id: settings.TransactionalID}, at: positions{}}
}

func (t *transactions) perform(call *call, heard *heard) error {
	before := maps.Clone(t.at)
	sends := false
	for _, micro := range call.Micros {
		sends = sends || micro.Value != nil
	}
	heard.Attempts = 0
	sent := &sent{}
	answers, err := t.micros(call, heard, sends, sent)
	if err == nil && sends {
		err = t.end(call, heard, sent)
	}
	if err != nil && err != errAborted {
		t.producer.giveUp()
	}
	heard.Told = answers.told(sent)
	if err != nil {
		heard.AtEnd = false
		if heard.Attempts > 0 {
			before = positions{}
		}
		t.backTo(before)
		return err
	}
	heard.Positions = t.at.moved(before)
	return nil
}

// end commits or aborts, after all records were delivered.
func (t *transactions) end(call *call, heard *heard, sent *sent) error {
	if err := sent.flush(t.producer.client.Client, callTime); err != nil {
		return err
	}
	if call.Aborts {
		if err := t.producer.end(kgo.TryAbort, callTime); err != nil {
			return err
		}
		return errAborted
	}
	heard.Attempts = 1
	return t.producer.end(kgo.TryCommit, callTime)
}

// answer is that of one micro-operation: a send, or what a poll gave.
type answer struct {
	to     partition
	placed *placed
	given  []any
}

type answersOf []*answer

func (a answersOf) told(sent *sent) []any {
	told := make([]any, 0, len(a))
	for _, one := range a {
		if one.placed == nil {
			told = append(told, append([]any{"poll"}, one.given...))
		} else {
			told = append(told, []any{"send", one.to.String(), sent.copied([]*placed{one.placed})[0]})
		}
	}
	return told
}

func (t *transactions) micros(call *call, heard *heard, sends bool, sent *sent) (answersOf, error) {
	answers := make(answersOf, 0, len(call.Micros)) // what was not tried is told, too
	for _, micro := range call.Micros {
		one := &answer{}
		if micro.Value != nil {
			one.to, one.placed = partition{micro.Topic, micro.Partition}, &placed{nil, *micro.Value}
		}
		answers = append(answers, one)
	}
	if sends {
		client, err := t.producer.ready()
		if err != nil {
			return answers, err
		}
		if err := client.BeginTransaction(); err != nil {
			return answers, err
		}
	}
	for at, one := range answers {
		if one.placed != nil {
			heard.AtEnd = false
			sent.send(t.producer.client, one.to, *call.Micros[at].Value, one.placed)
			continue
		}
		records, ended, err := t.poll(call.Reads)
		if err != nil {
			return answers, err
		}
		one.given = []any{records}
		if heard.AtEnd = ended; ended {
			one.given = append(one.given, "end")
		}
	}
	return answers, nil
}

// readCommitted polls committed records from where the last poll ended, outside of any transaction.
func (t *transactions) readCommitted(call *call, heard *heard) error {
	before := maps.Clone(t.at)
	records, ended, err := t.poll(call.Reads)
	if err != nil {
		t.backTo(before)
		return err
	}
	told := map[string]any{"records": records}
	if ended {
		told["end"] = true
	}
	heard.Told, heard.AtEnd, heard.Positions = told, ended, t.at.moved(before)
	return nil
}

// poll gives the records from the positions on, and whether every partition was read to where it ended after the call began, and no
// open transaction hides more: committed records end at the first one.
func (t *transactions) poll(reads []partition) (records, bool, error) {
	if err := t.start(reads); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.settings.timeout)
	defer cancel()
	written, err := t.asking.bounds(ctx, reads, latest, uncommitted)
	if err != nil {
		return nil, false, err
	}
	ends, err := t.asking.bounds(ctx, reads, latest, committed)
	if err != nil {
		return nil, false, err
	}
	limit := time.Now().Add(t.settings.timeout)
	for given := (records{}); ; {
		ended := true
		for _, of := range reads {
			ended = ended && t.read[of] >= ends[of]
		}
		if ended || len(given) > 0 {
			for _, of := range reads {
				ended = ended && ends[of] >= written[of]
			}
			return given, ended, nil
		}
		if t.pending != nil {
			return nil, false, t.pending
		}
		if time.Now().After(limit) { // an empty answer that is no end would look as if there were nothing to read
			return nil, false, context.DeadlineExceeded
		}
		polling, cancel := context.WithDeadline(context.Background(), limit)
		t.pending = given.take(t.consumer.PollRecords(polling, polledMax), t.at, t.read)
		cancel()
	}
}

func (t *transactions) start(reads []partition) error {
	if t.consumer != nil {
		return nil
	}
	consumer, err := t.settings.connect(t.settings.reading(kgo.ReadCommitted())...)
	if err != nil {
		return err
	}
	t.consumer, t.read, t.pending = consumer, maps.Clone(t.at), nil
	starts := map[string]map[int32]kgo.Offset{}
	for _, of := range reads {
		start := kgo.NewOffset().AtStart()
		if at, ok := t.at[of]; ok {
			start = kgo.NewOffset().At(at)
		}
		if starts[of.topic] == nil {
			starts[of.topic] = map[int32]kgo.Offset{}
		}
		starts[of.topic][of.number] = start
	}
	consumer.AddConsumePartitions(starts)
	return nil
}

// backTo gives up the consumer; the next one begins at these positions, and elsewhere at the beginning.
func (t *transactions) backTo(to positions) {
	t.at = to
	if t.consumer != nil {
		t.consumer.shut(closeTime)
		t.consumer = nil
	}
}

func (t *transactions) close() {
	t.producer.giveUp()
	t.backTo(positions{})
}
