// Members of consumer groups, as clients/members.py makes them with librdkafka: a member is subscribed, and commits by calls, in the
// transactions of a session (GroupTransactSession), or automatically. A poll tells which partitions were assigned and revoked before
// it: rebalances are blocked between polls (BlockRebalanceOnPoll). They are not in a session, which aborts its transaction instead.
package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupPollTime = 500 * time.Millisecond

type members struct {
	settings *settings
	asking   *asking
	client   *link
	session  *kgo.GroupTransactSession // of `client`, if it processes
	owned    *owned
	pending  error // came with records, and is still to be told
}

// owned are the partitions of a member: which came and went since it was asked last, and the positions in them.
type owned struct {
	lock sync.Mutex
	told map[string][]string // "assigned", "revoked": names of partitions
	read positions           // of the partitions that the member has, behind records and marks of transactions
}

func newOwned() *owned { return &owned{told: map[string][]string{}, read: positions{}} }

// begin notes where the member begins to read partitions that it was assigned.
func (o *owned) begin(_ context.Context, starts map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for topic, numbers := range starts {
		for number, start := range numbers {
			o.read[partition{topic, number}] = max(0, start.EpochOffset().Offset) // below 0: at the beginning
		}
	}
	return starts, nil
}

func (o *owned) assigned(_ context.Context, _ *kgo.Client, of map[string][]int32) {
	o.note("assigned", of)
}

func (o *owned) lost(_ context.Context, _ *kgo.Client, of map[string][]int32) { o.note("revoked", of) }

func (o *owned) note(what string, of map[string][]int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for topic, numbers := range of {
		for _, number := range numbers {
			one := partition{topic, number}
			o.told[what] = append(o.told[what], one.String())
			if what == "assigned" {
				o.read[one] = 0
			} else {
				delete(o.read, one)
			}
		}
	}
}

// tell is what an answer says of the group.
func (o *owned) tell(group string) map[string]any {
	o.lock.Lock()
	defer o.lock.Unlock()
	told := map[string]any{"group": group}
	for what, names := range o.told {
		told[what] = names
	}
	o.told = map[string][]string{}
	return told
}

// move moves the positions of partitions that the member still has.
func (o *owned) move(to positions) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for of, at := range to {
		if _, mine := o.read[of]; mine {
			o.read[of] = at
		}
	}
}

func (o *owned) now() positions {
	o.lock.Lock()
	defer o.lock.Unlock()
	return maps.Clone(o.read)
}

// rewind notes that the member reads again from what the group committed.
func (o *owned) rewind(committed map[string]map[int32]kgo.EpochOffset) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for of := range o.read {
		o.read[of] = max(0, committed[of.topic][of.number].Offset)
	}
}

func (m *members) join(group string, reads []partition) error {
	if m.client != nil {
		return nil
	}
	owned := newOwned()
	own := append(m.settings.joining(group, reads, kgo.ReadUncommitted()),
		kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(owned.begin), kgo.OnPartitionsAssigned(owned.assigned), kgo.OnPartitionsLost(owned.lost))
	if m.settings.AutoCommitMs > 0 {
		// As by default, which a member with a function of its own must do itself. Rebalances are blocked while records are in use.
		revoked := func(ctx context.Context, client *kgo.Client, of map[string][]int32) {
			limited, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			_ = client.CommitUncommittedOffsets(limited)
			owned.lost(ctx, client, of)
		}
		own = append(own, kgo.AutoCommitInterval(time.Duration(m.settings.AutoCommitMs)*time.Millisecond), kgo.OnPartitionsRevoked(revoked))
	} else {
		own = append(own, kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(owned.lost))
	}
	client, err := m.settings.connect(own...)
	if err != nil {
		return err
	}
	m.client, m.owned, m.pending = client, owned, nil
	return nil
}

func (m *members) poll(call *call, heard *heard) error {
	if err := m.join(call.Group, call.Reads); err != nil {
		return err
	}
	m.client.AllowRebalance()
	records, given, err := m.polled()
	told := m.owned.tell(call.Group)
	heard.Told = told
	if err != nil {
		return err
	}
	told["records"] = records
	heard.Positions = given.moved(positions{})
	heard.AtEnd = m.isAtEnd(uncommitted)
	return nil
}

// polled gives the records of one poll, and the positions behind them.
func (m *members) polled() (records, positions, error) {
	if m.pending != nil {
		err := m.pending
		m.pending = nil
		return nil, nil, err
	}
	found, given, read := records{}, positions{}, positions{}
	ctx, cancel := context.WithTimeout(context.Background(), groupPollTime)
	defer cancel()
	for len(found) == 0 && ctx.Err() == nil && m.pending == nil {
		m.pending = found.take(m.client.PollRecords(ctx, polledMax), given, read)
	}
	m.owned.move(read)
	if len(found) == 0 && m.pending != nil {
		err := m.pending
		m.pending = nil
		return nil, nil, err
	}
	return found, given, nil
}

// isAtEnd says whether the member has partitions, and read them all to their ends.
func (m *members) isAtEnd(level int8) bool {
	mine := m.owned.now()
	if len(mine) == 0 {
		return false
	}
	var of []partition
	for one := range mine {
		of = append(of, one)
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.settings.timeout)
	defer cancel()
	ends, err := m.asking.bounds(ctx, of, latest, level)
	if err != nil {
		return false
	}
	for one, at := range mine {
		if at < ends[one] {
			return false
		}
	}
	return true
}

// process polls, sends a result of each record, and commits both with the group's positions. A session goes back to what the group
// committed when its transaction aborts; after an error it is given up.
func (m *members) process(call *call, heard *heard) error {
	heard.Attempts = 0
	if err := m.joinSession(call.Group, call.Reads); err != nil {
		return err
	}
	found, given, err := m.polled()
	if err != nil || len(found) == 0 {
		told := m.owned.tell(call.Group)
		heard.Told = told
		if err == nil {
			told["records"] = found
			heard.AtEnd = m.isAtEnd(committed)
		}
		return err
	}
	sent, places, wanted := &sent{}, map[string][]*placed{}, map[string]int64{}
	goesOn, err := m.transact(call, heard, found, sent, places)
	for _, moved := range given.moved(positions{}) {
		wanted[fmt.Sprintf("%s-%d", moved[0], moved[1])] = moved[2].(int64)
	}
	results := map[string][][2]any{}
	for key, of := range places {
		results[key] = sent.copied(of)
	}
	told := m.owned.tell(call.Group)
	told["records"], told["results"], told["positions"] = found, results, wanted
	heard.Told = told
	switch {
	case err == nil:
		heard.Positions = given.moved(positions{})
		heard.AtEnd = m.isAtEnd(committed)
	case goesOn:
		m.owned.rewind(m.client.CommittedOffsets())
	default:
		m.giveUp()
	}
	return err
}

func (m *members) joinSession(group string, reads []partition) error {
	if m.client != nil {
		return nil
	}
	owned, dialed := newOwned(), newDialed(m.settings.timeout)
	own := append(m.settings.common(dialed), m.settings.joining(group, reads, kgo.ReadCommitted())...)
	own = append(own, m.settings.producing(m.settings.TransactionalID)...)
	own = append(own, kgo.RequireStableFetchOffsets(), kgo.AdjustFetchOffsetsFn(owned.begin),
		kgo.OnPartitionsAssigned(owned.assigned), kgo.OnPartitionsRevoked(owned.lost), kgo.OnPartitionsLost(owned.lost))
	session, err := kgo.NewGroupTransactSession(own...)
	if err != nil {
		return err
	}
	m.client, m.session, m.owned, m.pending = &link{session.Client(), dialed}, session, owned, nil
	return nil
}

// transact performs the transaction of one poll; after an error it says whether the session goes on.
func (m *members) transact(call *call, heard *heard, found records, sent *sent, places map[string][]*placed) (bool, error) {
	if err := m.session.Begin(); err != nil {
		return false, err
	}
	for key, polled := range found {
		number, _ := strconv.Atoi(key[strings.LastIndexByte(key, '-')+1:])
		to := call.Writes[number%len(call.Writes)]
		for _, record := range polled {
			at := &placed{}
			places[to.String()] = append(places[to.String()], at)
			sent.send(m.session, to, fmt.Sprintf("%s@%d=%s", key, record[0], record[1]), at)
		}
	}
	time.Sleep(time.Duration(call.WorkMs) * time.Millisecond)
	failed := sent.flush(m.client.Client, callTime) // an abort drops what was not sent, and would show nothing
	if call.Aborts && failed == nil {
		failed = errAborted
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if failed != nil {
		_, err := m.session.End(ctx, kgo.TryAbort)
		if err != nil && failed == errAborted {
			failed = err
		}
		return err == nil, failed
	}
	done, err := m.session.End(ctx, kgo.TryCommit)
	if done || err != nil {
		heard.Attempts = 1
		return done, err
	}
	return true, errRevoked // it aborted, and says that nothing failed
}

// commit commits a position by a call.
func (m *members) commit(call *call, heard *heard) error {
	if m.client == nil {
		heard.Attempts = 0
		return errState
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var failed error
	position := kgo.EpochOffset{Epoch: -1, Offset: call.Offset}
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if failed = err; err != nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, one := range topic.Partitions {
				if err := kerr.ErrorForCode(one.ErrorCode); err != nil && failed == nil {
					failed = err
				}
			}
		}
	}
	of := call.Partition
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{of.topic: {of.number: position}}, done)
	return failed
}

// committed asks for a position; a member that never polled asks by a client of its own.
func (m *members) committed(call *call, heard *heard) error {
	found, err := m.asking.committed(call.Group+m.settings.Run, []partition{call.Partition}, m.asks())
	if err != nil {
		return err
	}
	if at := found[call.Partition]; at >= 0 {
		heard.Offset = &at
	}
	return nil
}

// positions asks for several positions.
func (m *members) positions(call *call, heard *heard) error {
	found, err := m.asking.committed(call.Group+m.settings.Run, call.Reads, m.asks())
	if err != nil {
		return err
	}
	known := map[string]*int64{}
	for of, at := range found {
		known[of.String()] = nil
		if at >= 0 {
			known[of.String()] = &at
		}
	}
	heard.Told = map[string]any{"group": call.Group, "committed": known}
	return nil
}

func (m *members) asks() *kgo.Client {
	if m.client == nil {
		return nil
	}
	return m.client.Client
}

// giveUp leaves the group with a session whose transaction failed.
func (m *members) giveUp() {
	if m.client == nil {
		return
	}
	m.client.abort()
	m.close()
}

// close leaves the group. A member that commits automatically commits what it was given, as the library's documentation says.
func (m *members) close() {
	if m.client == nil {
		return
	}
	if m.session == nil && m.settings.AutoCommitMs > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		_ = m.client.CommitUncommittedOffsets(ctx)
		cancel()
	}
	m.client.shut(callTime)
	m.client, m.session = nil, nil
}

// abandon lets the member die without a word: the coordinator hears nothing of it any more.
func (m *members) abandon() {
	if m.client != nil {
		m.client.drop()
	}
	m.client, m.session = nil, nil
}
