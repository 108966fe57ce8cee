// The franz-go clients of a run, a session for each client of the harness, which asks and hears over JSON lines as piped.py says.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"sync"
)

// request is one line of the harness; what it says of the client is the same in each.
type request struct {
	Number          int    `json:"number"`
	Client          string `json:"client"`
	Brokers         string `json:"brokers"`
	TimeoutMs       int    `json:"timeout_ms"`
	TransactionalID string `json:"transactional_id"`
	Run             string `json:"run"` // ends the names of groups: on a cluster that stays, earlier runs have left theirs
	Membership      string `json:"membership"`
	AutoCommitMs    int    `json:"auto_commit_ms"` // 0: members commit by calls
	Keyed           bool   `json:"keyed"`          // the key of a record is what its value has before "="
	Act             string `json:"act"`
	Call            call   `json:"call"`
}

// call has the fields of all calls.
type call struct {
	ID              int         `json:"id"`
	TP              string      `json:"tp"`
	Values          []string    `json:"values"`
	Acks            int16       `json:"acks"`
	Retries         int         `json:"retries"`
	Idempotent      bool        `json:"idempotent"`
	Offset          int64       `json:"offset"`
	MaxRecords      int         `json:"max_records"`
	Micros          []micro     `json:"micros"`
	Sends           []micro     `json:"sends"`
	Aborts          bool        `json:"aborts"`
	Reads           []partition `json:"reads"`
	Writes          []partition `json:"writes"`
	Group           string      `json:"group"`
	WorkMs          int         `json:"work_ms"`
	Partition       partition   `json:"partition"`
	Step            string      `json:"step"`
	TransactionalID string      `json:"transactional_id"`
}

// micro is a send of a transaction, or a poll if it has no value.
type micro struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Value     *string `json:"value"`
}

// heard is the answer to a call: the fields of `Reply`, and the number of the error in Kafka.
type heard struct {
	ID        int      `json:"id"`
	Attempts  int      `json:"attempts"`
	Error     string   `json:"error,omitempty"`
	Code      *int16   `json:"code,omitempty"`
	Offset    *int64   `json:"offset,omitempty"`
	Offsets   []int64  `json:"offsets,omitempty"`
	Records   [][]any  `json:"records,omitempty"`
	Earlier   []string `json:"earlier,omitempty"`
	Told      any      `json:"told,omitempty"`
	Positions [][]any  `json:"positions,omitempty"`
	AtEnd     bool     `json:"at_end"`
}

type worker struct {
	calls        chan request
	logs         *logs
	transactions *transactions
	members      *members
	sharedIDs    *sharedIDs
}

func newWorker(first request) *worker {
	settings := newSettings(first)
	asking := &asking{settings: settings}
	return &worker{
		calls:        make(chan request, 64),
		logs:         &logs{settings: settings, asking: asking, producers: map[produceKey]*plainProducer{}},
		transactions: newTransactions(settings, asking),
		members:      &members{settings: settings, asking: asking},
		sharedIDs:    &sharedIDs{settings: settings},
	}
}

func main() {
	log.SetOutput(io.Discard)
	answers := &answers{encoder: json.NewEncoder(os.Stdout)}
	workers := map[string]*worker{}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			os.Exit(2)
		}
		one := workers[asked.Client]
		if one == nil {
			one = newWorker(asked)
			workers[asked.Client] = one
			go one.run(answers)
		}
		one.calls <- asked
	}
}

type answers struct {
	lock    sync.Mutex
	encoder *json.Encoder
}

func (a *answers) tell(number int, heard *heard) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.encoder.Encode(map[string]any{"number": number, "heard": heard}) != nil {
		os.Exit(3)
	}
}

// run performs the calls of one client in order.
func (w *worker) run(answers *answers) {
	for asked := range w.calls {
		heard := &heard{ID: asked.Call.ID, Attempts: 1}
		if err := w.perform(asked.Act, &asked.Call, heard); err != nil {
			heard.fail(err)
		}
		answers.tell(asked.Number, heard)
	}
}

func (w *worker) perform(act string, call *call, heard *heard) error {
	switch act {
	case "ProduceCall":
		return w.logs.produce(call, heard)
	case "PollCall":
		return w.logs.poll(call, heard)
	case "LatestCall":
		return w.logs.bound(call, latest, heard)
	case "EarliestCall":
		return w.logs.bound(call, earliest, heard)
	case "TxnCall":
		return w.transactions.perform(call, heard)
	case "ReadCommittedCall":
		return w.transactions.readCommitted(call, heard)
	case "StepCall":
		return w.sharedIDs.perform(call, heard)
	case "ProcessCall":
		return w.members.process(call, heard)
	case "GroupPollCall":
		return w.members.poll(call, heard)
	case "GroupLeaveCall":
		w.members.close()
	case "GroupAbandonCall":
		w.members.abandon()
	case "GroupPositionsCall":
		return w.members.positions(call, heard)
	case "CommitCall":
		return w.members.commit(call, heard)
	case "CommittedCall":
		return w.members.committed(call, heard)
	case "open":
		return w.logs.open()
	case "close":
		w.close()
	default:
		heard.Attempts, heard.Error = 0, "_UNKNOWN_CALL"
	}
	return nil
}

func (w *worker) close() {
	w.members.close()
	w.transactions.close()
	w.sharedIDs.close()
	w.logs.close()
}
