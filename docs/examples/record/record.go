// Records a producer and two members of a consumer group, as record.py does: go run . BROKERS TOPIC SECONDS >history.jsonl
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type list = []any

var (
	brokers, topic, began = kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), os.Args[2], time.Now()
	length, _             = time.ParseDuration(os.Args[3] + "s")
	keys                  = list{topic + "-0", topic + "-1"}
	acknowledged, read    = []int64{-1, -1}, []int64{-1, -1} // the last offset of each partition
	lock                  sync.Mutex
)

func note(process int, kind, f string, value ...any) {
	lock.Lock() // lines stand in the order of their times
	defer lock.Unlock()
	line := map[string]any{"process": process, "type": kind, "f": f, "value": value, "time": time.Since(began).Nanoseconds()}
	json.NewEncoder(os.Stdout).Encode(line)
}

func produce() {
	client, _ := kgo.NewClient(brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(3*time.Second))
	for process, number := 0, 0; time.Since(began) < length; number++ {
		key, record := keys[number%2], &kgo.Record{Topic: topic, Partition: int32(number % 2), Value: fmt.Append(nil, number)}
		note(process, "invoke", "send", list{"send", key, number})
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err == nil {
			acknowledged[record.Partition] = record.Offset
			note(process, "ok", "send", list{"send", key, list{record.Offset, number}})
		} else { // nobody knows: it may be in the log, or come there later
			note(process, "info", "send", list{"send", key, number})
			process += 10
		}
	}
}

func consume(process int) {
	note(process, "invoke", "subscribe", keys...)
	client, _ := kgo.NewClient(brokers, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	note(process, "ok", "subscribe", keys...)
	behind := func() bool { return read[0] < acknowledged[0] || read[1] < acknowledged[1] }
	for time.Since(began) < length || behind() && time.Since(began) < length+time.Minute {
		note(process, "invoke", "poll", list{"poll"})
		wait, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		polled := map[string]list{}
		client.PollFetches(wait).EachRecord(func(record *kgo.Record) {
			key := fmt.Sprint(topic, "-", record.Partition)
			polled[key] = append(polled[key], list{record.Offset, json.RawMessage(record.Value)})
			read[record.Partition] = max(read[record.Partition], record.Offset)
		})
		cancel()
		note(process, "ok", "poll", list{"poll", polled})
		client.CommitUncommittedOffsets(context.Background()) // what is not committed is read again
		client.AllowRebalance()
	}
	client.Close()
}

func main() {
	fmt.Println(`{"manifest": {"system": "Kafka with franz-go", "model": "kafka"}}`)
	var clients sync.WaitGroup
	for _, client := range []func(){produce, func() { consume(1) }, func() { consume(2) }} {
		clients.Go(client)
	}
	clients.Wait()
}
