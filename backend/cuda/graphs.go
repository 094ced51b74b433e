package cuda

import (
	"runtime"
	"sync"

	"github.com/carve-dev/carve/internal/gpugroup"
)

// graphs are what an instance's launches were captured as in a session.
type graphs struct {
	d *gpu

	mu    sync.Mutex // of what follows, which the end of the device changes too
	kept  gpugroup.Recordings
	ended bool
}

// replay launches the group as a graph, which is captured where there is none. It reports false where the launches are to be queued
// one by one: in the first run, and where capturing fails or does not pay.
func (st *state) replay(c *call, s *stream) (done bool, err error) {
	g := st.graphs
	g.mu.Lock()
	ready := g.kept.Ready()
	var exec uintptr
	pays := false
	if ready {
		exec, pays = g.kept.Find(st.bases)
	}
	g.mu.Unlock()
	if exec == 0 {
		if !pays {
			return false, nil
		}
		st.bind()
		if exec = st.capture(c, s); exec == 0 {
			g.fail()
			return false, nil
		}
		if !g.keep(c, st.bases, exec) {
			return false, nil
		}
	}
	if err := c.do(fnGraphLaunch, exec, s.handle); err != nil {
		if c.d.lost.Load() != nil {
			return false, err
		}
		g.fail() // nothing was queued
		return false, nil
	}
	return true, nil
}

func (g *graphs) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept.Fail()
}

// keep adds a graph. It reports false, and gives the graph back, where the device has ended.
func (g *graphs) keep(c *call, bases []gpugroup.Base, exec uintptr) bool {
	d := g.d
	d.mu.Lock()
	if d.graphs == nil {
		d.graphs = map[*graphs]struct{}{}
	}
	d.graphs[g] = struct{}{}
	d.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	dropped := exec
	if !g.ended {
		dropped = g.kept.Keep(bases, exec)
	}
	if dropped != 0 {
		_ = c.do(fnGraphExecDestroy, dropped) // there is nobody to tell
	}
	return !g.ended
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
	for _, exec := range g.kept.Drop() {
		_ = c.do(fnGraphExecDestroy, exec) // there is nobody to tell
	}
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
