package cuda

import (
	"runtime"
	"slices"
	"sync"

	"github.com/carve-dev/carve/internal/gpugroup"
)

// graphs are what an instance's launches were captured as in a session: one graph for each set of places that its operands had.
// Sessions keep their memory, so that mostly there is one; outputs that a caller alternates make several.
type graphs struct {
	d      *gpu
	warm   bool // the launches have run once
	failed bool // they cannot be captured
	misses int
	hits   int

	mu    sync.Mutex // of what follows, which the end of the device changes too
	list  []captured // the one that was used last first
	ended bool
}

// captured is a graph that can be launched.
type captured struct {
	bases []gpugroup.Base
	exec  uintptr
}

const (
	mostGraphs = 4
	// Capturing costs about as much as launching one by one: where operands lie elsewhere in each run, it does not pay.
	freeMisses, hitsPerMiss = 8, 4
)

// replay launches the group as a graph, which is captured where there is none. It reports false where the launches are to be queued
// one by one: in the first run, in which the driver may have to load kernels, and where capturing fails or does not pay.
func (st *state) replay(c *call, s *stream) (done bool, err error) {
	g := st.graphs
	if !g.warm || g.failed {
		g.warm = true
		return false, nil
	}
	exec := g.find(st.bases)
	if exec != 0 {
		g.hits++
	} else {
		if g.misses++; g.misses > freeMisses+g.hits/hitsPerMiss {
			return false, nil
		}
		st.bind()
		if exec = st.capture(c, s); exec == 0 {
			g.failed = true
			return false, nil
		}
		if !g.keep(c, captured{slices.Clone(st.bases), exec}) {
			return false, nil
		}
	}
	if err := c.do(fnGraphLaunch, exec, s.handle); err != nil {
		if c.d.lost.Load() != nil {
			return false, err
		}
		g.failed = true // nothing was queued
		return false, nil
	}
	return true, nil
}

// find returns the graph of these places, 0 where there is none.
func (g *graphs) find(bases []gpugroup.Base) uintptr {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.list {
		if slices.Equal(x.bases, bases) {
			copy(g.list[1:i+1], g.list[:i])
			g.list[0] = x
			return x.exec
		}
	}
	return 0
}

// keep adds a graph, in the place of the one that was not used for longest where there are many. It reports false, and gives the
// graph back, where the device has ended.
func (g *graphs) keep(c *call, x captured) bool {
	d := g.d
	d.mu.Lock()
	if d.graphs == nil {
		d.graphs = map[*graphs]struct{}{}
	}
	d.graphs[g] = struct{}{}
	d.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		_ = c.do(fnGraphExecDestroy, x.exec) // there is nobody to tell
		return false
	}
	g.list = slices.Insert(g.list, 0, x)
	if len(g.list) > mostGraphs {
		_ = c.do(fnGraphExecDestroy, g.list[mostGraphs].exec)
		g.list = g.list[:mostGraphs]
	}
	return true
}

// capture records the launches, whose arguments have been written down, and returns what they can be launched by at once; 0 where
// that fails. Only this thread's calls are held to the rules of captures: others may allocate meanwhile.
func (st *state) capture(c *call, s *stream) uintptr {
	const threadLocal = 1
	if c.do(fnStreamBeginCapture, s.handle, threadLocal) != nil {
		return 0
	}
	err := st.launches(c, s, nil)
	recorded, ended := c.endCapture(s)
	if recorded == 0 {
		return 0
	}
	if err == nil {
		err = ended
	}
	var exec uintptr
	if err == nil {
		if exec, err = c.create(fnGraphInstantiateWithFlags, recorded, 0); err != nil {
			exec = 0
		}
	}
	_ = c.do(fnGraphDestroy, recorded) // what was made of it stays
	runtime.KeepAlive(st)
	return exec
}

// endCapture ends the capture on a stream, and returns what was recorded, if anything. A stream that went on to record would run
// nothing: one that does after a failure is told once more.
func (c *call) endCapture(s *stream) (recorded uintptr, err error) {
	c.word = 0
	if err = c.do(fnStreamEndCapture, s.handle, at(&c.word)); err == nil {
		return c.word, nil
	}
	c.number = 0
	if c.do(fnStreamIsCapturing, s.handle, at(&c.number)) == nil && c.number != 0 {
		c.word = 0
		if c.do(fnStreamEndCapture, s.handle, at(&c.word)) == nil {
			return c.word, err
		}
	}
	return 0, err
}

// destroy gives the graphs back. The context is current, and the device's lock held.
func (g *graphs) destroy(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for _, x := range g.list {
		_ = c.do(fnGraphExecDestroy, x.exec) // there is nobody to tell
	}
	g.list = nil
}

// end gives the graphs back when their session has gone.
func (g *graphs) end() {
	d := g.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, here := d.graphs[g]; !here {
		return
	}
	delete(d.graphs, g)
	c := d.enter()
	defer c.leave()
	g.destroy(c)
}
