// Transactions step by step, of a producer whose transactional id other clients have, too, as clients/shared_ids.py makes them with
// librdkafka. After any failure the producer is given up.
package main

import "github.com/twmb/franz-go/pkg/kgo"

type sharedIDs struct {
	settings *settings
	producer *producer
}

func (s *sharedIDs) perform(call *call, heard *heard) error {
	if call.Step == "init-transactions" {
		s.close()
		s.producer = &producer{settings: s.settings, id: s.settings.transactionalID(call.TransactionalID)}
	}
	if s.producer == nil {
		heard.Attempts = 0
		return errState
	}
	err := s.step(call, heard)
	if err != nil {
		s.close()
	}
	return err
}

func (s *sharedIDs) close() {
	if s.producer != nil {
		s.producer.giveUp()
		s.producer = nil
	}
}

func (s *sharedIDs) step(call *call, heard *heard) error {
	ready, err := s.producer.ready()
	if err != nil {
		return err
	}
	switch call.Step {
	case "txn-send":
		return s.send(ready, call, heard)
	case "txn-commit":
		return s.producer.end(kgo.TryCommit, callTime)
	case "txn-abort":
		return s.producer.end(kgo.TryAbort, callTime)
	}
	return nil // initialized
}

// send begins a transaction, and sends its records until each is delivered or failed.
func (s *sharedIDs) send(ready *link, call *call, heard *heard) error {
	if err := ready.BeginTransaction(); err != nil {
		return err
	}
	sent, places := &sent{}, map[string][]*placed{}
	for _, micro := range call.Sends {
		to, at := partition{micro.Topic, micro.Partition}, &placed{}
		places[to.String()] = append(places[to.String()], at)
		sent.send(ready, to, *micro.Value, at)
	}
	err := sent.flush(ready.Client, s.settings.timeout+closeTime)
	sends := map[string][][2]any{}
	for key, of := range places {
		sends[key] = sent.copied(of)
	}
	heard.Told = map[string]any{"id": call.TransactionalID, "sends": sends}
	return err
}
