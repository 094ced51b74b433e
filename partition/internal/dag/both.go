package dag

import (
	"runtime"
	"sync"
)

// parallelNodes is from how many nodes on a pass is worth a goroutine.
const parallelNodes = 1 << 12

// both calls two functions that share nothing but what they read, at the same time where the graph has so many nodes that it
// pays and the process may use two processors. It returns when both have returned.
func both(nodes int, f, g func()) {
	if nodes < parallelNodes || runtime.GOMAXPROCS(0) < 2 {
		f()
		g()
		return
	}
	var w sync.WaitGroup
	var fault any
	w.Go(func() {
		defer func() { fault = recover() }() // a panic belongs to the caller
		f()
	})
	g()
	w.Wait()
	if fault != nil {
		panic(fault)
	}
}
