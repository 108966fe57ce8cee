package main

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log"
	"slices"
	"strconv"
	"strings"
)

// A Call is one operation of a history. Values are compared as JSON texts. A call that never returned has no End, and its answer
// fits whatever the object does.
type Call struct {
	F        string
	Key      json.RawMessage
	Argument json.RawMessage
	Answer   json.RawMessage
	Start    int64
	End      *int64

	places []int // of an append to a log that never returned: the offsets at which its value was read
}

// Unknown is true if nobody was told how the call ended.
func (call *Call) Unknown() bool { return call.End == nil }

func (call *Call) answered(value string) bool { return call.Unknown() || string(call.Answer) == value }

// An Object has its first state, and the states that it may be in after a call; none if it would have answered otherwise. States
// are texts, so that they can be compared.
type Object struct {
	first string
	step  func(state string, call *Call) []string
}

var objects = map[string]Object{
	"register":        {first: "0", step: register},
	"cas-register":    {first: "0", step: casRegister},
	"multi-register":  {first: "{}", step: multiRegister},
	"mutex":           {first: "free", step: mutex},
	"kv":              {first: `""`, step: kv},
	"set":             {first: "[]", step: growSet},
	"fifo-queue":      {first: "[]", step: fifoQueue},
	"unordered-queue": {first: "[]", step: unorderedQueue},
	"partition-log":   {first: `{"next":0,"records":{}}`, step: partitionLog},
	"versioned-node":  {first: "null", step: versionedNode},
	"stack":           {first: "[]", step: stack},
}

func register(state string, call *Call) []string {
	if call.F == "write" {
		return one(string(call.Argument))
	}
	return onlyIf(call.answered(state), state)
}

func casRegister(state string, call *Call) []string {
	if call.F != "cas" {
		return register(state, call)
	}
	pair := list(call.Argument)
	if pair[0] != state {
		return onlyIf(call.answered(`"false"`), state)
	}
	return onlyIf(call.answered(string(call.Argument)), pair[1])
}

func multiRegister(state string, call *Call) []string {
	values := map[string]string{}
	parse([]byte(state), &values)
	told := call.Answer
	if call.Unknown() {
		told = call.Argument
	}
	for _, micro := range list(told) {
		parts := list([]byte(micro))
		held, written := values[parts[1]]
		switch {
		case parts[0] == `"write"`:
			values[parts[1]] = parts[2]
		case call.Unknown():
		case written && held != parts[2], !written && parts[2] != "0":
			return nil
		}
	}
	return one(text(values)) // encoding/json writes keys in order
}

func mutex(state string, call *Call) []string {
	before, after := "free", "held"
	if call.F == "release" {
		before, after = after, before
	}
	return onlyIf(state == before, after)
}

func kv(state string, call *Call) []string {
	switch call.F {
	case "put":
		return one(string(call.Argument))
	case "append":
		return one(text(unquoted(state) + unquoted(string(call.Argument))))
	default:
		return onlyIf(call.answered(state), state)
	}
}

func growSet(state string, call *Call) []string {
	held := list([]byte(state))
	if call.F == "read" {
		if call.Unknown() {
			return one(state)
		}
		seen := list(call.Answer)
		slices.Sort(seen)
		return onlyIf(slices.Equal(seen, held), state)
	}
	if !slices.Contains(held, string(call.Argument)) {
		held = append(held, string(call.Argument))
		slices.Sort(held)
	}
	return one(joined(held))
}

func fifoQueue(state string, call *Call) []string {
	held := list([]byte(state))
	if call.F == "enqueue" {
		return one(joined(append(held, string(call.Argument))))
	}
	if len(held) == 0 {
		return onlyIf(call.answered("null"), state)
	}
	return onlyIf(call.answered(held[0]), joined(held[1:]))
}

func unorderedQueue(state string, call *Call) []string {
	held := list([]byte(state)) // sorted
	if call.F == "enqueue" {
		held = append(held, string(call.Argument))
		slices.Sort(held)
		return one(joined(held))
	}
	if len(held) == 0 {
		return onlyIf(call.answered("null"), state)
	}
	var after []string
	for at, value := range held {
		if (at == 0 || held[at-1] != value) && call.answered(value) {
			after = append(after, joined(slices.Delete(slices.Clone(held), at, at+1)))
		}
	}
	return after
}

func stack(state string, call *Call) []string {
	held := list([]byte(state))
	if call.F == "push" {
		return one(joined(append(held, string(call.Argument))))
	}
	if len(held) == 0 {
		return onlyIf(call.answered("null"), state)
	}
	last := len(held) - 1
	return onlyIf(call.answered(held[last]), joined(held[:last]))
}

// A partition is the state of a log: its records by offset, and the least offset that the next one may have.
type partition struct {
	Next    int               `json:"next"`
	Records map[string]string `json:"records"`
}

func partitionLog(state string, call *Call) []string {
	var held partition
	parse([]byte(state), &held)
	switch call.F {
	case "append":
		if !call.Unknown() {
			return appended(held, number(call.Answer), call)
		}
		after := one(state) // it never happened, or where no read shows it
		for _, offset := range call.places {
			after = append(after, appended(held, offset, call)...)
		}
		return after
	case "end":
		if call.Unknown() {
			return one(state)
		}
		end := number(call.Answer)
		if end < held.Next {
			return nil
		}
		return one(text(partition{Next: end, Records: held.Records}))
	default:
		value, found := held.Records[string(call.Argument)]
		if !found {
			value = "null"
		}
		return onlyIf(call.answered(value), state)
	}
}

func appended(held partition, offset int, call *Call) []string {
	if offset < held.Next {
		return nil
	}
	records := map[string]string{strconv.Itoa(offset): string(call.Argument)}
	for at, value := range held.Records {
		records[at] = value
	}
	return one(text(partition{Next: offset + 1, Records: records}))
}

// observe tells each append of unknown outcome where its value was read: no other place of it explains an answer.
func observe(calls []Call) {
	read := map[string][]int{}
	for _, call := range calls {
		if call.F == "read" && !call.Unknown() && string(call.Argument) != "null" {
			place := string(call.Key) + " " + string(call.Answer)
			if offset := number(call.Argument); !slices.Contains(read[place], offset) {
				read[place] = append(read[place], offset)
			}
		}
	}
	for at := range calls {
		if call := &calls[at]; call.F == "append" && call.Unknown() {
			call.places = read[string(call.Key)+" "+string(call.Argument)]
		}
	}
}

// A node is null, or a list of its value and its version.
func versionedNode(state string, call *Call) []string {
	exists := state != "null"
	if call.F == "create" {
		if exists {
			return onlyIf(call.answered(`"node-exists"`), state)
		}
		return onlyIf(call.answered(`"ok"`), joined([]string{string(call.Argument), "0"}))
	}
	if !exists {
		return onlyIf(call.answered(`"no-node"`), state)
	}
	if call.F == "read" {
		return onlyIf(call.answered(state), state)
	}
	version := list([]byte(state))[1]
	value, wanted := "", string(call.Argument)
	if call.F == "set" {
		pair := list(call.Argument)
		value, wanted = pair[0], pair[1]
	}
	switch {
	case wanted != "-1" && wanted != version:
		return onlyIf(call.answered(`"bad-version"`), state)
	case call.F == "delete":
		return onlyIf(call.answered(`"ok"`), "null")
	default:
		next := strconv.Itoa(number([]byte(version)) + 1)
		return onlyIf(call.answered(next), joined([]string{value, next}))
	}
}

func one(state string) []string { return []string{state} }

// onlyIf is the one state after a call whose answer is right, and none otherwise.
func onlyIf(right bool, state string) []string {
	if !right {
		return nil
	}
	return one(state)
}

func parse(data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		log.Fatalf("%s: %v", data, err)
	}
}

func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return string(data)
}

func unquoted(data string) string {
	var value string
	parse([]byte(data), &value)
	return value
}

func number(data []byte) int {
	var value int
	parse(data, &value)
	return value
}

// list splits a JSON list into the texts of its members.
func list(data []byte) []string {
	var raw []json.RawMessage
	parse(data, &raw)
	members := make([]string, len(raw))
	for at, member := range raw {
		members[at] = string(member)
	}
	return members
}

func joined(members []string) string { return fmt.Sprintf("[%s]", strings.Join(members, ",")) }

var seed = maphash.MakeSeed()

func hashOf(state string) uint64 { return maphash.String(seed, state) }
