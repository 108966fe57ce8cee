//go:build !kgo122

package main

import "github.com/twmb/franz-go/pkg/kgo"

// coordinatorAssigns is not called: such groups are refused before the run with versions before 1.22 (KIP-848).
func coordinatorAssigns() []kgo.Opt { panic("the coordinator cannot assign") }
