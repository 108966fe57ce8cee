// Questions for bounds of partitions and for positions of groups.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	latest   int64 = -1
	earliest int64 = -2
)

const (
	uncommitted int8 = 0
	committed   int8 = 1
)

type asking struct {
	settings *settings
	client   *link
}

func (a *asking) ready() (*link, error) {
	if a.client == nil {
		client, err := a.settings.connect()
		if err != nil {
			return nil, err
		}
		a.client = client
	}
	return a.client, nil
}

func (a *asking) close() {
	if a.client != nil {
		a.client.shut(closeTime)
		a.client = nil
	}
}

// bounds are the offsets at one end of these partitions; with `committed` the latest is where the first open transaction begins.
func (a *asking) bounds(ctx context.Context, of []partition, end int64, level int8) (positions, error) {
	client, err := a.ready()
	if err != nil {
		return nil, err
	}
	asked := kmsg.NewPtrListOffsetsRequest()
	asked.ReplicaID, asked.IsolationLevel = -1, level
	for _, topic := range topics(of) {
		entry := kmsg.NewListOffsetsRequestTopic()
		entry.Topic = topic
		for _, one := range of {
			if one.topic == topic {
				question := kmsg.NewListOffsetsRequestTopicPartition()
				question.Partition, question.CurrentLeaderEpoch, question.Timestamp = one.number, -1, end
				entry.Partitions = append(entry.Partitions, question)
			}
		}
		asked.Topics = append(asked.Topics, entry)
	}
	answer, err := asked.RequestWith(ctx, client.Client)
	if err != nil {
		return nil, err
	}
	found := positions{}
	for _, topic := range answer.Topics {
		for _, one := range topic.Partitions {
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
				return nil, err
			}
			found[partition{topic.Topic, one.Partition}] = one.Offset
		}
	}
	for _, one := range of {
		if _, ok := found[one]; !ok {
			return nil, kerr.UnknownTopicOrPartition
		}
	}
	return found, nil
}

// committed are the positions that a group committed of these partitions; -1 where there is none.
func (a *asking) committed(group string, of []partition, by *kgo.Client) (positions, error) {
	if by == nil {
		client, err := a.ready()
		if err != nil {
			return nil, err
		}
		by = client.Client
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	asked := kmsg.NewPtrOffsetFetchRequest()
	entry := kmsg.NewOffsetFetchRequestGroup()
	entry.Group = group
	asked.RequireStable = true // as the clients of members ask (KIP-447)
	for _, topic := range topics(of) {
		question := kmsg.NewOffsetFetchRequestGroupTopic()
		question.Topic = topic
		for _, one := range of {
			if one.topic == topic {
				question.Partitions = append(question.Partitions, one.number)
			}
		}
		entry.Topics = append(entry.Topics, question)
	}
	asked.Groups = append(asked.Groups, entry)
	for {
		answer, err := asked.RequestWith(ctx, by)
		if err != nil {
			return nil, err
		}
		found, err := positionsIn(answer, of)
		if err != kerr.UnstableOffsetCommit {
			return found, err
		}
		select { // a transaction that commits positions is open: it ends soon
		case <-ctx.Done():
			return nil, err
		case <-time.After(fetchTime):
		}
	}
}

func positionsIn(answer *kmsg.OffsetFetchResponse, of []partition) (positions, error) {
	found := positions{}
	for _, group := range answer.Groups {
		if err := kerr.ErrorForCode(group.ErrorCode); err != nil {
			return nil, err
		}
		for _, topic := range group.Topics {
			for _, one := range topic.Partitions {
				if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
					return nil, err
				}
				found[partition{topic.Topic, one.Partition}] = one.Offset
			}
		}
	}
	for _, one := range of {
		if _, ok := found[one]; !ok {
			found[one] = -1
		}
	}
	return found, nil
}
