// Judges histories by Porcupine: reads one history a line from standard input, as JSON, and answers each with a line
// "VERDICT NANOSECONDS", where VERDICT is valid, invalid or undecided. bench/porcupine/judging.py says what a line holds.
//
// Usage: porcupine-judge MODEL SECONDS, with the most seconds that one history may take.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

var verdicts = map[porcupine.CheckResult]string{
	porcupine.Ok: "valid", porcupine.Illegal: "invalid", porcupine.Unknown: "undecided",
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: porcupine-judge MODEL SECONDS")
	}
	object, known := objects[os.Args[1]]
	seconds, err := strconv.Atoi(os.Args[2])
	if !known || err != nil {
		log.Fatalf("no model %q, or no number of seconds: %q", os.Args[1], os.Args[2])
	}
	model := modelOf(object)
	lines := bufio.NewReaderSize(os.Stdin, 1<<16)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	decoder := json.NewDecoder(lines)
	for decoder.More() {
		var calls []Call
		if err := decoder.Decode(&calls); err != nil {
			log.Fatalf("a history that cannot be read: %v", err)
		}
		history := operations(calls)
		begun := time.Now()
		verdict := porcupine.CheckOperationsTimeout(model, history, time.Duration(seconds)*time.Second)
		fmt.Fprintln(answers, verdicts[verdict], time.Since(begun).Nanoseconds())
	}
}

// operations gives a call that never returned the end of time as its return: Porcupine may then place it anywhere after its
// invocation, and at the end, where no answer depends on it, if it had no effect.
func operations(calls []Call) []porcupine.Operation {
	observe(calls)
	history := make([]porcupine.Operation, len(calls))
	for at := range calls {
		call := &calls[at]
		end := int64(math.MaxInt64)
		if call.End != nil {
			end = *call.End
		}
		history[at] = porcupine.Operation{Input: call, Output: call, Call: call.Start, Return: end}
	}
	return history
}

// modelOf makes Porcupine's model of an object: keys apart from each other, and all states in which a call may leave the object.
func modelOf(object Object) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []interface{} { return []interface{}{object.first} },
		Step: func(state, input, _ interface{}) []interface{} {
			call := input.(*Call)
			after := object.step(state.(string), call)
			if len(after) == 0 && call.Unknown() {
				return []interface{}{state} // the object refused it, or it never happened
			}
			states := make([]interface{}, len(after))
			for at, one := range after {
				states[at] = one
			}
			return states
		},
		Hash: func(state interface{}) uint64 { return hashOf(state.(string)) },
	}
	return nondeterministic.ToModel()
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	places := map[string]int{}
	var parts [][]porcupine.Operation
	for _, operation := range history {
		key := string(operation.Input.(*Call).Key)
		place, known := places[key]
		if !known {
			place = len(parts)
			places[key] = place
			parts = append(parts, nil)
		}
		parts[place] = append(parts[place], operation)
	}
	return parts
}
