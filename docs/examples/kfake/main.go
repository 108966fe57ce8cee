// A cluster of franz-go's kfake in one process: kfake -nodes 3 -port 29190 -dir DATA -without FOLDER
//
// Node N listens at port + N. A file N in the folder takes node N out of the cluster, at the start or after a hangup signal. It comes
// back when the process is started again: a controller that was removed and added is none (kfake of 2026-09-18).
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	nodes := flag.Int("nodes", 3, "how many nodes the cluster has")
	port := flag.Int("port", 29190, "node N listens at this port + N")
	dir := flag.String("dir", "", "folder of the records; without it they are in memory")
	without := flag.String("without", "", "folder with a file for each node that is not there")
	flag.Parse()

	ports := make([]int, *nodes)
	for node := range ports {
		ports[node] = *port + node
	}
	options := []kfake.Opt{kfake.Ports(ports...)}
	if *dir != "" {
		options = append(options, kfake.DataDir(*dir))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}

	signals := make(chan os.Signal, len(ports))
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM)
	removed := make([]bool, len(ports))
	for {
		for node := range removed {
			_, err := os.Stat(filepath.Join(*without, strconv.Itoa(node)))
			if err != nil || removed[node] {
				continue
			}
			if err := cluster.RemoveNode(int32(node)); err != nil {
				log.Fatal(err)
			}
			removed[node] = true
		}
		if <-signals == syscall.SIGTERM {
			cluster.Close()
			return
		}
	}
}
