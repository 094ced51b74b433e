package plugin

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/internal/dl"
)

// HostCommand is the argument that a program gets which Process.Host names.
const HostCommand = "plugin-host"

// hooked says that HostMain was called, so that this program may be started again.
var hooked atomic.Bool

// HostMain makes a program one that plugins can run out of process in. A program that uses such plugins calls it first in
// main, and in TestMain where tests do: it returns at once, unless the program was started by carve to run a plugin. Then it
// does so, and does not return.
func HostMain() {
	hooked.Store(true)
	if os.Getenv(isolate.Environment) == "1" {
		os.Exit(isolate.Serve(serve))
	}
}

// Codes of isolate.Hello.
const (
	helloFailed = iota + 1
	helloVersion
)

// serve opens a library for another process.
func serve(path string, h *isolate.Host) isolate.Callee {
	l, at, err := load(path, h)
	if err != nil {
		c := isolate.Callee{Hello: isolate.Hello{Error: err.Error(), Code: helloFailed}}
		if errors.Is(err, ErrVersion) {
			c.Code = helloVersion
		}
		return c
	}
	entries := l.table.entries()
	things, brought := l.things()
	c := isolate.Callee{Hello: isolate.Hello{Table: uint64(at), Brought: brought}, Call: func(fn uint32, args *[6]uint64) uint64 {
		f := idle.Get().(*dl.Frame)
		defer idle.Put(f)
		for i, a := range args {
			f.Args[i] = uintptr(a)
		}
		if fn >= ownFunctions {
			i, m := memberOf(uintptr(fn))
			f.Fn, f.Args[0] = things[i].functions[m], things[i].at
		} else {
			f.Fn = entries[fn-uint32(firstFunction)]
		}
		dl.Invoke(f)
		return uint64(f.Ret)
	}}
	for i, e := range entries {
		if e != 0 {
			c.Functions |= 1 << i
		}
	}
	return c
}

// parallel is parallel_for in a process of the plugin's own: fn is called for ranges on as many threads as there are processors.
func parallel(n int, fn, arg uintptr) {
	var next atomic.Int64
	var wg sync.WaitGroup
	threads := min(runtime.GOMAXPROCS(0), n)
	step := max(n/(4*max(threads, 1)), 1)
	work := func() {
		f := new(dl.Frame)
		for {
			hi := int(next.Add(int64(step)))
			lo := hi - step
			if lo >= n {
				return
			}
			*f = dl.Frame{Fn: fn, Args: [dl.FrameArgs]uintptr{arg, uintptr(lo), uintptr(min(hi, n))}}
			dl.Invoke(f)
		}
	}
	for range threads - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
