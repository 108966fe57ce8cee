// Partitions, their names in answers, and records and positions by partition.
package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

type partition struct {
	topic  string
	number int32
}

// UnmarshalJSON reads ["topic", 0].
func (p *partition) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.number})
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.number) }

// named is the partition of this name: the topic, a hyphen, the number.
func named(name string) partition {
	at := strings.LastIndexByte(name, '-')
	number, _ := strconv.Atoi(name[at+1:])
	return partition{name[:at], int32(number)}
}

func topics(of []partition) []string {
	var found []string
	for _, one := range of {
		found = append(found, one.topic)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

type positions map[partition]int64

// moved are the positions that are not what they were before: topic, partition, position.
func (p positions) moved(before positions) [][]any {
	var keys []partition
	for of, at := range p {
		if was, ok := before[of]; !ok || was != at {
			keys = append(keys, of)
		}
	}
	slices.SortFunc(keys, func(a, b partition) int { return strings.Compare(a.String(), b.String()) })
	var found [][]any
	for _, of := range keys {
		found = append(found, []any{of.topic, of.number, p[of]})
	}
	return found
}

// records are offset and value of each record, by the name of its partition.
type records map[string][][]any

// take enters the records of fetches, and moves the positions behind them and behind the marks of transactions; it returns the first
// error that does not pass.
func (r records) take(fetches kgo.Fetches, given, at positions) error {
	fetches.EachRecord(func(record *kgo.Record) {
		of := partition{record.Topic, record.Partition}
		at[of] = record.Offset + 1
		if record.Attrs.IsControl() {
			return
		}
		given[of] = record.Offset + 1
		r[of.String()] = append(r[of.String()], []any{record.Offset, string(record.Value)})
	})
	for _, failed := range fetches.Errors() {
		if !passes(failed.Err) {
			return failed.Err
		}
	}
	return nil
}
