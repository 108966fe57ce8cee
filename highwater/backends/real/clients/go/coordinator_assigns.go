//go:build kgo122

package main

import "github.com/twmb/franz-go/pkg/kgo"

// coordinatorAssigns lets the coordinator of a group assign its partitions (KIP-848), which the library has from 1.22 on.
func coordinatorAssigns() []kgo.Opt {
	return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()}
}
